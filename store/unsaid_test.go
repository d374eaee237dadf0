package store_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/throttle"
)

// refusing is a Store that executes nothing of what refuses says.
type refusing struct {
	store.Store
	mu      sync.Mutex
	refuses func(items []store.Item) bool // guarded by mu
	how     refusal
	asked   int // guarded by mu: how many items were refused
}

type refusal int

const (
	allInvalid  refusal = iota // an error of the exchange
	eachInvalid                // one of each item
	eachStale
	eachNonsense
)

func (r *refusing) Exchange(ctx context.Context, node store.Node, items []store.Item) ([]store.Answer, error) {
	r.mu.Lock()
	refuses := r.refuses != nil && r.refuses(items)
	if refuses {
		r.asked += len(items)
	}
	r.mu.Unlock()
	if !refuses {
		return r.Store.Exchange(ctx, node, items)
	}
	if r.how == allInvalid {
		return nil, store.ErrInvalid
	}
	var as []store.Answer
	for _, it := range items {
		a := store.Answer{Node: node, Key: it.Key, Seq: it.Seq, Stale: r.how == eachStale}
		switch r.how {
		case eachInvalid:
			a.Err = store.ErrInvalid
		case eachNonsense:
			a.Granted = -1
		}
		as = append(as, a)
	}
	return as, nil
}

// set has it refuse from now on, and returns how much it has refused.
func (r *refusing) set(refuses func([]store.Item) bool) (asked int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	asked, r.asked, r.refuses = r.asked, 0, refuses
	return asked
}

func all([]store.Item) bool { return true }

// listener is a governor that only notes what it is told.
type listener struct {
	mu     sync.Mutex
	listen func(event.Event)
	heard  []string  // guarded by mu
	before time.Time // guarded by mu: of the last Clear
}

func (l *listener) Name() string { return "acme" }

func (l *listener) Listen(fn func(event.Event), _ ...event.Kind) func() {
	l.listen = fn
	return func() {}
}

func (l *listener) Learn(s throttle.Signal) { l.note("cool " + s.Scope.String()) }

func (l *listener) ClearBefore(s throttle.Scope, at time.Time) {
	l.note("clear " + s.String())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before = at
}

func (l *listener) cleared() (before time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.before
}

func (l *listener) note(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, s)
}

// all returns what it was told since it was asked last.
func (l *listener) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	heard := l.heard
	l.heard = nil
	slices.Sort(heard)
	return heard
}

// twoOf returns two processes, of which the first reaches the store by r, and a governor
// of each.
func twoOf(t *testing.T, r *refusing) (a, b *store.Syncer, ga, gb *listener) {
	t.Helper()
	a, b = syncer(t, store.SyncerConfig{Store: r}), syncer(t, store.SyncerConfig{Store: r.Store})
	ga, gb = &listener{}, &listener{}
	leaveA, leaveB := a.Join(ga), b.Join(gb)
	t.Cleanup(func() {
		leaveB()
		leaveA()
		b.Close()
		a.Close()
	})
	return a, b, ga, gb
}

