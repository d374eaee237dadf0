package store_test

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/throttle"
)

// farProcess is a governor with a Syncer of its own, on a way to the store that may be cut, and
// on which answers may take long.
type farProcess struct {
	*governor.Plain
	syncer *store.Syncer
	down   atomic.Bool
	back   atomic.Int64 // how long an answer takes
	way    atomic.Int64 // how long anything does, either way
	mute   atomic.Bool  // its hints do not say what is news
}

func newFarProcess(t *testing.T, m store.Store) *farProcess {
	t.Helper()
	p := &farProcess{}
	p.syncer = syncer(t, store.SyncerConfig{Store: &faulty{
		Store: slowly{m, &p.back, &p.mute},
		delay: func() time.Duration { return time.Duration(p.way.Load()) },
		fate: func() fate {
			if p.down.Load() {
				return lost
			}
			return arrives
		},
	}})
	p.Plain = join(t, p.syncer)
	return p
}

func (p *farProcess) end() { p.Close(); p.syncer.Close() }

// twoFarProcesses runs test in a bubble, with two of them that have met the store.
func twoFarProcesses(t *testing.T, test func(t *testing.T, m *store.Memory, a, b *farProcess)) {
	synctest.Test(t, func(t *testing.T) {
		m := memory(t)
		a, b := newFarProcess(t, m), newFarProcess(t, m)
		defer b.end()
		defer a.end()
		time.Sleep(3 * time.Second)
		test(t, m, a, b)
	})
}

// join returns a governor that shares its cooldowns through s.
func join(t *testing.T, s *store.Syncer) *governor.Plain {
	t.Helper()
	g, err := governor.New(governor.PlainConfig{Name: "acme", Store: s, NoPace: true, Vendor: governortest.Vendor{}})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// slowly delays what a Store has answered.
type slowly struct {
	store.Store
	by   *atomic.Int64
	mute *atomic.Bool
}

func (s slowly) Watch(ctx context.Context, hint func(store.Hint)) (func(), error) {
	return s.Store.Watch(ctx, func(h store.Hint) {
		if s.mute.Load() {
			h = store.Hint{Key: h.Key}
		}
		hint(h)
	})
}

func (s slowly) Exchange(ctx context.Context, node store.Node, items []store.Item) ([]store.Answer, error) {
	as, err := s.Store.Exchange(ctx, node, items)
	time.Sleep(time.Duration(s.by.Load()))
	return as, err
}

// next returns how long from now it is until a call of g, for a tenant, begins.
func next(t *testing.T, g *governor.Plain) time.Duration {
	t.Helper()
	from := time.Now()
	at, err := governor.Do(t.Context(), g.With(governor.Ask{Tenant: "t"}), "", governor.Func(func(context.Context) (time.Time, error) { return time.Now(), nil }))
	if err != nil {
		t.Error(err)
	}
	return at.Sub(from)
}

var scopesThatCool = []throttle.Scope{{}, {Level: throttle.Tenant, Key: "t"}}

// A process that is cut off clears a cooldown. Minutes later another is told to wait for
// long, of which the first has never heard when it reaches the store again.
func TestAClearEndsNoCooldownThatItsSenderHasNotHeardOf(t *testing.T) {
	for _, sc := range scopesThatCool {
		twoFarProcesses(t, func(t *testing.T, m *store.Memory, a, b *farProcess) {
			a.Learn(throttle.Signal{Scope: sc, Delay: 30 * time.Second})
			time.Sleep(3 * time.Second)
			b.down.Store(true)
			b.Clear(sc)
			time.Sleep(5 * time.Minute)
			a.Learn(throttle.Signal{Scope: sc, Delay: 10 * time.Minute})
			time.AfterFunc(10*time.Second, func() { b.down.Store(false) })
			if d := next(t, a.Plain); d < 10*time.Minute {
				t.Errorf("%v: a call began %v after the vendor had asked for 10 minutes", sc, d)
			}
			if d := next(t, b.Plain); d > 0 {
				t.Errorf("%v: after that, one of the other process waits for %v", sc, d)
			}
		})
	}
}

// That another process has cleared is heard when the vendor has just said more.
func TestAClearEndsNothingThatWasHeardMeanwhile(t *testing.T) {
	for _, sc := range scopesThatCool {
		twoFarProcesses(t, func(t *testing.T, m *store.Memory, a, b *farProcess) {
			a.Learn(throttle.Signal{Scope: sc, Delay: 20 * time.Second})
			time.Sleep(3 * time.Second)
			a.back.Store(int64(300 * time.Millisecond))
			b.Clear(sc)
			time.Sleep(100 * time.Millisecond) // the exchange of a has been executed
			a.Learn(throttle.Signal{Scope: sc, Delay: time.Minute})
			if d := next(t, a.Plain); d < time.Minute {
				t.Errorf("%v: a call began %v after the vendor had asked for a minute", sc, d)
			}
		})
	}
}

// Of two governors of one name one is cleared, and then the vendor refuses a call of the
// other, before it has heard of that.
func TestAClearBesideACooldownEndsOnlyWhatWasBefore(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			m := memory(t)
			a, other := newFarProcess(t, m), newFarProcess(t, m)
			defer other.end()
			defer a.end()
			b := join(t, a.syncer)
			defer b.Close()
			time.Sleep(3 * time.Second)
			a.Learn(throttle.Signal{Delay: 30 * time.Second})
			time.Sleep(3 * time.Second)
			a.Clear(throttle.Scope{})
			b.Learn(throttle.Signal{Delay: time.Minute})
			time.Sleep(3 * time.Second)
			for name, g := range map[string]*governor.Plain{"it": b, "its neighbour": a.Plain, "another process": other.Plain} {
				if g.Stats().CooldownCount == 0 {
					t.Errorf("%s does not cool 3s after the vendor had asked for a minute", name)
				}
			}
		})
	}
}

