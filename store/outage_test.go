package store_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/store/storetest"
	"github.com/flyball-go/flyball/throttle"
)

// outage runs four nodes for twelve seconds, in four of which the store does not
// answer, and returns what the vendor saw and what the nodes told of.
func outage(t *testing.T, policy store.Outage, l store.Limit) (h *storetest.History, start time.Time, kinds map[event.Kind]int, logged string) {
	m := memory(t)
	var down atomic.Bool
	var mu sync.Mutex
	var log bytes.Buffer
	kinds = make(map[event.Kind]int)
	users := many(4, 4*time.Millisecond)
	h = new(storetest.History)
	start = time.Now()
	done := make(chan *store.Syncer)
	for _, u := range users {
		s := syncer(t, store.SyncerConfig{
			Store: &faulty{Store: m, fate: func() fate {
				if down.Load() {
					return lost
				}
				return arrives
			}},
			Outage: policy, Nodes: 8, Timeout: 100 * time.Millisecond,
			Logger: slog.New(slog.NewTextHandler(&lockedWriter{w: &log, mu: &mu}, nil)),
			OnEvent: func(e event.Event) {
				mu.Lock()
				defer mu.Unlock()
				kinds[e.Kind]++
			},
		})
		u.limit = share(t, s, l)
		go func() { u.run(h, start.Add(12*time.Second)); done <- s }()
	}
	time.Sleep(4 * time.Second)
	down.Store(true)
	time.Sleep(4 * time.Second)
	down.Store(false)
	for range users {
		(<-done).Close()
	}
	mu.Lock()
	defer mu.Unlock()
	return h, start, kinds, log.String()
}

type lockedWriter struct {
	w  *bytes.Buffer
	mu *sync.Mutex
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func TestGovernorsHearOfAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool // the network of the first
		n := 0
		all, _ := processes(t, 2, func(_ *governor.PlainConfig, sc *store.SyncerConfig) {
			if n++; n == 1 {
				sc.Store.(*faulty).fate = func() fate {
					if down.Load() {
						return lost
					}
					return arrives
				}
			}
		})
		defer end(t, all)
		var heard [2]eventLog
		for i, p := range all {
			defer p.Listen(heard[i].add, event.StoreLost, event.StoreBack)()
		}
		time.Sleep(10 * time.Second)
		down.Store(true)
		all[0].refuse(time.Second) // something to tell, at which it is noticed
		time.Sleep(10 * time.Second)
		down.Store(false)
		time.Sleep(30 * time.Second)
		if got := heard[0].kinds(); !slices.Equal(got, []event.Kind{event.StoreLost, event.StoreBack}) {
			t.Errorf("%v, want that it was lost and is back", got)
		}
		if got := heard[1].kinds(); len(got) != 0 {
			t.Errorf("the one whose store answers hears %v", got)
		}
		if kept := all[0].Recent(); !slices.ContainsFunc(kept, func(e event.Event) bool {
			return e.Kind == event.StoreLost && e.Name == "acme" && e.Err != nil
		}) {
			t.Errorf("Recent has no loss with name and error: %v", kept)
		}
	})
}

// What could not be told for a while is told with what is left of it.
func TestACooldownToldLateEndsWhenItWouldHave(t *testing.T) {
	for _, delay := range []time.Duration{5 * time.Second, 30 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			var down atomic.Bool
			n := 0
			all, _ := processes(t, 2, func(_ *governor.PlainConfig, sc *store.SyncerConfig) {
				if n++; n == 1 {
					sc.Store.(*faulty).fate = func() fate {
						if down.Load() {
							return lost
						}
						return arrives
					}
				}
			})
			defer end(t, all)
			time.Sleep(10 * time.Second)
			var heard eventLog
			defer all[1].Listen(heard.add, event.Cooling)()
			down.Store(true)
			until := time.Now().Add(delay)
			all[0].refuse(delay)
			time.Sleep(10 * time.Second)
			down.Store(false)
			time.Sleep(time.Minute)
			heard.mu.Lock()
			defer heard.mu.Unlock()
			for _, e := range heard.all {
				if late := e.Until.Sub(until); late > 10*time.Millisecond {
					t.Errorf("%v refused: the other process pauses %v longer", delay, late)
				}
			}
			if told := len(heard.all) > 0; told != (delay > 10*time.Second) {
				t.Errorf("%v refused and told 10 s later: the other process hears of it: %v", delay, told)
			}
		})
	}
}

