package limiter

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
)

var _ Counter = (*Bucket)(nil)

func TestBucketBelievesTheVendor(t *testing.T) {
	b := newBucket(t, BucketConfig{Rate: 2, Burst: 10, MaxKeys: 2})
	at := func(s float64) time.Time { return epoch.Add(time.Duration(s * 1e9)) }
	check := func(s float64, want int) {
		t.Helper()
		if got := b.Available(at(s), "k"); got != want {
			t.Errorf("at %v s: %d available, want %d", s, got, want)
		}
	}
	check(0, 10)
	b.SetRemaining(at(0), at(0), "k", 11)
	check(0, 10) // nothing is ever given
	b.SetRemaining(at(0), at(0), "k", 4)
	b.SetRemaining(at(0), at(0), "k", 6) // from an earlier answer
	check(0, 4)
	check(0.499999999, 4)
	check(0.5, 5)
	b.Take(at(0.5), "k", 3)
	b.SetRemaining(at(0.5), at(0), "k", 1)
	b.Settle(at(0.5), "k", 3, 0) // the vendor may have known
	check(0.5, 1)
	b.Drain(at(1), "k")
	b.Drain(at(1), "k")
	check(1, 0)
	if d := b.Wait(at(1), "k", 2); d != time.Second {
		t.Errorf("Wait = %v after Drain", d)
	}
	check(6, 10)
	b.SetRemaining(at(6), at(0.99), "k", 0) // about a bucket that is full again since
	check(6, 10)
	b.SetRemaining(at(6), at(1), "k", 7)
	check(6, 7)
	b.Settle(at(6), "k", 0, 9)
	check(6, -2)
	b.Settle(at(6), "k", 0, math.MaxInt)
	if got := b.Available(at(6), "k"); got > -1e9 {
		t.Errorf("%d available in endless debt", got)
	}
	fast := newBucket(t, BucketConfig{Rate: 1e9, Burst: 10})
	for range 3 {
		fast.Settle(at(0), "", 0, math.MaxInt)
	}
	if got := fast.Available(at(0), ""); got > -1<<61 {
		t.Errorf("%d available in endless debt", got)
	}
	b.Take(at(6), "other", 1)
	b.Drain(at(6), "third") // no room: nothing happens
	if got := b.Available(at(6), "third"); got != 10 {
		t.Errorf("%d available without room", got)
	}
}

func TestBucketChangesItsLimits(t *testing.T) {
	b := newBucket(t, BucketConfig{Rate: 10, Burst: 10})
	at := func(ms int) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }
	check := func(ms, want int) {
		t.Helper()
		if got := b.Available(at(ms), "k"); got != want {
			t.Errorf("at %d ms: %d available, want %d", ms, got, want)
		}
	}
	b.Take(at(0), "k", 10)
	for _, err := range []error{b.SetRate(at(50), 1), b.SetRate(at(60), 0.1)} { // half a permit has come back, and 0.01
		if err != nil {
			t.Fatal(err)
		}
	}
	check(60, 0)
	check(4959, 0)
	check(4961, 1)
	check(10_060, 1)
	b.SetRemaining(at(10_060), at(10_060), "k", 1)
	if err := b.SetRate(at(10_060), 100); err != nil || b.Rate(at(10_060), "k") != 100 {
		t.Errorf("%v, Rate = %v", err, b.Rate(at(10_060), "k"))
	}
	check(10_070, 2)
	if err := b.SetLimit(at(10_070), 20); err != nil {
		t.Fatal(err)
	}
	check(10_070, 2)
	if d := b.Wait(at(10_070), "other", 20); d != 100*time.Millisecond {
		t.Errorf("a key never seen waits %v for the 10 permits that are new, want 100ms", d)
	}
	b.Take(at(10_070), "k", 2)
	if err := b.SetLimit(at(10_070), 5); err != nil {
		t.Fatal(err)
	}
	check(10_070, -5) // as without the raise
	if d := b.Wait(at(10_070), "k", 6); d != Never {
		t.Errorf("6 of a bucket of 5 in %v", d)
	}
	check(10_270, 5)
	one := newBucket(t, BucketConfig{Rate: 1, Burst: 100, MaxKeys: 1})
	one.Take(at(0), "a", 100)
	if d := one.Wait(at(0), "b", 1); d != 100*time.Second {
		t.Errorf("room in %v, want 100s", d)
	}
	if err := one.SetRate(at(0), 1000); err != nil {
		t.Fatal(err)
	}
	if d := one.Wait(at(0), "b", 1); d != 100*time.Millisecond {
		t.Errorf("room in %v, want 100ms, at the new rate", d)
	}
	for _, err := range []error{b.SetLimit(epoch, 0), b.SetLimit(epoch, 1<<40+1), b.SetRate(epoch, 0), b.SetRate(epoch, math.NaN()), b.SetRate(epoch, 1/century.Seconds())} {
		if err == nil {
			t.Error("no error")
		}
	}
	slow := newBucket(t, BucketConfig{Rate: 1e-8, Burst: 1})
	if err := slow.SetLimit(epoch, 32); err == nil || slow.Wait(epoch, "", 2) != Never {
		t.Errorf("more than a century of Rate: %v", err)
	}
}

