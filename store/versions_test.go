package store_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/store/storetest"
)

// changing is a node that asks for permits of limits that change.
type changing struct {
	t       *testing.T
	m       store.Store
	limits  []store.Limit
	version uint64
	seq     uint64
}

func (c *changing) ask(want int64) store.Answer {
	c.t.Helper()
	c.seq++
	as, err := c.m.Exchange(c.t.Context(), "a", []store.Item{{Key: "k", Seq: c.seq, Limits: c.limits, Version: c.version, Want: want}})
	if err != nil {
		c.t.Fatal(err)
	}
	return as[0]
}

func (c *changing) set(limits ...store.Limit) {
	c.limits, c.version = limits, c.version+1
}

// What was taken of a Bucket are permits: however often its Burst, its Lease or its Quota
// changes, they are not more for it, and who waits does not wait for longer than the
// slowest of its limits has him wait.
func TestChangesOfABucketDoNotAddUp(t *testing.T) {
	base := store.Limit{Kind: store.Bucket, Quota: 100, Per: time.Second, Burst: 2, Lease: 20 * time.Millisecond, Transit: -1}
	with := func(change func(*store.Limit)) store.Limit {
		l := base
		change(&l)
		return l
	}
	for _, c := range []struct {
		name  string
		other store.Limit
		slow  time.Duration // between two permits, of the slower one
	}{
		{"Burst", with(func(l *store.Limit) { l.Burst = 90 }), 1020 * time.Millisecond / 11},
		{"Lease", with(func(l *store.Limit) { l.Lease = time.Second }), 2 * time.Second / 99},
		{"Transit", with(func(l *store.Limit) { l.Transit = 900 * time.Millisecond }), 1920 * time.Millisecond / 99},
		{"Quota", with(func(l *store.Limit) { l.Quota = 10 }), 1020 * time.Millisecond / 9},
	} {
		for _, every := range []time.Duration{20 * time.Millisecond, 300 * time.Millisecond, 3 * time.Second} {
			t.Run(fmt.Sprint(c.name, " every ", every), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := &changing{t: t, m: memory(t)}
					n.set(base)
					begun, changed := time.Now(), time.Now()
					longest, last := time.Duration(0), time.Now()
					for time.Since(begun) < 30*time.Second {
						if time.Since(changed) >= every {
							changed = time.Now()
							if n.limits[0] == base {
								n.set(c.other)
							} else {
								n.set(base)
							}
						}
						if n.ask(1).Granted > 0 {
							longest, last = max(longest, time.Since(last)), time.Now()
						}
						time.Sleep(5 * time.Millisecond)
					}
					// A burst that was taken is paid for at the pace of before.
					if longest > 2*c.slow+base.Per {
						t.Errorf("%v without a permit, of which there is one each %v at the slower pace", longest, c.slow)
					}
					n.set(base)
					n.ask(0)
					time.Sleep(5 * time.Second)
					got, end := int64(0), time.Now().Add(10*time.Second)
					for time.Now().Before(end) {
						got += n.ask(100).Granted
						time.Sleep(5 * time.Millisecond)
					}
					if got < 960 {
						t.Errorf("%d permits in ten seconds, long after the last change", got)
					}
				})
			})
		}
	}
}

// An operator who raises a Burst, and once more, has the Bucket go on.
func TestABurstThatIsRaisedAgainAndAgainGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := store.Limit{Kind: store.Bucket, Quota: 1000, Per: time.Hour, Burst: 10}
		n := &changing{t: t, m: memory(t)}
		n.set(l)
		for range 600 {
			n.ask(100)
			time.Sleep(time.Second)
		}
		for l.Burst = 900; l.Burst < 904; l.Burst++ {
			n.set(l)
			if a := n.ask(100); a.RetryAfter > 6*time.Minute { // 5 permits of 101 an hour, and what it was ahead
				t.Errorf("with a Burst of %d the next comes in %v", l.Burst, a.RetryAfter)
			}
			time.Sleep(time.Minute)
		}
		time.Sleep(3 * time.Hour) // in which nobody asks
		if got := n.ask(1000).Granted; got < 300 {
			t.Errorf("%d at once, of a Burst of 903, three hours later", got)
		}
	})
}

// late is how a node uses what it was granted before a change, and after it: at once, or
// as late as it may; at the latest at the change, where what comes then begins.
type late struct{ before, after, capped bool }

func (l late) String() string {
	return fmt.Sprintf("late before %v, after %v, capped %v", l.before, l.after, l.capped)
}

// judged has a node ask for all it can get of limits that change at times from the
// beginning, and returns what the judge says of their quota, which does not change.
func judged(t *testing.T, use late, pause time.Duration, limits []store.Limit, at []time.Duration, until time.Duration) error {
	n := &changing{t: t, m: memory(t)}
	n.set(limits[0])
	n.ask(0)
	if len(at) == 0 || at[0] > pause {
		time.Sleep(pause)
	}
	var h storetest.History
	begun := time.Now()
	for i := 0; time.Since(begun) < until; time.Sleep(3 * time.Millisecond) {
		for i < len(at) && time.Since(begun) >= at[i] {
			i++
			n.set(limits[i])
		}
		a := n.ask(1000)
		when, isLate := time.Now(), use.after
		if i < len(at) {
			isLate = use.before
		}
		if isLate {
			when = when.Add(a.ValidFor - 1)
			if i < len(at) && use.capped {
				if change := begun.Add(at[i]); when.After(change) {
					when = change
				}
			}
		}
		if a.Granted > 0 {
			h.Use(when, a.Granted)
		}
	}
	return h.Check(limits[0])
}

