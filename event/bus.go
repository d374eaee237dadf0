package event

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Bus hands events to listeners. The zero value is ready; a Bus must not be
// copied after first use. All methods may be called by any number of
// goroutines, and by a listener from inside its own call.
//
// A Bus has no goroutine of its own. A listener has one only while there is
// something to deliver to it, so nothing is left behind by a Bus that is neither
// closed nor used any more.
type Bus struct {
	// Depth is how many undelivered events are kept for each listener; 0 or less
	// means 1024. It is read by Listen; set it before. A listener's memory grows
	// with the most that it was ever behind, about 150 bytes an event.
	Depth int

	// wants has every kind that somebody listens to, or that is kept: it is the union
	// of keeps and of what listeners hear. It is written under mu, word by word, and
	// read without, so that an event nobody wants costs one load.
	wants [len(mask{})]atomic.Uint64

	// some is wants with its words laid over each other, for Emit, which has to stay
	// short enough to be inlined. active is whether wants has more than keeps. Both are
	// written and read as wants is.
	some   atomic.Uint64
	active atomic.Bool

	// keeps has the kinds that Keep named; it is set before first use.
	keeps mask
	most  int

	dropped, panics atomic.Uint64

	// mu is held for moments only: to put one event into the queues, to take one
	// out, to change the list. No function of a listener runs under it, so an
	// emitter may hold locks of its own that listeners take.
	mu        sync.Mutex
	listeners []*listener // those that Emit serves
	kept      ring        // the last events of the kinds in keeps
	running   int         // goroutines that deliver, also those of stopped listeners
	closed    bool
	done      chan struct{} // made by the first Done; closed once closed && running == 0
}

const defaultDepth = 1024

// Listen makes fn hear every later event of the given kinds; of all kinds when
// none is given. fn is called for one event at a time, in the order of emission,
// on a goroutine of the Bus. When more than Depth events wait for fn, the oldest
// of them are dropped. When fn panics, that is recovered and fn goes on to hear
// the next event; so it does after runtime.Goexit.
//
// Calling stop ends that: once it has returned, no event is taken up for fn any
// more, and the undelivered ones are forgotten. It does not wait for the one
// call that may be under way, so that fn may call it. Further calls of stop do
// nothing, and no call of it touches another listener.
//
// With a nil fn, and on a closed Bus, Listen does nothing; stop never is nil.
func (b *Bus) Listen(fn func(Event), only ...Kind) (stop func()) {
	return b.Follow(fn, nil, only...)
}

// Follow is Listen for who keeps up a state by the events: when some that were for fn had to
// be dropped, missed is called before the next of them, on the goroutine that calls fn, so
// that he may look for himself what became of it. What fn panics with, and missed, is
// recovered.
func (b *Bus) Follow(fn func(Event), missed func(), only ...Kind) (stop func()) {
	l := &listener{bus: b, fn: fn, missed: missed, depth: b.Depth, kinds: maskOf(only)}
	l.loop = l.deliver
	if l.depth <= 0 {
		l.depth = defaultDepth
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if fn == nil || b.closed {
		return func() {}
	}
	b.listeners = append(b.listeners, l)
	b.wantLocked()
	return func() { b.remove(l) }
}

func (b *Bus) remove(l *listener) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l.queue.clear()
	i := slices.Index(b.listeners, l)
	if i < 0 {
		return
	}
	b.listeners = slices.Delete(b.listeners, i, i+1)
	if b.closed {
		return
	}
	b.wantLocked()
}

// wantLocked writes wants, some and active.
func (b *Bus) wantLocked() {
	var wants mask
	if !b.closed {
		wants = b.keeps
		for _, l := range b.listeners {
			wants.add(l.kinds)
		}
	}
	some, more := uint64(0), uint64(0)
	for i := range wants {
		b.wants[i].Store(wants[i])
		some |= wants[i]
		more |= wants[i] &^ b.keeps[i]
	}
	b.some.Store(some)
	b.active.Store(more != 0)
}

// Keep makes the Bus keep the last n events of the given kinds, of all kinds when
// none is given, for Recent. Call it once, before anything else; n of 0 or less
// keeps none. Memory is taken as events come, about 150 bytes for each; an event's
// Err is kept alive with it.
func (b *Bus) Keep(n int, only ...Kind) {
	if n <= 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keeps, b.most = maskOf(only), n
	b.wantLocked()
}

// Recent returns the events that are kept, the oldest first; also after Close.
func (b *Bus) Recent() []Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.kept.all()
}

// Active reports whether anybody listens to a kind that is not kept anyway. It
// costs one atomic load.
func (b *Bus) Active() bool { return b.active.Load() }

// Wants reports whether anybody listens to kind k, or it is kept, so that an emitter
// need not build an event for nobody. It costs one atomic load.
func (b *Bus) Wants(k Kind) bool { return b.wants[k/wordBits].Load()&(1<<(k%wordBits)) != 0 }

// Emit puts e into the queue of every listener that wants it. It never waits for
// a listener and never calls one. When nobody wants e it costs one atomic load;
// else a mutex, a copy for each listener, and sometimes a new goroutine. An
// event of kind None, or of no kind, goes nowhere. Events of one goroutine are
// heard in its order; those of several in the same order by every listener.
func (b *Bus) Emit(e Event) {
	if b.some.Load()&(1<<(e.Kind%wordBits)) != 0 {
		b.emit(e)
	}
}

// emit looks again, for e may be of a kind that only shares its bit with one wanted.
func (b *Bus) emit(e Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	if b.keeps.has(e.Kind) {
		b.kept.push(e, b.most)
	}
	for _, l := range b.listeners {
		if !l.kinds.has(e.Kind) {
			continue
		}
		if l.queue.push(e, l.depth) {
			b.dropped.Add(1)
			l.lacks = l.missed != nil
		}
		if !l.running {
			l.running = true
			b.running++
			go l.loop()
		}
	}
}

// Dropped returns how many events were dropped because a listener was slow, over
// all listeners. Those that stop made undeliverable are not counted.
func (b *Bus) Dropped() uint64 { return b.dropped.Load() }

// Panics returns how many calls of listeners ended in a panic.
func (b *Bus) Panics() uint64 { return b.panics.Load() }

// Close ends the Bus: no event is taken any more and nobody can listen any more.
// What was emitted before is still delivered. Close does not wait for that, so
// that a listener may call it; see Done. Further calls do nothing.
func (b *Bus) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.wantLocked()
	b.finishLocked()
}

// Done returns a channel that is closed once the Bus is closed and every event
// emitted before has been heard: no listener is running and none will run. A
// listener that waits for it waits for itself.
func (b *Bus) Done() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done == nil {
		b.done = make(chan struct{})
		b.finishLocked()
	}
	return b.done
}

// finishLocked closes done when it is time to.
func (b *Bus) finishLocked() {
	if b.done == nil || !b.closed || b.running > 0 {
		return
	}
	select {
	case <-b.done:
	default:
		close(b.done)
	}
}