// A process clears what it has just told the store, before it knows that that has arrived.
func TestAClearEndsWhatIsOnItsWay(t *testing.T) {
	for _, sc := range scopesThatCool {
		for _, joins := range []bool{false, true} { // a governor has just joined
			twoFarProcesses(t, func(t *testing.T, m *store.Memory, a, b *farProcess) {
				a.back.Store(int64(300 * time.Millisecond))
				a.Learn(throttle.Signal{Scope: sc, Delay: time.Hour})
				time.Sleep(100 * time.Millisecond)
				if joins {
					c := join(t, a.syncer)
					defer c.Close()
					defer func() {
						if d := next(t, c); d > 0 {
							t.Errorf("%v: a call of the governor that joined waits for %v", sc, d)
						}
					}()
					time.Sleep(time.Millisecond)
				}
				learned := 0
				defer a.Listen(func(event.Event) { learned++ }, event.Cooling)()
				a.Clear(sc)
				time.Sleep(3 * time.Second)
				if learned > 0 {
					t.Errorf("%v: it has learned again what it had cleared", sc)
				}
				for _, p := range []*farProcess{a, b} {
					if d := next(t, p.Plain); d > 0 {
						t.Errorf("%v: a call waits for %v after the cooldown was cleared", sc, d)
					}
				}
			})
		}
	}
}

