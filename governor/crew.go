package governor

import (
	"runtime"
	"sync"
	"unsafe"
)

// crew has a part of the workers: goroutines that run what nobody waits for on one of its
// own, attempts that were granted and requests that are launched. A worker that has
// finished takes what was granted meanwhile, and when there is nothing it gives way to
// the others once, to see whether they bring something; so a stream of calls keeps its
// goroutines, with their grown stacks, and a governor that has nothing to do has none,
// without a timer. There are never more than slots, and a few that are about to end.
//
// There are several crews so that requests that are launched do not wait for each
// other's cache lines: each goes to the crew of its address, see home, and a crew
// fills a line. What waited in the queue goes to the first one, where every worker that
// has finished finds what its slot was given to.
type crew struct {
	// mu guards what follows. It is held for a few assignments, and for a look at all
	// of the queue. No two are held at once.
	mu         sync.Mutex
	head, tail *request // granted an attempt, or to be launched; linked by next
	launching  int      // how many of them are to be launched
	queued     int32    // at most free and those who begin
	free       int32    // workers that look at the queue before they end, one attempt each
	work       func()   // of a worker; nil until there was one. It has no arguments, so that go needs no closure
	_          [16]byte // a cache line's
}

// crews returns as many of them as several times the processors.
func crews() []crew {
	n := 8
	for n < 2*runtime.GOMAXPROCS(0) {
		n *= 2
	}
	return make([]crew, n)
}

// home is a number for the processor on which the object at p was made, if it is a
// small one. Those that were made on one lie beside each other, those made on
// another one elsewhere.
func home(p unsafe.Pointer) int {
	at := uintptr(p) >> 13
	return int(at ^ at>>4)
}

const first = 0

// enlist has a worker of the crew with number at run r.
func (c *core) enlist(r *request, at int) {
	w := &c.crews[at]
	w.mu.Lock()
	if r.class.Load().att == nil {
		w.launching++
	}
	fresh := c.push(w, r)
	w.mu.Unlock()
	if fresh {
		go w.work()
	}
}

// push puts r into the queue of w, whose mutex the caller holds, and reports whether w
// needs another worker.
func (c *core) push(w *crew, r *request) (fresh bool) {
	r.next = nil
	if w.tail == nil {
		w.head = r
	} else {
		w.tail.next = r
	}
	w.tail = r
	w.queued++
	if fresh = w.queued > w.free; fresh {
		w.free++ // the one that begins
		if w.work == nil {
			w.work = func() { c.work(w) }
		}
	}
	return fresh
}

// launching returns how many requests are about to be launched.
func (c *core) launching() (n int) {
	for i := range c.crews {
		w := &c.crews[i]
		w.mu.Lock()
		n += w.launching
		w.mu.Unlock()
	}
	return n
}

// take returns the next request, for a worker that counts in free, or does from now on
// since it has finished one. Without one the worker has left if it was to, or if others
// of w are about to look again: one is enough to save the next attempt a worker of its own.
func (c *core) take(w *crew, finished, leaves bool) (r *request, left bool) {
	w.mu.Lock()
	if finished {
		w.free++
	}
	r = c.pop(w)
	left = r == nil && (leaves || w.free > 1)
	if r != nil || left {
		w.free--
	}
	w.mu.Unlock()
	return r, left
}

// steal is take for a worker of another crew that has finished. Those of w that count in
// free find nothing then.
func (c *core) steal(w *crew) *request {
	w.mu.Lock()
	defer w.mu.Unlock()
	return c.pop(w)
}

// pop takes the next request out of the queue of w, whose mutex the caller holds. One that
// is to be launched is then in its cell.
func (c *core) pop(w *crew) *request {
	r := w.head
	if r == nil {
		return nil
	}
	if w.head = r.next; w.head == nil {
		w.tail = nil
	}
	r.next = nil
	w.queued--
	if r.class.Load().att == nil {
		w.launching--
		r.task.(flight).land(c)
	}
	return r
}

// work is what a worker of w does. It runs attempts of one request until that is
// complete or goes back to the queue without its connection, and then others.
func (c *core) work(w *crew) {
	for begun := false; ; begun = true {
		var r *request
		left := false
		if begun && w != &c.crews[first] && !c.gate.word.calm() {
			r = c.steal(&c.crews[first])
		}
		if r == nil {
			r, left = c.take(w, begun, false)
		}
		if r == nil && !left {
			if !c.gate.word.shutting() {
				runtime.Gosched()
			}
			r, left = c.take(w, false, true)
		}
		if left {
			return
		}
		a := r.class.Load().att
		if a == nil {
			r.task.(flight).begin(c)
		}
		for a != nil {
			a = c.try(a)
		}
	}
}
