package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/throttle"
)

// A word is heard by its hint, not a round trip later.
func TestAWordIsHeardByItsHint(t *testing.T) {
	for _, sc := range scopesThatCool {
		for _, mute := range []bool{false, true} {
			twoFarProcesses(t, func(t *testing.T, m *store.Memory, a, b *farProcess) {
				b.mute.Store(mute)
				b.back.Store(int64(300 * time.Millisecond))
				a.Learn(throttle.Signal{Scope: sc, Delay: time.Hour})
				synctest.Wait()
				if left := b.left(sc); (left != time.Hour) != mute {
					t.Errorf("%v, hints that say nothing %v: another process cools for %v at once", sc, mute, left)
				}
				time.Sleep(3 * time.Second)
				if a, b := a.left(sc), b.left(sc); b < a || b > a+300*time.Millisecond {
					t.Errorf("%v: one cools for %v, the other for %v", sc, a, b)
				}
			})
		}
	}
}

// Who hears words by their hints does not ask the store once for each of them.
func TestWordsThatAreHeardAreNotAskedFor(t *testing.T) {
	for _, mute := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m := memory(t)
			a := newFarProcess(t, m)
			defer a.end()
			var count counting
			var silent atomic.Bool
			silent.Store(mute)
			s := syncer(t, store.SyncerConfig{Store: count.wrap(slowly{m, new(atomic.Int64), &silent})})
			defer s.Close()
			g := join(t, s)
			defer g.Close()
			time.Sleep(3 * time.Second)
			before := count.n.Load()
			for i := range 50 {
				a.Learn(throttle.Signal{Scope: tenant(fmt.Sprint(i)), Delay: time.Hour})
				time.Sleep(20 * time.Millisecond)
				if coolsFor(g, tenant(fmt.Sprint(i))) == 0 {
					t.Errorf("word %d is not heard", i)
				}
			}
			if n := count.n.Load() - before; (n > 3) != mute {
				t.Errorf("hints that say nothing %v: %d exchanges of who hears 50 words in a second", mute, n)
			}
		})
	}
}

// A word whose hint was lost is asked for when that of the next says so.
func TestAHintThatIsMissingIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory(t)
		a := newFarProcess(t, m)
		defer a.end()
		f := &faulty{Store: m}
		s := syncer(t, store.SyncerConfig{Store: f})
		defer s.Close()
		g := join(t, s)
		defer g.Close()
		time.Sleep(3300 * time.Millisecond)
		f.mute.Store(true)
		a.Learn(throttle.Signal{Scope: tenant("lost"), Delay: time.Hour})
		time.Sleep(100 * time.Millisecond)
		f.mute.Store(false)
		if coolsFor(g, tenant("lost")) > 0 {
			t.Error("it is heard without a hint: the test says nothing")
		}
		a.Learn(throttle.Signal{Scope: tenant("next"), Delay: time.Hour})
		time.Sleep(100 * time.Millisecond)
		for _, sc := range []throttle.Scope{tenant("lost"), tenant("next")} {
			if coolsFor(g, sc) == 0 {
				t.Errorf("%v is not heard of", sc)
			}
		}
	})
}

// hinted is a Store that gets the hints that the test gives it.
type hinted struct {
	slowly
	hint func(store.Hint)
}

func (s *hinted) Watch(_ context.Context, hint func(store.Hint)) (func(), error) {
	s.hint = hint
	return func() {}, nil
}

// hintedProcess runs test in a bubble, with a process beside one that gets h's hints, and
// whose answers take back.
func hintedProcess(t *testing.T, test func(m *store.Memory, a *farProcess, b *governor.Plain, h *hinted, back *atomic.Int64)) {
	synctest.Test(t, func(t *testing.T) {
		m := memory(t)
		a := newFarProcess(t, m)
		defer a.end()
		var back atomic.Int64
		h := &hinted{slowly: slowly{m, &back, new(atomic.Bool)}}
		s := syncer(t, store.SyncerConfig{Store: h})
		defer s.Close()
		b := join(t, s)
		defer b.Close()
		time.Sleep(3 * time.Second)
		test(m, a, b, h, &back)
	})
}