// A governor closes while an exchange of its key is under way, or right after it was told
// to wait. What its vendor has said last is everybody's.
func TestTheLastWordOfAGovernorIsHeard(t *testing.T) {
	for _, sc := range scopesThatCool {
		for _, before := range []time.Duration{-1, 0, time.Millisecond, 100 * time.Millisecond, 5 * time.Second} { // an earlier word
			for _, wait := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond} {
				for _, ends := range []bool{false, true} { // its process
					for _, far := range []bool{false, true} {
						synctest.Test(t, func(t *testing.T) {
							m := memory(t)
							a, b := newFarProcess(t, m), newFarProcess(t, m)
							defer b.end()
							time.Sleep(2 * time.Minute)
							if far {
								a.back.Store(int64(300 * time.Millisecond))
							}
							if before >= 0 {
								a.Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Tenant, Key: "other"}, Delay: time.Second})
								time.Sleep(before)
							}
							script := governortest.NewScript(governortest.Limited(10*time.Minute, sc))
							governor.Do(t.Context(), a.With(governor.Ask{NoRetry: true, Tenant: "t"}), "", script.Call)
							told := time.Now()
							time.Sleep(wait)
							a.Close()
							again := a.Plain
							if ends {
								a.syncer.Close()
							} else {
								defer a.syncer.Close()
								again = join(t, a.syncer)
								defer again.Close()
							}
							time.Sleep(20 * time.Second)
							if !ends {
								next(t, again)
								if d := time.Since(told); d < 10*time.Minute {
									t.Errorf("%v, another word %v before, closed %v later: a call of its successor began %v after the vendor had asked for 10 minutes", sc, before, wait, d)
								}
							}
							if next(t, b.Plain); time.Since(told) < 10*time.Minute {
								t.Errorf("%v, another word %v before, closed %v later, the process ends %v, far %v: a call of another process began %v after the vendor had asked for 10 minutes", sc, before, wait, ends, far, time.Since(told))
							}
						})
					}
				}
			}
		}
	}
}

// Of two governors of one name one is told to wait and cleared at once: the other must not
// be told of the first after the second.
func TestAClearFollowsWhatItEnds(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			a := newFarProcess(t, memory(t))
			defer a.end()
			b := join(t, a.syncer)
			defer b.Close()
			time.Sleep(3 * time.Second)
			a.Learn(throttle.Signal{Delay: time.Hour})
			time.Sleep(time.Nanosecond)
			a.Clear(throttle.Scope{})
			time.Sleep(3 * time.Second)
			if d := next(t, b); d > 0 {
				t.Errorf("its neighbour waits for %v", d)
			}
		})
	}
}

// A governor is cleared at the very moment at which it is told: it does not go on alone.
func TestAClearAtTheMomentOfTheWordLeavesAllAlike(t *testing.T) {
	for _, sc := range scopesThatCool {
		twoFarProcesses(t, func(t *testing.T, _ *store.Memory, a, b *farProcess) {
			a.Learn(throttle.Signal{Scope: sc, Delay: time.Hour})
			synctest.Wait()
			b.Clear(sc)
			time.Sleep(3 * time.Second)
			if a.left(sc) != b.left(sc) {
				t.Errorf("%v: %v are left in one process, %v in the other", sc, a.left(sc), b.left(sc))
			}
		})
	}
}

// Another process clears an hour, and before that is heard of here the vendor asks for less.
func TestAClearLeavesTheShorterWordThatItHasNotHeardOf(t *testing.T) {
	for _, sc := range scopesThatCool {
		twoFarProcesses(t, func(t *testing.T, m *store.Memory, a, b *farProcess) {
			a.Learn(throttle.Signal{Scope: sc, Delay: time.Hour})
			time.Sleep(3 * time.Second)
			a.back.Store(int64(300 * time.Millisecond))
			b.Clear(sc)
			time.Sleep(100 * time.Millisecond)
			a.Learn(throttle.Signal{Scope: sc, Delay: 30 * time.Second})
			time.Sleep(time.Second)
			for name, p := range map[string]*farProcess{"it": a, "the other": b} {
				if left := p.left(sc); left < 28*time.Second { // it may cool on, if it has not heard of the clear alone
					t.Errorf("%v: %s cools for %v after the vendor had asked for 30s", sc, name, left)
				}
			}
		})
	}
}