// What a request was to say that was not executed is said by the next: cooldowns that
// a vendor asked for, those that an operator has cleared, and what calls cost beyond what
// was granted; not permits that come back, for an earlier try may have been executed whose
// answer was lost. And it is not said in a busy loop. Nonsense for an answer says nothing of
// what was executed.
func TestWhatWasNotExecutedIsSaidAgain(t *testing.T) {
	for how, name := range []string{"all invalid", "each invalid", "each stale", "each nonsense"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &refusing{Store: memory(t), how: refusal(how)}
				a, b, ga, gb := twoOf(t, r)
				hour := store.Limit{Kind: store.Window, Quota: 100, Per: time.Hour}
				owes := share(t, a, hour)
				name := store.ShareConfig{Name: "gives", Limits: []store.Limit{hour}}
				gives, err := a.Share(name)
				if err != nil {
					t.Fatal(err)
				}
				other, err := b.Share(name)
				if err != nil {
					t.Fatal(err)
				}
				for _, sh := range []*store.Share{owes, gives} {
					for sh.Wait(time.Now(), "x", 60) != 0 {
						time.Sleep(10 * time.Millisecond)
					}
				}
				owes.Take(time.Now(), "x", 1)
				gives.Take(time.Now(), "x", 1)
				soon := time.Now().Add(10 * time.Minute)
				ga.listen(event.Event{Kind: event.Cooling, Scope: "tenant:old", Until: soon})
				time.Sleep(100 * time.Millisecond)
				if heard := fmt.Sprint(gb.all()); heard != "[cool tenant:old]" {
					t.Fatalf("the other process hears %s", heard)
				}

				r.set(all)
				ga.listen(event.Event{Kind: event.Cooling, Scope: "tenant:new", Until: soon})
				ga.listen(event.Event{Kind: event.Cleared, Scope: "tenant:old"})
				owes.Settle(time.Now(), "x", 1, 91) // of 60 that it has
				time.Sleep(5 * time.Second)         // in which nobody asks for what it has of the other
				asked := r.set(nil)
				if asked < 3 || asked > 3*12 {
					t.Errorf("%d items are refused in five seconds, of three keys", asked)
				}
				time.Sleep(1100 * time.Millisecond)
				if heard := fmt.Sprint(gb.all()); heard != "[clear tenant:old cool tenant:new]" {
					t.Errorf("the other process hears %s", heard)
				}
				bb := share(t, b, hour)
				for _, c := range []struct {
					sh   *store.Share
					want int
					what string
				}{{bb, 9, "of 100, of which 91 are used"}, {other, 40, "of 100, of which 60 are not known to be returned: they may have been"}} {
					n := 0
					for range 300 {
						for c.sh.Wait(time.Now(), "x", 1) == 0 {
							c.sh.Take(time.Now(), "x", 1)
							n++
						}
						time.Sleep(10 * time.Millisecond)
					}
					if n != c.want {
						t.Errorf("the other process has %d %s", n, c.what)
					}
				}
			})
		})
	}
}

// A clear that was not executed is none any more when the scope cools again: what the
// vendor has said since is newer.
func TestAClearThatWasNotExecutedEndsNoLaterCooldown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &refusing{Store: memory(t)}
		_, _, ga, gb := twoOf(t, r)
		ga.listen(event.Event{Kind: event.Cooling, Scope: "tenant:a", Until: time.Now().Add(time.Minute)})
		time.Sleep(time.Second)
		r.set(all)
		ga.listen(event.Event{Kind: event.Cleared, Scope: "tenant:a"})
		time.Sleep(5 * time.Second)
		ga.listen(event.Event{Kind: event.Cooling, Scope: "tenant:a", Until: time.Now().Add(time.Hour)})
		time.Sleep(5 * time.Second)
		gb.all()
		r.set(nil)
		time.Sleep(2 * time.Second)
		if heard := fmt.Sprint(gb.all()); heard != "[cool tenant:a]" {
			t.Errorf("the other process hears %s", heard)
		}
	})
}

// Between the two events of a governor's word another process's longer one is heard of, so
// that the second moves no end any more. The word was heard nevertheless: a clear long after
// ends it, too.
func TestAWordThatIsOvertakenBetweenItsEventsIsClearedWithTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, ga, gb := twoOf(t, &refusing{Store: memory(t)})
		time.Sleep(time.Second)
		began := time.Now()
		ga.listen(event.Event{Time: began, Kind: event.Learned, Scope: "tenant:a", Delay: 10 * time.Minute})
		gb.listen(event.Event{Time: began, Kind: event.Cooling, Scope: "tenant:a", Until: began.Add(time.Hour)})
		time.Sleep(time.Second)
		ga.listen(event.Event{Time: began, Kind: event.Cooling, Scope: "tenant:a", Until: began.Add(10 * time.Minute)})
		time.Sleep(5 * time.Second)
		gb.listen(event.Event{Time: time.Now(), Kind: event.Cleared, Scope: "tenant:a"})
		time.Sleep(5 * time.Second)
		if heard := fmt.Sprint(ga.all()); heard != "[clear tenant:a cool tenant:a]" {
			t.Fatalf("the process whose vendor has said ten minutes hears %s", heard)
		}
		if before := ga.cleared(); !before.After(began) {
			t.Errorf("it is cleared of what was before %v, and its vendor spoke at %v", before, began)
		}
	})
}

