// Package breaker stops calls to a service that fails, or has become slow, and
// tries it again from time to time with a few.
//
//	b, err := breaker.New(breaker.Config{}) // opens for a minute when half of the last 100 calls have failed
//	v, err := breaker.Do(ctx, b, func(ctx context.Context) (int, error) { return fetch(ctx) })
//	if errors.Is(err, breaker.ErrOpen) {
//		// not called
//	}
//
// [Do] runs a call and judges it by its error, [DoJudged] by its result too.
// [Breaker.Allow] is for calls that do not end where they begin. A governor takes
// a Breaker, or any [Circuit]:
//
//	g, err := governor.New(governor.PlainConfig{Name: "acme", Breaker: b})
//
// # States
//
// A breaker is [Closed] until failures or slow calls reach their threshold, then
// [Open] for a time, then [HalfOpen]: a few trial calls pass, and as they turn out
// it closes, or opens again for longer where the schedule says so. [Disabled],
// [ForcedOpen] and [MetricsOnly] are entered and left by hand alone. The first to
// ask after an open breaker's time makes it half-open: it has no timer and no
// goroutine, and there is nothing to release in the end.
//
// The pattern is that of Michael Nygard, "Release It!", 2007. The states and what
// is judged in each are those of Resilience4j.
//
// # Trial calls
//
// The place of a trial call is given back by every outcome, and leased in case
// that there is none; so no call that hangs, panics or is forgotten keeps a
// breaker half-open for ever. What is learned of a call that began in an earlier
// state does not count.
//
// # Concurrency
//
// All that is here may be used by any number of goroutines at once. Nothing
// waits.
//
// A breaker knows the calls of one process. It repeats nothing and delays
// nothing: see packages retry and governor. It is not for a vendor's rate limits
// either, which say that one calls too often, not that the vendor is down.
package breaker
