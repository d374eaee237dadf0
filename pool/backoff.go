package pool

import (
	"time"

	"github.com/flyball-go/flyball/backoff"
)

// failureMemory is how long after the end of its backoff a selector's failures
// still count as in a row with the next. It bounds what is kept about selectors
// that are never asked for again.
const failureMemory = time.Minute

// failures is what an entry knows of connections that could not be opened.
// Guarded by Pool.mu.
type failures struct {
	fails int           // Opens that failed, in a row
	duds  int           // connections in a row that broke in their first use
	gen   int           // how often the backoff advanced
	first time.Time     // the first of these failures
	at    time.Time     // the last of them
	until time.Time     // end of the backoff; zero: there was none since the last success
	delay time.Duration // how long the backoff is
	last  *OpenError
	final bool // last is permanent
	known bool // the entry is in Pool.failing
}

func (f *failures) backingOff() bool { return !f.until.IsZero() && time.Now().Before(f.until) }

func (f *failures) remembered() bool { return f.fails > 0 || f.duds > 0 }

// opened forgets failed Opens; duds are forgotten when a connection is given
// back in order.
func (f *failures) opened() {
	f.fails, f.first, f.until, f.delay, f.last, f.final = 0, time.Time{}, time.Time{}, 0, nil, false
}

// failure is a kind of failure.
type failure uint8

const (
	notOpened failure = iota
	dud
)

// backOff starts or lengthens the backoff of e, to which the caller holds a
// place. Gen is that of the entry when the connection was begun: if it has
// advanced since, another that was under way at the same time has failed before,
// and this is the same outage seen twice.
func (p *Pool[S, C]) backOff(e *entry[S, C], gen int, err *OpenError, kind failure) {
	now := time.Now()
	p.mu.Lock()
	if kind == notOpened {
		p.n.failed++
	}
	if p.closed || gen != e.gen {
		p.mu.Unlock()
		return
	}
	e.gen++ // claims the step, for the lock has to be left to ask the schedule
	e.at = now
	if e.first.IsZero() {
		e.first = now
	}
	if !e.known {
		e.known = true
		p.failing = append(p.failing, e)
		p.armLocked(now.Add(failureMemory))
	}
	n := &e.fails
	if kind == dud {
		n = &e.duds
	}
	*n++
	step := backoff.Step{Attempt: *n, Prev: e.delay, Elapsed: now.Sub(e.first), Err: err.Err}
	p.mu.Unlock()

	delay, final := step.Prev, false
	<-start(func() error { // a method of the error and the schedule are a user's
		if d, again := p.cfg.OpenBackoff.Next(step); again {
			delay = max(d, 0)
		}
		final = kind == notOpened && err.Permanent()
		return nil
	})

	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || gen+1 != e.gen || *n == 0 {
		return // meanwhile another failed, or one succeeded
	}
	e.delay, e.until, e.last, e.final = delay, now.Add(delay), err, final
	if e.oldest != nil {
		p.armLocked(e.until)
		if final {
			p.refuseLocked(e, err)
		}
	}
}

// sweepLocked forgets failures that no longer matter.
func (p *Pool[S, C]) sweepLocked(now time.Time) {
	kept := p.failing[:0]
	for _, e := range p.failing {
		if e.remembered() && (now.Before(e.at.Add(failureMemory)) || now.Before(e.until.Add(failureMemory))) {
			kept = append(kept, e)
			continue
		}
		e.opened()
		e.duds, e.known = 0, false
		p.forgetLocked(e)
	}
	clear(p.failing[len(kept):])
	p.failing = kept
}
