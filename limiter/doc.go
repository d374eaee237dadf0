// Package limiter holds rate limits, most of them as pure cores: values that are
// told the time, decide, and never wait.
//
// A governor takes any Limiter in its Limits and owns it from then on:
//
//	bucket, err := limiter.NewBucket(limiter.BucketConfig{Rate: 10, Burst: 20}) // 10 permits/s, 20 at once
//	g, err := governor.New(governor.PlainConfig{Name: "acme", Limits: []governor.Limit{{Limiter: bucket}}})
//
// A Limiter belongs to one owner that calls it one call at a time; none of them
// locks. Sharing one between governors needs a wrapper that does. For callers
// that limit themselves there are [Rate], a bucket without locks, and [Keyed], a
// million of them in a few bytes each: both serve any number of goroutines.
//
// But for the Wait methods of these two nothing here sleeps, and nothing queues or
// retries: that is the governor's part. And a limiter in one process knows nothing
// of another process's.
package limiter
