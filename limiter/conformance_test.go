package limiter

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/throttle"
)

// kind is a limiter to be tested and the slow exact model of what it admits, from
// a log of all takes of a key. Times are nanoseconds since epoch.
type kind struct {
	name   string
	limit  int   // the most permits ever there at once; 0: no such number
	scale  int64 // the time in which something changes
	make   func(maxKeys int) (Limiter, error)
	admits func(log []taken, now int64, n int) bool
	idle   func(log []taken, now int64) bool // as if the key had never been seen
	per    time.Duration                     // in which limit permits are to be had by who always asks
}

func (k kind) new(t testing.TB, maxKeys int) Limiter {
	t.Helper()
	l, err := k.make(maxKeys)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// sum adds up the costs of the takes from from to before to.
func sum(log []taken, from, to int64) (n int) {
	for _, x := range log {
		if from <= x.at && x.at < to {
			n += x.cost
		}
	}
	return n
}

func made[L Limiter](l L, err error) (Limiter, error) { return l, err }

// leaked reports whether everything has flowed out at now. That is at ns nanoseconds
// and frac*2^-64 of one.
func leaked(log []taken, now int64, rate float64) bool {
	var ns, frac uint64
	interval := perPermit(rate)
	for _, x := range log {
		if at := uint64(x.at); ns < at {
			ns, frac = at, 0
		}
		hi, lo := bits.Mul64(interval.frac, uint64(x.cost))
		var carry uint64
		frac, carry = bits.Add64(frac, lo, 0)
		ns += interval.ns*uint64(x.cost) + hi + carry
	}
	return ns < uint64(now) || ns == uint64(now) && frac == 0
}

func units(ns uint64) *big.Int {
	x := new(big.Int).SetUint64(ns)
	return x.Lsh(x, 64)
}

var kinds = []kind{
	{
		name: "FixedWindow", limit: 7, scale: 1000, per: 1000,
		make: func(keys int) (Limiter, error) {
			return made(NewFixedWindow(FixedWindowConfig{Limit: 7, Period: 1000, MaxKeys: keys}))
		},
		admits: func(log []taken, now int64, n int) bool {
			return sum(log, now/1000*1000, math.MaxInt64)+n <= 7
		},
		idle: func(log []taken, now int64) bool {
			return !slices.ContainsFunc(log, func(x taken) bool { return x.at >= now/1000*1000 })
		},
	},
	{
		name: "SlidingLog", limit: 7, scale: 1000, per: 1050,
		make: func(keys int) (Limiter, error) {
			return made(NewSlidingLog(SlidingLogConfig{Limit: 7, Window: 1000, Margin: 50, MaxKeys: keys}))
		},
		admits: func(log []taken, now int64, n int) bool {
			return sum(log, now-1049, math.MaxInt64)+n <= 7
		},
		idle: func(log []taken, now int64) bool {
			return sum(log, now-1049, math.MaxInt64) == 0
		},
	},
	{
		name: "SlidingCounter", limit: 7, scale: 1000, per: 1250,
		make: func(keys int) (Limiter, error) {
			return made(NewSlidingCounter(SlidingCounterConfig{Limit: 7, Window: 1000, Segments: 4, MaxKeys: keys}))
		},
		admits: func(log []taken, now int64, n int) bool {
			return sum(log, (now/250-4)*250, math.MaxInt64)+n <= 7
		},
		idle: func(log []taken, now int64) bool {
			return sum(log, (now/250-4)*250, math.MaxInt64) == 0
		},
	},
	{
		name: "Approx", limit: 7, scale: 1000, per: 1000,
		make: func(keys int) (Limiter, error) {
			return made(NewApprox(ApproxConfig{Limit: 7, Window: 1000, MaxKeys: keys}))
		},
		admits: func(log []taken, now int64, n int) bool {
			begin := now / 1000 * 1000
			return sum(log, begin-1000, begin)*int(begin+1000-now)+1000*(sum(log, begin, math.MaxInt64)+n) <= 7*1000
		},
		idle: func(log []taken, now int64) bool {
			return sum(log, now/1000*1000-1000, math.MaxInt64) == 0
		},
	},
	{
		name: "Calendar", limit: 7, scale: int64(time.Hour), per: time.Hour,
		make: func(keys int) (Limiter, error) {
			return made(NewCalendar(CalendarConfig{Limit: 7, Cycle: Hourly, MaxKeys: keys}))
		},
		admits: func(log []taken, now int64, n int) bool {
			return sum(log, now/int64(time.Hour)*int64(time.Hour), math.MaxInt64)+n <= 7
		},
		idle: func(log []taken, now int64) bool {
			return sum(log, now/int64(time.Hour)*int64(time.Hour), math.MaxInt64) == 0
		},
	},
	{
		name: "Leaky", scale: 300, per: 1000,
		make: func(keys int) (Limiter, error) { return made(NewLeaky(LeakyConfig{Rate: 7e6, MaxKeys: keys})) },
		admits: func(log []taken, now int64, n int) bool {
			return leaked(log, now, 7e6)
		},
		idle: func(log []taken, now int64) bool {
			return leaked(log, now, 7e6)
		},
	},
}

// TestKindsAreTheirModels lets each limiter and its model decide about the same
// calls, at random times with more keys than it has room for, and checks every
// answer to the nanosecond.
func TestKindsAreTheirModels(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			admitted, full, seeds := 0, 0, effort.Times(5)
			for seed := range uint64(seeds) {
				r := rand.New(rand.NewPCG(seed, 5))
				const room, keys = 3, 5
				l := k.new(t, room)
				l.Wait(epoch, "", 1) // time begins
				logs := make([][]taken, keys)
				var now int64
				expect := func(key int, now int64, n int) bool {
					if k.idle(logs[key], now) {
						busy := 0
						for _, log := range logs {
							if !k.idle(log, now) {
								busy++
							}
						}
						if busy >= room {
							return false
						}
					}
					return k.admits(logs[key], now, n)
				}
				for step := range 200 {
					key, n := r.IntN(keys), 1+r.IntN(3)
					if r.IntN(20) == 0 {
						n = 7
					}
					at := epoch.Add(time.Duration(now))
					l.Wait(at, fmt.Sprint(r.IntN(2*keys)), r.IntN(9)) // changes nothing
					if r.IntN(8) == 0 {                               // the clock of some call is behind
						at = at.Add(-time.Duration(r.Int64N(2 * k.scale)))
					}
					d := l.Wait(at, fmt.Sprint(key), n)
					if got, want := d == 0, expect(key, now, n); got != want {
						t.Fatalf("seed %d step %d at %d: Wait(%d, %d) = %v, the model admits: %v\n%+v", seed, step, now, key, n, d, want, logs)
					}
					if c, ok := l.(Counter); ok && (d == 0 || !k.idle(logs[key], now)) {
						if n := c.Available(at, fmt.Sprint(key)); n < 0 || n > 0 && !expect(key, now, n) || expect(key, now, n+1) {
							t.Fatalf("seed %d step %d at %d: %d available: %+v", seed, step, now, n, logs[key])
						}
					}
					if d > 0 {
						full++
						if d == Never || d < 0 {
							t.Fatalf("seed %d step %d: Wait(%d) = %d", seed, step, n, d)
						}
						if expect(key, now+int64(d)-1, n) || !expect(key, now+int64(d), n) {
							t.Fatalf("seed %d step %d at %d: Wait(%d, %d) = %d ns is not the nanosecond\n%+v", seed, step, now, key, n, d, logs)
						}
						if r.IntN(3) == 0 {
							now += int64(d)
							d = 0
						}
					}
					if d == 0 {
						admitted++
						l.Take(epoch.Add(time.Duration(now)), fmt.Sprint(key), n)
						logs[key] = append(logs[key], taken{now, n, n, true})
					}
					if r.IntN(3) == 0 {
						now += r.Int64N(k.scale)
					}
				}
			}
			if admitted < 25*seeds || full < 25*seeds {
				t.Errorf("%d admitted, %d not: the test tests little", admitted, full)
			}
		})
	}
}