// A process clears its own hour, while another is told to wait for ten minutes: that is
// hidden behind the hour in the store, and it has not heard of it.
func TestAClearLeavesWhatIsHiddenBehindWhatItEnds(t *testing.T) {
	for _, sc := range scopesThatCool {
		for _, first := range []bool{false, true} { // it is told before the hour is
			twoFarProcesses(t, func(t *testing.T, m *store.Memory, a, b *farProcess) {
				a.back.Store(int64(100 * time.Millisecond))
				b.back.Store(int64(300 * time.Millisecond))
				b.mute.Store(true)
				tell := func() { a.Learn(throttle.Signal{Scope: sc, Delay: 10 * time.Minute}) }
				if first {
					tell()
				}
				b.Learn(throttle.Signal{Scope: sc, Delay: time.Hour})
				time.Sleep(5 * time.Millisecond)
				b.Clear(sc)
				time.Sleep(5 * time.Millisecond)
				if !first {
					tell()
				}
				for range 8 * 60 {
					if time.Sleep(time.Second); a.left(sc) < time.Minute {
						t.Fatalf("%v: %v are left of 10 minutes that the vendor had asked for", sc, a.left(sc))
					}
				}
			})
		}
	}
}

func (p *farProcess) left(sc throttle.Scope) (left time.Duration) { return coolsFor(p.Plain, sc) }

func coolsFor(g *governor.Plain, sc throttle.Scope) time.Duration {
	for _, c := range g.Export().Cooldowns {
		if c.Scope == sc {
			return max(0, time.Until(c.Until))
		}
	}
	return 0
}

// A governor joins while the answer is on its way that says that it was cleared.
func TestWhoJoinsHearsOfAClearThatIsOnItsWay(t *testing.T) {
	for _, sc := range scopesThatCool {
		twoFarProcesses(t, func(t *testing.T, m *store.Memory, a, b *farProcess) {
			a.Learn(throttle.Signal{Scope: sc, Delay: time.Hour})
			time.Sleep(3 * time.Second)
			b.back.Store(int64(300 * time.Millisecond))
			a.Clear(sc)
			time.Sleep(100 * time.Millisecond)
			c := join(t, b.syncer)
			defer c.Close()
			time.Sleep(3 * time.Second)
			for name, g := range map[string]*governor.Plain{"it": c, "its neighbour": b.Plain} {
				if left := coolsFor(g, sc); left > 0 {
					t.Errorf("%v: %s cools for %v", sc, name, left)
				}
			}
		})
	}
}

// The answer that is on its way when a governor joins is older than what he asks for.
func TestWhoJoinsDoesNotHearOfWhatWasClearedSince(t *testing.T) {
	for _, sc := range scopesThatCool {
		twoFarProcesses(t, func(t *testing.T, _ *store.Memory, a, b *farProcess) {
			b.Close()
			time.Sleep(time.Millisecond)
			b.back.Store(int64(time.Second))
			a.Learn(throttle.Signal{Scope: sc, Delay: time.Hour})
			time.Sleep(time.Millisecond) // b asks, for nobody
			b.Plain = join(t, b.syncer)
			time.Sleep(time.Millisecond)
			a.Clear(sc)
			time.Sleep(10 * time.Second)
			if left := b.left(sc); left > 0 {
				t.Errorf("%v: it cools for %v after the clear", sc, left)
			}
		})
	}
}

// A process is cut off, or stopped, while another clears.
func TestWhoWasCutOffHearsOfAClear(t *testing.T) {
	for _, sc := range scopesThatCool {
		twoFarProcesses(t, func(t *testing.T, _ *store.Memory, a, b *farProcess) {
			a.Learn(throttle.Signal{Scope: sc, Delay: time.Hour})
			time.Sleep(3 * time.Second)
			b.down.Store(true)
			time.Sleep(3 * time.Second)
			a.Clear(sc)
			for range 14 {
				time.Sleep(time.Minute)
				a.Learn(throttle.Signal{Scope: tenant("x"), Delay: time.Second})
			}
			b.down.Store(false)
			time.Sleep(20 * time.Second)
			if left := b.left(sc); left > 0 {
				t.Errorf("%v: it cools for %v", sc, left)
			}
		})
	}
}

