package limiter

import (
	"cmp"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/flyball-go/flyball/internal/effort"
)

func newRate(t testing.TB, rate float64, burst int) *Rate {
	t.Helper()
	r, err := NewRate(RateConfig{Rate: rate, Burst: burst})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// use is n permits used at an instant.
type use struct {
	at int64
	n  int
}

// envelope checks that any window of length d holds at most burst + d/interval of
// uses, which it sorts.
func envelope(t testing.TB, uses []use, interval, burst int64) {
	t.Helper()
	slices.SortFunc(uses, func(a, b use) int { return cmp.Compare(a.at, b.at) })
	// For uses i to j, which hold sum(j)-sum(i-1): sum(j)*interval - at(j) is at
	// most burst*interval above the least sum(i-1)*interval - at(i).
	var sum int64
	least := int64(math.MaxInt64)
	for _, u := range uses {
		least = min(least, sum*interval-u.at)
		sum += int64(u.n)
		if over := sum*interval - u.at - least - burst*interval; over > 0 {
			t.Fatalf("a window that ends at %d holds %v permits too many (interval %d ns, burst %d)", u.at, float64(over)/float64(interval), interval, burst)
		}
	}
}

// useLog is the slow exact model of a bucket: a log of all that was taken.
type useLog struct {
	interval, burst int64
	uses            []use
}

// admits reports whether n more permits at now keep every window that ends now
// within burst + length/interval.
func (l *useLog) admits(now int64, n int) bool {
	sum := int64(n)
	for i := len(l.uses) - 1; i >= 0; i-- {
		sum += int64(l.uses[i].n)
		if (sum-l.burst)*l.interval > now-l.uses[i].at {
			return false
		}
	}
	return int64(n) <= l.burst
}

func (l *useLog) take(now int64, n int) { l.uses = append(l.uses, use{now, n}) }

func TestRateIntervalIsNeverTooShort(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range effort.Times(200) {
		g, err := newGCRA("", math.Exp(r.Float64()*42-21.5), 1)
		if err != nil {
			continue // less than one a century, or more than 1e9 a second
		}
		real := new(big.Rat).Quo(big.NewRat(1e9, 1), new(big.Rat).SetFloat64(g.rate))
		if d := real.Sub(big.NewRat(g.interval, 1), real); d.Sign() < 0 || d.Cmp(big.NewRat(1, 1)) >= 0 {
			t.Errorf("rate %v: interval %d is %v ns above 1/rate", g.rate, g.interval, d.FloatString(3))
		}
	}
}

// TestRateIsTheLogOfAllTakes compares a Rate with a log of all that was taken, to
// the permit and to the nanosecond.
func TestRateIsTheLogOfAllTakes(t *testing.T) {
	for seed := range uint64(effort.Times(10)) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		burst := 1 + rnd.IntN(8)
		r := newRate(t, math.Exp(rnd.Float64()*24-6), burst) // 2.5e-3 to 6.6e7
		interval := r.cur.Load().interval
		log := &useLog{interval: interval, burst: int64(burst)}
		var now int64
		for range 150 {
			at := epoch.Add(time.Duration(now))
			n := 1 + rnd.IntN(burst)
			d := r.Try(at, n)
			if got, want := d == 0, log.admits(now, n); got != want {
				t.Fatalf("seed %d interval %d burst %d: Try(%d, %d) = %v, the log admits: %v", seed, interval, burst, now, n, d, want)
			}
			if d > 0 {
				if log.admits(now+int64(d)-1, n) || !log.admits(now+int64(d), n) {
					t.Fatalf("seed %d interval %d burst %d: Try(%d, %d) = %d ns is not the nanosecond", seed, interval, burst, now, n, d)
				}
				if v := r.ReserveAt(at, n); !v.OK() || v.Delay() != d {
					t.Fatalf("seed %d: Try says %v, ReserveAt %v", seed, d, v.Delay())
				}
				now += int64(d)
			}
			log.take(now, n)
			if rnd.IntN(3) == 0 {
				now += int64(rnd.ExpFloat64() * float64(interval) * 2)
			}
		}
	}
}

