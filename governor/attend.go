package governor

import (
	"context"
	"runtime"
)

// attended is a request whose closure runs on the goroutine of Do: that waits until the
// request is granted, and does what a worker does. So a queued call costs at most one
// switch of goroutines, and not one more to a worker; and none when the caller itself
// had the turn in which it was granted. It is as large as any request: see news.
type attended[C, R any] struct{ closure[C, R] }

func (t *attended[C, R]) awaited() bool { return true }

// prompted is an attended request that will probably be granted at once, with its first
// attempt: one allocation holds both. Who keeps the attempt, which is the closure's
// context, keeps the request in any case; nobody else does.
type prompted[C, R any] struct {
	attended[C, R]
	first attempt
}

func (t *prompted[C, R]) room() *attempt {
	if t.first.core != nil {
		return nil // it was made before, and a closure may have kept it
	}
	return &t.first
}

// newAttended returns the request of a Do. One that has to wait is not to have more
// than it needs for that.
func newAttended[C, R any](c *core, fn func(context.Context, C) (R, error)) *attended[C, R] {
	if !c.gate.word.likely(c.slots) {
		t := &attended[C, R]{closure[C, R]{fn: fn}}
		t.task = t
		return t
	}
	t := new(prompted[C, R])
	t.fn, t.task = fn, t
	return &t.attended
}

// bell is where the receiver of r's grants sleeps. It is guarded by mu.
func (r *request) bell() *chan struct{} {
	if !r.task.awaited() {
		return &r.hist.bell
	}
	return &r.done // of which nobody else has heard
}

// send says to who waits for the grants of r on a goroutine of its own that r is
// granted, or ended. Whoever has the turn says so, once at a time: the next grant comes
// only after the request was handed back. It does not wait. From a grant on Cancel cancels
// the attempt; a grant that comes after Cancel leaves it to the attempt to find the mark.
func (r *request) send(news marks) {
	r.mu.Lock()
	if news == granted && r.status.state() != Done && !r.status.has(cancelAsked) {
		r.status.move(Running, news)
	} else {
		r.status.mark(news)
	}
	bell := r.bell()
	asleep := *bell
	*bell = nil
	r.mu.Unlock()
	if asleep != nil {
		asleep <- struct{}{} // has room: it is heard before the next is hung up
	}
}

// news returns the grant that was sent, or nil when the end was. there says that
// something was. The caller holds mu.
func (r *request) news() (a *attempt, there bool) {
	got := r.status.has(granted | ended)
	if !got {
		return nil, false
	}
	if !r.status.has(ended) {
		a = r.class.Load().att // start has put it there
	}
	r.status.unmark(granted | ended)
	return a, true
}

// receive returns the next grant, or nil at the end of the request. prompt says that
// it was there.
func (r *request) receive(c *core) (a *attempt, prompt bool) {
	a, bell := r.listenFor(c)
	if bell == nil {
		return a, true
	}
	<-bell
	return r.heard(c, bell), false
}

// listenFor and heard are receive but for the wait between them, so that it can be
// on a stack that is less deep. Without a bell there is nothing to wait for.
func (r *request) listenFor(c *core) (a *attempt, bell chan struct{}) {
	r.mu.Lock()
	a, there := r.news()
	r.mu.Unlock()
	if there {
		return a, nil
	}
	if c.gate.word.likely(c.slots) {
		// Somebody has the turn who will find r at the end of it: to let others go on
		// for so long is cheaper than to be put to sleep and woken.
		runtime.Gosched()
	}
	bell = c.chime()
	r.mu.Lock()
	if a, there = r.news(); !there {
		*r.bell() = bell
	}
	r.mu.Unlock()
	if there {
		c.chimes.Put(bell)
		bell = nil
	}
	return a, bell
}

func (r *request) heard(c *core, bell chan struct{}) (a *attempt) {
	c.chimes.Put(bell)
	r.mu.Lock()
	a, _ = r.news()
	r.mu.Unlock()
	return a
}

// chime returns a bell that nobody uses.
func (c *core) chime() chan struct{} {
	if b, ok := c.chimes.Get().(chan struct{}); ok {
		return b
	}
	return make(chan struct{}, 1)
}

// attend runs the attempts of a request that was let in, from the first that was
// received, nil for none, until it is complete. Goexit in the closure ends the caller's
// goroutine, after try has settled the attempt.
func (r *request) attend(a *attempt, prompt bool) {
	if a != nil && prompt {
		a.prompt = a.lease == nil || a.lease.Ready()
	}
	for a != nil {
		c := a.core
		next := c.tryFor(a)
		if next == nil && a.back { // its state would not do: an abandoned one may be granted once more
			next, _ = r.receive(c)
		} else if next == nil {
			break
		}
		a = next
	}
}

// tryFor is try on the goroutine of Do.
func (c *core) tryFor(a *attempt) (next *attempt) {
	defer func() { next = c.settleFor(a) }()
	c.run(a)
	return nil
}
