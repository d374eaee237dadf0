package store_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/store/storetest"
)

// Calls that cost much have their part beside those of other processes that cost 1, and
// take as much of the quota as there is.
func TestCostlyCallsOfABucketDoNotStarve(t *testing.T) {
	for _, tt := range []struct {
		limit  store.Limit
		cost   int
		delay  time.Duration
		calls  int64 // in 20 s; at its fair part, a quarter, it would make
		fair   int64
		waits  time.Duration
		unused float64 // of what the kind lets pass
	}{
		{store.Limit{Quota: 100}, 2, 0, 150, 250, time.Second, 0.15},
		{store.Limit{Quota: 1000}, 10, 0, 150, 500, time.Second, 0.35}, // of Burst: it has to be full
		{store.Limit{Quota: 1000, Burst: 100}, 10, time.Millisecond, 250, 500, time.Second, 0.05},
		{store.Limit{Quota: 100, Burst: 50}, 20, time.Millisecond, 8, 25, 3 * time.Second, 0.05},
		{store.Limit{Quota: 1000, Burst: 100, Lease: 200 * time.Millisecond}, 50, 20 * time.Millisecond, 25, 100, 2 * time.Second, 0.1},
	} {
		t.Run(fmt.Sprintf("%d of %d, at most %d", tt.cost, tt.limit.Quota, tt.limit.Burst), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := tt.limit
				l.Kind, l.Per = store.Bucket, time.Second
				m := memory(t)
				var h storetest.History
				start := time.Now()
				until := start.Add(20 * time.Second)
				over := make(chan int64)
				at := func() *store.Share {
					s := syncer(t, store.SyncerConfig{Store: &faulty{Store: m, delay: func() time.Duration { return tt.delay }}})
					t.Cleanup(func() { s.Close() })
					return share(t, s, l)
				}
				for range 3 {
					u := &user{limit: at()}
					go func() { u.run(&h, until); over <- u.made }()
				}
				sh := at()
				wake := make(chan struct{}, 1)
				sh.OnChange(func() {
					select {
					case wake <- struct{}{}:
					default:
					}
				})
				calls, last, longest := int64(0), start, time.Duration(0)
				for now := start; now.Before(until); now = time.Now() {
					wait := sh.Wait(now, "", tt.cost)
					longest = max(longest, now.Sub(last))
					if wait == 0 {
						sh.Take(now, "", tt.cost)
						h.Use(now, int64(tt.cost))
						sh.Settle(now, "", tt.cost, tt.cost)
						calls++
						last = now
						continue
					}
					select {
					case <-wake:
					case <-time.After(min(wait, time.Second)):
					}
				}
				others := <-over + <-over + <-over
				if calls < tt.calls || calls > 2*tt.fair || longest > tt.waits {
					t.Errorf("%d calls of %d, beside %d of 1, and %v without one; want %d to %d, and %v", calls, tt.cost, others, longest, tt.calls, 2*tt.fair, tt.waits)
				}
				f := l.Fill()
				passes := float64(20*time.Second) / float64(l.Fill().Charge(1))
				if used := float64(calls*int64(tt.cost) + others); used < (1-tt.unused)*passes {
					t.Errorf("%.0f permits used of %.0f that %v lets pass", used, passes, f)
				}
				if err := h.Check(l); err != nil {
					t.Error(err)
				}
				t.Logf("%d calls of %d, %d of 1; of %.0f", calls, tt.cost, others, passes)
			})
		})
	}
}

// asker returns what asks m for permits of one key, as a node.
func asker(t *testing.T, m *store.Memory, limits []store.Limit) func(n store.Node, want, least int64) store.Answer {
	seq := uint64(0)
	return func(n store.Node, want, least int64) store.Answer {
		t.Helper()
		seq++
		as, err := m.Exchange(t.Context(), n, []store.Item{{Key: "k", Seq: seq, Limits: limits, Version: 1, Want: want, Least: least}})
		if err != nil {
			t.Fatal(err)
		}
		return as[0]
	}
}

