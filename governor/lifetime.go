package governor

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flyball-go/flyball/internal/current"
)

// lifetime is what an attempt is as a context: one that ends with the request's, when
// it is cancelled, when its time is over, and with the attempt. The context of package
// context for that is made when somebody asks for Done, or when it ends; most closures
// only hand it on, and one with a child, a timer and two locks would be a good part of
// what a call costs.
type lifetime struct {
	in *inlineCall // it is this one's context; nil: that of an attempt on its own

	// state is bare, until under mu a context is made, or the attempt is over.
	state atomic.Uint32
	until int64 // end of the attempt's timeout; 0: none. Written before the closure is called

	// mu guards what follows. Under it contexts are made, but not ended: that calls
	// what others have tied to them.
	mu   sync.Mutex
	real *ending // nil until somebody is to be told of its end
}

// ending is a context of package context, and what ends it.
type ending struct {
	context.Context
	stop context.CancelCauseFunc
}

// The states of a lifetime.
const (
	bare  uint32 = iota // there is no context yet
	made                // there is, or is about to be
	spent               // there is none, and the attempt is over
)

// real returns the context that a stands for. The caller holds life.mu.
func (a *attempt) real() *ending {
	l := &a.life
	if l.real == nil {
		was := l.state.Swap(made)
		l.real = new(ending)
		l.real.Context, l.real.stop = context.WithCancelCause(a.r.ctx)
		a.limit()
		if was == spent {
			l.real.stop(nil) // nobody knows it yet
		}
	}
	return l.real
}

// limit gives the context that there is the attempt's timeout. The caller holds
// life.mu.
func (a *attempt) limit() {
	if l := &a.life; l.until != 0 {
		end := l.real.stop
		timed, stop := context.WithDeadline(l.real.Context, a.core.gate.shown(l.until)) // it compares by the wall clock, too
		l.real = &ending{timed, func(cause error) { end(cause); stop() }}
	}
}

// expire sets the end of the attempt's timeout. The closure has not been called.
func (a *attempt) expire(at int64) {
	l := &a.life
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.until = at; l.real != nil { // it was needed to open a connection
		a.limit()
	}
}

// cancel ends the context; without a cause because the attempt is over.
func (a *attempt) cancel(cause error) {
	l := &a.life
	if l.in != nil {
		l.in.cancel(cause)
		return
	}
	if cause == nil && (l.state.CompareAndSwap(bare, spent) || l.state.Load() == spent) {
		return
	}
	l.mu.Lock()
	stop := a.real().stop
	l.mu.Unlock()
	stop(cause)
}

// Done, Err, Deadline and Value make an attempt the context of its closure.
func (a *attempt) Done() <-chan struct{} {
	l := &a.life
	if l.in != nil {
		return l.in.Done()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return a.real().Done()
}

// Err looks at the clock where there is no timer yet.
func (a *attempt) Err() error {
	l := &a.life
	if l.in != nil {
		return l.in.Err()
	}
	if l.state.Load() == bare {
		if err := a.r.ctx.Err(); err != nil {
			return err
		}
		if l.until == 0 || a.core.now() < l.until {
			return nil
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return a.real().Err()
}

func (a *attempt) Deadline() (time.Time, bool) {
	l := &a.life
	if l.in != nil {
		return l.in.Deadline()
	}
	at, ok := a.r.ctx.Deadline()
	if l.until != 0 {
		if g := &a.core.gate; !ok || l.until < g.ns(at) {
			return g.time(l.until), true
		}
	}
	return at, ok
}

// Value returns the attempt for the governor's own key and for that of
// retry.FromContext, and otherwise what the context that Submit was given has.
func (a *attempt) Value(key any) any {
	l := &a.life
	switch {
	case key == (token{}) || key == (current.Key{}):
		return a
	case l.in != nil:
		return l.in.Value(key)
	}
	ctx := a.r.ctx
	if l.state.Load() == made {
		l.mu.Lock()
		ctx = a.real().Context
		l.mu.Unlock()
	}
	return ctx.Value(key) // where there is one, so that a passes for a context of package context
}
