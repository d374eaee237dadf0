package limiter

import (
	"context"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
)

// tokens is the slow exact model of a Rate whose limits change: a number of
// permits.
type tokens struct {
	have     *big.Rat
	interval int64
	burst    int
	lost     float64 // permits that rounding may have cost
}

func (m *tokens) cap() {
	if most := big.NewRat(int64(m.burst), 1); m.have.Cmp(most) > 0 {
		m.have = most
	}
}

func (m *tokens) pass(d time.Duration) {
	m.have.Add(m.have, big.NewRat(int64(d), m.interval))
	m.cap()
}

func TestRateWithChangingLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(effort.Times(10)) {
			rnd := rand.New(rand.NewPCG(seed, 8))
			rate := func() float64 { return math.Exp(rnd.Float64()*14 - 5) } // 7e-3 to 8e3
			r := newRate(t, rate(), 1+rnd.IntN(10))
			_, burst := r.Limits()
			m := &tokens{big.NewRat(int64(burst), 1), r.cur.Load().interval, burst, 0}
			for step := range 150 {
				switch rnd.IntN(8) {
				case 0, 1, 2:
					d := time.Duration(rnd.ExpFloat64() * float64(m.interval) * 2)
					time.Sleep(d)
					m.pass(d)
				case 3:
					if err := r.SetRate(rate()); err != nil {
						t.Fatal(err)
					}
					m.interval = r.cur.Load().interval
					m.lost += 1 / float64(m.interval)
				case 4:
					m.burst = 1 + rnd.IntN(10)
					if err := r.SetBurst(m.burst); err != nil {
						t.Fatal(err)
					}
					m.cap()
					m.lost += 1 / float64(m.interval)
				case 5:
					n := rnd.IntN(12) - 1
					r.SetRemaining(n)
					if left := big.NewRat(int64(max(0, n)), 1); m.have.Cmp(left) > 0 {
						m.have = left
					}
				default:
					n := 1 + rnd.IntN(m.burst)
					after := new(big.Rat).Sub(m.have, big.NewRat(int64(n), 1))
					left, _ := after.Float64()
					switch took := r.AllowN(n); {
					case took && after.Sign() < 0:
						t.Fatalf("seed %d step %d: took %d of %v", seed, step, n, m.have.FloatString(9))
					case !took && left > m.lost+1e-9:
						t.Fatalf("seed %d step %d: did not take %d of %v", seed, step, n, m.have.FloatString(9))
					case took:
						m.have = after
					}
				}
				have, _ := m.have.Float64()
				if got := r.Tokens(); got > have+1e-9 || got < have-m.lost-1e-9 {
					t.Fatalf("seed %d step %d: Tokens() = %v, want %v", seed, step, got, have)
				}
			}
		}
	})
}

// TestRateReservedAcrossAChange reserves 10 permits beyond what there is.
func TestRateReservedAcrossAChange(t *testing.T) {
	for _, c := range []struct {
		rate  float64
		burst int
		next  time.Duration // from 4 s after, when 6 s of waits are left
	}{
		{rate: 1, burst: 1, next: 7 * time.Second},
		{rate: 10, burst: 1, next: 6100 * time.Millisecond},
		{rate: 0.5, burst: 1, next: 8 * time.Second},
		{rate: 10, burst: 10, next: 6100 * time.Millisecond}, // no permits with a larger bucket
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRate(t, 1, 1)
			r.Allow()
			var last RateReservation
			for range 10 {
				last = r.Reserve(1)
			}
			if last.Delay() != 10*time.Second {
				t.Fatal(last.Delay())
			}
			time.Sleep(4 * time.Second)
			if err := r.SetBurst(c.burst); err != nil {
				t.Fatal(err)
			}
			if err := r.SetRate(c.rate); err != nil {
				t.Fatal(err)
			}
			if err := r.SetRate(1e-6); err != nil { // on the way
				t.Fatal(err)
			}
			if err := r.SetRate(c.rate); err != nil {
				t.Fatal(err)
			}
			if d := r.Reserve(1).Delay(); d != c.next {
				t.Errorf("at %v per second, burst %d, the next comes after %v, want %v", c.rate, c.burst, d, c.next)
			}
		})
	}
}