// eventLog collects events.
type eventLog struct {
	mu  sync.Mutex
	all []event.Event
}

func (l *eventLog) add(e event.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, e)
}

func (l *eventLog) kinds() (kinds []event.Kind) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.all {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func TestOutages(t *testing.T) {
	l := store.Limit{Quota: 400, Per: time.Second}
	for _, tc := range []struct {
		policy      store.Outage
		least, most int64 // calls in the third second of the outage
		exceeds     bool
	}{
		{store.Closed, 0, 0, false},
		{store.SafeShare, 36, 40, false}, // four of eight nodes, a fifth of the quota among eight
		{store.Open, 900, 1000, true},
	} {
		t.Run(tc.policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, start, kinds, log := outage(t, tc.policy, l)
				if err := h.Check(l); (err != nil) != tc.exceeds {
					t.Errorf("the limit is kept: %v", err)
				}
				if got := h.Total(start.Add(6*time.Second), start.Add(7*time.Second)); got < tc.least || got > tc.most {
					t.Errorf("%d calls a second without the store, want %d to %d", got, tc.least, tc.most)
				}
				if got := h.Total(start.Add(9*time.Second), start.Add(12*time.Second)); got < 500 {
					t.Errorf("%d calls in three seconds when the store is back, want some 1100, in bursts", got)
				}
				if kinds[event.StoreLost] != 4 || kinds[event.StoreBack] != 4 || (kinds[event.Unguarded] > 0) != tc.exceeds {
					t.Errorf("events: %v", kinds)
				}
				if n := strings.Count(log, "store lost"); n != 4 || strings.Count(log, "store back") != 4 || !strings.Contains(log, tc.policy.String()) {
					t.Errorf("logged:\n%s", log)
				}
			})
		})
	}
}

func TestAStoreThatIsBackIsInUseWithinHalfAnInterval(t *testing.T) {
	const interval = time.Second
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		s := syncer(t, store.SyncerConfig{Interval: interval, Store: &faulty{Store: memory(t), fate: func() fate {
			if down.Load() {
				return lost
			}
			return arrives
		}}})
		defer s.Close()
		sh := share(t, s, store.Limit{Quota: 100, Per: 100 * time.Millisecond})
		permit := func() (took time.Duration) {
			begin := time.Now()
			for sh.Wait(time.Now(), "", 1) != 0 {
				time.Sleep(time.Millisecond)
			}
			sh.Take(time.Now(), "", 1)
			return time.Since(begin)
		}
		for range 20 {
			permit()
			down.Store(true)
			for end := time.Now().Add(4*time.Second + rand.N(2*time.Second)); time.Now().Before(end); time.Sleep(time.Millisecond) {
				sh.Wait(time.Now(), "", 1)
			}
			down.Store(false)
			if d := permit(); d > interval/2+100*time.Millisecond { // and a window that was begun
				t.Errorf("the first permit came after %v", d)
			}
		}
	})
}

func TestALossOfStateIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory(t)
		var mu sync.Mutex
		var told []string
		s := syncer(t, store.SyncerConfig{Store: m, OnEvent: func(e event.Event) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, e.Kind.String()+": "+e.Source)
		}})
		defer s.Close()
		sh := share(t, s, store.Limit{Quota: 10, Per: time.Minute})
		sh.Wait(time.Now(), "", 1)
		time.Sleep(time.Second)
		m.Lose()
		for range 3 {
			sh.Wait(time.Now(), "", 1)
			time.Sleep(2 * time.Second)
		}
		mu.Lock()
		defer mu.Unlock()
		if want := []string{"store lost: what was granted counts as taken"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}

func TestSlotsAreUsedByAllAndComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory(t)
		var running, most atomic.Int64
		var made [3]atomic.Int64
		end := time.Now().Add(10 * time.Second)
		var wg sync.WaitGroup
		var syncers []*store.Syncer
		for i := range 3 {
			s := syncer(t, store.SyncerConfig{Store: &faulty{Store: m, delay: func() time.Duration { return time.Millisecond }}})
			syncers = append(syncers, s)
			slots, err := s.Slots(store.SlotsConfig{Name: "acme", Max: 6})
			if err != nil {
				t.Fatal(err)
			}
			owner(&wg, slots, end, func(done func()) {
				most.Store(max(most.Load(), running.Add(1)))
				made[i].Add(1)
				time.AfterFunc(20*time.Millisecond, func() { running.Add(-1); done() })
			})
		}
		wg.Wait()
		if most.Load() != 6 {
			t.Errorf("%d ran at once, want 6", most.Load())
		}
		sum := int64(0)
		for i := range made {
			if sum += made[i].Load(); made[i].Load() < 10*50 {
				t.Errorf("node %d made %d calls of some 3000 in all", i, made[i].Load())
			}
		}
		if sum < 2300 {
			t.Errorf("%d calls of 20ms in 10s by 6 slots, want some 3000", sum)
		}
		for _, s := range syncers {
			s.Close()
		}
	})
}

// owner has as many calls run as limit lets, in the way of a governor: it asks when
// it is woken.
func owner(wg *sync.WaitGroup, limit *store.Slots, end time.Time, call func(done func())) {
	var mu sync.Mutex
	wake := make(chan struct{}, 1)
	kick := func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	limit.OnChange(kick)
	wg.Go(func() {
		for now := time.Now(); now.Before(end); now = time.Now() {
			mu.Lock()
			wait := limit.Wait(now, "", 1)
			if wait == 0 {
				limit.Take(now, "", 1)
			}
			mu.Unlock()
			if wait == 0 {
				call(func() {
					mu.Lock()
					defer mu.Unlock()
					limit.Release(time.Now(), "", 1)
					kick()
				})
				continue
			}
			select {
			case <-wake:
			case <-time.After(min(wait, end.Sub(now))):
			}
		}
	})
}

func TestSlotsOfADeadNodeComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory(t)
		var dead atomic.Bool
		net := &faulty{Store: m, fate: func() fate {
			if dead.Load() {
				return lost
			}
			return arrives
		}}
		a, b := syncer(t, store.SyncerConfig{Store: net}), syncer(t, store.SyncerConfig{Store: m})
		defer a.Close()
		defer b.Close()
		of := func(s *store.Syncer) *store.Slots {
			l, err := s.Slots(store.SlotsConfig{Name: "acme", Max: 4})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		first, second := of(a), of(b)
		for taken := 0; taken < 4; {
			if first.Wait(time.Now(), "", 1) == 0 {
				first.Take(time.Now(), "", 1)
				taken++
			}
			synctest.Wait()
		}
		time.Sleep(3 * time.Second)
		dead.Store(true)
		dies := time.Now()
		for second.Wait(time.Now(), "", 4) != 0 {
			time.Sleep(100 * time.Millisecond)
		}
		if d := time.Since(dies); d < 8*time.Second || d > m.TTL()+time.Second {
			t.Errorf("the slots of a dead node were back after %v, want at most a TTL, %v, and a second", d, m.TTL())
		}
		first.Release(time.Now(), "", 1)
		if first.Wait(time.Now(), "", 1) == 0 {
			t.Error("it may still start, with a slot that it has free")
		}
	})
}

var (
	_ limiter.Notifier = (*store.Share)(nil)
	_ limiter.Gauge    = (*store.Share)(nil)
)

