// Package vendortest has stand-ins for rate-limited vendors: the quota model
// that makes ignoring a vendor expensive, and HTTP servers that speak the
// vendors' own errors. Use them to see what your client does to a vendor, not
// only what the vendor does to your client. The package needs nothing but the
// standard library and starts nothing by itself; servers are http.Handlers for
// httptest.
//
// # What is modelled
//
// An [Engine] is one limit. It has a token bucket; a call that finds the bucket
// empty is refused and begins a pause. Calls made during the pause are refused
// too, and those that come later than a grace after its beginning, so that they
// cannot have been in flight already, restart it twice as long: 15 s, 30 s, 60 s
// ... 15 min. A pause that everybody obeyed costs nothing afterwards. One that
// was violated keeps its length for the next pause, until there has been a quiet
// time.
//
// The bucket, the pauses and their wire format are what vendors publish. That a
// violated pause doubles from 15 s to 15 min is what users report of the Google
// Ads API, and documented nowhere: take it as a model of an impatient vendor,
// not as a promise about any of them.
//
// # Time
//
// An Engine has no clock: Admit takes the moment of the call. The servers use
// the time package, so in a testing/synctest bubble they run on the bubble's
// clock. [Quota.Scale] gives the same quota at another speed.
package vendortest
