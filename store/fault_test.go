package store_test

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/store/storetest"
)

// kindsOf are limits of all kinds, for faults.
func kindsOf(quota int64, per time.Duration) (all []store.Limit) {
	for _, k := range []store.Kind{store.Window, store.Sliding, store.Bucket} {
		all = append(all, store.Limit{Kind: k, Quota: quota, Per: per})
	}
	return all
}

// In random histories requests and answers are lost, repeated, late and in another
// order, the store loses its state, and nodes die with what they hold.
func TestNoFaultMakesTooManyCalls(t *testing.T) {
	for _, l := range kindsOf(200, time.Second) {
		t.Run(l.Kind.String(), func(t *testing.T) {
			calls := int64(0)
			for seed := range uint64(effort.Times(1)) {
				synctest.Test(t, func(t *testing.T) { calls += randomHistory(t, l, seed, false) })
			}
			t.Logf("%d calls", calls)
		})
	}
}

// randomHistory runs six nodes for ten periods, of which some die and others come.
// A store that is naive takes what it has lost for unused. It returns how many calls there
// were.
func randomHistory(t testing.TB, l store.Limit, seed uint64, naive bool) (calls int64) {
	s := &losing{}
	s.lose(false)
	var h storetest.History
	start := time.Now()
	end := start.Add(10 * l.Per)
	done := make(chan struct{})
	for i := range 6 {
		go func() {
			defer func() { done <- struct{}{} }()
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for time.Now().Before(end) {
				until := time.Now().Add(rand.N(4 * l.Per))
				node(t, s, l, &h, r, minTime(until, end), i%2 == 0)
			}
		}()
	}
	go func() {
		r := rand.New(rand.NewPCG(seed, 99))
		for time.Now().Before(end) {
			time.Sleep(l.Per + time.Duration(r.Int64N(int64(3*l.Per))))
			s.lose(!naive)
		}
		done <- struct{}{}
	}()
	for range 7 {
		<-done
	}
	if err := h.Check(l); err != nil {
		t.Errorf("seed %d: %v", seed, err)
	}
	calls = h.Total(start, end)
	if calls < l.Quota {
		t.Errorf("seed %d: %d calls in ten periods of %d: nothing was tested", seed, calls, l.Quota)
	}
	return calls
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// node is one life of a process.
func node(t testing.TB, s store.Store, l store.Limit, h *storetest.History, r *rand.Rand, until time.Time, dies bool) {
	var dead atomic.Bool
	net := &faulty{
		Store: s,
		delay: func() time.Duration { return time.Duration(r.Int64N(int64(5 * time.Millisecond))) },
		fate: func() fate {
			if dead.Load() {
				return lost
			}
			if r.IntN(4) > 0 {
				return arrives
			}
			return fate(1 + r.IntN(3))
		},
	}
	sy, err := store.NewSyncer(store.SyncerConfig{Store: net, Timeout: 100 * time.Millisecond})
	if err != nil {
		t.Error(err)
		return
	}
	sh, err := sy.Share(store.ShareConfig{Name: "acme", Limits: []store.Limit{l}})
	if err != nil {
		t.Error(err)
		return
	}
	(&user{limit: sh, every: time.Duration(r.IntN(3)) * time.Millisecond}).run(h, until)
	if dies { // without a word: what it held is nobody's
		dead.Store(true)
	}
	sy.Close()
}

// The wall clock of each node goes its own way, and jumps.
func TestNoClockMakesTooManyCalls(t *testing.T) {
	for _, l := range kindsOf(100, time.Second) {
		t.Run(l.Kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				users := many(4)
				m := memory(t)
				var h storetest.History
				end := time.Now().Add(10 * l.Per)
				done := make(chan *store.Syncer)
				for i, u := range users {
					s := syncer(t, store.SyncerConfig{Store: m})
					s.SetWall(func() time.Duration {
						steps := time.Duration(time.Now().UnixNano() / int64(300*time.Millisecond))
						return (steps*time.Duration(7*i)%21 - 10) * time.Minute
					})
					u.limit = share(t, s, l)
					go func() { u.run(&h, end); done <- s }()
				}
				for range users {
					(<-done).Close()
				}
				if err := h.Check(l); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A node that is stopped, as by SIGSTOP, or whose machine sleeps, starts nothing by
// what it was granted before.
func TestNothingStartsByALeaseThatHasEnded(t *testing.T) {
	for _, l := range kindsOf(100, time.Second) {
		for _, asleep := range []bool{false, true} { // time that only the wall clock saw
			synctest.Test(t, func(t *testing.T) {
				var cut atomic.Bool
				m := &faulty{Store: memory(t), fate: func() fate {
					if cut.Load() {
						return lost
					}
					return arrives
				}}
				s := syncer(t, store.SyncerConfig{Store: m})
				defer s.Close()
				sh := share(t, s, l)
				sh.Wait(time.Now(), "", 1)
				synctest.Wait()
				if sh.Wait(time.Now(), "", 1) != 0 {
					t.Fatal("nothing was granted")
				}
				cut.Store(true)
				if asleep {
					s.SetWall(func() time.Duration { return 30 * time.Second })
				} else {
					time.Sleep(30 * time.Second)
				}
				if sh.Wait(time.Now(), "", 1) == 0 {
					t.Errorf("%s, asleep %v: a permit of half a minute ago", l.Kind, asleep)
				}
			})
		}
	}
}

// The judge sees what the guard against lost state is for.
func TestAStoreThatForgetsMakesTooManyCalls(t *testing.T) {
	for _, l := range kindsOf(200, time.Second)[:2] { // a Bucket forgets its burst alone
		synctest.Test(t, func(t *testing.T) {
			r := &saying{TB: t}
			for seed := uint64(0); seed < 8 && r.said == 0; seed++ {
				randomHistory(r, l, seed, true)
			}
			if r.said == 0 {
				t.Errorf("%s: nobody noticed", l.Kind)
			}
		})
	}
}

// The time on the way back counts, too.
func TestALeaseBeginsWhenItIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &faulty{Store: memory(t), delay: func() time.Duration { return 800 * time.Millisecond }}
		s := syncer(t, store.SyncerConfig{Store: m})
		defer s.Close()
		sh := share(t, s, store.Limit{Kind: store.Bucket, Quota: 100, Per: time.Minute, Lease: time.Second})
		sh.Wait(time.Now(), "", 1)
		time.Sleep(900 * time.Millisecond)
		if sh.Wait(time.Now(), "", 1) != 0 {
			t.Error("no permit of a lease of a second, 900ms after it was asked for")
		}
		time.Sleep(101 * time.Millisecond)
		if sh.Wait(time.Now(), "", 1) == 0 {
			t.Error("a permit of a lease of a second, 1001ms after it was asked for")
		}
	})
}
