package event

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/flyball-go/flyball/internal/effort"
)

// A recorder is a listener that keeps what it heard.
type recorder struct {
	mu    sync.Mutex
	heard []uint64 // Event.Request
}

func (r *recorder) hear(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard = append(r.heard, e.Request)
}

func (r *recorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprint(r.heard)
}

func emit(b *Bus, k Kind, numbers ...uint64) {
	for _, n := range numbers {
		b.Emit(Event{Kind: k, Request: n})
	}
}

func want(t *testing.T, r *recorder, want string) {
	t.Helper()
	synctest.Wait()
	if got := r.String(); got != want {
		t.Errorf("heard %v, want %v", got, want)
	}
}

func TestListenersHearTheirKindsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Bus
		var every, some, none recorder
		emit(&b, Retry, 1) // nobody listens yet
		b.Listen(every.hear)
		b.Listen(some.hear, Retry, GaveUp)
		b.Listen(none.hear, None, kinds, 64, 255)
		emit(&b, Retry, 2)
		emit(&b, Idle, 3)
		emit(&b, GaveUp, 4)
		emit(&b, Retry, 5)
		emit(&b, None, 6)
		emit(&b, kinds, 7)
		emit(&b, 255, 8)
		want(t, &every, "[2 3 4 5]")
		want(t, &some, "[2 4 5]")
		want(t, &none, "[]")
		emit(&b, Retry, 9) // the goroutines have ended, and start again
		want(t, &every, "[2 3 4 5 9]")
	})
}

func TestEventsArriveWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Bus
		sent := Event{time.Now(), Learned, "n", 1, 2, "s", 3, time.Now().Add(4), fmt.Errorf("e"), "src"}
		b.Listen(func(e Event) {
			if e != sent {
				t.Errorf("got %+v, want %+v", e, sent)
			}
		})
		b.Emit(sent)
	})
}

func TestWantsAndActiveFollowTheListeners(t *testing.T) {
	var b Bus
	check := func(active, retry, idle bool) {
		t.Helper()
		if b.Active() != active || b.Wants(Retry) != retry || b.Wants(Idle) != idle || b.Wants(None) || b.Wants(kinds) || b.Wants(255) {
			t.Errorf("active %v, retry %v, idle %v", b.Active(), b.Wants(Retry), b.Wants(Idle))
		}
	}
	nop := func(Event) {}
	check(false, false, false)
	stop1 := b.Listen(nop, Retry)
	check(true, true, false)
	stop2 := b.Listen(nop)
	stop3 := b.Listen(nop, Retry)
	check(true, true, true)
	stop2()
	check(true, true, false)
	stop1()
	check(true, true, false) // stop3's listener
	stop3()
	check(false, false, false)
	for k := range kinds {
		b.Listen(nop, k)
		if b.Wants(k) != (k != None) {
			t.Errorf("%v: Wants is %v", k, b.Wants(k))
		}
	}
	b.Close()
	check(false, false, false)
}

func TestSlowListenerLosesItsOldestAndNobodyElses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := Bus{Depth: 3}
		var slow, quick recorder
		free := make(chan struct{})
		b.Listen(func(e Event) { <-free; slow.hear(e) })
		b.Listen(quick.hear)
		for n := range uint64(10) {
			emit(&b, Retry, n) // never waits, or the bubble would report a deadlock
			synctest.Wait()
		}
		if got := b.Dropped(); got != 6 {
			t.Errorf("dropped %d, want 6", got)
		}
		close(free)
		want(t, &slow, "[0 7 8 9]") // 0 was taken up before
		want(t, &quick, "[0 1 2 3 4 5 6 7 8 9]")
	})
}

// missed is called in the place of what was dropped, before the next event.
func TestFollowerIsToldThatItMissedSome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := Bus{Depth: 3}
		var r recorder
		gate := make(chan bool)
		b.Follow(func(e Event) {
			r.hear(e)
			<-gate
		}, func() {
			r.hear(Event{})
			panic("nobody minds")
		}, Retry)
		emit(&b, Retry, 1)
		synctest.Wait()
		emit(&b, Retry, 2, 3, 4)
		gate <- true
		want(t, &r, "[1 2]")
		emit(&b, Retry, 5, 6, 7) // in place of 3 and 4
		close(gate)
		want(t, &r, "[1 2 0 5 6 7]")
		emit(&b, Retry, 8)
		want(t, &r, "[1 2 0 5 6 7 8]")
		if b.Dropped() != 2 || b.Panics() != 1 {
			t.Errorf("%d dropped, %d panics, want 2 and 1", b.Dropped(), b.Panics())
		}
	})
}

func TestDefaultDepth(t *testing.T) {
	for _, depth := range []int{0, -1} {
		synctest.Test(t, func(t *testing.T) {
			b := Bus{Depth: depth}
			free := make(chan struct{})
			n := 0
			b.Listen(func(Event) { <-free; n++ })
			emit(&b, Retry, 0)
			synctest.Wait()
			for range 2000 {
				emit(&b, Retry, 0)
			}
			close(free)
			synctest.Wait()
			if n != 1025 || b.Dropped() != 2000-1024 {
				t.Errorf("heard %d, dropped %d", n, b.Dropped())
			}
		})
	}
}

