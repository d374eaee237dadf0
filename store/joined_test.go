package store_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/throttle"
)

// A governor asks for cooldowns as soon as it is there. What it submits while that is under
// way is limited, though the answer knows of no limit yet.
func TestCallsBeforeTheFirstAnswerAreLimited(t *testing.T) {
	for _, after := range []time.Duration{0, 50 * time.Millisecond, 99 * time.Millisecond, 150 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			all, _ := processes(t, 2, func(c *governor.PlainConfig, s *store.SyncerConfig) {
				s.Store.(*faulty).delay = func() time.Duration { return 100 * time.Millisecond }
				c.Limits = []governor.Limit{{Quota: limiter.QuotaConfig{Limit: 5, Per: time.Minute}}}
			})
			defer end(t, all)
			time.Sleep(after)
			var calls atomic.Int64
			for range 2 { // before the answer, and after it
				for _, p := range all {
					for range 50 {
						governor.Submit(t.Context(), p.Plain, "", governor.Func(func(context.Context) (int, error) { return int(calls.Add(1)), nil }))
					}
				}
				time.Sleep(60 * time.Millisecond)
			}
			time.Sleep(10 * time.Second)
			if n := calls.Load(); n != 5 {
				t.Errorf("submitted after %v: %d calls, want 5", after, n)
			}
		})
	}
}

// A process that starts while its vendor has all others wait hears of that first, also
// beside a neighbour that is slow to hear it. Where the store does not answer it begins
// without.
func TestWhoStartsInACooldownCallsNobody(t *testing.T) {
	for _, sc := range scopesThatCool {
		for _, limits := range [][]governor.Limit{nil, {{Quota: limiter.QuotaConfig{Limit: 1000, Per: time.Hour}}}} {
			for _, slow := range []bool{false, true} {
				for _, down := range []bool{false, true} {
					if limits != nil && down {
						continue // it waits for the store
					}
					twoFarProcesses(t, func(t *testing.T, m *store.Memory, a, _ *farProcess) {
						a.Learn(throttle.Signal{Scope: sc, Delay: time.Hour})
						time.Sleep(time.Second)
						s := syncer(t, store.SyncerConfig{Store: &faulty{
							Store: m, delay: func() time.Duration { return 5 * time.Millisecond },
							fate: func() fate { return map[bool]fate{true: lost}[down] },
						}})
						defer s.Close()
						if slow {
							free := make(chan struct{})
							time.AfterFunc(500*time.Millisecond, func() { close(free) })
							defer s.Join(&slowListener{free: free})()
						}
						g, err := governor.New(governor.PlainConfig{Name: "acme", Store: s, NoPace: true, Limits: limits, Workers: 64})
						if err != nil {
							t.Fatal(err)
						}
						defer g.Close()
						var calls atomic.Int64
						call := func() {
							for range 64 {
								governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "t"}), "", governor.Func(func(context.Context) (int, error) {
									return int(calls.Add(1)), nil
								}))
							}
						}
						call()
						_, err = governor.Do(t.Context(), g.With(governor.Ask{Tenant: "other"}), "", governor.Func(func(context.Context) (int, error) { return 0, nil }))
						if (err == nil) != (down || sc.Level != throttle.Host) {
							t.Errorf("%v, store down %v: one of another tenant ends with %v", sc, down, err)
						}
						time.Sleep(time.Minute)
						call()
						time.Sleep(time.Minute)
						if n, want := calls.Load(), map[bool]int64{true: 128}[down]; n != want {
							t.Errorf("%v, limits %v, store down %v, slow neighbour %v: %d calls start in the cooldown, want %d", sc, limits, down, slow, n, want)
						}
					})
				}
			}
		}
	}
}

