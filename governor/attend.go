package governor

import "sync/atomic"

// attended is a request whose closure runs on the goroutine of Do: that waits at the
// mailbox until the request is granted, and does what a worker does. So a queued call
// costs at most one switch of goroutines, and not one more to a worker; and none when
// the caller itself had the turn in which it was granted.
type attended[C, R any] struct {
	closure[C, R]
	mail mailbox
}

func (t *attended[C, R]) mailbox() *mailbox { return &t.mail }

// mailbox is where who waits for the grants of a request on a goroutine of its own
// gets them: from whoever has the turn, one at a time, for the next grant comes only
// after the request was handed back. The end of the request comes as nil.
//
// It is nil while there is nothing; else a grant, or ended, or asleep, which says that
// the receiver waits at the request's bell.
type mailbox struct{ atomic.Pointer[attempt] }

// What is in a mailbox and is no grant.
var ended, asleep attempt

// bell is where the receiver of r's grants sleeps.
func (r *request) bell() *chan struct{} {
	if r.task.mailbox() == nil {
		return &r.hist.bell
	}
	return &r.done // of which nobody else has heard
}

// send sends a grant, or nil, to who waits at m. It does not wait.
func (r *request) send(m *mailbox, a *attempt) {
	if a == nil {
		a = &ended
	}
	if !m.CompareAndSwap(nil, a) {
		bell := *r.bell() // written before asleep
		m.Store(a)
		bell <- struct{}{} // has room: nothing else is sent before this is received
	}
}

// receive returns the next grant, or nil at the end of the request. prompt says that
// it was there.
func (r *request) receive(c *core, m *mailbox) (a *attempt, prompt bool) {
	if m.Load() == nil {
		bell, ok := c.chimes.Get().(chan struct{})
		if !ok {
			bell = make(chan struct{}, 1) // here, where the stack is not so deep
		}
		r.mu.Lock() // for complete
		*r.bell() = bell
		r.mu.Unlock()
		if prompt = !m.CompareAndSwap(nil, &asleep); !prompt {
			<-bell
		}
		r.mu.Lock()
		*r.bell() = nil
		r.mu.Unlock()
		c.chimes.Put(bell)
	} else {
		prompt = true
	}
	if a = m.Swap(nil); a == &ended {
		a = nil
	}
	return a, prompt
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
func (r *request) attend(a *attempt, m *mailbox, prompt bool) {
	if a != nil && prompt {
		a.prompt = a.lease == nil || a.lease.Ready()
	}
	for a != nil {
		c := a.core
		next := c.tryFor(a)
		if next == nil && a.back { // its state would not do: an abandoned one may be granted once more
			next, _ = r.receive(c, m)
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
