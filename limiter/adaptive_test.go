package limiter

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/throttle"
)

func newAdaptive(t testing.TB, cfg AdaptiveConfig) *Adaptive {
	t.Helper()
	p, err := NewAdaptive(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func after(d time.Duration) time.Time { return epoch.Add(d) }

// run takes one permit after the other, as a waiter that is never late, from one
// time to another. Each call is accepted after 20 ms. It returns how many.
func run(p *Adaptive, from, to time.Duration) (n int) {
	for now := from; ; n++ {
		for range 100 {
			d := p.Wait(after(now), "", 1)
			now += d
			if d == 0 {
				break
			}
		}
		if now >= to {
			return n
		}
		p.Take(after(now), "", 1)
		if sent := now - 20*time.Millisecond; sent >= from {
			p.Accepted(after(now), after(sent), "")
		}
	}
}

func near(got, want, by float64) bool { return math.Abs(got-want) <= by*want }

func TestAdaptiveLetsEverythingPassUntilARefusal(t *testing.T) {
	p := newAdaptive(t, AdaptiveConfig{})
	for range 100 {
		if d := p.Wait(epoch, "", 1e6); d != 0 {
			t.Fatalf("Wait = %v before any refusal", d)
		}
		p.Take(epoch, "", 1)
		p.Accepted(epoch, epoch, "")
	}
	if r := p.Rate(epoch, ""); r != 0 {
		t.Errorf("Rate = %v, want 0: there is none", r)
	}
	p.Take(after(900*time.Millisecond), "", 1)
	p.Refused(after(time.Second), after(900*time.Millisecond), "")
	p.Take(after(2*time.Second), "", 1)
	if r := p.Rate(epoch, ""); !near(r, 50, 1e-9) {
		t.Errorf("Rate = %v, want 50: 100 permits in 1 s and a pause of 1 s", r)
	}
}

func TestAdaptiveDoublesAtTheStart(t *testing.T) {
	p := newAdaptive(t, AdaptiveConfig{Start: 100})
	for i, want := range []float64{200, 400, 800, 1600} {
		run(p, time.Duration(i)*125*time.Millisecond, time.Duration(i+1)*125*time.Millisecond)
		if r := p.Rate(epoch, ""); r != want {
			t.Fatalf("after %d rounds: Rate = %v, want %v", i+1, r, want)
		}
	}
}

func TestAdaptiveDoesNotGrowUnused(t *testing.T) {
	learn := func(cfg AdaptiveConfig) *Adaptive {
		p := newAdaptive(t, cfg)
		run(p, 0, time.Second)
		return p
	}
	fresh := newAdaptive(t, AdaptiveConfig{Start: 100})
	cut := learn(AdaptiveConfig{Start: 100, Max: 100})
	cut.Refused(after(time.Second), after(999*time.Millisecond), "")
	cut.Take(after(1200*time.Millisecond), "", 1)
	cut.Take(after(1300*time.Millisecond), "", 1)
	for _, p := range []*Adaptive{fresh, cut} {
		var was float64
		for i := range 1000 {
			if i == 10 {
				was = p.Rate(epoch, "") // those before it were not rare enough to tell
			}
			now := after(2*time.Second + time.Duration(i)*100*time.Millisecond)
			if p.Wait(now, "", 1) != 0 {
				t.Fatal("has to wait, with a tenth of the rate")
			}
			p.Take(now, "", 1)
			p.Accepted(now, now.Add(-90*time.Millisecond), "")
		}
		if r := p.Rate(epoch, ""); r != was {
			t.Errorf("Rate = %v, want %v as before: a tenth of it was used", r, was)
		}
	}
}

func TestAdaptiveSpacesAndCatchesUp(t *testing.T) {
	p := newAdaptive(t, AdaptiveConfig{Start: 1000})
	ms := time.Millisecond
	for i, c := range []struct {
		at   time.Duration
		n    int
		want time.Duration
	}{
		{0, 1, 0}, {0, 1, 0}, {0, 1, 0}, {0, 1, 0}, // 1 and 3 ms
		{0, 1, ms},
		{0, 10, 10 * ms},
		{500 * time.Microsecond, 1, 500 * time.Microsecond},
		{ms, 1, 0},
		{ms, 1, ms},
		{4 * ms, 1, 0}, {4 * ms, 1, 0}, {4 * ms, 1, 0}, {4 * ms, 1, ms}, // all of it
		{100 * ms, 1, 0}, {100 * ms, 1, 0}, {100 * ms, 1, 0}, {100 * ms, 1, 0}, {100 * ms, 1, ms}, // no more than that
		{100 * ms, 20, 20 * ms}, // of more than can be saved up
		{120 * ms, 20, 0},
		{120 * ms, 1, ms}, // owes nothing
		{90 * ms, 1, ms},  // the clock went back
		{120 * ms, 0, 0},
		{120 * ms, -1, 0},
	} {
		got := p.Wait(after(c.at), "", c.n)
		if got != c.want {
			t.Fatalf("step %d: Wait(%v, %d) = %v, want %v", i, c.at, c.n, got, c.want)
		}
		if got == 0 {
			p.Take(after(c.at), "", c.n)
		}
	}
	if d := p.Wait(after(0), "", math.MaxInt); d <= 0 || d >= Never {
		t.Errorf("Wait for all permits there are = %v", d)
	}
}

func TestAdaptiveLearnsOnceFromAPause(t *testing.T) {
	p := newAdaptive(t, AdaptiveConfig{Start: 100, Max: 100})
	run(p, 0, time.Second)
	now, sent := after(time.Second), after(980*time.Millisecond)
	p.Refused(now, sent, "")
	for range 9 {
		p.Refused(now.Add(time.Millisecond), sent, "")
	}
	p.Take(now.Add(time.Second), "", 1)
	// 90 accepted in 2 s are 45/s; with 100/s the middle is 67/s.
	r := p.Rate(now, "")
	if !near(r, math.Sqrt(45*100), 0.02) {
		t.Errorf("Rate = %v, want 67", r)
	}
	for range 9 {
		p.Refused(now.Add(2*time.Second), sent, "") // later still
	}
	p.Take(now.Add(3*time.Second), "", 1)
	if got := p.Rate(now, ""); !near(got, r, 0.01) {
		t.Errorf("Rate = %v, want still %v: those calls were sent before the pause", got, r)
	}
}

func TestAdaptiveHalvesForRefusedProbes(t *testing.T) {
	p := newAdaptive(t, AdaptiveConfig{Start: 100, Max: 100})
	run(p, 0, time.Second)
	now := time.Second
	p.Refused(after(now), after(now-time.Millisecond), "")
	now += time.Second
	p.Take(after(now), "", 1)
	was := p.Rate(epoch, "")
	for i, share := range []float64{2, 4, 8, 8, 8} {
		p.Refused(after(now+time.Millisecond), after(now), "")
		now += time.Second
		p.Take(after(now), "", 1)
		if r := p.Rate(epoch, ""); !near(r, was/share, 0.05) { // each probe may raise it a little
			t.Fatalf("after %d refused probes: Rate = %v, want %v", i+1, r, was/share)
		}
	}
}

func TestAdaptiveIgnoresWhatIsNoRate(t *testing.T) {
	p := newAdaptive(t, AdaptiveConfig{Start: 100, Max: 100})
	p.Refused(epoch, epoch.Add(-time.Second), "") // nothing was taken
	run(p, 0, time.Second)
	p.Refused(after(time.Second), after(990*time.Millisecond), "")
	p.Take(after(6*time.Hour), "", 1) // the day's quota
	if r := p.Rate(epoch, ""); r != 100 {
		t.Errorf("Rate = %v after hours, want 100", r)
	}

	q := newAdaptive(t, AdaptiveConfig{})
	for range 10 { // of which 9 are accepted, too few to measure
		q.Take(epoch, "", 1)
	}
	q.Refused(after(time.Millisecond), epoch, "")
	q.Take(after(time.Second), "", 1)
	if r := q.Rate(epoch, ""); r != 0 {
		t.Errorf("Rate = %v after 9 accepted calls, want none", r)
	}
	q.Refused(after(time.Second+time.Millisecond), after(time.Second), "")
	q.Take(after(2*time.Second), "", 1)
	if r := q.Rate(epoch, ""); r != 0 {
		t.Errorf("Rate = %v after 9 accepted calls and a refused probe, want none", r)
	}
	q.Refused(after(3*time.Second), after(2*time.Second), "")
	q.Take(after(4*time.Second), "", 1)
	if r := q.Rate(epoch, ""); r != 0 {
		t.Errorf("Rate = %v, want none still", r)
	}

	paced := newAdaptive(t, AdaptiveConfig{Start: 8})
	paced.Take(epoch, "", 1)
	paced.Refused(after(time.Millisecond), epoch, "") // the very first call
	paced.Take(after(time.Second), "", 1)
	if r := paced.Rate(epoch, ""); r != 4 {
		t.Errorf("Rate = %v after the very first call was refused, want half of 8", r)
	}
}

func TestAdaptiveSettle(t *testing.T) {
	p := newAdaptive(t, AdaptiveConfig{Start: 10})
	p.Take(epoch, "", 1)
	p.Settle(epoch, "", 1, 11)
	if d := p.Wait(epoch, "", 1); !near(d.Seconds(), 1.097, 1e-6) {
		t.Errorf("Wait = %v after 10 permits more, want 1.097s", d)
	}
	p.Settle(epoch, "", math.MaxInt, math.MinInt)
	if d := p.Wait(epoch, "", 1); !near(d.Seconds(), 1.097, 1e-6) {
		t.Errorf("Wait = %v after something that nobody took was given back, want 1.097s", d)
	}
}

func TestAdaptiveConfig(t *testing.T) {
	for _, c := range []struct {
		cfg  AdaptiveConfig
		want string // of the error; "" is none
	}{
		{AdaptiveConfig{}, ""},
		{AdaptiveConfig{Start: 5, Min: 1, Max: 10}, ""},
		{AdaptiveConfig{Start: 1e-3}, ""},
		{AdaptiveConfig{Max: 1e-3}, ""},
		{AdaptiveConfig{Start: math.NaN()}, "Start is NaN"},
		{AdaptiveConfig{Start: -1}, "Start is -1"},
		{AdaptiveConfig{Start: math.Inf(1)}, "Start is +Inf"},
		{AdaptiveConfig{Start: 2e9}, "Start is 2e+09"},
		{AdaptiveConfig{Start: 1e-300}, "Start is 1e-300"},
		{AdaptiveConfig{Min: math.NaN()}, "Min is NaN"},
		{AdaptiveConfig{Max: math.Inf(-1)}, "Max is -Inf"},
		{AdaptiveConfig{Window: time.Minute}, ""},
		{AdaptiveConfig{Window: time.Nanosecond}, "Window is 1ns"},
		{AdaptiveConfig{Window: -time.Second}, "Window is -1s"},
		{AdaptiveConfig{Window: 1000 * time.Hour}, "Window is 1000h0m0s"},
		{AdaptiveConfig{Min: 2, Max: 1}, "Min is 2"},
		{AdaptiveConfig{Start: 1, Min: 2}, "Start is 1"},
		{AdaptiveConfig{Start: 3, Max: 2}, "Start is 3"},
	} {
		p, err := NewAdaptive(c.cfg)
		if c.want == "" {
			if err != nil {
				t.Errorf("%+v: %v", c.cfg, err)
			}
		} else if p != nil || err == nil || !strings.Contains(err.Error(), "AdaptiveConfig."+c.want) {
			t.Errorf("%+v: error %v, want %q", c.cfg, err, c.want)
		}
	}
	if r := newAdaptive(t, AdaptiveConfig{Max: 7}).Rate(epoch, ""); r != 7 {
		t.Errorf("Rate = %v, want Max", r)
	}
}

func TestAdaptiveAllocatesNothing(t *testing.T) {
	for _, cfg := range []AdaptiveConfig{{Start: 100}, {Start: 100, Window: time.Second}} {
		p := newAdaptive(t, cfg)
		now := epoch
		p.Told(now, now, throttle.Quota{Remaining: 1 << 40, Reset: now.Add(time.Hour)})
		if n := testing.AllocsPerRun(1000, func() {
			now = now.Add(time.Millisecond)
			p.Told(now, now, throttle.Quota{Remaining: 1 << 40, Reset: epoch.Add(time.Hour)})
			if p.Wait(now, "", 1) == 0 {
				p.Take(now, "", 1)
				p.Accepted(now, now.Add(-time.Millisecond), "")
				if rand.IntN(20) == 0 {
					p.Refused(now, now, "")
				}
			}
		}); n != 0 {
			t.Errorf("%+v: %v allocations", cfg, n)
		}
	}
}

// TestCurve compares the area with a sum, and the solution with what was put in.
func TestCurve(t *testing.T) {
	for _, c := range []curve{{plateau: 100, rise: 2}, {plateau: 100, depth: 0.1, rise: 2}, {plateau: 7, depth: 0.4, rise: 30}} {
		for _, grown := range []float64{0.1, 1, 2.5} {
			for _, share := range []float64{0.3, 0.9, 1, 1.05, 1.6} {
				q, steps, sum := share*c.plateau, 10_000, 0.0
				step := grown * c.rise / float64(steps)
				for i := range steps {
					c.grown = (float64(i) + 0.5) * step
					sum += max(0, c.rate()-q) * step
				}
				c.grown = grown * c.rise
				if q >= c.rate() {
					continue
				}
				if got := c.above(q); math.Abs(got-sum) > 1e-3*sum+1e-6 {
					t.Errorf("%+v above %v: %v, want %v", c, q, got, sum)
				}
				if got := c.solve(q/3, c.rate(), func(float64) float64 { return sum }); !near(got, q, 1e-3) {
					t.Errorf("%+v: %v permits above %v, want %v", c, sum, got, q)
				}
			}
		}
	}
}

// TestAdaptiveCanBackOff refuses everything, whatever the rate begins with.
func TestAdaptiveCanBackOff(t *testing.T) {
	for _, cfg := range []AdaptiveConfig{{Start: 1}, {Start: 1.0 / 60}, {Start: 0.01}, {Max: 0.01}, {Max: 1}, {Start: 100, Window: time.Second}} {
		a := newAdaptive(t, cfg)
		now, began := epoch, a.Rate(epoch, "")
		for range 5 {
			now = now.Add(a.Wait(now, "", 1))
			a.Take(now, "", 1)
			a.Refused(now.Add(time.Millisecond), now, "")
			now = now.Add(time.Minute)
		}
		a.Take(now, "", 1)
		if r := a.Rate(now, ""); r >= began/2 {
			t.Errorf("%+v: after 5 refused probes Rate = %v, was %v", cfg, r, began)
		}
	}
}

func FuzzAdaptive(f *testing.F) {
	f.Add(0.0, 0.0, 0.0, int64(0), []byte{1, 1, 4, 7, 2, 3})
	f.Add(10.0, 1.0, 100.0, int64(0), []byte("0123456789abcdefghijklmnopqrstuvwxyz"))
	f.Add(10.0, 1.0, 100.0, int64(time.Second), []byte("0123456789abcdefghijklmnopqrstuvwxyz"))
	f.Fuzz(func(t *testing.T, start, least, most float64, window int64, ops []byte) {
		cfg := AdaptiveConfig{Start: start, Min: least, Max: most, Window: time.Duration(window)}
		a, err := NewAdaptive(cfg)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "limiter: AdaptiveConfig.") {
				t.Fatal(err)
			}
			return
		}
		now, sent := epoch, epoch
		ops = ops[:min(len(ops), 1000)]
		for len(ops) >= 2 {
			op, arg := ops[0], int(ops[1])
			ops = ops[2:]
			switch op % 11 {
			case 0, 1:
				if a.Wait(now, "", arg) == 0 {
					a.Take(now, "", arg)
					sent = now
				}
			case 2:
				a.Accepted(now, sent, "")
			case 3:
				a.Refused(now, sent, "")
			case 4:
				now = now.Add(time.Duration(arg) << (op >> 3))
			case 5:
				a.SettleAt(now, sent, "", arg, int(op>>3))
			case 6:
				now = now.Add(min(a.Wait(now, "", arg), 1000*time.Hour))
			case 7:
				a.Take(now, "", arg<<(op>>3)) // without being told to
			case 8:
				a.Told(now, sent, throttle.Quota{Limit: int64(arg), Remaining: int64(op>>3) - 1, Reset: now.Add(time.Duration(arg) * time.Second)})
			case 10:
				b := newAdaptive(t, cfg)
				if !b.Restore(a.Snapshot(now)) {
					t.Fatal("it is not restored")
				}
				a = b
			case 9:
				if err := a.Import(now, a.Export(now.Add(-time.Duration(arg)*time.Hour))); err != nil {
					t.Fatal(err)
				}
			}
			r, least := a.Rate(now, ""), a.cfg.Min
			if a.cfg.Window > 0 {
				least = min(least, 1/a.cfg.Window.Seconds())
			}
			if r != 0 && !(r >= least*0.999 && r <= max(a.cfg.Max, 1/a.cfg.Window.Seconds())*1.001) {
				t.Fatalf("Rate = %v, bounds %v and %v", r, least, a.cfg.Max)
			}
			if d := a.Wait(now, "", 1); d < 0 || d == Never {
				t.Fatalf("Wait = %v", d)
			}
			if w, ok := a.model.(*windowed); ok {
				checkTally(t, &w.tally)
			}
		}
	})
}

