package governor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/flyball-go/flyball/event"
)

// Listen calls fn for every event, or those of the given kinds, of every governor
// that there is and that there will be, until stop is called. An event's Name says
// whose it is. fn is called for one event at a time; those of one governor come in
// their order. Otherwise it is as Handle.Listen: each governor keeps the events that
// fn is too slow for, and drops the oldest of too many.
func (g *Group[S, C]) Listen(fn func(event.Event), kinds ...event.Kind) (stop func()) {
	if fn == nil {
		return func() {}
	}
	l := &groupListener{fn: fn, kinds: slices.Clone(kinds), stops: make(map[*core]func())}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.listeners = append(g.listeners, l)
	for _, m := range g.hosts {
		if m.gov != nil {
			l.listen(m.gov.core)
		}
	}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if i := slices.Index(g.listeners, l); i >= 0 {
			g.listeners = slices.Delete(g.listeners, i, i+1)
		}
		for _, stop := range l.stops {
			stop()
		}
		clear(l.stops)
	}
}

// groupListener is a function and the governors that it listens to, which the
// Group's mutex guards.
type groupListener struct {
	fn    func(event.Event)
	kinds []event.Kind
	stops map[*core]func()

	calls sync.Mutex // held while fn is called
}

func (l *groupListener) listen(c *core) {
	for old := range l.stops {
		select {
		case <-old.done:
			delete(l.stops, old)
		default:
		}
	}
	l.stops[c] = c.Listen(l.hear, l.kinds...)
}

func (l *groupListener) hear(e event.Event) {
	l.calls.Lock()
	defer l.calls.Unlock()
	l.fn(e)
}

// Close closes all governors at once, as Governor.Close does, and returns when the
// last is. After it Get returns ErrClosed, and so do requests to governors that
// were evicted. It does not wait for a GroupConfig.Config that is being called, of which
// nothing comes any more. The error joins those of the governors, each with its name:
// *ForcedError for those whose closures did not end in time. It may be called again.
func (g *Group[S, C]) Close() error {
	return g.end(func(c *core) error { return c.Close() })
}

// Shutdown drains all governors at once, as Governor.Shutdown does, and returns when
// the last is closed. It does not wait for a GroupConfig.Config either. The error joins
// theirs, each with its name.
func (g *Group[S, C]) Shutdown(ctx context.Context) error {
	if ctx == nil {
		return ErrNilContext
	}
	return g.end(func(c *core) error { return c.Shutdown(ctx) })
}

// end ends every governor by how.
func (g *Group[S, C]) end(how func(*core) error) error {
	var wg sync.WaitGroup
	cores := g.shut()
	errs := make([]error, len(cores))
	for i, c := range cores {
		wg.Go(func() {
			if err := how(c); err != nil {
				errs[i] = fmt.Errorf("%s: %w", c.name, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// shut lets nobody in any more, waits for governors whose Config is there and for the
// timer's work, neither of which takes long, and returns all that has to be closed.
func (g *Group[S, C]) shut() (cores []*core) {
	g.mu.Lock()
	if !g.closed {
		g.closed = true
		close(g.shutting)
	}
	g.recent.latest.Store(nil)
	if g.timer != nil {
		g.timer.Stop()
	}
	var wait []chan struct{}
	if g.sweeping != nil {
		wait = append(wait, g.sweeping)
	}
	for _, m := range g.hosts {
		if m.making != nil && m.making.soon { // else nothing comes of it
			wait = append(wait, m.making.done)
		}
	}
	g.mu.Unlock()
	for _, done := range wait {
		<-done
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.hosts {
		if m.gov != nil {
			cores = append(cores, m.gov.core)
		}
	}
	for c := range g.ending {
		cores = append(cores, c)
	}
	return cores
}