// TestKindsGiveNothingBackTwice settles random takes at random times, up and down,
// with the true costs written into the model's log: what the limiter admits, the
// model must.
func TestKindsGiveNothingBackTwice(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			gave, could := 0, 0
			for seed := range uint64(effort.Times(15)) {
				r := rand.New(rand.NewPCG(seed, 6))
				l := k.new(t, 0)
				l.Wait(epoch, "", 1)
				var log []taken
				var now int64
				slow := 1 + r.IntN(12)
				all, others := r.IntN(2) == 0, r.IntN(3) == 0
				for step := range 150 {
					at := epoch.Add(time.Duration(now))
					n := 1 + r.IntN(7)
					switch r.IntN(4) {
					case 0, 1:
						for l.Wait(at, "", n) == 0 {
							if !k.admits(log, now, n) {
								t.Fatalf("seed %d step %d at %d: %d admitted, not by the model: %+v", seed, step, now, n, log)
							}
							l.Take(at, "", n)
							log = append(log, taken{now, n, n, true})
							if r.IntN(3) == 0 {
								break
							}
						}
					case 2:
						var open []int
						for i := range log {
							if log[i].settleable {
								open = append(open, i)
							}
						}
						if len(open) == 0 {
							break
						}
						x := &log[open[r.IntN(len(open))]]
						if all && r.IntN(2) == 0 {
							x = &log[open[0]]
						}
						used := r.IntN(x.n + 1)
						if r.IntN(8) == 0 {
							used = x.n + r.IntN(3)
						}
						l.Settle(at, "", x.n, used)
						x.settleable, x.cost = false, min(used, x.n)
						if used > x.n {
							log = append(log, taken{now, used - x.n, used - x.n, false})
						}
						for n := 1; n <= 7 && k.admits(log, now, n); n++ {
							could++
							if l.Wait(at, "", n) == 0 {
								gave++
							}
						}
					default:
						now += r.Int64N(k.scale) / int64(slow)
						if others { // which make this one be forgotten when it is idle
							l.Take(epoch.Add(time.Duration(now)), fmt.Sprint(step), 1)
						}
					}
				}
			}
			t.Logf("of %d permits that the model has after a settlement, the limiter has %d", could, gave)
			if gave*10 < could*5 {
				t.Errorf("of %d permits that the model has after a settlement, the limiter has only %d", could, gave)
			}
		})
	}
}