// A governor that missed events, or leaves, says once more what its vendor has said, and may
// not have heard that it was cleared since.
func TestAWordThatIsRepeatedAfterItsClearIsNone(t *testing.T) {
	for name, clears := range map[string]func(ga, gb *listener) *listener{
		"its own":       func(ga, _ *listener) *listener { return ga },
		"the other one": func(_, gb *listener) *listener { return gb },
	} {
		synctest.Test(t, func(t *testing.T) {
			_, _, ga, gb := twoOf(t, &refusing{Store: memory(t)})
			time.Sleep(time.Second)
			word := event.Event{Time: time.Now(), Kind: event.Cooling, Scope: "tenant:a", Until: time.Now().Add(time.Hour)}
			ga.listen(word)
			time.Sleep(time.Second)
			clears(ga, gb).listen(event.Event{Time: time.Now(), Kind: event.Cleared, Scope: "tenant:a"})
			time.Sleep(time.Second)
			gb.all()
			ga.listen(word)
			time.Sleep(3 * time.Second)
			if heard := fmt.Sprint(gb.all()); heard != "[]" {
				t.Errorf("cleared by %s: the other hears %s", name, heard)
			}
			word.Time = time.Now()
			ga.listen(word)
			time.Sleep(3 * time.Second)
			if heard := fmt.Sprint(gb.all()); heard != "[cool tenant:a]" {
				t.Errorf("cleared by %s: when the vendor says it again the other hears %s", name, heard)
			}
		})
	}
}

// Words of two governors are heard in the other order, and then another process clears.
func TestAClearFromElsewhereEndsTheLatestWordHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _, ga, gb := twoOf(t, &refusing{Store: memory(t)})
		neighbour := &listener{}
		defer a.Join(neighbour)()
		time.Sleep(time.Second)
		first := time.Now()
		time.Sleep(time.Millisecond)
		second := time.Now()
		time.Sleep(time.Millisecond)
		ga.listen(event.Event{Time: second, Kind: event.Cooling, Scope: "tenant:a", Until: second.Add(10 * time.Minute)})
		neighbour.listen(event.Event{Time: first, Kind: event.Cooling, Scope: "tenant:a", Until: first.Add(time.Hour)})
		time.Sleep(time.Minute)
		gb.listen(event.Event{Time: time.Now(), Kind: event.Cleared, Scope: "tenant:a"})
		time.Sleep(3 * time.Second)
		if before := ga.cleared(); !before.After(second) {
			t.Errorf("it is cleared of what was before %v, and its vendor spoke at %v", before, second)
		}
	})
}

// The success of the probe that was not heard is told again: else all others wait for it
// until the store takes it for lost.
func TestAProbesSuccessThatWasNotExecutedIsSaidAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &refusing{Store: memory(t)}
		a, b, ga, _ := twoOf(t, r)
		second := store.Limit{Kind: store.Window, Quota: 100, Per: time.Second}
		sa, sb := share(t, a, second), share(t, b, second)
		wait := func(sh *store.Share) time.Duration {
			begun := time.Now()
			for sh.Wait(time.Now(), "", 1) != 0 {
				time.Sleep(10 * time.Millisecond)
			}
			return time.Since(begun)
		}
		ga.listen(event.Event{Kind: event.Cooling, Scope: "host", Until: time.Now().Add(2 * time.Second)})
		time.Sleep(time.Second)
		wait(sa)
		r.set(all)
		now := time.Now()
		sa.Take(now, "", 1)
		sa.Settle(now, "", 1, 1)
		sa.Accepted(now, now, "")
		time.Sleep(time.Second)
		r.set(nil)
		if d := wait(sb); d > 1100*time.Millisecond {
			t.Errorf("the others wait %v for what the vendor has accepted", d)
		}
	})
}