func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Bus
		var first, second, third recorder
		free := make(chan struct{})
		stop := b.Listen(func(e Event) { <-free; first.hear(e) })
		b.Listen(second.hear)
		emit(&b, Retry, 1, 2, 3)
		synctest.Wait()
		stop() // while the call for 1 is under way, which it does not wait for
		stop()
		b.Listen(third.hear)
		stop()
		emit(&b, Retry, 4)
		close(free)
		want(t, &first, "[1]")
		want(t, &second, "[1 2 3 4]")
		want(t, &third, "[4]")
		if b.Dropped() != 0 {
			t.Errorf("dropped %d", b.Dropped())
		}
	})
}

func TestListenerMayCallEveryMethod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Bus
		var outer, inner recorder
		var stop func()
		emitted := make(chan struct{})
		stop = b.Listen(func(e Event) {
			outer.hear(e)
			switch e.Request {
			case 1:
				b.Listen(inner.hear)
				b.Emit(Event{Kind: Retry, Request: 2})
				_, _, _, _, _ = b.Active(), b.Wants(Retry), b.Dropped(), b.Panics(), b.Done()
			case 3:
				<-emitted // 9, too, before the bus is closed
				stop()
				b.Emit(Event{Kind: Retry, Request: 4})
				b.Close()
				b.Emit(Event{Kind: Retry, Request: 5})
			}
		})
		emit(&b, Retry, 1)
		synctest.Wait()
		emit(&b, Retry, 3, 9)
		close(emitted)
		<-b.Done()
		want(t, &outer, "[1 2 3]")
		want(t, &inner, "[2 3 9 4]")
	})
}

func TestPanickingListenerIsCountedAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Bus
		var bad, good recorder
		b.Listen(func(e Event) {
			bad.hear(e)
			if e.Request%2 == 1 {
				panic("odd")
			}
			panic(nil)
		})
		b.Listen(good.hear)
		emit(&b, Retry, 1, 2, 3)
		want(t, &bad, "[1 2 3]")
		want(t, &good, "[1 2 3]")
		if b.Panics() != 3 {
			t.Errorf("%d panics, want 3", b.Panics())
		}
	})
}

func TestGoexitInAListenerDoesNotEndDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Bus
		var r recorder
		b.Listen(func(e Event) {
			r.hear(e)
			runtime.Goexit()
		})
		emit(&b, Retry, 1, 2, 3)
		want(t, &r, "[1 2 3]")
		emit(&b, Retry, 4)
		b.Close()
		<-b.Done()
		want(t, &r, "[1 2 3 4]")
		if b.Panics() != 0 {
			t.Errorf("%d panics", b.Panics())
		}
	})
}

func TestCloseDeliversWhatWasEmittedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Bus
		var r, late recorder
		early := b.Done()
		stop := b.Listen(func(e Event) { time.Sleep(time.Second); r.hear(e) })
		emit(&b, Retry, 1, 2, 3)
		start := time.Now()
		b.Close() // does not wait
		b.Close()
		if time.Since(start) != 0 {
			t.Errorf("Close took %v", time.Since(start))
		}
		emit(&b, Retry, 4)
		stopLate := b.Listen(late.hear)
		if b.Active() {
			t.Error("somebody listens to a closed Bus")
		}
		emit(&b, Retry, 5)
		stopLate()
		<-early
		<-b.Done()
		if time.Since(start) != 3*time.Second {
			t.Errorf("done after %v, want 3s", time.Since(start))
		}
		want(t, &r, "[1 2 3]")
		want(t, &late, "[]")
		stop()
		b.Close()
	})
}

func TestDoneWaitsForTheLastCallOfAStoppedListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Bus
		start := time.Now()
		stop := b.Listen(func(Event) { time.Sleep(time.Second) })
		emit(&b, Retry, 1, 2)
		synctest.Wait()
		stop()
		b.Close()
		<-b.Done()
		if got := time.Since(start); got != time.Second {
			t.Errorf("done after %v, want 1s", got)
		}
	})
}

func TestDoneOfAnUnusedBus(t *testing.T) {
	var b Bus
	select {
	case <-b.Done():
		t.Error("done before Close")
	default:
	}
	b.Close()
	<-b.Done()
	var other Bus
	other.Close()
	<-other.Done()
}

func TestNilListener(t *testing.T) {
	var b Bus
	stop := b.Listen(nil)
	if b.Active() {
		t.Error("active")
	}
	b.Emit(Event{Kind: Retry})
	stop()
}

// Neither Close nor stop is called: the bubble fails if a goroutine is left.
func TestAForgottenBusLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Bus
		b.Listen(func(Event) {})
		emit(&b, Retry, 1)
	})
}