// What is hidden behind a longer word is heard of as soon as that: a clear that comes well
// after it ends both.
func TestAClearAfterAWordThatMovesNoEndEndsIt(t *testing.T) {
	for _, sc := range scopesThatCool {
		twoFarProcesses(t, func(t *testing.T, _ *store.Memory, a, b *farProcess) {
			for i := range time.Duration(50) {
				a.Learn(throttle.Signal{Scope: sc, Delay: time.Hour})
				time.Sleep(1200*time.Millisecond + i*17*time.Millisecond)
				a.Learn(throttle.Signal{Scope: sc, Delay: 30 * time.Minute})
				time.Sleep(100 * time.Millisecond)
				b.Clear(sc)
				time.Sleep(3 * time.Second)
				if a.left(sc) > 0 || b.left(sc) > 0 {
					t.Fatalf("%v, %d: %v and %v are left", sc, i, a.left(sc), b.left(sc))
				}
			}
		})
	}
}

// A clear comes while this process is telling a store what it has lost.
func TestAClearAfterALossIsNotUndoneByWhatIsToldAgain(t *testing.T) {
	for _, sc := range scopesThatCool {
		for d := time.Duration(0); d < 2*time.Second; d += 50 * time.Millisecond {
			twoFarProcesses(t, func(t *testing.T, m *store.Memory, a, b *farProcess) {
				a.Learn(throttle.Signal{Scope: sc, Delay: time.Hour})
				time.Sleep(3 * time.Second)
				b.down.Store(true) // so that nobody else tells
				a.way.Store(int64(200 * time.Millisecond))
				m.Lose()
				time.Sleep(d)
				a.Clear(sc)
				time.Sleep(10 * time.Second)
				if left := a.left(sc); left > 0 {
					t.Errorf("%v, cleared %v after the loss: it cools for %v again", sc, d, left)
				}
			})
		}
	}
}

// As that, of several scopes at once.
func TestClearsAfterALossAreNotUndoneByWhatIsToldAgain(t *testing.T) {
	keys := []string{"t", "u", "v", "w"}
	for d := time.Duration(0); d < 3*time.Second; d += 100 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			m := memory(t)
			a := newFarProcess(t, m)
			defer a.end()
			time.Sleep(3 * time.Second)
			for _, key := range keys {
				a.Learn(throttle.Signal{Scope: tenant(key), Delay: time.Hour})
				time.Sleep(time.Second)
			}
			a.way.Store(int64(time.Second))
			time.Sleep(3 * time.Second)
			m.Lose()
			time.Sleep(d)
			for _, key := range keys {
				a.Clear(tenant(key))
			}
			time.Sleep(20 * time.Second)
			for _, key := range keys {
				if left := a.left(tenant(key)); left > 0 {
					t.Errorf("%s, cleared %v after the loss: it cools for %v again", key, d, left)
				}
			}
		})
	}
}

// Another's word of the same number, in a store that has lost its state, is not taken for
// what is told again.
func TestAClearAfterALossEndsNoWordOfAnothers(t *testing.T) {
	for learn := time.Duration(0); learn <= 3*time.Second; learn += 200 * time.Millisecond {
		for d := 100 * time.Millisecond; d <= 400*time.Millisecond; d += 100 * time.Millisecond {
			twoFarProcesses(t, func(t *testing.T, m *store.Memory, a, b *farProcess) {
				a.way.Store(int64(time.Second))
				b.down.Store(true)
				a.Learn(throttle.Signal{Scope: tenant("t"), Delay: time.Minute})
				time.Sleep(5 * time.Second)
				m.Lose()
				b.down.Store(false)
				time.Sleep(learn)
				if b.left(tenant("t")) > 0 {
					return
				}
				b.Learn(throttle.Signal{Scope: tenant("t"), Delay: 20 * time.Second})
				time.Sleep(d)
				a.Clear(tenant("t"))
				if took := next(t, b.Plain); took < 15*time.Second {
					t.Errorf("told %v after the loss, and cleared elsewhere %v later: it begins after %v", learn, d, took)
				}
			})
		}
	}
}

