package governor

import (
	"context"
	"sync"
)

// mapping is a running Map. It belongs to the goroutine of the loop, but for what
// mu guards.
type mapping[S comparable, C, In, R any] struct {
	g     Governor[S, C]
	sel   S
	fn    func(context.Context, C, In) (R, error)
	cfg   MapConfig[S, In]
	yield func(Mapped[In, R], error) bool

	outer  context.Context // that Map was given
	ctx    context.Context // of the requests
	inside bool            // the loop runs in a closure
	read   int             // inputs so far
	n      int             // inputs under way

	wake chan struct{} // of one place: something was completed

	// mu guards the list, and over in what is in it. Nothing is called under it.
	// The list is of what is under way, in input order, or, unordered, of what is
	// completed, in that order.
	mu         sync.Mutex
	head, tail *mapped[S, C, In, R]
}

// mapped is the request of one input.
type mapped[S comparable, C, In, R any] struct {
	closure[C, R]
	m     *mapping[S, C, In, R]
	in    In
	index int
	next  *mapped[S, C, In, R]
	over  bool
}

// completed is called when the request is.
func (t *mapped[S, C, In, R]) completed() {
	m := t.m
	m.mu.Lock()
	t.over = true
	if m.cfg.Unordered {
		m.append(t)
	}
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// push adds what was submitted. It may be completed already.
func (m *mapping[S, C, In, R]) push(t *mapped[S, C, In, R]) {
	m.n++
	if m.cfg.Unordered {
		return // completed does
	}
	m.mu.Lock()
	m.append(t)
	m.mu.Unlock()
}

// append adds t to the list. The caller holds mu.
func (m *mapping[S, C, In, R]) append(t *mapped[S, C, In, R]) {
	if m.tail == nil {
		m.head = t
	} else {
		m.tail.next = t
	}
	m.tail = t
}

// take takes what is to be handed out next; when that is not completed it waits for
// it, or returns nil.
func (m *mapping[S, C, In, R]) take(wait bool) *mapped[S, C, In, R] {
	for {
		m.mu.Lock()
		t := m.head
		if t != nil && t.over {
			if m.head = t.next; m.head == nil {
				m.tail = nil
			}
			m.mu.Unlock()
			m.n--
			return t
		}
		m.mu.Unlock()
		if !wait {
			return nil
		}
		<-m.wake
	}
}
