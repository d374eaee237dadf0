// Package vendors knows how real APIs say "slow down": an [Adapter] reads it
// from an error, for a governor, and teaches it what answers say about quota.
//
//	governor.Config[...]{Vendor: vendors.GoogleAds(), ...}
//
// # From a client's error to an adapter
//
// What an API said is in status, headers, body and trailers; most clients' own
// errors have lost half of it. So adapters read a neutral [Response], and a
// client wraps its error once, where it still has the answer:
//
//	return &vendors.ResponseError{Response: vendors.Response{Status: resp.StatusCode, Header: resp.Header, Body: body, At: time.Now()}, Err: err}
//
// The wrapped error unwraps to the client's own, so errors.Is and errors.As go on
// working. Module grpcx does this for gRPC.
//
// # What adapters promise
//
// They are values without state, safe for simultaneous use by any number of
// goroutines. They never panic and never wait, whatever a server sends: at most
// 16 values of a header are looked at, of at most 256 bytes each; bodies above
// 1 MiB are not read; numbers saturate. A delay is exactly what the vendor said,
// rounded up to 1 ms, without jitter, floor or cap: those are the governor's.
// [throttle.Unknown] says that the vendor gave no time, which is not 0.
//
// A new API needs no package of its own: a type with a DelayError method is
// enough for a governor, and a [Dialect] in an Adapter gives the rest.
package vendors