// TestRateKeepsTheEnvelopeUnderContention lets goroutines take, reserve and cancel
// with nows that are out of order.
func TestRateKeepsTheEnvelopeUnderContention(t *testing.T) {
	for seed := range uint64(12) {
		const interval, goroutines = 100, 6
		rounds := effort.Times(500)
		burst := 1 + int(seed)
		r := newRate(t, 1e9/interval, burst)
		var clock, cancelled atomic.Int64
		var mu sync.Mutex
		var uses []use
		var wg sync.WaitGroup
		for g := range uint64(goroutines) {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(seed, g))
				var mine []use
				for range rounds {
					now := clock.Add(rnd.Int64N(interval / goroutines * 2))
					if rnd.IntN(8) == 0 {
						runtime.Gosched() // and come late
					}
					n := 1 + rnd.IntN(burst)
					at := r.time.base.Add(time.Duration(now))
					if rnd.IntN(4) > 0 {
						if r.AllowAt(at, n) {
							mine = append(mine, use{now, n})
						}
						continue
					}
					v := r.ReserveAt(at, n)
					if !v.OK() {
						t.Errorf("%d of %d not reserved", n, burst)
					}
					if rnd.IntN(4) > 0 {
						mine = append(mine, use{now + int64(v.Delay()), n})
						continue
					}
					v.Cancel()
					cancelled.Add(1)
				}
				mu.Lock()
				defer mu.Unlock()
				uses = append(uses, mine...)
			})
		}
		wg.Wait()
		envelope(t, uses, interval, int64(burst))
		if cancelled.Load() == 0 || len(uses) < rounds {
			t.Errorf("%d uses and %d cancelled: the test tests little", len(uses), cancelled.Load())
		}
	}
}

// TestRateGivesOutEachPermitOnce has goroutines take all there is, as fast as they
// can, while the limits change and change back.
func TestRateGivesOutEachPermitOnce(t *testing.T) {
	for _, changing := range []bool{false, true} {
		burst := effort.Times(25_000)
		r := newRate(t, 1e-3, burst)
		now := r.time.base.Add(time.Minute) // after all changes
		var taken, changes int64
		var mu sync.Mutex
		var done atomic.Bool
		var takers, changers sync.WaitGroup
		for range 3 {
			takers.Go(func() {
				n := int64(0)
				for r.AllowAt(now, 1) {
					n++
				}
				mu.Lock()
				defer mu.Unlock()
				taken += n
			})
		}
		if changing {
			changers.Go(func() {
				for ; !done.Load(); changes++ {
					if err := r.SetRate(1e-3 + float64(changes%2)*1e-3); err != nil {
						t.Error(err)
					}
				}
			})
		}
		takers.Wait()
		done.Store(true)
		changers.Wait()
		// Each change may round off what comes back in a nanosecond.
		if taken > int64(burst) || taken < int64(burst)-1 {
			t.Errorf("with %d changes, %d permits were taken of %d", changes, taken, burst)
		}
	}
}

func TestRateTakes(t *testing.T) {
	r := newRate(t, 1, 3)
	now := r.time.base
	for _, n := range []int{0, -1, math.MinInt} {
		if !r.AllowAt(now, n) || !r.AllowN(n) || r.Take(n) != nil || !r.ReserveAt(now, n).OK() {
			t.Errorf("%d permits are not allowed", n)
		}
	}
	for _, n := range []int{4, math.MaxInt} {
		v := r.ReserveAt(now, n)
		if r.AllowAt(now, n) || r.Try(now, n) != Never || v.OK() || v.Delay() != Never {
			t.Errorf("%d permits of a bucket of 3 are to be had", n)
		}
		v.Cancel()
		var limited *LimitedError
		if err := r.Take(n); !errors.As(err, &limited) || limited.After != Never || !strings.Contains(err.Error(), "more permits than the limit ever holds") {
			t.Errorf("Take(%d) = %v", n, err)
		}
	}
	if !r.AllowAt(now, 3) {
		t.Error("what was refused was taken")
	}
	if d := r.Try(now, 2); d != 2*time.Second {
		t.Errorf("of an empty bucket 2 permits come in %v", d)
	}
}

// stepped returns t with another wall clock and the same monotonic reading.
func stepped(t time.Time, by time.Duration) time.Time {
	*(*uint64)(unsafe.Pointer(&t)) += uint64(by/time.Second) << 30 // the seconds of the wall clock
	return t
}

func TestRateWallClockStepsChangeNothing(t *testing.T) {
	now := time.Now()
	later := stepped(now.Add(time.Second), time.Hour)
	if later.Sub(now) != time.Second || later.Round(0).Sub(now.Round(0)) != time.Hour+time.Second {
		t.Fatalf("no step: %v, %v", now, later)
	}
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		r := newRate(t, 1, 10)
		if !r.AllowAt(now, 10) {
			t.Fatal("not full")
		}
		if d := r.Try(stepped(now.Add(3*time.Second), by), 5); d != 2*time.Second {
			t.Errorf("a step by %v: 5 permits, of which 3 are there, come in %v", by, d)
		}
		if !r.AllowAt(stepped(now.Add(5*time.Second), by), 5) {
			t.Errorf("a step by %v: 5 permits do not come in 5 s", by)
		}
	}
}