// checkTally compares the sum with what it is the sum of.
func checkTally(t *testing.T, y *tally) {
	t.Helper()
	var sum float64
	for n := y.last - inWindow + 1; n <= y.last; n++ {
		sum += float64(*y.of(n))
	}
	if math.Abs(sum-y.sum) > 1e-6*sum {
		t.Fatalf("sum is %v, want %v", y.sum, sum)
	}
}

// At the very nanosecond at which a pause, or what is left of a told window, is over, the rest
// of the rules hold as at any other: floating point may put it an instant before or behind.
func TestNotEverythingPassesAtTheInstantAtWhichSomethingIsOver(t *testing.T) {
	const most = 10
	whole := AdaptiveConfig{Start: most, Max: most}
	windows := AdaptiveConfig{Window: time.Second, Start: most, Max: most}
	for name, ends := range map[string]func(now time.Time) (l Limiter, at time.Time){
		"a pause": func(now time.Time) (Limiter, time.Time) {
			a := newAdaptive(t, whole)
			a.Take(epoch, "", 1)
			refused(a, now, epoch, "", 0)
			return a, now.Add(time.Second)
		},
		"a pause, of a window": func(now time.Time) (Limiter, time.Time) {
			a := newAdaptive(t, windows)
			a.Take(epoch, "", 1)
			refused(a, now, epoch, "", 7*time.Second)
			return a, now.Add(7 * time.Second)
		},
		"a told window": func(now time.Time) (Limiter, time.Time) {
			a := newAdaptive(t, AdaptiveConfig{Start: 1000, Max: 1000, Window: time.Second})
			a.Take(epoch, "", 1)
			a.Told(now, epoch, throttle.Quota{Limit: most, Remaining: 0, Reset: now.Add(3 * time.Second), Window: 3 * time.Second})
			return a, now.Add(3 * time.Second)
		},
		"a window of a Spread": func(now time.Time) (Limiter, time.Time) {
			s, err := NewSpread(SpreadConfig{})
			if err != nil {
				t.Fatal(err)
			}
			s.Wait(epoch, "", 1)
			s.Told(now, epoch, throttle.Quota{Limit: most, Remaining: 0, Reset: now.Add(3 * time.Second), Window: 3 * time.Second})
			return s, now.Add(3 * time.Second)
		},
	} {
		for i := range 3000 {
			l, at := ends(epoch.Add(time.Duration(i) * 12345679))
			if wait := l.Wait(at.Add(-1), "", 1); wait < 1 {
				t.Fatalf("%s, run %d: a nanosecond before its end the wait is %v", name, i, wait)
			}
			n := 0
			for ; n < 2*most && l.Wait(at, "", 1) == 0; n++ {
				l.Take(at, "", 1)
			}
			if n > most {
				t.Fatalf("%s, run %d: everything passes when it ends, want %d at most", name, i, most)
			}
		}
	}
}