// A Bucket's promise is about any window, also one in which its Burst or its Lease
// changes, and whatever is granted is used when it is worst.
func TestAChangedBucketKeepsItsQuota(t *testing.T) {
	bucket := func(burst int64, lease time.Duration) store.Limit {
		return store.Limit{Kind: store.Bucket, Quota: 100, Per: time.Second, Burst: burst, Lease: lease, Transit: -1}
	}
	ms := time.Millisecond
	for _, c := range []struct {
		name     string
		from, to store.Limit
	}{
		{"a larger Burst", bucket(2, 20*ms), bucket(90, 20*ms)},
		{"a smaller Burst", bucket(90, 20*ms), bucket(2, 20*ms)},
		{"a longer Lease", bucket(50, 20*ms), bucket(50, time.Second)},
		{"a shorter Lease", bucket(1, time.Second), bucket(1, 20*ms)},
		{"a shorter Lease with a Burst", bucket(50, time.Second), bucket(50, 20*ms)},
		{"a larger Burst, a longer Lease", bucket(2, 20*ms), bucket(90, time.Second)},
		{"a larger Burst, a shorter Lease", bucket(2, time.Second), bucket(90, 20*ms)},
		{"a smaller Burst, a longer Lease", bucket(90, 20*ms), bucket(2, time.Second)},
		{"a smaller Burst, a shorter Lease", bucket(90, time.Second), bucket(2, 20*ms)},
	} {
		for _, use := range []late{{}, {before: true}, {before: true, capped: true}, {before: true, after: true}, {after: true}} {
			for _, at := range []time.Duration{0, 100 * ms, 1500 * ms, 2 * time.Second} {
				t.Run(fmt.Sprint(c.name, " at ", at, " ", use), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						if err := judged(t, use, time.Second, []store.Limit{c.from, c.to}, []time.Duration{at}, 8*time.Second); err != nil {
							t.Error(err)
						}
					})
				})
			}
		}
	}
}

// Random changes, one after the other.
func TestNoChangesOfABucketAddUpToMore(t *testing.T) {
	for range effort.Times(10) {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 0))
		synctest.Test(t, func(t *testing.T) {
			random := func() store.Limit {
				l := store.Limit{Kind: store.Bucket, Quota: 100, Per: time.Second, Transit: -1}
				l.Burst = []int64{1, 2, 20, 50, 90, 100}[r.IntN(6)]
				l.Lease = []time.Duration{1, 20, 200, 500, 1000}[r.IntN(5)] * time.Millisecond
				return l
			}
			limits, at := []store.Limit{random()}, []time.Duration(nil)
			for d := time.Duration(0); len(at) < 6; {
				d += time.Duration(r.IntN(3000)) * time.Millisecond
				at, limits = append(at, d), append(limits, random())
			}
			use := late{r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(2) == 0}
			if err := judged(t, use, time.Second, limits, at, at[5]+5*time.Second); err != nil {
				t.Errorf("seed %d, %v, %+v at %v: %v", seed, use, limits, at, err)
			}
		})
	}
}

// Limits of another shape begin when what others have granted cannot be used any more,
// and no window of theirs has any of it.
func TestLimitsOfAnotherShapeWaitForWhatIsLent(t *testing.T) {
	hour := store.Limit{Kind: store.Window, Quota: 100, Per: time.Hour}
	month := store.Limit{Kind: store.Sliding, Quota: 100, Per: store.MaxCool}
	bucket := store.Limit{Kind: store.Bucket, Quota: 10, Per: time.Second, Burst: 1, Lease: 100 * time.Millisecond, Transit: -1}
	minute := store.Limit{Kind: store.Bucket, Quota: 10, Per: time.Minute, Burst: 1, Lease: 30 * time.Second, Transit: -1}
	second := store.Limit{Quota: 10, Per: time.Second}
	for _, c := range []struct {
		name     string
		from, to []store.Limit
		want     time.Duration // from the beginning of an hour
	}{
		{"Window, Sliding", []store.Limit{hour}, []store.Limit{second}, time.Hour + time.Second},
		{"Window, Window", []store.Limit{hour}, []store.Limit{{Kind: store.Window, Quota: 10, Per: time.Second}}, time.Hour},
		{"Window, Bucket", []store.Limit{hour}, []store.Limit{bucket}, time.Hour + time.Second + bucket.Fill().Charge(1)},
		{"Bucket, Sliding", []store.Limit{minute}, []store.Limit{second}, 31 * time.Second},
		{"the first to end, Sliding", []store.Limit{hour, minute}, []store.Limit{second}, 31 * time.Second},
		{"one more", []store.Limit{hour}, []store.Limit{hour, second}, time.Hour + time.Second},
		{"a month, a month", []store.Limit{month}, []store.Limit{month, month}, store.MaxCool}, // and once more
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &changing{t: t, m: memory(t)}
				n.set(c.from...)
				if n.ask(100).Granted == 0 {
					t.Fatal("nothing is granted")
				}
				n.set(c.to...)
				for range 3 { // and what they lend, none, changes nothing
					if a := n.ask(1); a.Granted > 0 || a.RetryAfter != c.want {
						t.Errorf("%d granted, and the next in %v, want none and %v", a.Granted, a.RetryAfter, c.want)
					}
					n.set(append(n.limits, second)...)
					n.ask(0)
					n.set(c.to...)
					n.ask(0)
				}
				time.Sleep(c.want)
				if a := n.ask(1); a.Granted == 0 && c.want < store.MaxCool {
					t.Errorf("none granted then, and the next in %v", a.RetryAfter)
				}
			})
		})
	}
}