func TestRateDrainAndRemaining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRate(t, 1, 10)
		for _, n := range []int{20, math.MaxInt, 10} {
			r.SetRemaining(n)
		}
		if got := r.Tokens(); got != 10 {
			t.Errorf("%v permits remain of 10", got)
		}
		for _, n := range []int{4, 7, 4, 5} { // the least counts, whatever comes later
			r.SetRemaining(n)
		}
		if got := r.Tokens(); got != 4 {
			t.Errorf("%v permits remain, want 4", got)
		}
		r.Drain()
		if got := r.Tokens(); got != 0 || r.Allow() {
			t.Errorf("drained, there are %v permits", got)
		}
		time.Sleep(time.Second - 1)
		if r.Allow() {
			t.Error("a permit came back too early")
		}
		time.Sleep(time.Nanosecond)
		if !r.Allow() {
			t.Error("no permit after a second")
		}
		last := r.Reserve(10)
		r.Drain()
		r.SetRemaining(-5)
		if got := r.Tokens(); got != -10 || last.Delay() != 10*time.Second {
			t.Errorf("draining what was reserved leaves %v permits", got)
		}
	})
}

func TestRateRefusesALimit(t *testing.T) {
	r := newRate(t, 5, 10)
	for want, err := range map[string]error{
		"Rate is NaN": r.SetRate(math.NaN()), "Rate is 0": r.SetRate(0), "Burst is -1": r.SetBurst(-1), "Burst is 10": r.SetRate(2e-9),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if rate, burst := r.Limits(); rate != 5 || burst != 10 || r.Tokens() != 10 {
		t.Errorf("changed to %v, %d", rate, burst)
	}
	if err := r.SetBurst(0); err != nil {
		t.Error(err)
	}
	if _, burst := r.Limits(); burst != 5 {
		t.Errorf("a burst of one second's worth of 5 is %d", burst)
	}
}

// TestRateInTheMiddleOfAChange stops a change between its two steps.
func TestRateInTheMiddleOfAChange(t *testing.T) {
	for name, f := range map[string]func(r *Rate) bool{
		"AllowN":       func(r *Rate) bool { return r.AllowN(3) && !r.Allow() },
		"Reserve":      func(r *Rate) bool { return r.Reserve(3).Delay() == 0 && !r.Allow() },
		"WaitN":        func(r *Rate) bool { return r.WaitN(t.Context(), 3) == nil && !r.Allow() },
		"Tokens":       func(r *Rate) bool { n := r.Tokens(); return n > 2.9 && n < 3.1 },
		"Drain":        func(r *Rate) bool { r.Drain(); return !r.Allow() },
		"SetRemaining": func(r *Rate) bool { r.SetRemaining(1); return r.Allow() && !r.Allow() },
		"SetBurst":     func(r *Rate) bool { return r.SetBurst(1) == nil && r.Allow() && !r.Allow() },
		"ahead":        func(r *Rate) bool { alone, _ := r.ahead(r.time.now(), 3, 0); return alone == 0 },
	} {
		r := newRate(t, 1e-3, 3)
		next := &rateState{gcra: r.cur.Load().gcra, owner: r}
		r.mu.Lock()
		next.tat.Store(r.cur.Load().tat.Swap(moved))
		got := make(chan bool)
		go func() { got <- f(r) }()
		time.Sleep(5 * time.Millisecond) // long enough to see it go wrong; right it is anyway
		r.cur.Store(next)
		r.mu.Unlock()
		if !<-got {
			t.Errorf("%s in the middle of a change goes wrong", name)
		}
	}
	r := newRate(t, 1, 1)
	old := r.cur.Load()
	if err := r.SetRate(2); err != nil || old.tat.Load() != moved {
		t.Error("a take that began before a change could still be made after it")
	}
}

// Drain takes all permits there are; what is cancelled later must not bring back
// more than there would have been without it.
func TestCancelDoesNotUndoDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRate(t, 1, 10)
		a, b := r.Reserve(5), r.Reserve(5)
		r.Drain() // the vendor says that nothing is left
		b.Cancel()
		a.Cancel()
		if n := r.Tokens(); n > 0 {
			t.Errorf("after Drain, %v permits", n)
		}
	})
}

