package policy

import (
	"context"
	"time"

	"github.com/flyball-go/flyball/internal/direct"
)

// shortcut is the short way through a chain, when every layer has one. To take it is
// a third cheaper than to go through the handlers: see package direct.
type shortcut struct {
	open  bool
	clock bool         // some layer needs it
	ways  []direct.Way // outermost first
	ends  []end        // those that a call that has succeeded must leave, innermost first
}

// end is a way that is not over for a call by its having come in.
type end struct {
	way direct.Way
	n   int // in shortcut.ways
}

// maxWays bounds the ways of a shortcut, so that the passes of a call fit in its
// frame.
const maxWays = 4

// trail is how far a call came directly, and its handlers have yet to go on from.
type trail struct {
	passes  [maxWays]direct.Pass // of the ways that it has entered, outermost first
	next, n int                  // passes[next:n] are left

	ran bool // its function has, and returned err
	err error
}

// progress is a call on its short way.
type progress[R any] struct {
	trail
	at  time.Duration // when it began, since base; 0 when no layer needs it
	val R             // what its function returned
}

func shortcutOf(policies []Policy, base time.Time) (s shortcut) {
	for _, p := range policies {
		d, ok := p.(direct.Policy)
		if !ok {
			return shortcut{}
		}
		r, ok := d.Direct(p, base)
		if !ok {
			return shortcut{}
		}
		if r.Way != nil {
			if !r.Done {
				s.ends = append([]end{{r.Way, len(s.ways)}}, s.ends...)
			}
			s.ways = append(s.ways, r.Way)
		}
		s.clock = s.clock || r.Clock
	}
	s.open = len(policies) > 0 && len(s.ways) <= maxWays
	return s
}

// runDirect is Do by the shortcut of p.
func runDirect[R any](ctx context.Context, p *Pipeline, fn func(context.Context) (R, error)) (r R, err error) {
	var from progress[R]
	if p.short.clock {
		from.at = time.Since(p.base)
	}
	for _, w := range p.short.ways {
		pass, ok := w.Enter(from.at)
		if !ok {
			return through(ctx, p, fn, &from)
		}
		from.passes[from.n] = pass
		from.n++
	}
	in := from.n
	defer func() {
		if in > 0 { // fn has not returned, or a Leave
			p.short.abort(&from.trail, in)
		}
	}()
	if r, err = fn(ctx); err != nil {
		in, from.ran, from.val, from.err = 0, true, r, err
		return through(ctx, p, fn, &from)
	}
	for _, e := range p.short.ends {
		in = e.n // if this Leave does not return, those outside are aborted
		e.way.Leave(from.passes[e.n&(maxWays-1)])
	}
	in = 0
	return r, nil
}

// abort leaves the outermost n layers, innermost first, whatever becomes of one of
// them.
func (s *shortcut) abort(from *trail, n int) {
	if n == 0 {
		return
	}
	defer s.abort(from, n-1)
	s.ways[n-1].Abort(from.passes[n-1])
}

// resume makes the call what it would be at the layers that it has entered, had it
// come through their handlers. The trail stays with a call that is used again.
func (t *typed[R]) resume(from *progress[R], clock bool) {
	if t.trail == nil {
		t.trail = new(trail)
	}
	*t.trail, t.val, t.alive = from.trail, from.val, true
	if clock {
		t.now = from.at + 1
	}
}

// ended is the error of the function that has run, once.
func (t *trail) ended() (err error) {
	t.ran, err, t.err = false, t.err, nil
	return err
}

// Entered is for the layers of this module only, and may change with any version; in
// a chain with a layer of another's it is never ok. It returns the pass with which the
// call has entered the layer already. The handler of a layer with a way asks first of
// all, once for each call that comes, and does not admit again who has one. From the
// second attempt on there are none.
func (c *Call) Entered() (pass direct.Pass, ok bool) {
	t := c.trail
	if t == nil || t.next == t.n {
		return pass, false
	}
	t.next++
	return t.passes[t.next-1], true
}

// seatsWay is the way of a Bulkhead.
type seatsWay seats

func (w *seatsWay) Enter(time.Duration) (pass direct.Pass, ok bool) { return pass, (*seats)(w).take() }
func (w *seatsWay) Leave(direct.Pass)                               { (*seats)(w).giveBack() }
func (w *seatsWay) Abort(direct.Pass)                               { (*seats)(w).giveBack() }