// A neighbour that does not hear at all what cools keeps nobody from starting for long, nor
// busy.
func TestWhoStartsDoesNotWaitForADeafNeighbour(t *testing.T) {
	twoFarProcesses(t, func(t *testing.T, m *store.Memory, a, _ *farProcess) {
		a.Learn(throttle.Signal{Scope: tenant("t"), Delay: time.Hour})
		time.Sleep(time.Second)
		var count counting
		s := syncer(t, store.SyncerConfig{Store: &faulty{Store: m, count: &count.n, delay: func() time.Duration { return time.Millisecond }}})
		defer s.Close()
		free := make(chan struct{})
		defer close(free)
		defer s.Join(&slowListener{free: free})()
		g := join(t, s)
		defer g.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if _, err := governor.Do(ctx, g, "", governor.Func(func(context.Context) (int, error) { return 0, nil })); err != nil {
			t.Error(err)
		}
		if n := count.n.Load(); n > 10 {
			t.Errorf("%d round trips", n)
		}
	})
}

func TestWhoStartsWaitsForNoSyncerThatIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := syncer(t, store.SyncerConfig{Store: &faulty{Store: memory(t), delay: func() time.Duration { return time.Second }}})
		g := join(t, s)
		defer g.Close()
		var closed sync.WaitGroup
		defer closed.Wait()
		closed.Go(func() {
			time.Sleep(10 * time.Millisecond)
			s.Close()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := governor.Do(ctx, g, "", governor.Func(func(context.Context) (int, error) { return 0, nil })); err != nil {
			t.Error(err)
		}
	})
}

// Who has left is still being told something, while another joins that has heard nothing.
func TestWhoJoinsAfterAllHaveLeftHearsFirst(t *testing.T) {
	twoFarProcesses(t, func(t *testing.T, m *store.Memory, a, _ *farProcess) {
		a.Learn(throttle.Signal{Scope: tenant("t"), Delay: time.Minute})
		time.Sleep(time.Second)
		var way atomic.Int64
		s := syncer(t, store.SyncerConfig{Store: &faulty{Store: m, delay: func() time.Duration { return time.Duration(way.Load()) }}})
		defer s.Close()
		free := make(chan struct{})
		leave := s.Join(&slowListener{free: free})
		time.Sleep(100 * time.Millisecond)
		leave()
		time.Sleep(10 * time.Millisecond)
		a.Learn(throttle.Signal{Scope: tenant("t"), Delay: time.Hour})
		way.Store(int64(500 * time.Millisecond))
		g := join(t, s)
		defer g.Close()
		var calls atomic.Int64
		governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "t"}), "", governor.Func(func(context.Context) (int, error) { return int(calls.Add(1)), nil }))
		time.Sleep(10 * time.Millisecond)
		close(free)
		time.Sleep(10 * time.Second)
		if n := calls.Load(); n > 0 {
			t.Errorf("%d calls start in a cooldown", n)
		}
	})
}

// What a governor goes on with after a restart may have been cleared meanwhile: others are
// not told, be it that its vendor had said it or another's.
func TestARestoredCooldownIsNobodyElses(t *testing.T) {
	twoFarProcesses(t, func(t *testing.T, m *store.Memory, a, b *farProcess) {
		a.Learn(throttle.Signal{Scope: tenant("t"), Delay: time.Hour})
		time.Sleep(3 * time.Second)
		for name, was := range map[string]governor.Learned{"its own": a.Export(), "another's": b.Export()} {
			b.Clear(tenant("t"))
			time.Sleep(3 * time.Second)
			s := syncer(t, store.SyncerConfig{Store: m})
			g, err := governor.New(governor.PlainConfig{Name: "acme", Store: s, NoPace: true, Restore: was})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second)
			if coolsFor(g, tenant("t")) == 0 {
				t.Errorf("%s: it is not restored", name)
			}
			g.Close()
			s.Close()
			time.Sleep(3 * time.Second)
			if left := a.left(tenant("t")); left > 0 {
				t.Errorf("%s: another process cools for %v after a clear", name, left)
			}
		}
	})
}

// An answer that says nothing, as the first.
func TestAGateGetsOverAStaleAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		f := &faulty{Store: memory(t), heard: turns(&n), delay: func() time.Duration { return time.Millisecond }}
		s := syncer(t, store.SyncerConfig{Store: f})
		defer s.Close()
		time.Sleep(time.Second)
		f.stale.Store(true)
		g, err := s.Gate("acme")
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		g.Wait(time.Now(), "", 1)
		time.Sleep(3 * time.Second)
		if wait := g.Wait(time.Now(), "", 1); wait > 0 || n.Load() > 100 {
			t.Errorf("three seconds later it says %v, after %d turns of the loop", wait, n.Load())
		}
	})
}

