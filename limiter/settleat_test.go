package limiter

import (
	"context"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/internal/errtree"
)

// datedCounter is a Dated limiter whose permits can be counted.
type datedCounter interface {
	Dated
	Counter
}

// dated are the limiters of a sliding window that are told when what they correct was taken.
func dated(t *testing.T, limit int, window time.Duration) map[string]datedCounter {
	t.Helper()
	log, err := NewSlidingLog(SlidingLogConfig{Limit: limit, Window: window})
	if err != nil {
		t.Fatal(err)
	}
	segments, err := NewSlidingCounter(SlidingCounterConfig{Limit: limit, Window: window, Segments: 100})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]datedCounter{"SlidingLog": log, "SlidingCounter": segments}
}

// hourly are those whose windows follow each other.
func hourly(t *testing.T, limit int) map[string]datedCounter {
	t.Helper()
	return map[string]datedCounter{
		"FixedWindow": newFixedWindow(t, FixedWindowConfig{Limit: limit, Period: time.Hour}),
		"Calendar":    newCalendar(t, CalendarConfig{Limit: limit, Cycle: Hourly}),
	}
}

// stride is a take of a random walk, and what it turned out to cost.
type stride struct {
	at         time.Duration
	n, settled int
	open       bool
}

// stroll takes some permits, if there are, or settles one of the last takes.
func stroll(r *rand.Rand, l datedCounter, takes []stride, now time.Duration) []stride {
	at, n := epoch.Add(now), 1+r.IntN(30)
	if r.IntN(3) == 0 {
		if l.Wait(at, "k", n) == 0 {
			l.Take(at, "k", n)
			takes = append(takes, stride{at: now, n: n, settled: n, open: true})
		}
	} else if len(takes) > 0 {
		if x := &takes[len(takes)-1-r.IntN(min(8, len(takes)))]; x.open {
			x.open, x.settled = false, r.IntN(x.n+1)
			l.SettleAt(at, epoch.Add(x.at), "k", x.n, x.settled)
		}
	}
	return takes
}

// In a steady stream something always stops counting while calls run. What they
// cost less must not be lost by that.
func TestSteadyStreamGetsBackWhatItsCallsCostLess(t *testing.T) {
	for name, l := range dated(t, 1000, 20*time.Second) {
		type run struct{ taken, ends time.Time }
		var running []run
		used, now := 0, epoch
		for ; now.Before(epoch.Add(10 * time.Minute)); now = now.Add(10 * time.Millisecond) {
			for len(running) > 0 && !running[0].ends.After(now) {
				l.SettleAt(now, running[0].taken, "k", 60, 20)
				running, used = running[1:], used+20
			}
			for len(running) < 64 && l.Wait(now, "k", 60) == 0 {
				l.Take(now, "k", 60)
				running = append(running, run{now, now.Add(50 * time.Millisecond)})
			}
		}
		if share := float64(used) / (50 * 600); share < 0.95 {
			t.Errorf("%s: %.0f %% of the limit were used, want 95", name, 100*share)
		}
	}
}

func TestSettleAtKeepsEachTakeAtItsTimeAndTrueCost(t *testing.T) {
	for seed := range uint64(effort.Times(15)) {
		r := rand.New(rand.NewPCG(seed, 7))
		for name, l := range dated(t, 100, time.Second) {
			var takes []stride
			now := time.Duration(0)
			for range 300 {
				now += time.Duration(r.IntN(40)) * time.Millisecond
				at := epoch.Add(now)
				takes = stroll(r, l, takes, now)
				exact := 100
				for _, x := range takes {
					if now-x.at < time.Second {
						exact -= x.settled
					}
				}
				got := l.Available(at, "k")
				if name == "SlidingLog" && got != exact || got > exact {
					t.Fatalf("seed %d at %v: %s has %d, want %d", seed, now, name, got, exact)
				}
			}
		}
	}
}

func TestSettleAtGivesNothingBackThatTheVendorMayKnow(t *testing.T) {
	all := dated(t, 100, time.Second)
	maps.Copy(all, hourly(t, 100))
	for name, l := range all {
		l.Take(epoch, "k", 50)
		l.SetRemaining(epoch, epoch, "k", 20)
		l.SettleAt(epoch, epoch, "k", 50, 0)
		if got := l.Available(epoch, "k"); got > 20 {
			t.Errorf("%s: %d available, want 20", name, got)
		}
		later := epoch.Add(10 * time.Millisecond)
		l.Take(later, "k", 20)
		l.SettleAt(later, later, "k", 20, 5)
		if got := l.Available(later, "k"); got != 15 {
			t.Errorf("%s: %d available, want 15", name, got)
		}
		l.SettleAt(later, later, "nobody", 20, 5)
		l.SettleAt(later, epoch.Add(-time.Hour), "k", 5, -5)
		l.SettleAt(later, later.Add(time.Hour), "k", 1<<62, 0)
		if got := l.Available(later, "k"); got > 100 {
			t.Errorf("%s: %d available", name, got)
		}
	}
}

// A take of a window that has one end is given back in it, whatever else is open.
func TestSettleAtGivesBackWithinAWindow(t *testing.T) {
	for seed := range uint64(effort.Times(15)) {
		r := rand.New(rand.NewPCG(seed, 8))
		for name, l := range hourly(t, 100) {
			var takes []stride
			l.Wait(epoch, "k", 1)
			for now := time.Duration(0); now < 12*time.Hour; now += time.Duration(r.IntN(150)) * time.Second {
				at := epoch.Add(now)
				takes = stroll(r, l, takes, now)
				exact := 100
				for _, x := range takes {
					if x.at/time.Hour == now/time.Hour {
						exact -= x.settled
					}
				}
				if got := l.Available(at, "k"); got != exact {
					t.Fatalf("seed %d at %v: %s has %d, want %d", seed, now, name, got, exact)
				}
			}
		}
	}
}

// What is not sent while a breaker further in is open leaves no trace, however many calls
// that are in a moment.
func TestCallsThatWereNotSentInAStormCostNothingLater(t *testing.T) {
	for _, way := range []string{"Do", "Settle"} {
		t.Run(way, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				l, err := NewSlidingLog(SlidingLogConfig{Limit: 100, Window: time.Hour})
				if err != nil {
					t.Fatal(err)
				}
				s := newShared(t, SharedConfig{Limiters: []Limiter{l}})
				notSent := errtree.SaysRefused(errVendor, true)
				for range 300 { // a breaker further in is open
					time.Sleep(time.Millisecond)
					if way == "Do" {
						Do(t.Context(), s, "", 1, func(context.Context) (int, error) { return 0, notSent })
					} else {
						if err := s.Allow("", 1); err != nil {
							t.Fatal(err)
						}
						s.Settle("", 1, 0)
					}
				}
				if n := l.Available(time.Now(), ""); n != 100 {
					t.Errorf("%d available", n)
				}
				var turned []time.Duration
				begin := time.Now()
				for range 5 * 90 { // 5 hours
					time.Sleep(40 * time.Second)
					if way == "Do" {
						_, err = Do(t.Context(), s, "", 1, func(context.Context) (int, error) { return 0, nil })
					} else if err = s.Allow("", 1); err == nil {
						s.Settle("", 1, 1)
					}
					if err != nil {
						turned = append(turned, time.Since(begin))
					}
				}
				if len(turned) > 0 {
					t.Errorf("%s: %d of 450 calls turned away, from %v to %v", way, len(turned), turned[0], turned[len(turned)-1])
				}
			})
		})
	}
}
