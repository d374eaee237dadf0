package limiter_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/internal/wall"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

func newSpread(t *testing.T, keys int) *limiter.Spread {
	t.Helper()
	s, err := limiter.NewSpread(limiter.SpreadConfig{MaxKeys: keys})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// takes lets an owner that always wants n permits take them until end, and returns
// when it did.
func takes(s *limiter.Spread, now, end time.Time, key string, n int) (at []time.Time) {
	for {
		now = now.Add(s.Wait(now, key, n))
		if !now.Before(end) {
			return at
		}
		s.Take(now, key, n)
		at = append(at, now)
		if s.Wait(now, key, n) == 0 {
			return at // everything passes
		}
	}
}

func left(key string, n int64, reset time.Time) throttle.Quota {
	return throttle.Quota{Scope: throttle.Scope{Level: throttle.Tenant, Key: key}, Limit: -1, Remaining: n, Reset: reset, Cost: -1}
}

func TestSpreadMakesRemainingLastUntilReset(t *testing.T) {
	for _, tt := range []struct {
		remaining int64
		n         int
		want      int
		every     time.Duration
	}{
		{60, 1, 60, time.Second},
		{60, 7, 8, 7 * time.Second},
		{1, 1, 1, 0},
		{0, 1, 0, 0},
		{3, 5, 0, 0},
	} {
		s, start := newSpread(t, 0), time.Unix(1e9, 0)
		s.Told(start, start, left("a", tt.remaining, start.Add(time.Minute)))
		at := takes(s, start, start.Add(time.Minute), "a", tt.n)
		if len(at) != tt.want {
			t.Fatalf("%d left, %d at once: %d takes, want %d", tt.remaining, tt.n, len(at), tt.want)
		}
		for i := range at {
			if d := at[i].Sub(start) - time.Duration(i)*tt.every; d.Abs() > time.Microsecond {
				t.Errorf("%d left, %d at once: take %d at %v, want %v", tt.remaining, tt.n, i, at[i].Sub(start), time.Duration(i)*tt.every)
			}
		}
		if d := s.Wait(start.Add(30*time.Second), "b", 1); d != 0 {
			t.Errorf("another key waits %v", d)
		}
		if d := s.Wait(start.Add(time.Minute), "a", 1000); d != 0 {
			t.Errorf("after Reset: %v, want 0", d)
		}
	}
}

func TestSpreadUsesUpWhatAPauseLeft(t *testing.T) {
	s, start := newSpread(t, 0), time.Unix(1e9, 0)
	s.Told(start, start, left("", 10, start.Add(time.Minute)))
	s.Take(start, "", 1)
	at := takes(s, start.Add(51*time.Second), start.Add(time.Minute), "", 1)
	if len(at) != 9 || at[8].Sub(at[0]) != 8*time.Second {
		t.Errorf("%d takes over %v, want 9 over 8s", len(at), at[len(at)-1].Sub(at[0]))
	}
}

func TestSpreadGoesByTheAnswerToTheLatestCall(t *testing.T) {
	start := time.Unix(1e9, 0)
	reset := start.Add(100 * time.Second)
	for _, tt := range []struct {
		name string
		tell func(s *limiter.Spread)
		want float64 // per second, at 50 s
	}{
		{"what was taken since is subtracted", func(s *limiter.Spread) {
			for i := range 10 {
				s.Take(start.Add(time.Duration(i)*time.Second), "", 1)
			}
			s.Told(start.Add(50*time.Second), start.Add(4*time.Second), left("", 30, reset))
		}, 25.0 / 50},
		{"an older one is ignored", func(s *limiter.Spread) {
			s.Told(start.Add(10*time.Second), start.Add(5*time.Second), left("", 20, reset))
			s.Told(start.Add(11*time.Second), start.Add(4*time.Second), left("", 90, reset))
		}, 20.0 / 50},
		{"more than thought is believed", func(s *limiter.Spread) {
			s.Told(start.Add(10*time.Second), start.Add(5*time.Second), left("", 20, reset))
			s.Told(start.Add(11*time.Second), start.Add(6*time.Second), left("", 90, reset))
		}, 90.0 / 50},
		{"an end that moves is believed", func(s *limiter.Spread) {
			s.Told(start.Add(11*time.Second), start.Add(6*time.Second), left("", 90, start.Add(60*time.Second)))
		}, 90.0 / 10},
		{"what is not said changes nothing", func(s *limiter.Spread) {
			s.Told(start.Add(11*time.Second), start.Add(6*time.Second), left("", -1, reset.Add(time.Hour)))
			s.Told(start.Add(11*time.Second), start.Add(6*time.Second), left("", 3, time.Time{}))
			s.Told(start.Add(11*time.Second), start.Add(6*time.Second), left("", 3, start))
		}, 100.0 / 50},
		{"what is forgotten passes", func(s *limiter.Spread) { s.Forget(start, "") }, 0},
		{"no end is too far", func(s *limiter.Spread) {
			s.Told(start, start, left("", math.MaxInt64, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)))
		}, math.MaxInt64 / (time.Duration(math.MaxInt64).Seconds() - 50)},
	} {
		s := newSpread(t, 0)
		s.Told(start, start, left("", 100, reset))
		tt.tell(s)
		if got := s.Rate(start.Add(50*time.Second), ""); math.Abs(got-tt.want) > 1e-9*tt.want {
			t.Errorf("%s: rate %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestSpreadGoesOnWithAWindowThatIsKnown(t *testing.T) {
	s, start := newSpread(t, 0), time.Unix(1e9, 0)
	q := left("", 60, start.Add(time.Minute))
	q.Limit = 60
	s.Told(start, start, q)
	at := takes(s, start, start.Add(3*time.Minute), "", 1)
	if len(at) != 121 || at[119].Sub(start) != 119*time.Second { // the third window is not known: one more, and then all pass
		t.Errorf("%d takes, number 120 at %v; want 121, at 119s", len(at), at[min(119, len(at)-1)].Sub(start))
	}
}

// A vendor with a fixed window, answers in any order, a caller with gaps: it is
// never refused but for what is on its way when a window begins.
func TestSpreadKeepsARandomCallerWithinItsQuota(t *testing.T) {
	for seed := range uint64(effort.Times(2)) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		s, now := newSpread(t, 0), time.Unix(1e9, 0)
		const limit = 50
		type answer struct {
			sent, at time.Time
			q        throttle.Quota
		}
		var flying []answer
		var reset time.Time
		rest, refused, sent := 0, 0, 0
		for range 5000 {
			if rnd.IntN(20) == 0 {
				now = now.Add(time.Duration(rnd.Int64N(int64(20 * time.Second))))
			}
			for i := 0; i < len(flying); i++ {
				if a := flying[i]; !a.at.After(now) {
					s.Told(now, a.sent, a.q)
					flying = append(flying[:i], flying[i+1:]...)
					i--
				}
			}
			if d := s.Wait(now, "k", 1); d > 0 {
				now = now.Add(min(d, time.Second))
				continue
			}
			s.Take(now, "k", 1)
			sent++
			if !now.Before(reset) {
				rest, reset = limit, now.Add(time.Minute)
			}
			if rest--; rest < 0 {
				refused++
				rest = 0
			}
			q := left("k", int64(rest), reset)
			q.Limit = limit
			flying = append(flying, answer{now, now.Add(time.Duration(rnd.Int64N(int64(300 * time.Millisecond)))), q})
			now = now.Add(time.Duration(rnd.Int64N(int64(100 * time.Millisecond))))
		}
		if refused > 0 || sent < 1000 {
			t.Errorf("seed %d: %d of %d calls refused", seed, refused, sent)
		}
	}
}

func TestSpreadBoundsItsKeys(t *testing.T) {
	s, start := newSpread(t, 3), time.Unix(1e9, 0)
	for i, k := range []string{"a", "b", "c", "d"} {
		s.Told(start, start, left(k, 1, start.Add(time.Duration(i+1)*time.Minute)))
		s.Take(start, k, 1)
	}
	if d := s.Wait(start, "d", 1); d != 0 {
		t.Errorf("a key too many waits %v, want 0", d)
	}
	now := start.Add(time.Minute) // a is over
	s.Told(now, now, left("d", 0, start.Add(4*time.Minute)))
	if d := s.Wait(now, "d", 1); d != 3*time.Minute {
		t.Errorf("with room: %v, want 3m", d)
	}
	if _, err := limiter.NewSpread(limiter.SpreadConfig{MaxKeys: -1}); err == nil || !strings.Contains(err.Error(), "SpreadConfig.MaxKeys is -1") {
		t.Errorf("got %v", err)
	}
}

func TestSpreadAllocatesNothing(t *testing.T) {
	s, now := newSpread(t, 0), time.Unix(1e9, 0)
	s.Told(now, now, left("k", 1<<40, now.Add(time.Hour)))
	if n := testing.AllocsPerRun(100, func() {
		now = now.Add(time.Millisecond)
		s.Wait(now, "k", 1)
		s.Take(now, "k", 1)
		s.Told(now, now, left("k", 1<<40, now.Add(time.Hour)))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A vendor that gives its reset as an absolute time is understood by the wall clock
// of its answer, which may have been set since the first.
func TestSpreadHeedsNoStepOfTheWallClock(t *testing.T) {
	for _, step := range []time.Duration{0, time.Hour, -time.Hour} {
		s, first := newSpread(t, 0), time.Now()
		s.Wait(first, "a", 1)
		now := wall.Set(t, first.Add(10*time.Second), step)
		s.Told(now, now, left("a", 60, now.Round(0).Add(time.Minute)))
		if rate := s.Rate(now, "a"); rate < 0.9 || rate > 1.1 {
			t.Errorf("step %v: 60 left for a minute are spread at %v a second, want 1", step, rate)
		}
		s.Told(now, now, left("a", 0, now.Round(0).Add(time.Minute)))
		if d := s.Wait(now, "a", 1); d < 59*time.Second || d > 61*time.Second {
			t.Errorf("step %v: nothing left for a minute, and a wait of %v", step, d)
		}
	}
}
