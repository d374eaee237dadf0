package limiter_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// A vendor documents 300 calls per minute. Unless the way to it is measured, a
// permit stays away for 250 ms more than a minute.
func ExampleNewQuota() {
	quota, err := limiter.NewQuota(limiter.QuotaConfig{Limit: 300, Per: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	quota.Take(start, "", 300)
	fmt.Println(quota.Wait(start, "", 1))

	// The way there takes 20 ms to 50 ms.
	near, err := limiter.NewQuota(limiter.QuotaConfig{Limit: 300, Per: time.Minute, Margin: 30 * time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	near.Take(start, "", 300)
	fmt.Println(near.Wait(start, "", 1))
	// Output:
	// 1m0.25s
	// 1m0.03s
}

// A vendor documents 3 calls in any 10 seconds. That calls take between 50 and
// 250 ms to reach it costs a margin of 200 ms.
func ExampleSlidingLog() {
	l, err := limiter.NewSlidingLog(limiter.SlidingLogConfig{Limit: 3, Window: 10 * time.Second, Margin: 200 * time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	now := start
	for range 5 {
		now = now.Add(l.Wait(now, "", 1))
		l.Take(now, "", 1)
		fmt.Println("taken at", now.Sub(start))
		now = now.Add(time.Second)
	}
	// Output:
	// taken at 0s
	// taken at 1s
	// taken at 2s
	// taken at 10.2s
	// taken at 11.2s
}

// A governor keeps a documented quota for each tenant.
func ExampleNewQuota_governor() {
	quota, err := limiter.NewQuota(limiter.QuotaConfig{Limit: 100, Per: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	g, err := governor.New(governor.PlainConfig{Name: "acme", Limits: []governor.Limit{{Per: throttle.Tenant, Limiter: quota}}})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	v, err := governor.Do(context.Background(), g.With(governor.Ask{Tenant: "alice"}), "",
		governor.Func(func(context.Context) (string, error) { return "done", nil }))
	fmt.Println(v, err)
	// Output: done <nil>
}

// A million permits an hour, in 60 counters instead of a log of a million times.
func ExampleSlidingCounter() {
	l, err := limiter.NewSlidingCounter(limiter.SlidingCounterConfig{Limit: 1_000_000, Window: time.Hour, Segments: 60})
	if err != nil {
		log.Fatal(err)
	}
	l.Take(start, "", 1_000_000)
	fmt.Println("they come back after", l.Wait(start, "", 1)) // a segment more than with a log
	// Output: they come back after 1h1m0s
}

// Web servers that limit their own clients often do with an estimate.
func ExampleApprox() {
	l, err := limiter.NewApprox(limiter.ApproxConfig{Limit: 100, Window: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	l.Take(start, "alice", 100)
	fmt.Println("no more in this minute, and a quarter of them in the first 15 s of the next:")
	fmt.Println(l.Available(start.Add(59*time.Second), "alice"))
	fmt.Println(l.Available(start.Add(75*time.Second), "alice"))
	// Output:
	// no more in this minute, and a quarter of them in the first 15 s of the next:
	// 0
	// 25
}

// Permits of coming windows are given at once, with the time to wait for them.
func ExampleFixedWindow_Reserve() {
	w, err := limiter.NewFixedWindow(limiter.FixedWindowConfig{Limit: 2, Period: time.Minute, MaxWait: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	for range 5 {
		r := w.Reserve(start, "", 1)
		fmt.Println(r.Delay(), r.OK(), w.Available(start, ""))
	}
	// Output:
	// 0s true 1
	// 0s true 0
	// 1m0s true -1
	// 1m0s true -2
	// 2m0s false -2
}

// Who gives up leaves no trace.
func ExampleWindowReservation_Cancel() {
	w, err := limiter.NewFixedWindow(limiter.FixedWindowConfig{Limit: 2, Period: time.Minute, MaxWait: time.Hour})
	if err != nil {
		log.Fatal(err)
	}
	w.Take(start, "", 2)
	for range 20 {
		r := w.Reserve(start, "", 1)
		fmt.Print(r.Delay().Minutes(), " ")
		r.Cancel(start)
	}
	r := w.Reserve(start, "", 2)
	fmt.Println(r.Delay())
	// Output: 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1m0s
}

// As a Limiter, a fixed window lends nothing.
func ExampleFixedWindow() {
	w, err := limiter.NewFixedWindow(limiter.FixedWindowConfig{Limit: 2, Period: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	w.Take(start, "alice", 2)
	now := start.Add(45 * time.Second)
	fmt.Println(w.Wait(now, "alice", 2), w.Wait(now, "bob", 2), w.Wait(now, "bob", 3) == limiter.Never)
	// Output: 15s 0s true
}

// One call every 100 ms, and no faster however long there was none. A Bucket with
// a burst would let two through.
func ExampleLeaky() {
	l, err := limiter.NewLeaky(limiter.LeakyConfig{Rate: 10})
	if err != nil {
		log.Fatal(err)
	}
	now := start.Add(time.Hour)
	l.Take(now, "", 1)
	fmt.Println(l.Wait(now, "", 1))
	l.Take(now.Add(100*time.Millisecond), "", 5) // a heavy one
	fmt.Println(l.Wait(now.Add(100*time.Millisecond), "", 1))
	// Output:
	// 100ms
	// 500ms
}

// 10,000 calls a day, as Californians count days. This one has 23 hours.
func ExampleCalendar() {
	pacific, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		log.Fatal(err)
	}
	c, err := limiter.NewCalendar(limiter.CalendarConfig{Limit: 10_000, Cycle: limiter.Daily, Location: pacific})
	if err != nil {
		log.Fatal(err)
	}
	now := time.Date(2026, 3, 8, 0, 0, 0, 0, pacific)
	c.Take(now, "", 10_000)
	fmt.Println(c.Wait(now, "", 1))
	// Output: 23h0m0s
}

// The windows of a time zone.
func ExampleCycle() {
	for _, cycle := range []limiter.Cycle{limiter.Hourly, limiter.Daily, limiter.Weekly, limiter.Monthly} {
		c, err := limiter.NewCalendar(limiter.CalendarConfig{Limit: 1, Cycle: cycle})
		if err != nil {
			log.Fatal(err)
		}
		now := time.Date(2028, 2, 29, 12, 30, 0, 0, time.UTC) // a Tuesday
		c.Take(now, "", 1)
		fmt.Println(c.Wait(now, "", 1))
	}
	// Output:
	// 30m0s
	// 11h30m0s
	// 131h30m0s
	// 11h30m0s
}

// The machine slept through midnight. Its monotonic clock stood still; Sync reads
// the one on the wall again.
func ExampleCalendar_Sync() {
	c, err := limiter.NewCalendar(limiter.CalendarConfig{Limit: 5})
	if err != nil {
		log.Fatal(err)
	}
	now := start
	c.Take(now, "", 5)
	now = now.Add(12 * time.Hour)
	c.Sync(now) // on every signal that the machine woke up, or every minute
	fmt.Println(c.Available(now, ""))
	// Output: 5
}

// No more than 2 uploads at once.
func ExampleConcurrency() {
	c, err := limiter.NewConcurrency(limiter.ConcurrencyConfig{Limit: 2})
	if err != nil {
		log.Fatal(err)
	}
	var r limiter.Releaser = c
	r.Take(start, "uploads", 2)
	fmt.Println(c.Available(start, "uploads"))
	r.Release(start, "uploads", 1)
	fmt.Println(c.Available(start, "uploads"))
	// Output:
	// 0
	// 1
}

// The vendor counts, too, and its answers say what is left: somebody else uses the
// same quota.
func ExampleCounter() {
	var c limiter.Counter
	c, err := limiter.NewFixedWindow(limiter.FixedWindowConfig{Limit: 100, Period: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	sent := start
	c.Take(sent, "", 1)
	now := start.Add(200 * time.Millisecond)
	c.SetRemaining(now, sent, "", 40) // X-RateLimit-Remaining: 40
	fmt.Println(c.Available(now, ""))
	c.SetRemaining(now, sent, "", 70) // from a call that came before
	fmt.Println(c.Available(now, ""))
	c.Drain(now, "") // "quota exceeded"
	fmt.Println(c.Available(now, ""), c.Wait(now, "", 1))
	// Output:
	// 40
	// 40
	// 0 59.8s
}