// When the store has lost its state, the first who comes back may have heard of less.
func TestLostStateGetsTheLongestWordBack(t *testing.T) {
	for _, sc := range scopesThatCool {
		twoFarProcesses(t, func(t *testing.T, m *store.Memory, a, b *farProcess) {
			a.Learn(throttle.Signal{Scope: sc, Delay: 2 * time.Minute})
			time.Sleep(3 * time.Second)
			b.down.Store(true)
			time.Sleep(time.Second)
			told := time.Now()
			a.Learn(throttle.Signal{Scope: sc, Delay: 10 * time.Minute})
			time.Sleep(2 * time.Second)
			a.down.Store(true)
			m.Lose()
			b.down.Store(false)
			time.Sleep(5 * time.Second)
			a.down.Store(false)
			time.Sleep(20 * time.Second)
			c := newFarProcess(t, m)
			defer c.end()
			time.Sleep(3 * time.Second)
			for name, p := range map[string]*farProcess{"it": a, "another": b, "a new process": c} {
				if d := time.Since(told) + p.left(sc); d < 10*time.Minute {
					t.Errorf("%v: %s cools until %v after the vendor had asked for 10 minutes", sc, name, d)
				}
			}
		})
	}
}

// The state is lost between a clear and what the vendor says next. The clear is by the
// numbers of the words that were lost, and others have them now.
func TestAClearOfLostStateEndsNoWordOfTheNext(t *testing.T) {
	for _, sc := range scopesThatCool {
		for name, clearsFirst := range map[string]bool{"behind an exchange that is under way": true, "after the loss was heard of": false} {
			twoFarProcesses(t, func(t *testing.T, m *store.Memory, a, b *farProcess) {
				for i := range time.Duration(5) {
					a.Learn(throttle.Signal{Scope: sc, Delay: (i + 1) * time.Minute})
					time.Sleep(100 * time.Millisecond)
				}
				time.Sleep(time.Second)
				b.way.Store(int64(20 * time.Millisecond))
				if clearsFirst {
					a.Learn(throttle.Signal{Scope: sc, Delay: 6 * time.Minute}) // of which b asks
					time.Sleep(5 * time.Millisecond)
					b.Clear(sc)
					time.Sleep(time.Millisecond)
					m.Lose()
				} else {
					a.way.Store(int64(2 * time.Second)) // and hears of the loss late
					m.Lose()
					time.Sleep(1010 * time.Millisecond)
					b.Clear(sc)
				}
				time.Sleep(time.Millisecond)
				a.Learn(throttle.Signal{Scope: sc, Delay: time.Hour})
				time.Sleep(20 * time.Second)
				for who, p := range map[string]*farProcess{"it": a, "the other": b} {
					if left := p.left(sc); left < 59*time.Minute {
						t.Errorf("%v, a clear %s: %s cools for %v after the vendor had asked for an hour", sc, name, who, left)
					}
				}
			})
		}
	}
}