// What the others have left of a quota nobody knows here; how much it is, and for how
// long, is known before and after the first exchange.
func TestAShareTellsOfAQuotaButNotWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := []store.Limit{{Quota: 600, Per: time.Minute}, {Quota: 20, Per: time.Second}}
		s := syncer(t, store.SyncerConfig{Store: memory(t)})
		defer s.Close()
		sh, err := s.Share(store.ShareConfig{Name: "acme", Limits: limits})
		if err != nil {
			t.Fatal(err)
		}
		want := throttle.Quota{Limit: 600, Window: time.Minute, Remaining: -1, Cost: -1}
		for _, when := range []string{"before", "after"} {
			if q, ok := sh.Quota(time.Now(), ""); !ok || q != want {
				t.Errorf("%s an exchange: %+v, %v; want %+v", when, q, ok, want)
			}
			sh.Wait(time.Now(), "", 1)
			time.Sleep(time.Second)
		}
		none, err := s.Share(store.ShareConfig{Name: "free"})
		if err != nil {
			t.Fatal(err)
		}
		if q, ok := none.Quota(time.Now(), ""); ok {
			t.Errorf("without a limit: %+v", q)
		}
	})
}

// Nobody tells of what passes unguarded any more, nor whether the store is back.
func TestAClosedSyncerLetsNothingPassThatIsNotGranted(t *testing.T) {
	for _, outage := range []store.Outage{store.Closed, store.SafeShare, store.Open} {
		synctest.Test(t, func(t *testing.T) {
			var down atomic.Bool
			f := &faulty{Store: memory(t), fate: func() fate {
				if down.Load() {
					return lost
				}
				return arrives
			}}
			cfg := store.SyncerConfig{Store: f, Outage: outage}
			if outage == store.SafeShare {
				cfg.Nodes = 1
			}
			s := syncer(t, cfg)
			sh := share(t, s, store.Limit{Kind: store.Window, Quota: 50, Per: time.Minute})
			slots, err := s.Slots(store.SlotsConfig{Name: "x", Max: 3})
			if err != nil {
				t.Fatal(err)
			}
			sh.Wait(time.Now(), "", 1)
			time.Sleep(100 * time.Millisecond)
			down.Store(true)
			for range 60 {
				sh.Wait(time.Now(), "", 1)
				slots.Wait(time.Now(), "", 1)
				time.Sleep(time.Second)
			}
			if passes := sh.Wait(time.Now(), "", 1) == 0; passes != (outage != store.Closed) {
				t.Errorf("%v: in an outage something passes: %v", outage, passes)
			}
			s.Close()
			if sh.Wait(time.Now(), "", 1) == 0 {
				t.Errorf("%v: a Share of a closed Syncer lets something pass", outage)
			}
			if slots.Wait(time.Now(), "", 1) == 0 {
				t.Errorf("%v: Slots of a closed Syncer let something pass", outage)
			}
		})
	}
}

// Who takes long to hear of an outage hears of its end after it, as everybody does.
func TestAnOutagesEndIsHeardAfterItsBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		s := syncer(t, store.SyncerConfig{
			Store: &faulty{Store: memory(t), fate: func() fate { return map[bool]fate{true: lost}[down.Load()] }},
			OnEvent: func(e event.Event) {
				if e.Kind == event.StoreLost {
					down.Store(false)
					time.Sleep(5 * time.Second)
				}
			},
		})
		defer s.Close()
		g := join(t, s)
		defer g.Close()
		var heard eventLog
		defer g.Listen(heard.add, event.StoreLost, event.StoreBack)()
		time.Sleep(3 * time.Second)
		down.Store(true)
		g.Learn(throttle.Signal{Delay: time.Hour})
		time.Sleep(20 * time.Second)
		if got, want := heard.kinds(), []event.Kind{event.StoreLost, event.StoreBack}; !slices.Equal(got, want) {
			t.Errorf("the governor's listeners hear %v, want %v", got, want)
		}
	})
}

// A listener that hears nothing costs bounded memory, and one that is slow keeps Close no
// longer than for the changes.
func TestEventsThatNobodyHearsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		var told atomic.Int64
		s := syncer(t, store.SyncerConfig{
			Outage: store.Open, OnEvent: func(event.Event) { <-free; told.Add(1) },
			Store: &faulty{Store: memory(t), fate: func() fate { return lost }},
		})
		sh := share(t, s, store.Limit{Kind: store.Window, Quota: 10, Per: time.Hour})
		sh.Wait(time.Now(), "", 1)
		time.Sleep(time.Minute)
		for range 10_000 {
			sh.Claim(time.Now(), "", 1)
		}
		if n := s.News(); n != 4096 {
			t.Errorf("%d events wait", n)
		}
		time.AfterFunc(time.Second, func() { close(free) })
		s.Close()
		if n := told.Load(); n != 1 { // that the store was lost
			t.Errorf("%d events are told before Close returns", n)
		}
	})
}

