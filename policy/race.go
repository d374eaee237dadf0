package policy

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/internal/errtree"
)

// errLost is the cause of the contexts of attempts that are not waited for.
var errLost = errors.New("policy: the call is over")

// race is one call of a Hedge whose attempts run at the same time. It belongs to
// the goroutine of the call, except where it says otherwise.
type race struct {
	h     *Hedge
	c     *Call
	next  Handler
	ctx   context.Context // of the attempts
	begun time.Time

	ended   chan attempt // has room for all, so that no attempt waits to be heard
	started int          // attempts
	left    int          // further attempts that may be
	running int          // attempts that nobody heard of yet that they ended
	kept    *attempt     // the one that decides when none is good, of those that have ended
	sent    bool         // one that has ended was not refused

	// Attempts end under mu: those before the call was over go to ended, the
	// others to nobody.
	mu   sync.Mutex
	over bool
}

// attempt is one that has ended.
type attempt struct {
	n    int
	call *Call
	ending
}

func (h *Hedge) race(c *Call, next Handler, delay time.Duration) error {
	if c.ctx.Err() != nil {
		return endOf(c.ctx, "call not begun", false)
	}
	ctx, cancel := context.WithCancelCause(c.ctx)
	defer cancel(errLost)
	r := &race{h: h, c: c, next: next, ctx: ctx, begun: time.Now(), ended: make(chan attempt, 1+h.cfg.Max), left: h.cfg.Max}
	defer r.finish()
	r.start()
	var due <-chan time.Time
	delay = r.delay(delay)
	timer := time.NewTimer(delay)
	defer timer.Stop()
	for {
		for delay == 0 && r.further() {
			delay = r.delay(delay)
			timer.Reset(delay)
		}
		if due = nil; r.left > 0 && delay > 0 {
			due = timer.C
		}
		select {
		case a := <-r.ended:
			if done, err := r.judge(a); done {
				return err
			}
			if r.further(); r.running == 0 {
				return r.decide()
			}
			delay = r.delay(delay)
			timer.Reset(delay)
		case <-due:
			r.further()
			delay = r.delay(delay)
			timer.Reset(delay)
		case <-ctx.Done():
			return r.stop()
		}
	}
}

// delay is when the next attempt begins, less than 0: only after a failure. It is
// the same as before, unless there is a function that says it.
func (r *race) delay(before time.Duration) time.Duration {
	if of := r.h.cfg.DelayOf; of != nil && r.left > 0 {
		return of(r.c.ctx, r.started+1)
	}
	return before
}

// judge hears of an attempt that has ended; done says that it decides the call.
func (r *race) judge(a attempt) (done bool, err error) {
	r.running--
	r.sent = r.sent || !a.refused()
	if a.crash == nil && r.h.good(a.call, a.err, r.begun) {
		r.c.Adopt(a.call)
		return true, r.made(a.err)
	}
	if a.crash != nil || errors.Is(a.err, ErrGoexit) {
		r.left = 0
	}
	switch {
	case a.crash != nil && a.n > 1:
		r.dropped(a)
	case r.kept == nil || a.before(r.kept):
		r.kept = &a
	}
	return false, nil
}

// before reports whether a decides rather than b: the first that was not refused.
func (a *attempt) before(b *attempt) bool {
	if ra, rb := a.refused(), b.refused(); ra != rb {
		return rb
	}
	return a.n < b.n
}

func (a *attempt) refused() bool { return a.crash == nil && errtree.Refused(a.err) }

// made is err as the error of the call: not one that says that the call was not
// made when an attempt was, or is being made.
func (r *race) made(err error) error { return errtree.Made(err, r.sent || r.running > 0) }

// decide ends a call of which no outcome was good. Its first attempt has ended.
func (r *race) decide() error {
	a := r.kept
	r.kept = nil // not dropped
	if a.crash == nil {
		r.c.Adopt(a.call)
	}
	return r.made(a.result())
}

// stop ends a call whose caller is gone. What has ended by then still counts.
func (r *race) stop() error {
	for {
		select {
		case a := <-r.ended:
			if done, err := r.judge(a); done {
				return err
			}
			continue
		default:
		}
		if r.kept != nil && (r.kept.n == 1 || r.running == 0) {
			return r.decide()
		}
		return endOf(r.ctx, "hedged call", true)
	}
}

// further starts another attempt if it can be afforded, and reports whether one was left.
func (r *race) further() bool {
	if r.left == 0 || r.ctx.Err() != nil {
		return false
	}
	r.left--
	if r.h.afford(r.started + 1) {
		r.start()
		r.h.hedged(r.started, r.begun)
	}
	return true
}

// start starts the next attempt on a goroutine of its own, for which the budget
// of a further one has been taken.
func (r *race) start() {
	r.started++
	r.running++
	n, ctx := r.started, r.ctx
	if n > 1 {
		ctx = context.WithValue(ctx, attemptKey{}, n)
	}
	fork := r.c.Fork(ctx)
	go guard(func() error { return r.next(fork) }, func(e ending) {
		if n > 1 {
			r.h.cfg.Budget.GiveBack() // before the caller hears of it
		}
		r.end(attempt{n, fork, e})
	})
}

// end runs on the goroutine of the attempt.
func (r *race) end(a attempt) {
	r.mu.Lock()
	over := r.over
	if !over {
		r.ended <- a
	}
	r.mu.Unlock()
	if over && a.crash != nil {
		r.dropped(a)
	}
}

// finish says that nobody hears of attempts any more, however the call ended.
func (r *race) finish() {
	r.c.Later()
	r.mu.Lock()
	r.over = true
	close(r.ended)
	r.mu.Unlock()
	if r.kept != nil && r.kept.crash != nil {
		r.dropped(*r.kept)
	}
	for a := range r.ended {
		if a.crash != nil {
			r.dropped(a)
		}
	}
}

// dropped tells of a panic that did not decide the outcome. It may run on any
// goroutine.
func (r *race) dropped(a attempt) {
	report(r.h.cfg.OnEvent, event.Event{
		Kind: event.AttemptEnded, Name: r.h.cfg.Name, Attempt: a.n, Delay: time.Since(r.begun), Err: a.crash,
	})
}