// An item that makes no sense to the store, which refuses all that come with it, does
// not keep those from the store for long.
func TestAnInvalidItemStopsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &refusing{Store: memory(t)}
		var told []event.Event
		var mu sync.Mutex
		s := syncer(t, store.SyncerConfig{Store: r, OnEvent: func(e event.Event) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, e)
		}})
		defer s.Close()
		bad := store.KeyFor("acme", throttle.Scope{Level: throttle.Tenant, Key: "bad"}.String())
		r.set(func(items []store.Item) bool {
			return slices.ContainsFunc(items, func(it store.Item) bool { return it.Key == bad })
		})
		sh, err := s.Share(store.ShareConfig{Name: "acme", Per: throttle.Tenant, Limits: []store.Limit{{Quota: 1000, Per: time.Second}}})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			sh.Wait(time.Now(), "bad", 1)
			for _, key := range []string{"a", "b", "c"} {
				if sh.Wait(time.Now(), key, 1) == 0 {
					sh.Take(time.Now(), key, 1)
					n++
				}
			}
		}
		if n < 800 { // of some 1030; how long each pauses is random
			t.Errorf("%d calls pass", n)
		}
		if asked := r.set(nil); asked > 40 {
			t.Errorf("%d items are refused in ten seconds", asked)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, e := range told {
			if e.Source == "" || e.Source == store.Closed.String() {
				t.Errorf("the whole store is said to be %v: %v", e.Kind, e.Err)
			}
		}
	})
}

// A scope that is too long for a store is this process's alone, and that is said, once.
func TestAScopeThatIsTooLongIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory(t)
		var log lines
		a, b := syncer(t, store.SyncerConfig{Store: m, Logger: log.logger()}), syncer(t, store.SyncerConfig{Store: m})
		defer a.Close()
		defer b.Close()
		ga, gb := &listener{}, &listener{}
		defer a.Join(ga)()
		defer b.Join(gb)()
		cools := func(bytes int) string {
			scope := throttle.Scope{Level: throttle.Bucket}.String()
			scope += strings.Repeat("x", bytes-len(scope))
			ga.listen(event.Event{Kind: event.Cooling, Scope: scope, Until: time.Now().Add(time.Minute)})
			time.Sleep(2 * time.Second)
			return scope
		}
		longest := cools(256)
		if n := log.with("not shared"); n != 0 {
			t.Errorf("it is logged %d times that a scope of 256 bytes is not shared", n)
		}
		cools(257)
		cools(300)
		if n := log.with("not shared"); n != 1 {
			t.Errorf("it is logged %d times that scopes are not shared, want once", n)
		}
		if heard := gb.all(); len(heard) != 1 || heard[0] != "cool "+longest {
			t.Errorf("the other process hears of %d cooldowns: %.60q", len(heard), heard)
		}
	})
}

// A store that answers with nonsense is lost, and what is to pass then passes.
func TestAStoreThatAnswersWithNonsenseIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &refusing{Store: memory(t), how: eachNonsense}
		var mu sync.Mutex
		var heard []event.Kind
		s := syncer(t, store.SyncerConfig{Store: r, Outage: store.Open, OnEvent: func(e event.Event) {
			mu.Lock()
			defer mu.Unlock()
			heard = append(heard, e.Kind)
		}})
		defer s.Close()
		sh := share(t, s, store.Limit{Kind: store.Window, Quota: 10, Per: time.Hour})
		r.set(all)
		sh.Wait(time.Now(), "", 1)
		time.Sleep(3 * time.Second)
		if wait := sh.Wait(time.Now(), "", 1); wait != 0 {
			t.Errorf("a permit is %v away", wait)
		}
		r.set(nil)
		time.Sleep(3 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if want := []event.Kind{event.StoreLost, event.StoreBack}; !slices.Equal(heard, want) {
			t.Errorf("heard %v, want %v", heard, want)
		}
	})
}
