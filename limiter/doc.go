// Package limiter holds rate limits as pure cores: values that are told the
// time, decide, and never wait.
//
// A governor takes any Limiter in its Limits and owns it from then on:
//
//	bucket, err := limiter.NewBucket(limiter.BucketConfig{Rate: 10, Burst: 20}) // 10 permits/s, 20 at once
//	g, err := governor.New(governor.PlainConfig{Name: "acme", Limits: []governor.Limit{{Limiter: bucket}}})
//
// A Limiter belongs to one owner that calls it one call at a time; none of the
// types here locks. Sharing one between governors needs a wrapper that does.
//
// Nothing here sleeps, queues or retries: that is the governor's part. And a
// limiter in one process knows nothing of another process's.
package limiter
