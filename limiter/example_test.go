package limiter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"sync/atomic"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/policy"
	"github.com/flyball-go/flyball/throttle"
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

// The vendor has granted a higher rate, and a larger burst. What was taken before
// still counts.
func ExampleBucket_SetRate() {
	b, _ := limiter.NewBucket(limiter.BucketConfig{Rate: 1, Burst: 5})
	b.Take(start, "", 5)
	if err := b.SetRate(start, 10); err != nil {
		fmt.Println(err)
	}
	if err := b.SetLimit(start, 6); err != nil {
		fmt.Println(err)
	}
	fmt.Println(b.Available(start, ""), b.Wait(start, "", 2))
	fmt.Println(b.SetRate(start, -1))
	// Output:
	// 0 200ms
	// limiter: SetRate is -1, want one per century up to 1e9 per second
}

// A vendor that takes 50 calls per second and 10 at once does not say so. What
// it refuses tells.
func ExampleAdaptive() {
	p, err := limiter.NewAdaptive(limiter.AdaptiveConfig{Start: 10})
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

// A vendor that counts calls by the minute, but says how many only in its answers.
func ExampleAdaptive_Told() {
	a, err := limiter.NewAdaptive(limiter.AdaptiveConfig{Start: 5, Window: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	a.Take(start, "", 1)
	a.Told(start.Add(time.Second), start, throttle.Quota{Limit: 300, Remaining: 2, Reset: start.Add(20 * time.Second)})
	now := start.Add(2 * time.Second)
	fmt.Println(a.Wait(now, "", 1))
	a.Take(now, "", 2)
	fmt.Println(a.Wait(now, "", 1))
	// Output:
	// 0s
	// 18s
}

// What was learned outlives the program.
func ExampleAdaptive_Export() {
	cfg := limiter.AdaptiveConfig{Window: time.Minute}
	a, err := limiter.NewAdaptive(cfg)
	if err != nil {
		log.Fatal(err)
	}
	for now := start; now.Before(start.Add(5 * time.Minute)); {
		if d := a.Wait(now, "", 1); d > 0 {
			now = now.Add(d)
			continue
		}
		a.Take(now, "", 1)
		a.Accepted(now, now.Add(-time.Millisecond), "")
	}
	now := start.Add(5 * time.Minute)
	a.Refused(now, now.Add(-time.Millisecond), "")
	saved, err := json.Marshal(a.Export(now))
	if err != nil {
		log.Fatal(err)
	}

	again, _ := limiter.NewAdaptive(cfg) // in the next process
	var learned limiter.Learned
	if err := json.Unmarshal(saved, &learned); err != nil {
		log.Fatal(err)
	}
	if err := again.Import(now.Add(time.Minute), learned); err != nil {
		log.Fatal(err)
	}
	fmt.Println(again.Rate(now, "") == a.Rate(now, ""))
	// Output: true
}

// One that is made anew in the same process goes on exactly as the one before it.
func ExampleAdaptive_Snapshot() {
	cfg := limiter.AdaptiveConfig{Window: time.Minute, Start: 10}
	a, err := limiter.NewAdaptive(cfg)
	if err != nil {
		log.Fatal(err)
	}
	a.Told(start, start, throttle.Quota{Limit: 300, Remaining: 0, Reset: start.Add(time.Minute)})
	known := a.Snapshot(start)

	again, _ := limiter.NewAdaptive(cfg)
	fmt.Println(again.Restore(known), again.Wait(start, "", 1), again.Rate(start, ""))
	// Output: true 1m0s 5
}

var errNotFound = errors.New("not found")

// Layers for a server of one's own, which queues when it has too much to do, and
// fails when that does not help any more.
func ExampleNewConcurrencyPolicy() {
	atOnce, err := limiter.NewConcurrencyPolicy(limiter.ConcurrencyPolicyConfig{
		Concurrency: limiter.AdaptiveConcurrencyConfig{Max: 200},
		MaxWait:     time.Second, // of no more than Queue times the limit
	})
	if err != nil {
		log.Fatal(err)
	}
	shed, err := limiter.NewThrottlePolicy(limiter.ThrottlePolicyConfig{
		Name:     "acme",
		Rejected: func(err error) bool { return !errors.Is(err, errNotFound) }, // which the server has answered
	})
	if err != nil {
		log.Fatal(err)
	}
	guarded := policy.Stack(atOnce, shed)
	err = policy.Run(context.Background(), guarded, func(context.Context) error { return nil })
	fmt.Println(guarded, err)
	// Output: throttle acme(more than 2 calls for one accepted) > adaptive concurrency(1 to 200 at once, waits 1s) <nil>
}

// daily is a budget that begins anew at midnight UTC, all at once: what some
// vendors have, and no bucket does. It ignores keys, and so is for a host.
type daily struct {
	budget int
	used   int
	ends   time.Time // of the day that used belongs to
}

func (d *daily) Wait(now time.Time, key string, n int) time.Duration {
	switch {
	case n > d.budget:
		return limiter.Never
	case d.used+n <= d.budget, !now.Before(d.ends):
		return 0
	}
	return d.ends.Sub(now)
}

func (d *daily) Take(now time.Time, key string, n int) {
	if !now.Before(d.ends) {
		d.used, d.ends = 0, now.UTC().Truncate(24*time.Hour).Add(24*time.Hour)
	}
	d.used += n
}

// Settle gives nothing back: the permits may be yesterday's.
func (d *daily) Settle(now time.Time, key string, n, used int) { d.used += max(0, used-n) }

func (d *daily) Accepted(now, sent time.Time, key string) {}

// Refused believes the vendor: somebody else has used the budget, too.
func (d *daily) Refused(now, sent time.Time, key string) {
	if d.ends.Sub(sent) <= 24*time.Hour { // the call was sent today
		d.used = d.budget
	}
}

// A Limiter of one's own needs neither lock nor timer, and its tests no sleeping.
func ExampleLimiter() {
	var l limiter.Limiter = &daily{budget: 3}
	now := start.Add(10 * time.Hour) // 22:00
	for range 2 {
		fmt.Println(l.Wait(now, "", 1))
		l.Take(now, "", 1)
	}
	fmt.Println("two more:", l.Wait(now, "", 2), "after midnight:", l.Wait(now.Add(2*time.Hour), "", 2))
	fmt.Println("four ever:", l.Wait(now, "", 4) == limiter.Never)

	l.Refused(now, now, "")
	fmt.Println("one more after a refusal:", l.Wait(now, "", 1))
	// Output:
	// 0s
	// 0s
	// two more: 2h0m0s after midnight: 0s
	// four ever: true
	// one more after a refusal: 2h0m0s
}

// Several limits at once: all are asked before anything is taken, so that a call
// which one of them holds up costs the others nothing.
func ExampleLimiter_several() {
	second, err := limiter.NewBucket(limiter.BucketConfig{Rate: 1})
	if err != nil {
		log.Fatal(err)
	}
	limits := []limiter.Limiter{second, &daily{budget: 2}}
	admit := func(now time.Time) (wait time.Duration) {
		for _, l := range limits {
			wait = max(wait, l.Wait(now, "", 1))
		}
		if wait == 0 {
			for _, l := range limits {
				l.Take(now, "", 1)
			}
		}
		return wait
	}
	now := start // noon
	for range 4 {
		wait := admit(now)
		fmt.Println(wait)
		now = now.Add(min(wait, time.Second))
	}
	// Output:
	// 0s
	// 1s
	// 0s
	// 11h59m59s
}

// valve is a limit that an operator opens and shuts. Unlike most limiters it is
// touched by others than its owner, so what they share is atomic.
type valve struct {
	open   atomic.Bool
	change func()
}

func (v *valve) Wait(now time.Time, key string, n int) time.Duration {
	if v.open.Load() {
		return 0
	}
	return time.Hour // not Never, which would refuse requests for good
}

func (v *valve) Take(now time.Time, key string, n int)         {}
func (v *valve) Settle(now time.Time, key string, n, used int) {}
func (v *valve) Accepted(now, sent time.Time, key string)      {}
func (v *valve) Refused(now, sent time.Time, key string)       {}
func (v *valve) OnChange(fn func())                            { v.change = fn }

// The governor was told to come back in an hour. OnChange is how it hears that
// it need not wait so long.
func ExampleNotifier() {
	v := &valve{}
	g, err := governor.New(governor.PlainConfig{Name: "acme", Limits: []governor.Limit{{Limiter: v}}})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	req := governor.Submit(context.Background(), g, "", governor.Func(func(context.Context) (string, error) { return "done", nil }))
	fmt.Println(req.State())

	v.open.Store(true)
	v.change()
	fmt.Println(req.Result(context.Background()))
	// Output:
	// queued
	// done <nil>
}

// How long a batch takes at least, as far as limits can tell.
func ExampleRater() {
	bucket, err := limiter.NewBucket(limiter.BucketConfig{Rate: 20})
	if err != nil {
		log.Fatal(err)
	}
	pace, err := limiter.NewAdaptive(limiter.AdaptiveConfig{Start: 5})
	if err != nil {
		log.Fatal(err)
	}
	const calls = 600
	for _, l := range []limiter.Limiter{bucket, pace, &daily{budget: 1000}} {
		r, ok := l.(limiter.Rater)
		if !ok {
			fmt.Printf("%T has no rate\n", l)
			continue
		}
		if rate := r.Rate(start, ""); rate > 0 { // 0: none now
			fmt.Printf("%T: %.0f s\n", l, calls/rate)
		}
	}
	// Output:
	// *limiter.Bucket: 30 s
	// *limiter.Adaptive: 120 s
	// *limiter_test.daily has no rate
}

// 60 calls are left for a minute: one a second.
func ExampleSpread() {
	s, err := limiter.NewSpread(limiter.SpreadConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Unix(0, 0)
	s.Told(now, now, throttle.Quota{Remaining: 60, Reset: now.Add(time.Minute)})
	for range 3 {
		s.Take(now, "", 1)
		fmt.Println(s.Wait(now, "", 1))
		now = now.Add(s.Wait(now, "", 1))
	}
	// Output:
	// 1s
	// 1s
	// 1s
}

// Each customer has ten calls at once; one has a contract for a hundred.
func ExampleByKey() {
	usual, err := limiter.NewBucket(limiter.BucketConfig{Rate: 1, Burst: 10})
	if err != nil {
		log.Fatal(err)
	}
	large, err := limiter.NewBucket(limiter.BucketConfig{Rate: 10, Burst: 100})
	if err != nil {
		log.Fatal(err)
	}
	l, err := limiter.NewByKey(limiter.ByKeyConfig{
		Keys:   map[string]limiter.Limiter{"acme": large},
		Others: usual,
	})
	if err != nil {
		log.Fatal(err)
	}
	s, err := limiter.NewShared(limiter.SharedConfig{Limiters: []limiter.Limiter{l}})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	fmt.Println(s.Allow("acme", 50), s.Allow("initech", 50))
	// Output: <nil> limiter: more permits than the limit ever holds for "initech"
}

// A server that comes out of a rest is spared the full load for a while.
func ExampleNewLeaky_warmUp() {
	l, err := limiter.NewLeaky(limiter.LeakyConfig{Rate: 2, WarmUp: 4 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	now := start
	for range 7 {
		d := l.Wait(now, "", 1)
		fmt.Print(d, " ")
		now = now.Add(d)
		l.Take(now, "", 1)
	}
	// Output: 0s 1.375s 1.125s 875ms 625ms 500ms 500ms
}
