// Package httpx joins net/http and Flyball. A [Transport] governs what a client
// sends, each host by a governor of its own:
//
//	client := &http.Client{Transport: httpx.NewTransport(httpx.Config{Vendor: vendors.GitHub()})}
//
// Now a 429, or whatever else the API says "slow down" with, pauses what it meant, for
// all goroutines that use the client, and the request that was refused is sent again
// when the pause is over; the client sees an answer that took longer. Most clients of
// APIs take an http.Client, and so are governed by this one line. Their own retries
// should be switched off: they know nothing of each other.
//
// What a request wishes, such as whose work it is and how urgent, is in its context:
//
//	ctx = httpx.WithAsk(ctx, governor.Ask{Tenant: customer, Priority: -1})
//
// For servers there is a [Limiter], middleware that lets each caller have so many
// calls; and any chain of package policy is a RoundTripper by [RoundTripper], and
// middleware by [Middleware].
//
// # Concurrency
//
// Everything here may be used by any number of goroutines at once. A Transport has a
// governor, with a goroutine, for each host that it has sent to of late; Limiter,
// RoundTripper and Middleware have none. Functions of a configuration are called on
// the goroutine of the request or of its attempt, under no lock.
//
// # What it is not
//
// It is no cache, and follows no redirects: clients do, and each hop is a request of
// its own. It does not wait for a slow consumer: a body that nobody reads holds its
// slot. It does not undo what a server did before it failed; Retry says which requests
// do no harm twice.
package httpx