// turns counts how often a Syncer looks what is due, and makes an end of it where that never
// ends.
func turns(n *atomic.Int64) func() time.Time {
	return func() time.Time {
		if n.Add(1) > 20_000 {
			time.Sleep(time.Hour)
		}
		return time.Now()
	}
}

// Governors of one name begin and end beside neighbours that are slow to hear, under all
// faults. One that begins then makes its call, and in quiet there is little to do.
func TestWhoStartsBeginsWhateverWasBefore(t *testing.T) {
	for seed := range uint64(effort.Times(150)) {
		synctest.Test(t, func(t *testing.T) { starts(t, seed) })
	}
}

func starts(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	l := &losing{}
	l.m.Store(memory(t))
	var looks, trips, how atomic.Int64
	net := &faulty{
		Store: l, heard: turns(&looks), count: &trips,
		delay: func() time.Duration { return 3 * time.Millisecond }, fate: func() fate { return fate(how.Load()) },
	}
	outage := []store.Outage{store.Closed, store.SafeShare, store.Open}[r.IntN(3)]
	s := syncer(t, store.SyncerConfig{Store: net, Outage: outage, Nodes: 4})
	defer s.Close()
	elsewhere := syncer(t, store.SyncerConfig{Store: l})
	defer elsewhere.Close()
	other := join(t, elsewhere)
	defer other.Close()
	quota := limiter.QuotaConfig{Limit: 100, Per: time.Second}
	limits := [][]governor.Limit{nil, {{Quota: quota}}, {{Per: throttle.Tenant, Quota: quota}}, {{Unit: "u", Quota: quota}}}[r.IntN(4)]
	begin := func() *governor.Plain {
		g, err := governor.New(governor.PlainConfig{Name: "acme", Store: s, NoPace: true, Limits: limits})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	nothing := governor.Func(func(context.Context) (int, error) { return 0, nil })
	var all []*governor.Plain
	var leave []func()
	for range 60 {
		switch r.IntN(9) {
		case 0, 1:
			all = append(all, begin())
			governor.Submit(t.Context(), all[len(all)-1].With(governor.Ask{Tenant: "x"}), "", nothing)
		case 2, 3:
			if len(all) > 0 {
				go all[0].Close()
				all = all[1:]
			}
		case 4:
			free := make(chan struct{})
			time.AfterFunc(time.Duration(r.IntN(1500))*time.Millisecond, func() { close(free) })
			leave = append(leave, s.Join(&slowListener{free: free}))
		case 5:
			if len(leave) > 0 {
				leave[0]()
				leave = leave[1:]
			}
		case 6:
			net.stale.Store(r.IntN(2) == 0)
			l.lose(r.IntN(2) == 0)
		case 7:
			how.Store(r.Int64N(4))
		case 8:
			if other.Learn(throttle.Signal{Scope: tenant("t"), Delay: time.Duration(r.IntN(100)) * time.Second}); r.IntN(3) == 0 {
				other.Clear(tenant("t"))
			}
		}
		time.Sleep(time.Duration(r.IntN(300)*r.IntN(2)) * time.Millisecond)
	}
	how.Store(int64(arrives))
	net.stale.Store(false)
	g := begin()
	all = append(all, g)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := governor.Do(ctx, g.With(governor.Ask{Tenant: "x"}), "", nothing); err != nil {
		t.Errorf("seed %d, %v, %v: %v", seed, outage, limits, err)
	}
	time.Sleep(time.Second)
	looks.Store(0)
	trips.Store(0)
	time.Sleep(10 * time.Second)
	if looks.Load() > 500 || trips.Load() > 60 {
		t.Errorf("seed %d, %v, %v: the loop turns %d times and asks %d times in ten quiet seconds", seed, outage, limits, looks.Load(), trips.Load())
	}
	for _, f := range leave {
		f()
	}
	for _, o := range all {
		o.Close()
	}
}
