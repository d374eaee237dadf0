// Package retry decides whether a failed attempt is made again, and when.
//
//	v, err := retry.Do(ctx, retry.Config{Attempts: 5}, func(ctx context.Context) (int, error) {
//		return fetch(ctx)
//	})
//
// [Config.Next] is the decision alone, without clocks and without waiting; [Do]
// is a loop around it, and [DoWith] the same by a Config that was looked through
// once, for what is called often. The zero Config makes 3 attempts, waits 500 ms
// and then 1 s between them, and retries every error but those of contexts and
// those that say they are permanent. [New] makes a [Retry] of it, which is a layer
// for package policy.
//
// # What errors can say
//
// An error takes part by its methods, wherever it is in the tree and whichever
// package it is from: Permanent() bool for one that no repetition can mend, and
// RetryAfter() time.Duration for the least time to wait. [Permanent] and [After]
// wrap an error in one of these, [IsPermanent] and [RetryAfter] ask for them.
//
// # Concurrency
//
// A Config is a value that is only read; one serves any number of goroutines, as
// long as its functions do. Do runs everything on its caller's goroutine.
//
// How much all callers together retry is bounded only by a Budget that their
// Configs share. Nothing here knows that a whole host asked to be left alone: that
// is a governor's work.
package retry
