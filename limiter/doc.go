// Package limiter holds rate limits, most of them as pure cores: values that are
// told the time, decide, and never wait.
//
// A governor takes any Limiter in its Limits and owns it from then on:
//
//	quota, err := limiter.NewQuota(limiter.QuotaConfig{Limit: 300, Per: time.Minute})
//	g, err := governor.New(governor.PlainConfig{Name: "acme", Limits: []governor.Limit{{Limiter: quota}}})
//
// # Which one
//
// For a quota that a vendor documents, take what [NewQuota] makes. Else it depends
// on how the vendor counts:
//
//	Bucket          so many per second, and so many at once
//	SlidingLog      so many in any minute; exact, a log of all takes
//	SlidingCounter  the same with little memory, and a little waste
//	FixedWindow     so many in each minute, from one to the next
//	Calendar        so many in each hour, day, week or month of a time zone
//	Leaky           one after the other at a constant rate
//	Concurrency     so many at once
//	Approx          about so many in a minute: for one's own clients
//	Adaptive        nobody knows: learns from what is refused, and keeps it
//	ByKey           some keys have another limit than the rest
//	Spread          the vendor says what is left: makes it last until it is renewed
//
// Each type says what it admits at most: its envelope. That is of permits taken when
// Wait has just said 0; what a Take without that, or a Settle to more than was
// taken, adds to it has to be waited for by those who come later.
//
// Many know more than a Limiter must: a [Counter] what is left, and what a vendor's
// headers say about that; a [Learner] is told more of it; a [Rater] how fast it is; a [Releaser] holds permits while
// a call runs; a [Notifier] changes its mind by itself; a [Claimer] has several owners.
//
// # Without a governor
//
// A Limiter belongs to one owner that calls it one call at a time; it neither locks
// nor sleeps nor queues. For calls of any number of goroutines there are
//
//   - [Rate]: one bucket, without locks, with a Wait in order and reservations;
//   - [Keyed]: a bucket for each of a million keys, in a few bytes each, that lets
//     pass or turns away;
//   - [Shared]: any of the limiters above, several at once, all or none, with a
//     bounded queue, a timeout and events.
//
// Their errors match [ErrLimited] and say, as a [LimitedError], why and for how
// long. In a chain of package policy, a Shared is a layer, and a Rate is with
// [NewRateLayer]:
//
//	chain := policy.Chain(retries, layer, timeout)
//
// For servers that are overloaded, rather than for quotas, there are two more:
// [AdaptiveConcurrency] goes by how long calls take, [Throttle] by how many fail;
// [ConcurrencyPolicy] and [ThrottlePolicy] make layers of them.
//
// A limiter in one process knows nothing of another process's.
package limiter