// An operator's clear lets calls go on without a store, too, where they may.
func TestAClearInAnOutageLetsCallsGoOn(t *testing.T) {
	for _, outage := range []store.Outage{store.SafeShare, store.Open} {
		for _, sc := range scopesThatCool {
			synctest.Test(t, func(t *testing.T) {
				var down atomic.Bool
				s := syncer(t, store.SyncerConfig{Outage: outage, Nodes: 1, Store: &faulty{
					Store: memory(t), fate: func() fate { return map[bool]fate{true: lost}[down.Load()] },
				}})
				defer s.Close()
				g := join(t, s)
				defer g.Close()
				time.Sleep(3 * time.Second)
				g.Learn(throttle.Signal{Scope: sc, Delay: time.Hour})
				time.Sleep(3 * time.Second)
				down.Store(true)
				time.Sleep(30 * time.Second)
				g.Clear(sc)
				if took := next(t, g); took > time.Second {
					t.Errorf("%v, %v: a call waits for %v", outage, sc, took)
				}
			})
		}
	}
}

// So it does where an answer of before it comes after it, as the last.
func TestAClearBeforeAnOutageHoldsAgainstAnOldAnswer(t *testing.T) {
	for _, outage := range []store.Outage{store.SafeShare, store.Open} {
		for d := 100 * time.Millisecond; d < 2*time.Second; d += 100 * time.Millisecond {
			synctest.Test(t, func(t *testing.T) {
				var down atomic.Bool
				var way atomic.Int64
				s := syncer(t, store.SyncerConfig{Outage: outage, Nodes: 1, Store: &faulty{
					Store: memory(t), delay: func() time.Duration { return time.Duration(way.Load()) },
					fate: func() fate { return map[bool]fate{true: lost}[down.Load()] },
				}})
				defer s.Close()
				g := join(t, s)
				defer g.Close()
				time.Sleep(3 * time.Second)
				g.Learn(throttle.Signal{Delay: time.Hour})
				way.Store(int64(400 * time.Millisecond))
				time.Sleep(3*time.Second + d)
				down.Store(true) // what has arrived is answered
				g.Clear(throttle.Scope{})
				time.Sleep(10 * time.Second)
				if took := next(t, g); took > 2*time.Second {
					t.Errorf("%v, cleared after %v: a call waits for %v", outage, d, took)
				}
			})
		}
	}
}

// With the store it waits for what that says: another process may be at the probe.
func TestAClearDoesNotPassByTheProbe(t *testing.T) {
	twoFarProcesses(t, func(t *testing.T, _ *store.Memory, a, b *farProcess) {
		a.way.Store(int64(1900 * time.Millisecond))
		time.Sleep(5 * time.Second)
		b.Learn(throttle.Signal{Delay: 10 * time.Second})
		time.Sleep(10*time.Second + 50*time.Millisecond)
		var probed atomic.Bool
		var calls sync.WaitGroup
		calls.Go(func() {
			governor.Do(t.Context(), b.Plain, "", governor.Func(func(context.Context) (int, error) {
				time.Sleep(3 * time.Second)
				return 0, nil
			}))
			probed.Store(true)
		})
		time.Sleep(100 * time.Millisecond)
		a.Clear(throttle.Scope{})
		for range 20 {
			calls.Go(func() {
				governor.Do(t.Context(), a.Plain, "", governor.Func(func(context.Context) (int, error) {
					if !probed.Load() {
						t.Error("a call begins beside the probe")
					}
					return 0, nil
				}))
			})
		}
		calls.Wait()
	})
}

// tooLate is a Store that does not get to send the next few requests in time.
type tooLate struct {
	store.Store
	next atomic.Int64
}