// limits is a slow model of a Bucket whose Burst changes: it counts what each key lacks
// in tenths of a permit, of which one comes back per millisecond.
type limits struct {
	burst, due int // due: of what was added and has not come back yet
	missing    [3]int
}

func (m *limits) pass(ms int) {
	m.due = max(0, m.due-ms)
	for k := range m.missing {
		m.missing[k] = max(0, m.missing[k]-ms)
	}
}

func (m *limits) set(burst int) {
	d := max(burst-m.burst, -m.due)
	m.burst, m.due = burst, m.due+d
	for k := range m.missing {
		m.missing[k] += d
	}
}

func TestBucketHasAsManyPermitsAsBeforeARaise(t *testing.T) {
	for seed := range uint64(effort.Times(15)) {
		r := rand.New(rand.NewPCG(seed, 62))
		m, now := &limits{burst: 50}, epoch
		b := newBucket(t, BucketConfig{Rate: 100, Burst: 5})
		for step := range 200 {
			k := r.IntN(len(m.missing))
			key := string(rune('a' + k))
			switch r.IntN(5) {
			case 0:
				ms := r.IntN(60)
				now = now.Add(time.Duration(ms) * time.Millisecond)
				m.pass(ms)
			case 1:
				burst := 1 + r.IntN(9)
				if err := b.SetLimit(now, burst); err != nil {
					t.Fatal(err)
				}
				m.set(10 * burst)
			default:
				n := 1 + r.IntN(9)
				want := time.Duration(max(0, m.missing[k]+10*n-m.burst)) * time.Millisecond
				if 10*n > m.burst {
					want = Never
				}
				if d := b.Wait(now, key, n); d != want {
					t.Fatalf("seed %d step %d: %d of key %s wait %v, want %v", seed, step, n, key, d, want)
				}
				if want == 0 {
					b.Take(now, key, n)
					m.missing[k] += 10 * n
				}
			}
		}
	}
}

// What a raise has added was never taken.
func TestBucketGivesBackNothingOfARaise(t *testing.T) {
	b := newBucket(t, BucketConfig{Rate: 1, Burst: 5})
	b.Take(epoch, "", 5)
	later := epoch.Add(5 * time.Second) // they have come back
	if err := b.SetLimit(later, 10); err != nil {
		t.Fatal(err)
	}
	if b.Settle(later, "", 5, 0); b.Available(later, "") != 5 {
		t.Errorf("%d available, want the 5 of before", b.Available(later, ""))
	}
}