// Emitters, and listeners that come, go, panic and exit, all at once. Every
// listener must see each emitter's numbers in rising order, and one that stays
// must see all of them.
func TestStress(t *testing.T) {
	const emitters, each = 4, 3000
	b := Bus{Depth: emitters*each + 1}
	check := func(last *[emitters]uint64, e Event) {
		if who := e.Attempt; e.Request <= last[who] {
			t.Errorf("emitter %d: %d after %d", who, e.Request, last[who])
		} else {
			last[who] = e.Request
		}
	}
	var stayed [emitters]uint64
	var heard, panicked int
	b.Listen(func(e Event) {
		check(&stayed, e)
		heard++
		switch e.Request % 64 {
		case 7:
			panicked++
			panic("seven")
		case 9:
			runtime.Goexit()
		}
	}, Retry)
	var wg sync.WaitGroup
	for who := range emitters {
		wg.Go(func() {
			for n := range uint64(each) {
				b.Emit(Event{Kind: Retry, Attempt: who, Request: n + 1})
				b.Emit(Event{Kind: Idle, Attempt: who, Request: n + 1})
			}
		})
		wg.Go(func() {
			for range 200 {
				var last [emitters]uint64
				var stop func()
				var ready atomic.Bool
				stop = b.Listen(func(e Event) {
					check(&last, e)
					if e.Request%3 == 0 && ready.Load() {
						stop()
					}
				}, Idle)
				ready.Store(true)
				runtime.Gosched()
				if who%2 == 0 {
					stop()
				}
			}
		})
	}
	wg.Wait()
	b.Close()
	<-b.Done()
	if heard != emitters*each || b.Dropped() != 0 || b.Panics() != uint64(panicked) {
		t.Errorf("heard %d of %d, dropped %d, %d panics counted of %d", heard, emitters*each, b.Dropped(), b.Panics(), panicked)
	}
}

// After stop has returned only a call already under way may end: a stopped
// listener is never handed another event.
func TestNoCallBeginsAfterStop(t *testing.T) {
	var b Bus
	var wg sync.WaitGroup
	var over atomic.Bool
	wg.Go(func() {
		for !over.Load() {
			b.Emit(Event{Kind: Retry})
		}
	})
	for range effort.Times(300) {
		var after atomic.Int32
		var stopped atomic.Bool
		stop := b.Listen(func(Event) {
			if stopped.Load() {
				after.Add(1)
			}
		})
		runtime.Gosched()
		stop()
		stopped.Store(true)
		runtime.Gosched()
		if got := after.Load(); got > 1 {
			t.Fatalf("%d calls began after stop", got)
		}
	}
	over.Store(true)
	wg.Wait()
}

// The ring against a slice that drops its oldest.
func TestRingMatchesASlice(t *testing.T) {
	for most := 1; most < 70; most++ {
		var r ring
		var model []uint64
		for n := range uint64(300) {
			dropped := r.push(Event{Request: n}, most)
			if model = append(model, n); dropped != (len(model) > most) {
				t.Fatalf("depth %d, push %d: dropped %v", most, n, dropped)
			}
			model = model[max(len(model)-most, 0):]
			for range n % 5 * (n / 100) { // grows, then drains, over and over
				e, ok := r.pop()
				if ok != (len(model) > 0) || ok && e.Request != model[0] {
					t.Fatalf("depth %d: popped %d %v, want %v", most, e.Request, ok, model)
				}
				model = model[min(1, len(model)):]
			}
			if r.len != len(model) || len(r.slots) > most {
				t.Fatalf("depth %d: %d in %d slots, want %d", most, r.len, len(r.slots), len(model))
			}
		}
	}
}

func TestRingKeepsNothingItHandedOut(t *testing.T) {
	var r ring
	for n := range uint64(40) {
		r.push(Event{Request: n + 1, Err: fmt.Errorf("e")}, 20)
	}
	for range 20 {
		r.pop()
	}
	if i := slices.IndexFunc(r.slots, func(e Event) bool { return e != Event{} }); i >= 0 {
		t.Errorf("slot %d still has %+v", i, r.slots[i])
	}
}

func TestEmitDoesNotAllocate(t *testing.T) {
	var b Bus
	e := Event{Kind: Retry, Name: "n"}
	check := func(name string, fn func()) {
		if got := testing.AllocsPerRun(1000, fn); got != 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
	check("nobody", func() { b.Emit(e) })
	stop := b.Listen(func(Event) {}, Idle)
	check("nobody for this kind", func() { b.Emit(e) })
	heard := make(chan struct{})
	b.Listen(func(Event) { heard <- struct{}{} }, Retry)
	check("a listener, after the first events", func() { b.Emit(e); <-heard })
	stop()
	if size := unsafe.Sizeof(e); size > 150 {
		t.Errorf("an event has %d bytes; Bus.Depth says 150", size)
	}
}

func BenchmarkEmit(b *testing.B) {
	for name, only := range map[string][]Kind{"unheard": {Idle}, "heard": {Retry}} {
		b.Run(name, func(b *testing.B) {
			var bus Bus
			bus.Listen(func(Event) {}, only...)
			b.ReportAllocs()
			for b.Loop() {
				bus.Emit(Event{Kind: Retry, Name: "n", Request: 1})
			}
		})
	}
}