// aHint returns what the store says of its words.
func aHint(t *testing.T, m *store.Memory) store.Hint {
	t.Helper()
	key := store.KeyFor("acme", throttle.Scope{}.String())
	as, err := m.Exchange(t.Context(), store.NewNode(), []store.Item{{Key: key, Seq: 1}})
	if err = errors.Join(err, as[0].Err); err != nil {
		t.Fatal(err)
	}
	return store.Hint{Key: key, Epoch: as[0].Epoch, Cooldowns: as[0].Cooldowns}
}

// Hints come late, twice, and in another order, and answers may be from before.
func TestHintsThatAreOldSayNothing(t *testing.T) {
	for _, sc := range scopesThatCool {
		hintedProcess(t, func(m *store.Memory, a *farProcess, b *governor.Plain, h *hinted, back *atomic.Int64) {

			a.Learn(throttle.Signal{Scope: sc, Delay: time.Hour})
			synctest.Wait()
			hour := aHint(t, m)
			h.hint(hour)
			synctest.Wait()
			if coolsFor(b, sc) != time.Hour {
				t.Errorf("%v: a hint is not heard", sc)
			}
			time.Sleep(time.Second)
			h.hint(hour)
			synctest.Wait()
			if left := coolsFor(b, sc); left != time.Hour-time.Second {
				t.Errorf("%v: a hint that comes twice has it cool for %v", sc, left)
			}
			a.Clear(sc)
			time.Sleep(3 * time.Second)
			h.hint(hour)
			synctest.Wait()
			if left := coolsFor(b, sc); left > 0 {
				t.Errorf("%v: a hint of what was cleared since has it cool for %v", sc, left)
			}

			a.Learn(throttle.Signal{Scope: sc, Delay: time.Minute})
			time.Sleep(3 * time.Second)
			back.Store(int64(900 * time.Millisecond))
			a.Clear(sc)
			time.Sleep(1500 * time.Millisecond) // an exchange that heard of the clear has been executed
			a.Learn(throttle.Signal{Scope: sc, Delay: 2 * time.Minute})
			synctest.Wait()
			h.hint(aHint(t, m))
			for range 20 {
				if time.Sleep(100 * time.Millisecond); coolsFor(b, sc) < 115*time.Second {
					t.Fatalf("%v: of two minutes %v are left: an answer from before has ended them", sc, coolsFor(b, sc))
				}
			}
		})
	}
}

// What makes no sense, or is of another epoch, is a hint at most.
func TestHintsThatMakeNoSenseAreHints(t *testing.T) {
	hintedProcess(t, func(m *store.Memory, a *farProcess, b *governor.Plain, h *hinted, _ *atomic.Int64) {
		a.Learn(throttle.Signal{Scope: tenant("a"), Delay: time.Hour})
		time.Sleep(3 * time.Second)
		ok := aHint(t, m)
		for i, bad := range []store.Cooldown{
			{Scope: "tenant:b", Left: -1, Gen: 1 << 40},
			{Scope: "tenant:b", Left: 0, Gen: 1 << 40},
			{Scope: "tenant:b", Left: store.MaxCool + 1, Gen: 1 << 40},
			{Scope: "tenant:" + string(make([]byte, 250)), Left: time.Hour, Gen: 1 << 40},
			{Scope: "tenant:b", Left: time.Hour, Gen: 0},
			{Scope: "tenant:a", Left: 0, Gen: 1 << 40},
		} {
			h.hint(store.Hint{Key: ok.Key, Epoch: ok.Epoch, Cooldowns: []store.Cooldown{bad}})
			h.hint(store.Hint{Key: ok.Key, Epoch: "another", Cooldowns: []store.Cooldown{{Scope: "tenant:b", Left: time.Hour, Gen: 1 << 40}}})
			synctest.Wait()
			if cools := b.Stats().Cooldowns; len(cools) != 1 || coolsFor(b, tenant("a")) < 59*time.Minute {
				t.Errorf("after hint %d it cools for %+v", i, cools)
			}
		}
		a.Learn(throttle.Signal{Scope: tenant("c"), Delay: time.Hour})
		time.Sleep(2 * time.Second)
		if coolsFor(b, tenant("c")) == 0 {
			t.Error("it hears of nothing more")
		}
	})
}

