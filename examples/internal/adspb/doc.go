// Package adspb is the part of Google Ads API v25 that the example speaks: a
// subset of Google's messages under Google's own names and field numbers, so
// that it understands, and is understood by, the real API and its clients.
//
// It is internal on purpose. A program can hold Google's names once only, and
// users of the real, generated module hold them already.
package adspb

//go:generate ./generate.sh
