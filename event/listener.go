package event

// listener is one function and what waits for it.
type listener struct {
	bus    *Bus
	fn     func(Event)
	missed func() // nil: nobody minds
	kinds  mask   // those it hears
	depth  int    // how many events may wait
	loop   func() // deliver; kept, so that starting it allocates no closure

	// All under bus.mu. lacks says that missed is to be called. At most one goroutine runs loop, while running is set.
	// It is set by the Emit that starts the goroutine, and taken back by that
	// goroutine in the same critical section in which it finds the queue empty:
	// an event is either seen by it or starts the next one.
	running bool
	lacks   bool
	queue   ring
}

// deliver calls fn for one event after the other until none is left.
func (l *listener) deliver() {
	left := false
	defer func() {
		if !left { // fn called runtime.Goexit, which ends this goroutine
			go l.loop()
		}
	}()
	for {
		e, lacks, ok := l.take()
		if !ok {
			left = true
			return
		}
		l.call(e, lacks)
	}
}

// take takes the oldest event, or says that some before it are lacking, or else ends the
// goroutine's turn.
func (l *listener) take() (e Event, lacks, ok bool) {
	b := l.bus
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.lacks && l.queue.len > 0 {
		l.lacks = false
		return Event{}, true, true
	}
	if e, ok = l.queue.pop(); ok {
		return e, false, true
	}
	l.running = false
	b.running--
	b.finishLocked()
	return Event{}, false, false
}

func (l *listener) call(e Event, lacks bool) {
	defer func() {
		if recover() != nil { // nil after Goexit; never nil after panic
			l.bus.panics.Add(1)
		}
	}()
	if lacks {
		l.missed()
		return
	}
	l.fn(e)
}

// ring is a queue of events that drops its oldest. The zero ring is empty; its
// memory doubles as needed, up to what push is told.
type ring struct {
	slots []Event
	first int // where the oldest is
	len   int
}

// push adds e, and reports whether it had to drop the oldest for that.
func (r *ring) push(e Event, most int) (dropped bool) {
	switch {
	case r.len == most:
		r.pop()
		dropped = true
	case r.len == len(r.slots):
		grown := make([]Event, min(max(2*r.len, 8), most))
		r.copy(grown)
		r.slots, r.first = grown, 0
	}
	r.slots[(r.first+r.len)%len(r.slots)] = e
	r.len++
	return dropped
}

// pop takes the oldest, and keeps nothing that it refers to.
func (r *ring) pop() (e Event, ok bool) {
	if r.len == 0 {
		return Event{}, false
	}
	e, r.slots[r.first] = r.slots[r.first], Event{}
	r.first = (r.first + 1) % len(r.slots)
	r.len--
	return e, true
}

// all returns the events, the oldest first.
func (r *ring) all() []Event {
	events := make([]Event, r.len)
	r.copy(events)
	return events
}

// copy puts the oldest events first into to, as many as there is room for.
func (r *ring) copy(to []Event) {
	end := min(r.first+r.len, len(r.slots))
	n := copy(to, r.slots[r.first:end])
	copy(to[n:], r.slots[:r.first+r.len-end])
}

func (r *ring) clear() { *r = ring{} }
