package governor

import (
	"runtime"
	"sync"
)

// crew is the workers: goroutines that run what nobody waits for on one of its own.
// One that has finished takes what was granted meanwhile, and when there is nothing it
// gives way to the others once, to see whether they bring something; so a stream of
// calls keeps its goroutines, with their grown stacks, and a governor that has nothing
// to do has none, without a timer. There are never more than slots, and a few that
// are about to end.
type crew struct {
	work func() // of a worker; it has no arguments, so that go needs no closure for them

	// mu guards what follows. It is held for a few assignments.
	mu         sync.Mutex
	head, tail *attempt // granted, linked by then
	queued     int      // at most free and those who begin
	free       int      // workers that look at the queue before they end, one attempt each
}

// run has a worker run a.
func (w *crew) run(a *attempt) {
	w.mu.Lock()
	if w.tail == nil {
		w.head = a
	} else {
		w.tail.then = a
	}
	w.tail = a
	w.queued++
	fresh := w.queued > w.free
	if fresh {
		w.free++ // the one that begins
	}
	w.mu.Unlock()
	if fresh {
		go w.work()
	}
}

// take returns the next attempt, for a worker that counts in free, or does from now on
// since it has finished one. Without one that is over if the worker leaves.
func (w *crew) take(finished, leaves bool) *attempt {
	w.mu.Lock()
	if finished {
		w.free++
	}
	a := w.head
	switch {
	case a != nil:
		if w.head = a.then; w.head == nil {
			w.tail = nil
		}
		a.then = nil
		w.queued--
		w.free--
	case leaves:
		w.free--
	}
	w.mu.Unlock()
	return a
}

// work is what a worker does. It runs attempts of one request until that is complete
// or goes back to the queue without its connection, and then others.
func (c *core) work() {
	for begun := false; ; begun = true {
		a := c.crew.take(begun, false)
		if a == nil {
			if !c.gate.word.shutting() {
				runtime.Gosched()
			}
			if a = c.crew.take(false, true); a == nil {
				return
			}
		}
		for a != nil {
			a = c.try(a)
		}
	}
}