// TestKindsUtilisation is an owner that always has something to do and comes when
// Wait says so.
func TestKindsUtilisation(t *testing.T) {
	for _, k := range kinds {
		for _, n := range []int{1, 7} {
			l := k.new(t, 0)
			now, took := epoch, 0
			end := epoch.Add(1000 * k.per)
			for {
				d := l.Wait(now, "", n)
				if now = now.Add(d); !now.Before(end) {
					break
				}
				l.Take(now, "", n)
				took += n
			}
			want := 7 * 1000
			if k.name == "Approx" { // n less a window, or every other one
				want = []int{6000, 3500}[n/7]
			}
			if math.Abs(float64(took-want)) > 0.01*float64(want) {
				t.Errorf("%s: %d permits in calls of %d, want %d", k.name, took, n, want)
			}
		}
	}
}

// TestSlidingWindowsHoldNoMore looks at the windows themselves, wherever they
// begin, and not through the eyes of a model.
func TestSlidingWindowsHoldNoMore(t *testing.T) {
	for _, c := range []struct {
		kind   string
		window int64
		most   int
	}{{"SlidingLog", 1050, 7}, {"SlidingCounter", 1000, 7}, {"Approx", 1000, 13}, {"FixedWindow", 1000, 14}} {
		k := kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name == c.kind })]
		worst := 0
		for seed := range uint64(effort.Times(15)) {
			r := rand.New(rand.NewPCG(seed, 7))
			l := k.new(t, 0)
			l.Wait(epoch, "", 1)
			var log []taken
			var now int64
			pauses := r.Int64N(1200)
			for range 300 {
				n := 1
				d := l.Wait(epoch.Add(time.Duration(now)), "", n)
				now += int64(d)
				l.Take(epoch.Add(time.Duration(now)), "", n)
				log = append(log, taken{now, n, n, false})
				if pauses > 0 && r.IntN(7) == 0 {
					now += r.Int64N(pauses)
				}
			}
			for _, x := range log {
				worst = max(worst, sum(log, x.at, x.at+c.window))
			}
		}
		if worst > c.most || worst < c.most*9/10 {
			t.Errorf("%s: the fullest window holds %d, want %d and no more", c.kind, worst, c.most)
		}
	}
}