func (l *tooLate) Exchange(ctx context.Context, node store.Node, items []store.Item) ([]store.Answer, error) {
	if l.next.Add(-1) >= 0 {
		return nil, fmt.Errorf("%w: %w", store.ErrNotExecuted, context.DeadlineExceeded)
	}
	return l.Store.Exchange(ctx, node, items)
}

func TestWhatCouldNotBeSentInTimeIsRepeatedBeforeTheStoreIsLost(t *testing.T) {
	for times, want := range map[int64]int64{2: 0, 3: 1} {
		synctest.Test(t, func(t *testing.T) {
			l := &tooLate{Store: memory(t)}
			l.next.Store(times)
			var lost atomic.Int64
			s := syncer(t, store.SyncerConfig{Store: l, OnEvent: func(e event.Event) {
				if e.Kind == event.StoreLost {
					lost.Add(1)
				}
			}})
			defer s.Close()
			sh := share(t, s, store.Limit{Quota: 100, Per: time.Second})
			sh.Wait(time.Now(), "", 1)
			time.Sleep(3 * time.Second)
			if wait := sh.Wait(time.Now(), "", 1); wait == limiter.Never {
				t.Errorf("too late %d times: no permit", times)
			}
			if lost.Load() != want {
				t.Errorf("too late %d times: the store was lost %d times, want %d", times, lost.Load(), want)
			}
		})
	}
}

// A part that a process has always it has, too, while an exchange is under way of which nothing
// is heard.
func TestAPartIsThereWhileTheStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hanging{Store: memory(t)}
		s := syncer(t, store.SyncerConfig{Store: h, Outage: store.SafeShare, Nodes: 1, Part: 0.5, Timeout: 5 * time.Second})
		defer s.Close()
		claim := patient(share(t, s, store.Limit{Kind: store.Window, Quota: 10, Per: time.Second}), "", 1)
		if _, ok := claim(time.Minute); !ok {
			t.Fatal("nothing passes")
		}
		time.Sleep(5 * time.Second)
		h.now.Store(true)
		for start := time.Now(); time.Since(start) < 30*time.Second; {
			if d, ok := claim(time.Minute); !ok || d > 1100*time.Millisecond { // a Per, and its margin
				t.Fatalf("%v after %v, of 5 in a second", ok, d)
			}
		}
	})
}

// What a long outage leaves of governors, shares and slots that are closed is forgotten.
func TestNothingIsKeptOfWhatIsClosedInAnOutage(t *testing.T) {
	for _, outage := range []store.Outage{store.Closed, store.Open, store.SafeShare} {
		t.Run(outage.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := syncer(t, store.SyncerConfig{
					Store: &faulty{Store: memory(t), fate: func() fate { return lost }}, Outage: outage, Nodes: 2,
				})
				defer s.Close()
				for i := range 20 {
					name := fmt.Sprint("acme", i)
					g, err := governor.New(governor.PlainConfig{Name: name, Store: s, Limits: []governor.Limit{
						{Quota: limiter.QuotaConfig{Limit: 5, Per: time.Second}}, {Per: throttle.Tenant, Quota: limiter.QuotaConfig{Limit: 5, Per: time.Hour}},
					}})
					if err != nil {
						t.Fatal(err)
					}
					l, err := s.Slots(store.SlotsConfig{Name: name, Max: 2})
					if err != nil {
						t.Fatal(err)
					}
					l.Wait(time.Now(), "", 1)
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					governor.Do(ctx, g.With(governor.Ask{Tenant: "a"}), "", governor.Func(func(context.Context) (int, error) { return 0, nil }))
					cancel()
					if i%2 == 1 {
						g.Learn(throttle.Signal{Delay: time.Minute})
						time.Sleep(time.Second)
					}
					if s.Cells() < 3 {
						t.Fatal("nothing is known of what is in use")
					}
					g.Close()
					l.Close()
				}
				time.Sleep(time.Hour)
				if n := s.Cells(); n > 0 {
					t.Errorf("%d keys are left", n)
				}
			})
		})
	}
}
