package limiter

import (
	"slices"
	"testing"
	"time"
)

// TestTrainsStayWholeInAFullWindow makes a busy owner take all that a window gives,
// for many of them. What is on its way when a call is refused must remain about
// a train, however the window was filled before, and no permit may go unused.
func TestTrainsStayWholeInAFullWindow(t *testing.T) {
	for _, c := range []struct {
		quota, train int
		stall        time.Duration // the owner is away once
	}{
		{300, 4, 0}, // trains of 3, and one that takes what is left over
		{298, 4, 0},
		{299, 4, 0},
		{301, 5, 20 * time.Second},
		{80, 1, 0},
		{80, 1, 20 * time.Second},
	} {
		rate := float64(c.quota) / 60
		a, err := NewAdaptive(AdaptiveConfig{Window: time.Minute, Start: rate, Max: rate})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Unix(0, 0)
		now := start
		var taken []time.Duration
		for away := c.stall; now.Sub(start) < 20*time.Minute; {
			if d := a.Wait(now, "", 1); d > 0 {
				now = now.Add(d)
				continue
			}
			a.Take(now, "", 1)
			taken = append(taken, now.Sub(start))
			a.Accepted(now, now.Add(-2*time.Second), "") // calls take 2 s
			if away > 0 && now.Sub(start) > 5*time.Minute {
				now, away = now.Add(away), 0
			}
		}
		at := func(d time.Duration) int { i, _ := slices.BinarySearch(taken, d); return i }
		const refusal = 500 * time.Millisecond // a quarter of what a call takes
		most := 0
		for i, d := range taken {
			if d > 10*time.Minute {
				most = max(most, at(d+refusal)-i)
			}
		}
		// A window is counted for 3 of 512 segments longer than it is.
		used, want := float64(at(20*time.Minute)-at(10*time.Minute)), 10*float64(c.quota)*512/515
		if most > c.train || used < 0.995*want {
			t.Errorf("quota %d, away %v: up to %d permits within %v, want %d; %.0f in 10 windows, want %.0f",
				c.quota, c.stall, most, refusal, c.train, used, want)
		}
	}
}

// One call takes ten minutes, a download perhaps, and is answered while others are
// sent alone to ask for more: nobody waits as long for its sake.
func TestAnAnswerThatTookLongHoldsNobodyUp(t *testing.T) {
	const quota, quick = 60, 50 * time.Millisecond
	for late := range 8 {
		a := newAdaptive(t, AdaptiveConfig{Window: time.Minute, Start: quota / 60})
		long := after(20*time.Minute + time.Duration(late)*20*time.Second)
		var taken []time.Time
		for now := epoch; now.Before(after(time.Hour)); {
			if !long.IsZero() && now.After(long) {
				a.Accepted(now, now.Add(-10*time.Minute), "")
				long = time.Time{}
			}
			d := a.Wait(now, "", 1)
			if d > 20*time.Second {
				t.Fatalf("%v: a wait of %v", now.Sub(epoch), d)
			}
			if d > 0 {
				now = now.Add(d)
				continue
			}
			a.Take(now, "", 1)
			if n := len(taken); n < quota || now.Sub(taken[n-quota]) >= time.Minute {
				taken = append(taken, now)
				a.Accepted(now.Add(quick), now, "")
			} else {
				a.Refused(now.Add(quick), now, "")
				now = now.Add(15 * time.Second)
			}
		}
	}
}
