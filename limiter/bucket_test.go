package limiter

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
)

var epoch = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)

func newBucket(t testing.TB, cfg BucketConfig) *Bucket {
	t.Helper()
	b, err := NewBucket(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// takes is the slow exact model of one key: a log of all takes.
type takes struct {
	rate  float64 // permits per second
	burst int
	log   []taken
}

type taken struct {
	at         int64
	n, cost    int
	settleable bool
}

func newTakes(rate float64, burst int) *takes { return &takes{rate: rate, burst: burst} }

// admits reports whether n more permits at now keep every window that ends now
// within burst + rate*length.
func (m *takes) admits(now int64, n int) bool {
	sum := n
	if sum > m.burst {
		return false
	}
	for i := len(m.log) - 1; i >= 0; i-- {
		sum += m.log[i].cost
		if !m.come(sum-m.burst, now-m.log[i].at) {
			return false
		}
	}
	return true
}

// come reports whether n permits come in so many nanoseconds. Fractions are slow, and
// used only where the rounding of a float64 might decide.
func (m *takes) come(n int, ns int64) bool {
	if room := m.rate * float64(ns) / 1e9; math.Abs(room-float64(n)) > 1e-9*room {
		return float64(n) <= room
	}
	room := new(big.Rat).SetFloat64(m.rate)
	room.Mul(room, big.NewRat(ns, 1e9))
	return new(big.Rat).SetInt64(int64(n)).Cmp(room) <= 0
}

func (m *takes) take(now int64, n int) {
	m.log = append(m.log, taken{now, n, n, true})
}

func TestBucketIsTheLogOfAllTakes(t *testing.T) {
	for seed := range uint64(effort.Times(6)) {
		r := rand.New(rand.NewPCG(seed, 1))
		rate := math.Exp(r.Float64()*24 - 6) // 2.5e-3 to 6.6e7
		burst := 1 + r.IntN(8)
		b := newBucket(t, BucketConfig{Rate: rate, Burst: burst})
		m := newTakes(rate, burst)
		interval := 1e9 / rate
		var now int64
		for range 150 {
			at := epoch.Add(time.Duration(now))
			n := 1 + r.IntN(burst)
			d := b.Wait(at, "", n)
			if got, want := d == 0, m.admits(now, n); got != want {
				t.Fatalf("seed %d rate %v burst %d at %d: Wait(%d) = %v, the log admits: %v", seed, rate, burst, now, n, d, want)
			}
			if d > 0 {
				if m.admits(now+int64(d)-1, n) || !m.admits(now+int64(d), n) {
					t.Fatalf("seed %d rate %v burst %d at %d: Wait(%d) = %d ns is not the nanosecond", seed, rate, burst, now, n, d)
				}
				if r.IntN(2) == 0 {
					now += int64(d)
					at, d = epoch.Add(time.Duration(now)), 0
				}
			}
			if d == 0 {
				b.Take(at, "", n)
				m.take(now, n)
			}
			if r.IntN(3) == 0 {
				now += int64(r.ExpFloat64() * interval * 2)
			}
		}
	}
}

// TestBucketGivesNothingBackTwice settles random takes at random times, up and
// down, and asks the log after each whether what the bucket admits was right.
func TestBucketGivesNothingBackTwice(t *testing.T) {
	gave, could := 0, 0
	for seed := range uint64(effort.Times(20)) {
		r := rand.New(rand.NewPCG(seed, 2))
		rate := math.Exp(r.Float64()*16 - 4)
		burst := 1 + r.IntN(12)
		b := newBucket(t, BucketConfig{Rate: rate, Burst: burst})
		m := newTakes(rate, burst)
		interval := 1e9 / rate
		idle := r.Float64() * 6
		all := r.IntN(2) == 0 // settles every take sooner or later
		var now int64
		for step := range 120 {
			at := epoch.Add(time.Duration(now))
			switch n := 1 + r.IntN(burst); r.IntN(4) {
			case 0, 1:
				for b.Wait(at, "", n) == 0 { // as much as there is
					if !m.admits(now, n) {
						t.Fatalf("seed %d step %d: rate %v burst %d: admits %d at %d, the log does not: %+v", seed, step, rate, burst, n, now, m.log)
					}
					b.Take(at, "", n)
					m.take(now, n)
					if r.IntN(3) == 0 {
						break
					}
				}
			case 2:
				var open []int
				for i := range m.log {
					if m.log[i].settleable {
						open = append(open, i)
					}
				}
				if len(open) == 0 {
					break
				}
				x := &m.log[open[r.IntN(len(open))]]
				if all && r.IntN(2) == 0 {
					x = &m.log[open[0]]
				}
				used := r.IntN(x.n + 1)
				if r.IntN(8) == 0 {
					used = x.n + r.IntN(3)
				}
				b.Settle(at, "", x.n, used)
				x.settleable = false
				x.cost = min(used, x.n)
				if used > x.n {
					m.log = append(m.log, taken{now, used - x.n, used - x.n, false})
				}
				for k := 1; k <= burst && m.admits(now, k); k++ {
					could++
					if b.Wait(at, "", k) == 0 {
						gave++
					}
				}
			default:
				now += int64(r.ExpFloat64() * interval * idle)
			}
		}
	}
	t.Logf("of %d permits that the log would admit after a settlement, the bucket admits %d", could, gave)
	if gave*10 < could*7 {
		t.Errorf("of %d permits that the log would admit after a settlement, the bucket admits only %d", could, gave)
	}
}

func TestBucketSettle(t *testing.T) {
	at := func(ms int) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }
	have := func(b *Bucket, ms int) (n int) {
		for n < int(b.burst) && b.Wait(at(ms), "", n+1) == 0 {
			n++
		}
		return n
	}
	config := BucketConfig{Rate: 10, Burst: 10} // a permit is 100 ms
	t.Run("one take is corrected exactly", func(t *testing.T) {
		for _, ms := range []int{0, 100, 450, 500, 990, 1500} {
			for used := range 11 {
				b := newBucket(t, config)
				b.Take(at(0), "", 10)
				b.Settle(at(ms), "", 10, used)
				if got, want := have(b, ms), min(10, 10-used+ms/100); got != want {
					// A part of a permit that is missing may cost a whole one.
					if got != want-1 || ms%100 == 0 {
						t.Errorf("10 taken, %d used, after %d ms: %d permits, want %d", used, ms, got, want)
					}
				}
			}
		}
	})
	t.Run("what has come back by itself is not given back", func(t *testing.T) {
		b := newBucket(t, config)
		b.Take(at(0), "", 5)
		b.Take(at(1000), "", 5) // the first 5 are back since 500
		b.Settle(at(1000), "", 5, 0)
		if got := have(b, 1000); got != 5 {
			t.Errorf("%d permits, want 5: the settled take may be the one at 0", got)
		}
		b.Settle(at(1000), "", 5, 2) // the other one: 3 more, wherever the 5 belonged
		if got := have(b, 1000); got != 8 {
			t.Errorf("%d permits, want 8", got)
		}
	})
	t.Run("all of it at once, in a saturated bucket", func(t *testing.T) {
		b := newBucket(t, config)
		for range 5 {
			b.Take(at(0), "", 2)
		}
		for i := range 5 {
			b.Settle(at(0), "", 2, 1)
			if got := have(b, 0); got != i+1 {
				t.Fatalf("%d permits, want %d", got, i+1)
			}
		}
	})
	t.Run("debt", func(t *testing.T) {
		b := newBucket(t, config)
		b.Take(at(0), "", 1)
		b.Settle(at(0), "", 1, 21)
		if got := b.Wait(at(0), "", 1); got != 1200*time.Millisecond {
			t.Errorf("Wait = %v, want 1.2s", got)
		}
		b.Settle(at(0), "other", 0, 12)
		if got := b.Wait(at(0), "other", 1); got != 300*time.Millisecond {
			t.Errorf("Wait = %v for a key that had only debt, want 300ms", got)
		}
		b.Settle(at(0), "", 0, math.MaxInt)
		b.Settle(at(0), "", 0, math.MaxInt)
		if got := b.Wait(at(0), "", 1); got <= 0 || got >= Never {
			t.Errorf("Wait = %v in endless debt", got)
		}
	})
	t.Run("nonsense", func(t *testing.T) {
		b := newBucket(t, config)
		b.Settle(at(0), "", 5, 0)
		b.Settle(at(0), "", -5, -7)
		b.Take(at(0), "", 10)
		b.Settle(at(0), "", math.MaxInt, 0)
		b.Settle(at(0), "", math.MaxInt, 0)
		if got := have(b, 0); got != 10 {
			t.Errorf("%d permits, want 10", got)
		}
	})
	t.Run("of a forgotten key", func(t *testing.T) {
		b := newBucket(t, BucketConfig{Rate: 10, Burst: 10, MaxKeys: 1})
		b.Take(at(0), "a", 10)
		b.Take(at(1000), "b", 1) // a is forgotten
		b.Take(at(1100), "a", 10)
		b.Settle(at(1100), "a", 10, 0) // the take at 0
		if got := b.Wait(at(1100), "a", 1); got == 0 {
			t.Error("the take at 0 is given back, which had come back by itself")
		}
	})
}

func TestBucketWait(t *testing.T) {
	b := newBucket(t, BucketConfig{Rate: 4, Burst: 2})
	for i, c := range []struct {
		ms, n int
		want  time.Duration
		take  bool
	}{
		{0, 3, Never, false},
		{0, 2, 0, false},
		{0, 2, 0, true},
		{0, 1, 250 * time.Millisecond, false},
		{0, 2, 500 * time.Millisecond, false},
		{249, 1, time.Millisecond, false},
		{250, 1, 0, true},
		{250, 1, 250 * time.Millisecond, false},
		{100, 1, 250 * time.Millisecond, false}, // the clock went back: still 250
		{10_000, 2, 0, true},                    // full, and no fuller
		{10_000, 1, 250 * time.Millisecond, false},
		{10_000, 0, 0, true},
		{10_000, -1, 0, true},
	} {
		now := epoch.Add(time.Duration(c.ms) * time.Millisecond)
		if got := b.Wait(now, "k", c.n); got != c.want {
			t.Errorf("step %d: Wait(%d ms, %d) = %v, want %v", i, c.ms, c.n, got, c.want)
		}
		if c.take {
			b.Take(now, "k", c.n)
		}
	}
	if got := b.Wait(epoch, "another", 2); got != 0 {
		t.Errorf("Wait of an untouched key = %v", got)
	}
	if got := b.Rate(epoch, "k"); got != 4 {
		t.Errorf("Rate = %v", got)
	}
}

// TestBucketRates checks that a waiter that is always there gets the whole rate,
// at the ends of its range.
func TestBucketRates(t *testing.T) {
	for _, c := range []struct {
		rate  float64
		burst int
		n     int
	}{
		{1e9, 0, 1}, {1e9, 0, 1e8}, {3e8, 4, 1}, {0.7e9, 16, 3}, {333, 1, 1}, {1, 0, 1}, {1.0 / 60, 3, 2}, {1.0 / 86400, 0, 1},
		{1 / (30 * 86400.0), 0, 1}, {1 / (30 * 86400.0), 10, 7},
	} {
		b := newBucket(t, BucketConfig{Rate: c.rate, Burst: c.burst})
		now, took := epoch, -int(b.burst) // what was there at the start is extra
		for range 200 {
			now = now.Add(b.Wait(now, "", c.n))
			b.Take(now, "", c.n)
			took += c.n
		}
		if now.Equal(epoch) {
			continue // all from the burst
		}
		got := float64(took) / now.Sub(epoch).Seconds()
		if got > c.rate*(1+1e-12) || got < c.rate*0.99 && took > 0 {
			t.Errorf("rate %v burst %d n %d: got %v in %v", c.rate, c.burst, c.n, got, now.Sub(epoch))
		}
	}
}

func TestBucketKeysAreBounded(t *testing.T) {
	b := newBucket(t, BucketConfig{Rate: 1000, Burst: 1, MaxKeys: 1000})
	now := epoch
	refused := 0
	for i := range effort.Times(50_000) {
		key := strconv.Itoa(i)
		d := b.Wait(now, key, 1)
		if d > 0 {
			refused++
			if d > time.Millisecond {
				t.Fatalf("key %d: Wait = %v, but each bucket is full within 1ms", i, d)
			}
			now = now.Add(d)
		}
		b.Take(now, key, 1)
		if b.Wait(now, key, 1) == 0 {
			t.Fatalf("key %d: a live key was forgotten", i)
		}
		now = now.Add(500 * time.Nanosecond)
	}
	if n, m := len(b.keys.index), len(b.keys.heap); n > 1000 || m > 1000 {
		t.Errorf("%d keys, %d entries, want at most 1000", n, m)
	}
	if refused == 0 {
		t.Error("2,000 keys per millisecond never met the bound of 1,000")
	}
}

func TestBucketWithoutRoom(t *testing.T) {
	b := newBucket(t, BucketConfig{Rate: 1, Burst: 2, MaxKeys: 2})
	b.Take(epoch, "a", 2)
	b.Take(epoch, "b", 1)
	if got := b.Wait(epoch, "c", 1); got != time.Second {
		t.Errorf("Wait = %v, want 1s: b is full then", got)
	}
	b.Take(epoch, "c", 1) // not allowed, and not kept
	b.Settle(epoch, "c", 1, 5)
	b.Take(epoch, "b", 1)
	if got := b.Wait(epoch, "c", 1); got != 2*time.Second {
		t.Errorf("Wait = %v, want 2s: b lives on", got)
	}
	b.Settle(epoch, "a", 2, 0)
	if got := b.Wait(epoch, "c", 1); got != 0 {
		t.Errorf("Wait = %v, want 0: a is full again", got)
	}
	b.Take(epoch, "c", 1)
	if len(b.keys.index) != 2 || b.keys.index["a"] != nil {
		t.Errorf("keys: %v", b.keys.index)
	}
}

// TestBucketHeap compares the time until there is room with a look at all keys.
func TestBucketHeap(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	b := newBucket(t, BucketConfig{Rate: 100, Burst: 50, MaxKeys: 20})
	now := epoch
	for range effort.Times(4000) {
		key := fmt.Sprint(r.IntN(40))
		n := 1 + r.IntN(9)
		first := uint64(math.MaxUint64)
		for i := range b.keys.heap {
			first = min(first, b.keys.heap[i].state.ceil())
		}
		d := b.Wait(now, key, n)
		if b.keys.index[key] == nil && len(b.keys.heap) == 20 {
			if want := int64(first) - int64(b.now); int64(d) != max(0, want) {
				t.Fatalf("Wait = %v, the first of all keys is full in %v", d, time.Duration(want))
			}
		}
		if d == 0 {
			b.Take(now, key, n)
		}
		if r.IntN(3) == 0 {
			b.Settle(now, fmt.Sprint(r.IntN(40)), 1+r.IntN(5), r.IntN(5))
		}
		now = now.Add(time.Duration(r.IntN(3e7)))
	}
}

func TestBucketConfig(t *testing.T) {
	for _, c := range []struct {
		cfg  BucketConfig
		want string // of the error; "" is none
	}{
		{BucketConfig{}, "Rate is 0"},
		{BucketConfig{Rate: -1}, "Rate is -1"},
		{BucketConfig{Rate: math.NaN()}, "Rate is NaN"},
		{BucketConfig{Rate: math.Inf(1)}, "Rate is +Inf"},
		{BucketConfig{Rate: 1.1e9}, "Rate is 1.1e+09"},
		{BucketConfig{Rate: 1e-300}, "Rate is 1e-300"},
		{BucketConfig{Rate: 1, Burst: -1}, "Burst is -1"},
		{BucketConfig{Rate: 1, Burst: 1 << 60}, "Burst is 1152921504606846976"},
		{BucketConfig{Rate: 1e9, Burst: math.MaxInt}, "Burst is"},
		{BucketConfig{Rate: 1, MaxKeys: -1}, "MaxKeys is -1"},
		{BucketConfig{Rate: 1, MaxKeys: 1 << 40}, "MaxKeys is"},
		{BucketConfig{Rate: 1e9}, ""},
		{BucketConfig{Rate: 1.0000001 / century.Seconds()}, ""},
	} {
		b, err := NewBucket(c.cfg)
		if c.want == "" {
			if err != nil {
				t.Errorf("%+v: %v", c.cfg, err)
			}
		} else if b != nil || err == nil || !strings.Contains(err.Error(), "BucketConfig."+c.want) {
			t.Errorf("%+v: error %v, want %q", c.cfg, err, c.want)
		}
	}
	for rate, want := range map[float64]uint64{0.1: 1, 1: 1, 2.5: 3, 1e9: 1e9} {
		if b := newBucket(t, BucketConfig{Rate: rate}); b.burst != want {
			t.Errorf("Rate %v: Burst %d, want %d", rate, b.burst, want)
		}
	}
}

func TestBucketAllocatesNothing(t *testing.T) {
	b := newBucket(t, BucketConfig{Rate: 1e6, Burst: 1e6})
	now := epoch
	b.Take(now, "key", 1)
	if n := testing.AllocsPerRun(1000, func() {
		now = now.Add(time.Microsecond)
		if b.Wait(now, "key", 2) == 0 {
			b.Take(now, "key", 2)
			b.Settle(now, "key", 2, 1)
		}
	}); n != 0 {
		t.Errorf("%v allocations for Wait, Take and Settle on a known key", n)
	}
}

func TestSpan(t *testing.T) {
	big128 := func(s span) *big.Int {
		x := new(big.Int).SetUint64(s.ns)
		return x.Lsh(x, 64).Add(x, new(big.Int).SetUint64(s.frac))
	}
	r := rand.New(rand.NewPCG(4, 4))
	random := func() span {
		return span{r.Uint64() >> r.IntN(64), r.Uint64() << r.IntN(64)}
	}
	for range effort.Times(2000) {
		s, u := random(), random()
		for _, p := range []struct{ got, want *big.Int }{
			{big128(s.add(u)), new(big.Int).Add(big128(s), big128(u))},
			{big128(s.sub(u)), new(big.Int).Sub(big128(s), big128(u))},
			{big128(s.times(u.ns)), new(big.Int).Mul(big128(s), new(big.Int).SetUint64(u.ns))},
		} {
			limit := big128(span{math.MaxUint64, math.MaxUint64})
			if p.want.Cmp(limit) > 0 {
				p.want = limit
			}
			if p.want.Sign() < 0 {
				p.want = new(big.Int)
			}
			if p.got.Cmp(p.want) != 0 {
				t.Fatalf("%v %v: %v, want %v", s, u, p.got, p.want)
			}
		}
		if u.ns|u.frac == 0 {
			continue
		}
		if want := new(big.Int).Quo(big128(s), big128(u)); want.BitLen() < 63 {
			if got := s.over(u); got != want.Uint64() {
				t.Fatalf("%v over %v: %d, want %v", s, u, got, want)
			}
		}
	}
	for _, rate := range []float64{1e9, 3, 7, 0.1, 1e-9, 123456.789} {
		i := big128(perPermit(rate))
		exact := new(big.Rat).Quo(big.NewRat(1e9, 1), new(big.Rat).SetFloat64(rate))
		exact.Mul(exact, new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), 64)))
		above := new(big.Rat).Sub(new(big.Rat).SetInt(i), exact)
		if above.Sign() < 0 || above.Cmp(big.NewRat(1, 1)) >= 0 {
			t.Errorf("interval of %v is off by %v units", rate, above)
		}
	}
}