// Goroutines may come with their nows in any order: one that read the clock before
// the rate was lowered comes after that.
func TestNowOfBeforeTheRateChangedWaitsForTheChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRate(t, 10, 10)
		start := time.Now()
		for range 10 {
			r.Allow()
		}
		time.Sleep(ms(900))
		if err := r.SetRate(1); err != nil {
			t.Fatal(err)
		}
		n := 10
		for r.AllowAt(start.Add(ms(100)), 1) {
			n++
		}
		if n > 11 {
			t.Errorf("%d permits used in 100 ms, with a burst of 10 and at most 10 a second", n)
		}
	})
}

// A program sets the rate that a vendor's header repeats with every answer, while
// others reserve, find the delay too long, and cancel.
func TestSettingTheSameRateLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRate(t, 1, 1)
		for range 100 {
			v := r.Reserve(1)
			if err := r.SetRate(1); err != nil {
				t.Fatal(err)
			}
			v.Cancel()
		}
		if d := r.Reserve(1).Delay(); d > 2*time.Second {
			t.Errorf("nothing was ever used, and the next permit comes in %v", d)
		}
	})
}

// A Rate in which waits begin and are given up, while its limits are changed any number of
// times, is at any time between as if they had never been: as its twin, which has none.
func TestGivingUpInLineLeavesNothingWhateverBecomesOfTheLimits(t *testing.T) {
	for seed := range uint64(effort.Times(300)) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			r, twin := newRate(t, 1, 5), newRate(t, 1, 5)
			both := func(do func(r *Rate)) {
				do(r)
				do(twin)
			}
			change := func() {
				time.Sleep(time.Duration(rng.Int64N(int64(ms(300)))))
				switch x, n := rng.Float64()*2+0.1, 3+rng.IntN(5); rng.IntN(4) {
				case 0:
					both(func(r *Rate) { _ = r.SetRate(x) })
				case 1:
					both(func(r *Rate) { _ = r.SetBurst(n) })
				case 2:
					both(func(r *Rate) { r.SetRemaining(n - 3) })
				}
			}
			for range 20 {
				n := rng.IntN(4)
				both(func(r *Rate) { r.AllowN(n) })
				change()
				both((*Rate).Drain) // so that it has to wait
				ctx, cancel := context.WithCancel(t.Context())
				var waits sync.WaitGroup
				for range 1 + rng.IntN(3) {
					n := 1 + rng.IntN(3)
					waits.Go(func() {
						if r.WaitN(ctx, n) == nil {
							t.Error("a wait was over before it could be given up")
						}
					})
				}
				synctest.Wait()
				for began := time.Now(); time.Since(began) < ms(170) && rng.IntN(4) > 0; { // a permit comes in 476 ms at the earliest
					change()
				}
				cancel()
				waits.Wait()
				if got, want := r.Tokens(), twin.Tokens(); got != want {
					t.Fatalf("seed %d: %v permits, want %v", seed, got, want)
				}
			}
		})
	}
}

// What others have reserved behind one who waits keeps its time, and so does what comes after.
func TestGivingUpInLineLeavesTheReservationsOfOthersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRate(t, 1, 1)
		r.Allow()
		ctx, cancel := context.WithCancel(t.Context())
		over, wait := waits(ctx, r, 1)
		if d := r.Reserve(1).Delay(); d != 2*time.Second {
			t.Errorf("reserved behind it for in %v, want 2s", d)
		}
		if err := r.SetRate(2); err != nil {
			t.Fatal(err)
		}
		cancel()
		if wait(); over[0] != -1 {
			t.Errorf("the wait was over after %v", over[0])
		}
		if d := r.Reserve(1).Delay(); d != 2500*time.Millisecond {
			t.Errorf("the next is reserved for in %v, want half a second after the one before, 2.5s", d)
		}
	})
}