// Whom another limit keeps back has no turn: the others would leave what they can use. It
// is the same whichever limit comes first.
func TestATurnIsOfABucketAlone(t *testing.T) {
	bucket := store.Limit{Kind: store.Bucket, Quota: 500, Per: time.Second, Burst: 20}
	window := store.Limit{Kind: store.Window, Quota: 50, Per: 5 * time.Second}
	for _, limits := range [][]store.Limit{{bucket, window}, {window, bucket}} {
		synctest.Test(t, func(t *testing.T) {
			m := memory(t)
			ask := asker(t, m, limits)
			take := func(most int64) (sum int64) {
				for range 100 {
					for _, n := range []store.Node{"a", "b"} {
						sum += ask(n, min(3, most-sum), 0).Granted
					}
					time.Sleep(2 * time.Millisecond)
				}
				return sum
			}
			for range 4 {
				took := take(35)
				again := ask("costly", 20, 20)
				if took += take(15); took != 50 || again.Granted > 0 {
					t.Errorf("%v: %d of 50 permits are granted, beside %d to a node that needs 20", limits[0].Kind, took, again.Granted)
				}
				time.Sleep(window.Per - time.Duration(time.Now().UnixNano())%window.Per)
			}
		})
	}
}

// A request that the limits in force cannot hold any more is told so, and nothing is
// wanted for it.
func TestWhatIsNeverToBeHadIsNotWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory(t)
		bucket := store.Limit{Kind: store.Bucket, Quota: 500, Per: time.Second, Burst: 20}
		at := func(version uint64, l store.Limit) *store.Share {
			s := syncer(t, store.SyncerConfig{Store: m})
			t.Cleanup(func() { s.Close() })
			sh, err := s.Share(store.ShareConfig{Name: "acme", Limits: []store.Limit{l}, Version: version})
			if err != nil {
				t.Fatal(err)
			}
			return sh
		}
		old := at(1, bucket)
		var woken atomic.Int64
		old.OnChange(func() { woken.Add(1) })
		for range 40 { // until there are not so many
			if wait := old.Wait(time.Now(), "", 20); wait == 0 {
				old.Take(time.Now(), "", 20)
				old.Settle(time.Now(), "", 20, 20)
			} else {
				time.Sleep(time.Millisecond)
			}
		}
		lowered := bucket
		lowered.Burst = 10
		at(2, lowered).Wait(time.Now(), "", 1)
		time.Sleep(time.Second)
		was := woken.Load()
		if wait := old.Wait(time.Now(), "", 20); wait != limiter.Never || was == 0 {
			t.Errorf("20 of a Burst of 10 are to be had in %v, after %d words", wait, was)
		}
		before := old.Needs("")
		if time.Sleep(time.Second); before != 0 || old.Needs("") != 0 {
			t.Errorf("%d are wanted, though there never are as many", before)
		}
	})
}

// Who waits so long that he is heard of meanwhile, so as not to be forgotten, has his turn when
// it was to come.
func TestATurnComesHoweverLongItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory(t)
		limits := []store.Limit{{Kind: store.Bucket, Quota: 120, Per: time.Minute, Burst: 60}}
		ask := asker(t, m, limits)
		for ask("small", 30, 1).Granted > 0 {
		}
		start, small, next := time.Now(), int64(0), time.Duration(0)
		for time.Since(start) < 90*time.Second { // 40 s until it has a turn, and 40 s until there is enough
			if time.Since(start) >= next {
				a := ask("large", 40, 40)
				if a.Granted > 0 {
					return
				}
				next = time.Since(start) + min(a.RetryAfter, 3*m.TTL()/4)
			}
			small += ask("small", 1, 1).Granted
			time.Sleep(100 * time.Millisecond)
		}
		t.Errorf("it has nothing in a minute and a half, beside %d", small)
	})
}