func FuzzBucketConfig(f *testing.F) {
	f.Add(1.0, 0, 0)
	f.Add(1e9, 1<<40, 3)
	f.Add(math.NaN(), -1, -1)
	f.Fuzz(func(t *testing.T, rate float64, burst, keys int) {
		b, err := NewBucket(BucketConfig{Rate: rate, Burst: burst, MaxKeys: keys})
		if err != nil {
			if b != nil || !strings.HasPrefix(err.Error(), "limiter: BucketConfig.") {
				t.Fatalf("%v, %v", b, err)
			}
			return
		}
		if d := b.Wait(epoch, "", int(b.burst)); d != 0 {
			t.Fatalf("a new bucket is not full: %v", d)
		}
		b.Take(epoch, "", int(b.burst))
		d := b.Wait(epoch, "", 1)
		if d <= 0 || d == Never {
			t.Fatalf("an empty bucket admits in %v", d)
		}
		if b.Wait(epoch.Add(d-1), "", 1) == 0 || b.Wait(epoch.Add(d), "", 1) != 0 {
			t.Fatalf("not in %v", d)
		}
	})
}

// FuzzBucket runs any sequence of operations on two keys against the log.
func FuzzBucket(f *testing.F) {
	f.Add(10.0, uint8(5), []byte{0, 1, 2, 3, 4, 5, 6, 7, 128, 9, 200, 11, 12, 13})
	f.Fuzz(func(t *testing.T, rate float64, burst uint8, ops []byte) {
		b, err := NewBucket(BucketConfig{Rate: rate, Burst: int(burst), MaxKeys: 2})
		if err != nil || rate < 1e-3 {
			t.Skip()
		}
		ops = ops[:min(len(ops), 300)]
		keys := [2]string{"a", "b"}
		models := [2]*takes{newTakes(rate, int(b.burst)), newTakes(rate, int(b.burst))}
		var now int64
		for len(ops) >= 2 {
			op, arg := ops[0], int(ops[1])
			ops = ops[2:]
			at := epoch.Add(time.Duration(now))
			k := int(op >> 2 & 1)
			key, m := keys[k], models[k]
			switch op & 3 {
			case 0:
				n := 1 + arg%16
				if b.Wait(at, key, n) == 0 {
					if !m.admits(now, n) {
						t.Fatalf("rate %v burst %d: %d admitted at %d: %+v", rate, b.burst, n, now, m.log)
					}
					b.Take(at, key, n)
					m.take(now, n)
				}
			case 1:
				if len(m.log) == 0 {
					break
				}
				x := &m.log[arg%len(m.log)]
				if x.settleable {
					used := int(op>>3) % (x.n + 1)
					x.settleable, x.cost = false, used
					b.Settle(at, key, x.n, used)
				}
			case 2:
				now += int64(float64(arg) / 16 * 1e9 / rate)
			case 3:
				if d := b.Wait(at, key, 1+arg%16); d != Never {
					if n := 1 + arg%16; d > 0 && b.Wait(at.Add(d), key, n) != 0 {
						t.Fatalf("Wait(%d) = %v, but not then", n, d)
					}
					now = max(now, now+int64(d))
				}
			}
		}
	})
}