// What was heard by a hint is not news that comes between a word and the answer to it.
func TestAWordAfterAHintIsItsGovernorsOwn(t *testing.T) {
	for _, sc := range scopesThatCool {
		for gap := 50 * time.Millisecond; gap < time.Second; gap += 100 * time.Millisecond {
			twoFarProcesses(t, func(t *testing.T, m *store.Memory, a, b *farProcess) {
				a.back.Store(int64(200 * time.Millisecond))
				time.Sleep(2 * time.Second)
				b.Learn(throttle.Signal{Scope: tenant("other"), Delay: time.Hour})
				time.Sleep(gap)
				defer a.Listen(func(e event.Event) {
					t.Errorf("%v, %v after a hint: %v by %q", sc, gap, e.Kind, e.Source)
				}, event.Extended)()
				a.Learn(throttle.Signal{Scope: sc, Delay: time.Hour})
				time.Sleep(100 * time.Millisecond)
				a.Clear(sc)
				time.Sleep(3 * time.Second)
				for name, p := range map[string]*farProcess{"it": a, "another": b} {
					if left := p.left(sc); left > 0 {
						t.Errorf("%v, %v after a hint: cleared while the word is on its way, %s cools for %v", sc, gap, name, left)
					}
				}
			})
		}
	}
}

// An answer that is from before a hint lets nobody pass, also if it comes by a repetition.
func TestAnOldAnswerEndsNoCooldownThatAHintHasTold(t *testing.T) {
	for _, swallows := range []bool{false, true} {
		heard := 0
		for gap := time.Duration(0); gap < 2*time.Second; gap += 50 * time.Millisecond {
			synctest.Test(t, func(t *testing.T) {
				m := memory(t)
				a := newFarProcess(t, m)
				defer a.end()
				var down atomic.Bool
				p := newSharer(t, &faulty{
					Store: m, delay: func() time.Duration { return 200 * time.Millisecond },
					fate: func() fate { return map[bool]fate{true: swallowed}[down.Load()] },
				})
				defer p.end()
				p.use(3 * time.Second)
				down.Store(swallows)
				p.use(gap)
				a.Learn(throttle.Signal{Delay: 1500 * time.Millisecond})
				synctest.Wait()
				if p.free() {
					return // it has not heard of it yet, since it has to tell of more
				}
				heard++
				down.Store(false)
				for left := a.left(throttle.Scope{}); left > 0; left = a.left(throttle.Scope{}) {
					if p.free() {
						t.Errorf("answers swallowed %v, %v later: a call passes %v before the end of what a hint has told", swallows, gap, left)
						break
					}
					time.Sleep(min(left, 10*time.Millisecond))
				}
			})
		}
		if heard < 10 {
			t.Errorf("answers swallowed %v: %d hints are heard", swallows, heard)
		}
	}
}

// Words about tenants that come one after the other hold up nobody after the cooldown of the
// host: neither the probe nor what follows it.
func TestHintsOfOthersDoNotHoldUpTheReturn(t *testing.T) {
	for _, every := range []time.Duration{20 * time.Millisecond, 50 * time.Millisecond, 70 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			m := memory(t)
			a := newFarProcess(t, m)
			defer a.end()
			p := newSharer(t, &faulty{Store: m, delay: func() time.Duration { return 100 * time.Millisecond }})
			defer p.end()
			p.use(3 * time.Second)
			a.Learn(throttle.Signal{Delay: 2 * time.Second})
			time.Sleep(time.Second)
			for i := range 300 {
				a.Learn(throttle.Signal{Scope: tenant(fmt.Sprint(i % 50)), Delay: time.Hour + time.Duration(i)*time.Second})
				if time.Sleep(every); a.left(throttle.Scope{}) > 0 {
					continue
				}
				if p.free() {
					return
				}
			}
			t.Errorf("words each %v: no call passes after the end of the cooldown", every)
		})
	}
}

// sharer is a process that uses permits as something of the user's own might.
type sharer struct {
	s     *store.Syncer
	sh    *store.Share
	leave func()
}

func newSharer(t *testing.T, over store.Store) *sharer {
	t.Helper()
	p := &sharer{s: syncer(t, store.SyncerConfig{Store: over})}
	sh, err := p.s.Share(store.ShareConfig{Name: "acme", Limits: []store.Limit{{Quota: 1000, Per: time.Hour}}})
	if err != nil {
		t.Fatal(err)
	}
	p.sh, p.leave = sh, p.s.Join(&listener{})
	return p
}

