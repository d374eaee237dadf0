package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/event"
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

// hinted is a process that gets the hints that the test gives it.
type hinted struct {
	store.Store
	mu   sync.Mutex
	hint func(store.Hint)
	back atomic.Int64 // how long an answer takes
}

func (s *hinted) Watch(_ context.Context, hint func(store.Hint)) (func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hint = hint
	return func() {}, nil
}

func (s *hinted) Exchange(ctx context.Context, node store.Node, items []store.Item) ([]store.Answer, error) {
	as, err := s.Store.Exchange(ctx, node, items)
	time.Sleep(time.Duration(s.back.Load()))
	return as, err
}

// aHint returns what the store says of its words after seen.
func aHint(t *testing.T, m *store.Memory, seen uint64) store.Hint {
	key := store.KeyFor("acme", throttle.Scope{}.String())
	as, err := m.Exchange(t.Context(), store.NewNode(), []store.Item{{Key: key, Seq: 1}})
	if err = errors.Join(err, as[0].Err); err != nil {
		t.Fatal(err)
	}
	h := store.Hint{Key: key, Epoch: as[0].Epoch}
	for _, cd := range as[0].Cooldowns {
		if cd.Gen > seen {
			h.Cooldowns = append(h.Cooldowns, cd)
		}
	}
	return h
}

// Hints come late, twice, and in another order, and answers may be from before.
func TestHintsThatAreOldSayNothing(t *testing.T) {
	for _, sc := range scopesThatCool {
		synctest.Test(t, func(t *testing.T) {
			m := memory(t)
			a := newFarProcess(t, m)
			defer a.end()
			h := &hinted{Store: m}
			s := syncer(t, store.SyncerConfig{Store: h})
			defer s.Close()
			b := join(t, s)
			defer b.Close()
			time.Sleep(3 * time.Second)

			a.Learn(throttle.Signal{Scope: sc, Delay: time.Hour})
			synctest.Wait()
			hour := aHint(t, m, 0)
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
			h.back.Store(int64(900 * time.Millisecond))
			a.Clear(sc)
			time.Sleep(1500 * time.Millisecond) // an exchange that heard of the clear has been executed
			a.Learn(throttle.Signal{Scope: sc, Delay: 2 * time.Minute})
			synctest.Wait()
			h.hint(aHint(t, m, 0))
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
	synctest.Test(t, func(t *testing.T) {
		m := memory(t)
		a := newFarProcess(t, m)
		defer a.end()
		h := &hinted{Store: m}
		s := syncer(t, store.SyncerConfig{Store: h})
		defer s.Close()
		b := join(t, s)
		defer b.Close()
		time.Sleep(3 * time.Second)
		a.Learn(throttle.Signal{Scope: tenant("a"), Delay: time.Hour})
		time.Sleep(3 * time.Second)
		ok := aHint(t, m, 0)
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
				s := syncer(t, store.SyncerConfig{Store: &faulty{
					Store: m, delay: func() time.Duration { return 200 * time.Millisecond },
					fate: func() fate { return map[bool]fate{true: swallowed}[down.Load()] },
				}})
				defer s.Close()
				sh, err := s.Share(store.ShareConfig{Name: "acme", Limits: []store.Limit{{Quota: 1000, Per: time.Hour}}})
				if err != nil {
					t.Fatal(err)
				}
				defer sh.Close()
				defer s.Join(&listener{})()
				free := func() bool {
					now := time.Now()
					ok := sh.Wait(now, "", 1) == 0
					if ok {
						sh.Take(now, "", 1)
					}
					return ok
				}
				for range 300 {
					free()
					time.Sleep(10 * time.Millisecond)
				}
				down.Store(swallows)
				for end := time.Now().Add(gap); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
					free()
				}
				a.Learn(throttle.Signal{Delay: 1500 * time.Millisecond})
				synctest.Wait()
				if free() {
					return // it has not heard of it yet, since it has to tell of more
				}
				heard++
				down.Store(false)
				for left := a.left(throttle.Scope{}); left > 0; left = a.left(throttle.Scope{}) {
					if free() {
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
