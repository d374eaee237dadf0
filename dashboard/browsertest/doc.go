// Package browsertest has the tests of the dashboard in a real browser, Chromium. It
// is a module of its own for what drives that.
package browsertest
