package store_test

import (
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/throttle"
)

// A neighbour takes long to hear a word: nobody else waits for that.
func TestANeighbourThatIsSlowHoldsNobodyUp(t *testing.T) {
	twoFarProcesses(t, func(t *testing.T, _ *store.Memory, a, b *farProcess) {
		free := make(chan struct{})
		slow, quick := &slowListener{free: free}, join(t, a.syncer)
		defer quick.Close()
		defer a.syncer.Join(slow)()
		defer close(free)
		for i := range 1000 {
			a.Learn(throttle.Signal{Scope: tenant("x"), Delay: time.Minute + time.Duration(i)*time.Second})
		}
		a.Learn(throttle.Signal{Delay: time.Hour})
		time.Sleep(3 * time.Second)
		for _, sc := range []throttle.Scope{tenant("x"), {}} {
			if b.left(sc) == 0 || coolsFor(quick, sc) == 0 {
				t.Errorf("%v: the other process cools for %v, another neighbour for %v", sc, b.left(sc), coolsFor(quick, sc))
			}
		}
		if a.syncer.Untold() > 2 {
			t.Errorf("%d words wait for who hears none, of two scopes", a.syncer.Untold())
		}
	})
}

type slowListener struct {
	listener
	free <-chan struct{}
}

func (l *slowListener) Learn(s throttle.Signal) {
	<-l.free
	l.listener.Learn(s)
}

// Who is cleared is not told afterwards of what was before.
func TestWhoIsSlowToHearIsNotToldOfWhatItCleared(t *testing.T) {
	twoFarProcesses(t, func(t *testing.T, _ *store.Memory, a, b *farProcess) {
		free := make(chan struct{})
		slow := &slowListener{free: free}
		defer a.syncer.Join(slow)()
		b.Learn(throttle.Signal{Scope: tenant("x"), Delay: time.Minute}) // which it takes long to hear
		time.Sleep(time.Second)
		b.Learn(throttle.Signal{Scope: tenant("y"), Delay: time.Hour})
		time.Sleep(time.Second)
		slow.listen(event.Event{Kind: event.Cleared, Scope: "tenant:y"})
		time.Sleep(time.Second)
		slow.all()
		close(free)
		time.Sleep(20 * time.Second)
		if heard := fmt.Sprint(slow.all()); heard != "[clear tenant:y cool tenant:x]" {
			t.Errorf("it hears %s", heard)
		}
		if left := max(a.left(tenant("y")), b.left(tenant("y"))); left > 0 {
			t.Errorf("others cool for %v", left)
		}
	})
}

// So many scopes are refused at once that events of them are dropped.
func TestAllScopesThatAreRefusedAtOnceAreHeardOf(t *testing.T) {
	twoFarProcesses(t, func(t *testing.T, _ *store.Memory, a, _ *farProcess) {
		neighbour := join(t, a.syncer)
		defer neighbour.Close()
		const n = 3000
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for j := i; j < n; j += 8 {
					a.Learn(throttle.Signal{Scope: tenant(strconv.Itoa(j)), Delay: time.Hour})
				}
			})
		}
		all.Wait()
		time.Sleep(time.Second)
		if got := len(neighbour.Export().Cooldowns); got != n {
			t.Errorf("its neighbour knows of %d of %d", got, n)
		}
	})
}

// A Governor of the user's that panics, or ends its goroutine, harms nobody.
func TestAGovernorThatPanicsIsToldTheNextWord(t *testing.T) {
	for name, fails := range map[string]func(){"panics": func() { panic("no") }, "exits": runtime.Goexit} {
		twoFarProcesses(t, func(t *testing.T, _ *store.Memory, a, b *farProcess) {
			bad := &failingListener{fails: fails}
			defer a.syncer.Join(bad)()
			for _, key := range []string{"x", "y"} {
				b.Learn(throttle.Signal{Scope: tenant(key), Delay: time.Hour})
			}
			time.Sleep(time.Second)
			if got := fmt.Sprint(bad.all()); got != "[cool tenant:x cool tenant:y]" {
				t.Errorf("one that %s hears %s", name, got)
			}
			if a.left(tenant("y")) == 0 {
				t.Errorf("one that %s has a neighbour not told", name)
			}
		})
	}
}

type failingListener struct {
	listener
	fails func()
}

func (l *failingListener) Learn(s throttle.Signal) {
	l.listener.Learn(s)
	l.fails()
}

func tenant(key string) throttle.Scope { return throttle.Scope{Level: throttle.Tenant, Key: key} }

// What is over by the end of an outage is not kept until then.
func TestAnOutageCollectsNoWordsThatAreOver(t *testing.T) {
	twoFarProcesses(t, func(t *testing.T, _ *store.Memory, a, _ *farProcess) {
		a.down.Store(true)
		for i := range 20_000 {
			a.Learn(throttle.Signal{Scope: tenant(strconv.Itoa(i)), Delay: time.Second})
			time.Sleep(10 * time.Millisecond)
		}
		if n := a.syncer.Owed(); n > 1000 {
			t.Errorf("%d words are kept, of which a hundred are not over", n)
		}
	})
}
