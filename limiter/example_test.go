package limiter_test

import (
	"fmt"
	"time"

	"github.com/flyball-go/flyball/limiter"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// A bucket of 2 permits for each key, which come back at one every 500 ms.
func ExampleBucket() {
	b, err := limiter.NewBucket(limiter.BucketConfig{Rate: 2, Burst: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := start
	for range 4 {
		if d := b.Wait(now, "alice", 1); d > 0 {
			fmt.Println("wait", d)
			now = now.Add(d) // an owner of flesh and blood sleeps
		}
		b.Take(now, "alice", 1)
		fmt.Println("taken at", now.Sub(start))
	}
	fmt.Println("bob waits", b.Wait(now, "bob", 2))
	fmt.Println("for more than a bucket holds:", b.Wait(now, "bob", 3) == limiter.Never)
	// Output:
	// taken at 0s
	// taken at 0s
	// wait 500ms
	// taken at 500ms
	// wait 500ms
	// taken at 1s
	// bob waits 0s
	// for more than a bucket holds: true
}

// The cost of a call is known when it has ended: take what it may cost at most,
// and settle.
func ExampleBucket_Settle() {
	b, _ := limiter.NewBucket(limiter.BucketConfig{Rate: 100, Burst: 1000})
	b.Take(start, "", 1000)
	fmt.Println(b.Wait(start, "", 500))

	later := start.Add(2 * time.Second) // 200 have come back meanwhile
	b.Settle(later, "", 1000, 600)      // and 400 were not used
	fmt.Println(b.Wait(later, "", 500))
	// Output:
	// 5s
	// 0s
}

// A vendor that takes 50 calls per second and 10 at once does not say so. What
// it refuses tells.
func ExamplePace() {
	p, err := limiter.NewPace(limiter.PaceConfig{Start: 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	vendor, _ := limiter.NewBucket(limiter.BucketConfig{Rate: 50, Burst: 10})
	now := start
	refused := 0
	for now.Before(start.Add(time.Minute)) {
		if d := p.Wait(now, "", 1); d > 0 {
			now = now.Add(d)
			continue
		}
		p.Take(now, "", 1)
		sent := now
		now = now.Add(time.Millisecond)
		if vendor.Wait(now, "", 1) == 0 {
			vendor.Take(now, "", 1)
			p.Accepted(now, sent, "")
		} else {
			refused++
			p.Refused(now, sent, "")
			now = now.Add(300 * time.Millisecond) // as the vendor asks for
		}
	}
	rate := p.Rate(now, "")
	fmt.Println("few refusals:", refused < 15)
	fmt.Println("near 50/s:", rate > 47 && rate < 56)
	// Output:
	// few refusals: true
	// near 50/s: true
}