// every is all limiters of the package, in a form of which all has to be true
// that the interface promises.
func every(t testing.TB) map[string]Limiter {
	all := map[string]Limiter{}
	for _, k := range kinds {
		all[k.name] = k.new(t, 0)
	}
	all["Quota"] = newQuota(t, QuotaConfig{Limit: 7, Per: 1000})
	all["Bucket"] = newBucket(t, BucketConfig{Rate: 7e6, Burst: 7})
	adaptive, err := NewAdaptive(AdaptiveConfig{Start: 7e6})
	if err != nil {
		t.Fatal(err)
	}
	all["Adaptive"] = adaptive
	c, err := NewConcurrency(ConcurrencyConfig{Limit: 7})
	if err != nil {
		t.Fatal(err)
	}
	all["Concurrency"] = c
	for name, l := range map[string]func() (Limiter, error){
		"AdaptiveConcurrency": func() (Limiter, error) { return made(NewAdaptiveConcurrency(AdaptiveConcurrencyConfig{Start: 7})) },
		"ByKey": func() (Limiter, error) {
			return made(NewByKey(ByKeyConfig{Keys: map[string]Limiter{"key": newBucket(t, BucketConfig{Rate: 7e6, Burst: 7})}, Others: newBucket(t, BucketConfig{Rate: 7e6, Burst: 7})}))
		},
		"Spread": func() (Limiter, error) { return made(NewSpread(SpreadConfig{})) },
	} {
		if all[name], err = l(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func TestLimitersStandNonsense(t *testing.T) {
	for name, l := range every(t) {
		t.Run(name, func(t *testing.T) {
			later := epoch.Add(time.Hour)
			for _, now := range []time.Time{epoch, {}, later, time.Unix(1<<40, 0), time.Unix(-1<<40, 0), time.Unix(1<<62, 0)} {
				for _, n := range []int{0, -1, math.MinInt, 1, 3, 8, math.MaxInt} {
					d := l.Wait(now, "key", n)
					if d < 0 || n < 1 && d != 0 {
						t.Errorf("Wait(%v, %d) = %v", now, n, d)
					}
					l.Take(now, "key", n)
					for _, used := range []int{0, -5, math.MaxInt, math.MinInt, 2} {
						l.Settle(now, "key", n, used)
						l.Settle(now, "other", used, n)
					}
					if c, ok := l.(Counter); ok {
						c.Available(now, "key")
						c.Drain(now, "key")
						c.SetRemaining(now, time.Time{}, "key", -1)
						c.SetRemaining(now, now, "key", math.MaxInt)
						c.SetRemaining(now, time.Unix(1<<60, 0), "key", math.MinInt)
					}
					if r, ok := l.(Releaser); ok {
						r.Release(now, "key", n)
						r.Release(now, "none", n)
					}
					if r, ok := l.(Rater); ok {
						if rate := r.Rate(now, "key"); rate < 0 || math.IsNaN(rate) {
							t.Errorf("Rate = %v", rate)
						}
					}
					l.Accepted(now, now, "key")
					l.Refused(now, now, "key")
				}
			}
		})
	}
}

// TestLimitersTellNever checks what can never be had, and that asking for it, or
// for nothing, changes nothing.
func TestLimitersTellNever(t *testing.T) {
	for name, l := range every(t) {
		switch name {
		case "Leaky", "Adaptive", "AdaptiveConcurrency", "Spread": // no number is too high for them, or only for now
			continue
		}
		l.Wait(epoch, "", 8)
		for _, n := range []int{8, 1000, math.MaxInt} {
			if d := l.Wait(epoch, "", n); d != Never {
				t.Errorf("%s: Wait(%d) = %v, want Never", name, n, d)
			}
		}
		l.Take(epoch, "", 0)
		l.Take(epoch, "", -3)
		if d := l.Wait(epoch, "", 7); d != 0 {
			t.Errorf("%s: Wait(7) = %v of a fresh limiter", name, d)
		}
		l.Take(epoch, "", 7)
		if d := l.Wait(epoch, "", 1); d == 0 || d == Never {
			t.Errorf("%s: Wait(1) = %v of an empty one", name, d)
		}
	}
}

// TestLimitersDoNotHeedTheWallClock sets the wall clock forward and back by an
// hour, on times that have a monotonic reading.
func TestLimitersDoNotHeedTheWallClock(t *testing.T) {
	base := time.Now()
	step := func(d time.Duration, wall int64) time.Time { return wallStep(base.Add(d), wall) }
	if x := step(time.Second, 3600); x.Sub(base) != time.Second || x.Round(0).Sub(base.Round(0)) != 3601*time.Second {
		t.Fatalf("a step of the wall clock looks different: %v, %v", x.Sub(base), x.Round(0).Sub(base.Round(0)))
	}
	stepped := every(t)
	for name, l := range every(t) {
		var now time.Duration
		for _, l := range []Limiter{l, stepped[name]} {
			if c, ok := l.(*Spread); ok { // else it has nothing to say
				c.Told(base, base, throttle.Quota{Limit: 1e6, Remaining: 1e6, Reset: base.Add(13 * time.Hour)})
			}
		}
		r := rand.New(rand.NewPCG(8, 8))
		for i := range 2000 {
			wall := []int64{0, 3600, -3600}[i/100%3]
			n := 1 + r.IntN(3)
			d, e := l.Wait(base.Add(now), "", n), stepped[name].Wait(step(now, wall), "", n)
			if d != e {
				t.Fatalf("%s: step %d: Wait = %v, and %v with a wall clock that is off by %d s", name, i, d, e, wall)
			}
			if d == 0 {
				l.Take(base.Add(now), "", n)
				stepped[name].Take(step(now, wall), "", n)
				if c, ok := l.(Releaser); ok && i%3 > 0 {
					c.Release(base.Add(now), "", n)
					stepped[name].(Releaser).Release(step(now, wall), "", n)
				}
			}
			now += time.Duration(r.Int64N(300))
			if i%50 == 0 {
				now += 20 * time.Minute
			}
		}
	}
}

func TestThrottleDoesNotHeedTheWallClock(t *testing.T) {
	base := time.Now()
	is, err := NewThrottle(ThrottleConfig{Window: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	stepped, _ := NewThrottle(ThrottleConfig{Window: time.Minute})
	r := rand.New(rand.NewPCG(8, 9))
	for i := range 2000 {
		now := base.Add(time.Duration(i) * 100 * time.Millisecond)
		off := wallStep(now, []int64{0, 3600, -3600}[i/100%3])
		x := r.Float64()
		if a, b := is.Admit(now, x), stepped.Admit(off, x); a != b {
			t.Fatalf("step %d: %v, and %v with another wall clock", i, a, b)
		} else if a && i%5 == 0 {
			is.Accepted(now)
			stepped.Accepted(off)
		}
		if a, b := is.Rejects(now), stepped.Rejects(off); a != b {
			t.Fatalf("step %d: %v are rejected, and %v with another wall clock", i, a, b)
		}
	}
}

// wallStep returns t on a wall clock that is so many seconds ahead. t has a
// monotonic reading, which stays.
func wallStep(t time.Time, seconds int64) time.Time {
	*(*uint64)(unsafe.Pointer(&t)) += uint64(seconds << 30) // above 30 bits of nanoseconds
	return t
}

func TestLimitersAllocateNothing(t *testing.T) {
	for name, l := range every(t) {
		now := epoch
		take := func() {
			if l.Wait(now, "key", 2) == 0 {
				l.Take(now, "key", 2)
				l.Settle(now, "key", 2, 1)
			}
			now = now.Add(100)
			l.Wait(now, "no such key", 1)
		}
		for range 100 {
			take() // a log grows to its size
		}
		if n := testing.AllocsPerRun(1000, take); n != 0 {
			t.Errorf("%s: %v allocations for Wait, Take and Settle on a known key", name, n)
		}
	}
}

// TestKeysAreForgotten checks that idle keys go when others come, and that no key
// in use does.
func TestKeysAreForgotten(t *testing.T) {
	held := func(l Limiter) int {
		switch l := l.(type) {
		case *FixedWindow:
			return len(l.keys.index)
		case *SlidingLog:
			return len(l.keys.index)
		case *SlidingCounter:
			return len(l.keys.index)
		case *Approx:
			return len(l.keys.index)
		case *Calendar:
			return len(l.keys.index)
		case *Leaky:
			return len(l.keys.index)
		}
		t.Fatalf("%T", l)
		return 0
	}
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			l := k.new(t, 1000)
			now, refused := epoch, 0
			for i := range effort.Times(10_000) {
				key := strconv.Itoa(i)
				d := l.Wait(now, key, 3)
				if d > 0 {
					refused++
					now = now.Add(d)
				}
				l.Take(now, key, 3)
				if l.Wait(now, key, 5) == 0 && k.limit > 0 {
					t.Fatalf("key %d: a key in use was forgotten", i)
				}
				now = now.Add(time.Duration(k.scale / 2000))
			}
			if n := held(l); n > 1000 {
				t.Errorf("%d keys, want at most 1000", n)
			}
			if refused == 0 && k.name != "Leaky" {
				t.Error("the bound of 1,000 keys was never met")
			}
			now = now.Add(time.Duration(10 * k.scale))
			for i := range 1000 {
				l.Take(now, fmt.Sprint("new", i%10), 1)
				l.Take(now, fmt.Sprint("more", i), 1)
				now = now.Add(time.Duration(3 * k.scale))
			}
			if n := held(l); n > 20 {
				t.Errorf("%d keys are kept while no more than 2 are in use", n)
			}
		})
	}
}

// TestForgottenKeysDoNotConcernOthers forgets a key while calls of it run. What other
// keys give back counts in full, then and ever after; of its own, when it returns, only
// once those calls are settled.
func TestForgottenKeysDoNotConcernOthers(t *testing.T) {
	all := append(slices.Clone(kinds), kind{name: "Bucket", limit: 7, scale: 1000, make: func(keys int) (Limiter, error) {
		return made(NewBucket(BucketConfig{Rate: 7e6, Burst: 7, MaxKeys: keys}))
	}})
	for _, k := range all {
		l, ok := k.new(t, 0).(Counter)
		if !ok {
			continue
		}
		left := func(now time.Time, key string) int { // after calls that were not made
			for range 7 {
				l.Take(now, key, 1)
			}
			for range 7 {
				l.Settle(now, key, 1, 0)
			}
			return l.Available(now, key)
		}
		now := epoch
		forget := func() {
			now = now.Add(time.Duration(10 * k.scale))
			l.Take(now, "other", 1)
			l.Settle(now, "other", 1, 1)
		}
		l.Take(now, "ann", 7)
		forget()
		if got := left(now, "new"); got != 7 {
			t.Errorf("%s: a new key has %d, want 7", k.name, got)
		}
		if got := left(now, "ann"); got != 0 {
			t.Errorf("%s: the key that returns has %d, want 0: it may be the old calls that cost nothing", k.name, got)
		}
		forget()
		l.Settle(now, "ann", 7, 7)
		for _, key := range []string{"ann", "newer"} {
			if got := left(now, key); got != 7 {
				t.Errorf("%s: once all is settled, %s has %d, want 7", k.name, key, got)
			}
		}
	}
}

// MaxKeys bounds those that are remembered, too.
func TestNoMoreForgottenKeysAreRememberedThanMayBeInUse(t *testing.T) {
	l := newBucket(t, BucketConfig{Rate: 1, Burst: 1, MaxKeys: 4})
	now := epoch
	for i := range 100 {
		l.Take(now, fmt.Sprint(i), 1) // and it is never settled
		now = now.Add(time.Minute)
	}
	if n := len(l.keys.gone); n > 4 {
		t.Errorf("%d forgotten keys are remembered, of 4 that may be in use", n)
	}
}

// TestForgottenKeysCostBoundedMemory never settles.
func TestForgottenKeysCostBoundedMemory(t *testing.T) {
	l := newBucket(t, BucketConfig{Rate: 1, Burst: 3})
	now := epoch
	for i := range 5000 {
		l.Take(now, fmt.Sprint(i), 1+i%3)
		now = now.Add(time.Minute)
	}
	if n := len(l.keys.gone); n != mostGone {
		t.Errorf("%d forgotten keys are remembered, want %d", n, mostGone)
	}
	// What did not fit may be any key's. One that is new has the rest.
	l.Take(now, "new", 3)
	if l.Settle(now, "new", 3, 0); l.Available(now, "new") != 0 {
		t.Errorf("%d given back that 3 others may have had", l.Available(now, "new"))
	}
	for i := range 1000 { // and its own is not noted again
		l.Settle(now, fmt.Sprint(i), 3, 3)
	}
	noted := len(l.keys.gone)
	for i := range 1000 {
		l.Take(now, fmt.Sprint("new", i), 1)
		l.Settle(now, fmt.Sprint("new", i), 1, 1)
		now = now.Add(time.Minute)
	}
	if n := len(l.keys.gone); n > noted {
		t.Errorf("%d are remembered after keys that were settled, %d before", n, noted)
	}
}

// TestRefundMakesRoom gives everything back at once: the key is as if it had never
// been, and another has its place.
func TestRefundMakesRoom(t *testing.T) {
	for _, k := range kinds {
		l := k.new(t, 1)
		l.Take(epoch, "a", 5)
		l.Settle(epoch, "a", 5, 5)
		l.Take(epoch, "a", 2)
		room := l.Wait(epoch, "b", 1)
		l.Settle(epoch, "a", 2, 0)
		if d := l.Wait(epoch, "b", 1); room == 0 || d > room {
			t.Errorf("%s: room in %v, and in %v after a refund", k.name, room, d)
		}
		l = k.new(t, 1)
		l.Take(epoch, "a", 5)
		if d := l.Wait(epoch, "b", 1); d == 0 {
			t.Errorf("%s: room for two keys", k.name)
		}
		l.Settle(epoch, "a", 5, 0)
		if d := l.Wait(epoch, "b", 1); (d == 0) != (k.name != "FixedWindow") { // which waits for the next one
			t.Errorf("%s: room in %v after a full refund", k.name, d)
		}
	}
}

// TestRefundOfAll gives back what was taken at several times.
func TestRefundOfAll(t *testing.T) {
	for _, k := range kinds {
		l, ok := k.new(t, 0).(Counter)
		if !ok {
			continue
		}
		l.Wait(epoch, "", 1)
		now := epoch
		for _, n := range []int{2, 1, 3} {
			now = now.Add(time.Duration(k.scale / 4))
			l.Take(now, "", n)
		}
		for i, n := range []int{3, 2, 1} {
			l.Settle(now, "", n, 0)
			if got, want := l.Available(now, ""), []int{4, 6, 7}[i]; got != want {
				t.Errorf("%s: %d available after settlement %d, want %d", k.name, got, i, want)
			}
		}
		l.Take(now, "", 4)
		for range 8 {
			now = now.Add(time.Duration(k.scale / 4))
			if got := l.Available(now, ""); got != 3 && got != 7 && k.name != "Approx" {
				t.Errorf("%s: %d available after %v, want 3 and then 7", k.name, got, now.Sub(epoch))
			}
		}
		if got := l.Available(now, ""); got != 7 {
			t.Errorf("%s: %d available in the end", k.name, got)
		}
	}
}

func TestGivebackOfWindows(t *testing.T) {
	var u giveback
	u.take(5)
	u.pass(7)
	u.take(5)
	for i, want := range []uint64{0, 5, 0} {
		if got := u.settle(5, 5); got != want {
			t.Errorf("settlement %d gives %d back, want %d", i, got, want)
		}
	}
	u.take(3)
	if got := u.settle(9, 9); got != 3 {
		t.Errorf("%d given back of 3", got)
	}
	u.take(most)
	u.take(most)
	if got := u.settle(most, most); got != 0 {
		t.Errorf("%d given back of more than can be counted", got)
	}
}

// TestAllOrNone asks two limits as an owner does.
func TestAllOrNone(t *testing.T) {
	for _, k := range kinds {
		a, b := k.new(t, 0), newBucket(t, BucketConfig{Rate: 1e9 / float64(10*k.scale), Burst: 1})
		now, took := epoch, 0
		for now.Before(epoch.Add(time.Duration(100 * k.scale))) {
			if d := max(a.Wait(now, "", 1), b.Wait(now, "", 1)); d > 0 {
				now = now.Add(d)
				continue
			}
			a.Take(now, "", 1)
			b.Take(now, "", 1)
			took++
		}
		if took != 10 {
			t.Errorf("%s and a bucket: %d, want 10", k.name, took)
		}
	}
}

// Nor is what was settled remembered for ever.
func TestForgottenKeysThatAreSettledAreForgotten(t *testing.T) {
	b := newBucket(t, BucketConfig{Rate: 10, Burst: 10})
	now := epoch
	for i := range mostGone + 3 { // long calls of as many keys
		b.Take(now, fmt.Sprint("crowd", i), 1)
		now = now.Add(time.Second)
	}
	for i := range mostGone + 3 {
		b.Settle(now, fmt.Sprint("crowd", i), 1, 1)
	}
	t.Logf("all settled: %d in gone, lost %d", len(b.keys.gone), b.keys.lost)
	for i := range mostGone + 50 { // one call at a time that takes 3 s, each of another key
		key := fmt.Sprint("later", i)
		b.Take(now, key, 1)
		now = now.Add(2 * time.Second)
		b.Take(now, "busy", 1)
		b.Settle(now, "busy", 1, 1)
		now = now.Add(time.Second)
		b.Settle(now, key, 1, 1)
	}
	t.Logf("all settled: %d in gone, lost %d", len(b.keys.gone), b.keys.lost)
	now = now.Add(time.Minute)
	for range 7 {
		b.Take(now, "new", 1)
	}
	for range 7 {
		b.Settle(now, "new", 1, 0)
	}
	if n := b.Available(now, "new"); n < 8 {
		t.Errorf("7 calls that were not made cost %d permits", 10-n)
	}
	if n := len(b.keys.gone); n > 10 {
		t.Errorf("%d keys are remembered, though no call is open", n)
	}
}

// A take that found no room is settled, too: not in place of one that was kept.
func TestTakeWithoutRoomIsSettledForItself(t *testing.T) {
	l, err := NewSlidingLog(SlidingLogConfig{Limit: 5, Window: time.Second, MaxKeys: 1})
	if err != nil {
		t.Fatal(err)
	}
	now := epoch
	l.Take(now, "ann", 5) // long calls
	now = now.Add(2 * time.Second)
	l.Take(now, "bob", 1) // ann is forgotten
	l.Take(now, "ann", 5) // there is no room: of this nothing is kept
	l.Settle(now, "ann", 5, 5)
	now = now.Add(2 * time.Second)
	l.Take(now, "ann", 5)
	l.Settle(now, "ann", 5, 0) // the long ones
	if n := l.Available(now, "ann"); n > 0 {
		t.Errorf("%d available while 5 are in the window", n)
	}
}