func TestBucketComesToARaiseAtTheRateInForce(t *testing.T) {
	b := newBucket(t, BucketConfig{Rate: 1, Burst: 5})
	if err := first(b.SetLimit(epoch, 15), b.SetRate(epoch, 10)); err != nil {
		t.Fatal(err)
	}
	if d := b.Wait(epoch, "", 15); d != time.Second {
		t.Errorf("the 10 that are new are there in %v, want 1s", d)
	}
	b.SetRemaining(epoch, epoch, "k", 8)
	if n := b.Available(epoch, "k"); n != 5 {
		t.Errorf("%d available, want 5: what the vendor says never raises it", n)
	}
}

func TestRescaleLosesNanoseconds(t *testing.T) {
	r := rand.New(rand.NewPCG(61, 61))
	rat := func(s span) *big.Rat {
		x := units(s.ns)
		return new(big.Rat).SetFrac(x.Add(x, new(big.Int).SetUint64(s.frac)), units(1))
	}
	for range effort.Times(5000) {
		rate := func() float64 { return math.Exp(r.Float64()*40 - 20) }
		from, to := perPermit(rate()), perPermit(rate())
		missing := span{r.Uint64N(1 << (1 + r.IntN(40))), r.Uint64()}
		got := rat(rescale(missing, from, to))
		ratio := new(big.Rat).Quo(rat(to), rat(from))
		exact := new(big.Rat).Mul(rat(missing), ratio)
		if exact.Cmp(big.NewRat(1<<62, 1)) > 0 {
			continue // more than the longest wait
		}
		// A nanosecond more here or there, and the intervals in whole ones.
		most := new(big.Rat).Add(big.NewRat(2, 1), new(big.Rat).Mul(ratio, big.NewRat(3, 1)))
		if late := new(big.Rat).Sub(got, exact); late.Sign() < 0 || late.Cmp(most.Add(most, big.NewRat(1, 1))) > 0 {
			t.Fatalf("%v at %v are %v at %v", rat(missing).FloatString(3), rat(from).FloatString(3), got.FloatString(3), rat(to).FloatString(3))
		}
	}
}

// TestBucketKeepsItsEnvelopeThroughChanges checks every window against the largest
// burst and the rates in force in it, with costs corrected by settlements.
func TestBucketKeepsItsEnvelopeThroughChanges(t *testing.T) {
	for seed := range uint64(effort.Times(10)) {
		r := rand.New(rand.NewPCG(seed, 60))
		rate, burst := float64(1+r.IntN(20)), 1+r.IntN(9)
		b := newBucket(t, BucketConfig{Rate: rate, Burst: burst})
		type event struct {
			at    float64 // seconds
			cost  float64
			rate  float64 // since the one before
			burst int     // largest, up to and with this one
		}
		var log []event
		var now time.Duration
		note := func(cost int) {
			log = append(log, event{now.Seconds(), float64(cost), rate, burst})
		}
		for range 300 {
			at := epoch.Add(now)
			switch r.IntN(8) {
			case 0:
				note(0)
				rate = float64(1 + r.IntN(20))
				if err := b.SetRate(at, rate); err != nil {
					t.Fatal(err)
				}
			case 1:
				note(0)
				burst = 1 + r.IntN(9)
				if err := b.SetLimit(at, burst); err != nil {
					t.Fatal(err)
				}
				note(0)
			case 2, 3:
				now += time.Duration(r.IntN(3e8))
			default:
				n := 1 + r.IntN(3)
				if b.Wait(at, "", n) == 0 {
					if got := b.Available(at, ""); got < n {
						t.Fatalf("%d available, and %d to be had", got, n)
					}
					b.Take(at, "", n)
					used := n - r.IntN(2)*r.IntN(n+1)
					b.Settle(at, "", n, used)
					note(used)
				}
			}
		}
		for i := range log {
			taken, most, at := 0.0, 0, log[i].at
			came := 0.0
			for _, e := range log[i:] {
				came += (e.at - at) * e.rate
				at = e.at
				taken += e.cost
				if most = max(most, e.burst); taken > float64(most)+came+1e-6 {
					t.Fatalf("seed %d: %v taken from %v s to %v s, at most %v", seed, taken, log[i].at, e.at, float64(most)+came)
				}
			}
		}
	}
}
