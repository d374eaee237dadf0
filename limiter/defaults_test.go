package limiter

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/event"
)

// TestDefaultServerIsAThousandAMinuteAndKey is the zero SharedConfig: a fixed
// window, and no queue.
func TestDefaultServerIsAThousandAMinuteAndKey(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShared(t, SharedConfig{})
		time.Sleep(45 * time.Second)
		for _, key := range []string{"alice", "bob"} {
			for range 1000 {
				if err := s.Wait(t.Context(), key, 1); err != nil {
					t.Fatal(err)
				}
			}
			wantLimited(t, s.Allow(key, 1), NoPermits, time.Minute) // windows begin with the first call
		}
		time.Sleep(time.Minute)
		if err := s.Allow("alice", 1000); err != nil {
			t.Errorf("in the next window: %v", err)
		}
	})
}

func TestDefaultQueueRejectsAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShared(t, SharedConfig{MaxWait: time.Hour}) // means nothing without a MaxQueue
		s.Allow("", 1000)
		begin := time.Now()
		wantLimited(t, s.Wait(t.Context(), "", 1), NoPermits, time.Minute)
		wantLimited(t, s.Reserve("", 1).Err(), NoPermits, time.Minute)
		if d := time.Since(begin); d != 0 {
			t.Errorf("rejected after %v", d)
		}
	})
}

func TestDefaultMaxWaitIsTenSecondsWithAQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, err := NewConcurrency(ConcurrencyConfig{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		s := newShared(t, SharedConfig{Limiters: []Limiter{c}, MaxQueue: 1})
		s.Allow("", 1)
		begin := time.Now()
		wantLimited(t, s.Wait(t.Context(), "", 1), TooLate, 0) // nobody knows when
		if d := time.Since(begin); d != 10*time.Second {
			t.Errorf("waited %v", d)
		}
	})
}

func TestDefaultOrderIsOldestFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShared(t, SharedConfig{Limiters: []Limiter{newBucket(t, BucketConfig{Rate: 1, Burst: 1})}, MaxQueue: 2})
		s.Allow("", 1)
		older, newer := s.Reserve("", 1), s.Reserve("", 1)
		time.Sleep(time.Second)
		synctest.Wait()
		if older.Err() != nil || newer.Err() == nil {
			t.Errorf("after a second: %v and %v", older.Err(), newer.Err())
		}
	})
}

// TestDefaultEventsOfAServer are admitted, rejected, queued and drained.
func TestDefaultEventsOfAServer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := order{start: time.Now()}
		s := newShared(t, SharedConfig{MaxQueue: 1, OnEvent: func(e event.Event) { o.add("%v", e.Kind) }})
		s.Allow("", 500)
		s.Drain("")
		s.Reserve("", 1) // it would take a minute
		synctest.Wait()
		time.Sleep(55 * time.Second)
		r := s.Reserve("", 1)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if r.Err() != nil {
			t.Error(r.Err())
		}
		o.want(t, "0s started", "0s depleted", "0s limit refused", "55s queued", "1m0s started")
	})
}

func TestDefaultBurstIsASecondsWorth(t *testing.T) {
	for rate, want := range map[float64]int{0.1: 1, 1: 1, 2.5: 3, 100: 100} {
		b := newBucket(t, BucketConfig{Rate: rate})
		if b.Wait(epoch, "", want) != 0 || b.Wait(epoch, "", want+1) != Never {
			t.Errorf("Bucket, %v per second: not %d", rate, want)
		}
		if _, burst := newRate(t, rate, 0).Limits(); burst != want {
			t.Errorf("Rate, %v per second: %d, want %d", rate, burst, want)
		}
		if k := newKeyed(t, rate, 0, 0); !k.AllowAt(epoch, "a", want) || k.AllowAt(epoch, "b", want+1) {
			t.Errorf("Keyed, %v per second: not %d", rate, want)
		}
	}
}

func TestDefaultMaxKeysIsAHundredThousand(t *testing.T) {
	const want = 100_000
	counter, err := NewSlidingCounter(SlidingCounterConfig{Limit: 1, Window: 1})
	if err != nil {
		t.Fatal(err)
	}
	approx, err := NewApprox(ApproxConfig{Limit: 1, Window: 1})
	if err != nil {
		t.Fatal(err)
	}
	leaky, err := NewLeaky(LeakyConfig{Rate: 1})
	if err != nil {
		t.Fatal(err)
	}
	conc, err := NewConcurrency(ConcurrencyConfig{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	keyed, shards := 0, newKeyed(t, 1, 1, 0).shards
	for i := range shards {
		keyed += shards[i].max
	}
	for name, got := range map[string]int{
		"Bucket":         newBucket(t, BucketConfig{Rate: 1}).keys.max,
		"FixedWindow":    newFixedWindow(t, FixedWindowConfig{Limit: 1, Period: 1}).keys.max,
		"Quota":          newQuota(t, QuotaConfig{Limit: 1, Per: 1}).(*SlidingLog).keys.max,
		"SlidingCounter": counter.keys.max,
		"Approx":         approx.keys.max,
		"Calendar":       newCalendar(t, CalendarConfig{Limit: 1}).keys.max,
		"Leaky":          leaky.keys.max,
		"Concurrency":    conc.max,
		"Keyed":          keyed,
	} {
		if got != want {
			t.Errorf("%s: %d keys", name, got)
		}
	}
}

func TestDefaultCalendarIsDailyUTC(t *testing.T) {
	c := newCalendar(t, CalendarConfig{Limit: 1})
	now := time.Date(2026, 3, 8, 3, 0, 0, 0, time.FixedZone("", -5*3600)) // 8:00 UTC
	c.Take(now, "", 1)
	if d := c.Wait(now, "", 1); d != 16*time.Hour {
		t.Errorf("the window ends in %v", d)
	}
}

func TestDefaultSegmentsAreTen(t *testing.T) {
	l, err := NewSlidingCounter(SlidingCounterConfig{Limit: 1, Window: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	l.Take(epoch, "", 1)
	if d := l.Wait(epoch, "", 1); d != 1100*time.Millisecond {
		t.Errorf("a permit comes back after %v", d)
	}
}

func TestDefaultMarginsAndTimeouts(t *testing.T) {
	log, err := NewSlidingLog(SlidingLogConfig{Limit: 1, Window: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	log.Take(epoch, "", 1)
	if d := log.Wait(epoch, "", 1); d != time.Second {
		t.Errorf("SlidingLog: a permit comes back after %v", d)
	}
	w := newFixedWindow(t, FixedWindowConfig{Limit: 1, Period: time.Second})
	w.Take(epoch, "", 1)
	if d, ok := reserve(w, epoch, "", 1); ok || d != time.Second {
		t.Errorf("FixedWindow: Reserve = %v, %v", d, ok)
	}
	c, err := NewConcurrency(ConcurrencyConfig{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	c.Take(epoch, "", 1)
	if d := c.Wait(epoch, "", 1); d != 100*time.Millisecond {
		t.Errorf("Concurrency: ask again in %v", d)
	}
}
