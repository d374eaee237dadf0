package limiter

import (
	"testing"
	"time"

	"github.com/flyball-go/flyball/throttle"
)

// What each limiter says is left after seven permits were taken, thirty seconds ago.
func TestGaugesSayWhatIsLeft(t *testing.T) {
	begun := time.Date(2026, 3, 4, 5, 6, 0, 0, time.UTC)
	now := begun.Add(30 * time.Second)
	told := throttle.Quota{Name: "calls", Limit: 100, Remaining: 50, Reset: begun.Add(time.Minute), Cost: -1}
	for name, c := range map[string]struct {
		make  func() (Limiter, error)
		tell  []throttle.Quota
		want  throttle.Quota
		known bool
	}{
		"a bucket fills": {
			make: func() (Limiter, error) { return made(NewBucket(BucketConfig{Rate: .1, Burst: 10})) },
			want: throttle.Quota{Limit: 10, Window: 100 * time.Second, Remaining: 6, Cost: -1}, known: true,
		},
		"a fixed window ends": {
			make: func() (Limiter, error) {
				return made(NewFixedWindow(FixedWindowConfig{Limit: 10, Period: time.Minute}))
			},
			want: throttle.Quota{Limit: 10, Window: time.Minute, Remaining: 3, Reset: begun.Add(time.Minute), Cost: -1}, known: true,
		},
		"a sliding log does not end": {
			make: func() (Limiter, error) { return made(NewSlidingLog(SlidingLogConfig{Limit: 10, Window: time.Minute})) },
			want: throttle.Quota{Limit: 10, Window: time.Minute, Remaining: 3, Cost: -1}, known: true,
		},
		"a day ends at midnight": {
			make: func() (Limiter, error) { return made(NewCalendar(CalendarConfig{Limit: 10, Cycle: Daily})) },
			want: throttle.Quota{Limit: 10, Window: 24 * time.Hour, Remaining: 3, Reset: time.Date(2026, 3, 5, 0, 0, 0, 0, time.UTC), Cost: -1}, known: true,
		},
		"what runs has no window": {
			make: func() (Limiter, error) { return made(NewConcurrency(ConcurrencyConfig{Limit: 10})) },
			want: throttle.Quota{Limit: 10, Remaining: 3, Cost: -1}, known: true,
		},
		"a spread was told nothing": {make: func() (Limiter, error) { return made(NewSpread(SpreadConfig{})) }},
		"a spread was told": {
			make: func() (Limiter, error) { return made(NewSpread(SpreadConfig{})) }, tell: []throttle.Quota{told},
			want: throttle.Quota{Name: "calls", Limit: 100, Remaining: 43, Reset: begun.Add(time.Minute), Cost: -1}, known: true,
		},
		"the tightest of what an adaptive was told": {
			make: func() (Limiter, error) { return made(NewAdaptive(AdaptiveConfig{})) },
			tell: []throttle.Quota{told, {Name: "day", Limit: 1000, Remaining: 10, Reset: begun.Add(time.Hour)}},
			want: throttle.Quota{Name: "day", Limit: 1000, Remaining: 3, Reset: begun.Add(time.Hour), Cost: -1}, known: true,
		},
		"what is over is not known": {
			make: func() (Limiter, error) { return made(NewAdaptive(AdaptiveConfig{})) },
			tell: []throttle.Quota{{Limit: -1, Remaining: 50, Reset: begun.Add(20 * time.Second)}},
		},
		"by key": {
			make: func() (Limiter, error) {
				own, err := NewFixedWindow(FixedWindowConfig{Limit: 10, Period: time.Minute})
				return &ByKey{keys: map[string]Limiter{"k": own}}, err
			},
			want: throttle.Quota{Limit: 10, Window: time.Minute, Remaining: 3, Reset: begun.Add(time.Minute), Cost: -1}, known: true,
		},
		"debt is nothing left": {
			make: func() (Limiter, error) {
				return made(NewSlidingLog(SlidingLogConfig{Limit: 5, Window: time.Minute}))
			},
			want: throttle.Quota{Limit: 5, Window: time.Minute, Remaining: 0, Cost: -1}, known: true,
		},
	} {
		l, err := c.make()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if l.Wait(begun, "k", 1); c.tell != nil {
			for _, q := range c.tell {
				q.Scope.Key = "k"
				l.(Learner).Told(begun, begun, q)
			}
		}
		l.Take(begun, "k", 7)
		for range 2 { // to ask changes nothing
			got, known := l.(Gauge).Quota(now, "k")
			if d := got.Reset.Sub(c.want.Reset); d.Abs() < time.Microsecond {
				got.Reset = c.want.Reset
			}
			if got != c.want || known != c.known {
				t.Errorf("%s: %+v, %v, want %+v", name, got, known, c.want)
			}
		}
	}
}

func TestAGaugeOfAKeyWithoutLimitKnowsNothing(t *testing.T) {
	if q, known := new(ByKey).Quota(time.Now(), "k"); known {
		t.Errorf("%+v", q)
	}
}