// free takes a permit, if there is one.
func (p *sharer) free() bool {
	now := time.Now()
	ok := p.sh.Wait(now, "", 1) == 0
	if ok {
		p.sh.Take(now, "", 1)
		p.sh.Settle(now, "", 1, 1)
	}
	return ok
}

// use takes some for so long.
func (p *sharer) use(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		p.free()
	}
}

func (p *sharer) end() {
	p.leave()
	p.sh.Close()
	p.s.Close()
}

// The answer that tells of a clear is on its way when the next, shorter word is hinted at.
func TestAHintHidesNoClear(t *testing.T) {
	for _, sc := range scopesThatCool {
		for gap := 10 * time.Millisecond; gap < time.Second; gap += 20 * time.Millisecond {
			twoFarProcesses(t, func(t *testing.T, m *store.Memory, a, b *farProcess) {
				b.Learn(throttle.Signal{Scope: sc, Delay: time.Hour})
				time.Sleep(3 * time.Second)
				a.back.Store(int64(400 * time.Millisecond))
				time.Sleep(2*time.Second + 3*time.Millisecond)
				b.Clear(sc)
				time.Sleep(gap)
				b.Learn(throttle.Signal{Scope: sc, Delay: time.Minute})
				time.Sleep(5 * time.Second)
				if left := a.left(sc); left < 50*time.Second || left > time.Minute {
					t.Errorf("%v: of a minute, %v after an hour was cleared, %v are left", sc, gap, left)
				}
			})
		}
	}
}

// secondWordLost takes its time for the first request that says what cools, so that what is
// said meanwhile goes together; it loses the second, and is slow to answer the third.
type secondWordLost struct {
	store.Store
	on    atomic.Bool
	words atomic.Int32
}

func (s *secondWordLost) Exchange(ctx context.Context, node store.Node, items []store.Item) ([]store.Answer, error) {
	slow := false
	if s.on.Load() && slices.ContainsFunc(items, func(it store.Item) bool { return len(it.Cool) > 0 }) {
		switch s.words.Add(1) {
		case 1:
			time.Sleep(20 * time.Millisecond)
		case 2:
			time.Sleep(300 * time.Millisecond)
			return nil, errNetwork
		case 3:
			slow = true
		}
	}
	as, err := s.Store.Exchange(ctx, node, items)
	if slow {
		time.Sleep(800 * time.Millisecond)
	}
	return as, err
}

// Of two words that are repeated one is over by then: another's is not taken for it.
func TestAWordThatIsOverHidesNoOther(t *testing.T) {
	for _, sc := range scopesThatCool {
		twoFarProcesses(t, func(t *testing.T, m *store.Memory, _, b *farProcess) {
			lossy := &secondWordLost{Store: m}
			s := syncer(t, store.SyncerConfig{Store: lossy})
			defer s.Close()
			g := join(t, s)
			defer g.Close()
			time.Sleep(3 * time.Second)
			lossy.on.Store(true)
			g.Learn(throttle.Signal{Scope: tenant("before"), Delay: time.Minute})
			synctest.Wait()
			g.Learn(throttle.Signal{Scope: tenant("short"), Delay: 100 * time.Millisecond})
			g.Learn(throttle.Signal{Scope: sc, Delay: time.Minute})
			time.Sleep(70 * time.Millisecond)
			b.Learn(throttle.Signal{Scope: sc, Delay: time.Hour})
			time.Sleep(450 * time.Millisecond)
			if n := lossy.words.Load(); n != 3 {
				t.Errorf("%v: what it says went in %d requests, not in three: the test says nothing", sc, n)
			}
			if left := coolsFor(g, sc); left > time.Minute {
				t.Errorf("%v: it has heard of the hour at once: the test says nothing", sc)
			}
			g.Clear(sc)
			time.Sleep(5 * time.Second)
			if left := b.left(sc); left < 59*time.Minute {
				t.Errorf("%v: of another's hour %v are left after a clear of who had not heard of it", sc, left)
			}
		})
	}
}