// A wall clock that is set forward ends leases, and no cooldown.
func TestAWallClockThatIsSetForwardEndsNoCooldown(t *testing.T) {
	for _, sc := range scopesThatCool {
		for name, set := range map[string]func(p *farProcess, m *store.Memory, step func()){
			"as ever": func(_ *farProcess, _ *store.Memory, step func()) { step() },
			"in an outage": func(p *farProcess, _ *store.Memory, step func()) {
				p.down.Store(true)
				p.Learn(throttle.Signal{Scope: sc, Delay: 10*time.Minute + time.Second})
				time.Sleep(time.Second)
				step()
				time.Sleep(time.Second)
				p.down.Store(false)
			},
			"before the state is lost": func(_ *farProcess, m *store.Memory, step func()) { step(); m.Lose() },
		} {
			synctest.Test(t, func(t *testing.T) {
				m := memory(t)
				a, b := newFarProcess(t, m), newFarProcess(t, m)
				defer b.end()
				defer a.end()
				var ahead atomic.Int64
				a.syncer.SetWall(func() time.Duration { return time.Duration(ahead.Load()) })
				time.Sleep(3 * time.Second)
				a.Learn(throttle.Signal{Scope: sc, Delay: 10 * time.Minute})
				told := time.Now()
				time.Sleep(time.Second)
				set(a, m, func() { ahead.Store(int64(time.Hour)) })
				time.Sleep(3 * time.Second)
				c, d := join(t, a.syncer), newFarProcess(t, m)
				defer d.end()
				defer c.Close()
				time.Sleep(3 * time.Second)
				all := map[string]*governor.Plain{"it": a.Plain, "its neighbour": c, "another": b.Plain, "a new process": d.Plain}
				for who, g := range all {
					if d := time.Since(told) + coolsFor(g, sc); d < 10*time.Minute-time.Second {
						t.Errorf("%s, %v: %s cools until %v after the vendor had asked for 10 minutes", name, sc, who, d)
					}
				}
				b.back.Store(int64(300 * time.Millisecond))
				a.Clear(sc)
				time.Sleep(100 * time.Millisecond)
				ahead.Add(int64(time.Minute))
				time.Sleep(3 * time.Second)
				for who, g := range all {
					if left := coolsFor(g, sc); left > 0 {
						t.Errorf("%s, %v: %s cools for %v after it was cleared", name, sc, who, left)
					}
				}
			})
		}
	}
}

// What a process has yet to say when it ends is said, however much it is.
func TestAllThatIsUnsaidIsSaidAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory(t)
		a, b := newFarProcess(t, m), newFarProcess(t, m)
		defer b.end()
		time.Sleep(3 * time.Second)
		tenant := func(i int) throttle.Scope { return throttle.Scope{Level: throttle.Tenant, Key: strconv.Itoa(i)} }
		for i := range 20 {
			b.Learn(throttle.Signal{Scope: tenant(i), Delay: time.Hour})
		}
		time.Sleep(3 * time.Second)
		a.down.Store(true)
		for i := range 60 {
			if i < 20 {
				a.Clear(tenant(i))
			} else {
				a.Learn(throttle.Signal{Scope: tenant(i), Delay: time.Hour})
			}
			if i == 2 || i == 22 {
				time.Sleep(time.Millisecond) // some are on their way
			}
		}
		time.Sleep(time.Millisecond)
		a.down.Store(false)
		a.end()
		time.Sleep(3 * time.Second)
		for i := range 60 {
			if cools := b.left(tenant(i)) > 0; cools != (i >= 20) {
				t.Errorf("tenant %d: another process cools: %v", i, cools)
			}
		}
	})
}

// What came and was cleared while the store was away it need not hear of.
func TestWhatTheStoreHasNotHeardOfIsClearedWithoutIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		var count counting
		s := syncer(t, store.SyncerConfig{Store: &faulty{Store: memory(t), count: &count.n, fate: func() fate {
			if away.Load() {
				return lost
			}
			return arrives
		}}})
		defer s.Close()
		g := join(t, s)
		defer g.Close()
		time.Sleep(3 * time.Second)
		away.Store(true)
		for i := range 2000 {
			sc := throttle.Scope{Level: throttle.Tenant, Key: fmt.Sprint(i)}
			g.Learn(throttle.Signal{Scope: sc, Delay: 2 * time.Second})
			time.Sleep(10 * time.Millisecond)
			g.Clear(sc)
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Hour)
		away.Store(false)
		before := count.n.Load()
		time.Sleep(10 * time.Second)
		if n := count.n.Load() - before; n > 20 {
			t.Errorf("%d exchanges in ten seconds after the outage, want one a second", n)
		}
	})
}
