package governor

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// MapConfig says how Map goes through its input. nil, and the zero MapConfig, are a
// Map in input order, twice as wide as the governor has Workers.
type MapConfig[S comparable, In any] struct {
	// Window is how many inputs may be under way at once: read from the sequence,
	// and their results not yet handed to the loop. That is what bounds the memory,
	// and how far the input is read ahead. 0 means twice Config.Workers.
	Window int

	// Unordered hands out results as they come. Otherwise they come in the order
	// of the inputs, and one that takes long holds up those behind it, and when a
	// Window of them are done, the reading of the input, too.
	Unordered bool

	// StopOnError ends the loop after the first error that it was handed.
	StopOnError bool

	// Ask is what the request of an input wishes; nil: what the governor's view
	// does. Selector is the selector for it; nil: the one that Map was given. Both
	// are called on the goroutine of the loop.
	Ask      func(In) Ask
	Selector func(In) S
}

// Mapped is an input of Map and what came of it. With an error Out is what the
// closure returned beside it, or zero.
type Mapped[In, R any] struct {
	Index int // of the input, from 0
	In    In
	Out   R
}

// Map calls fn for each input of seq, as requests to g, and returns the sequence of
// what came of them, each with its own error.
//
//	for m, err := range governor.Map(ctx, g, Reports, slices.Values(customers), report, nil) {
//		if err != nil {
//			log.Printf("%s: %v", m.In, err)
//			continue
//		}
//		use(m.Out)
//	}
//
// seq is read on the goroutine of the loop, no further than Window inputs ahead of
// the results that the loop was handed. While seq is slow to give its next input,
// no results are handed out; while the loop's body is slow, no input is read. fn
// runs on the governor's workers, as with Submit. A million inputs need no more
// memory than a Window of them, and no goroutine but for what runs.
//
// An error is that of its input, and the loop goes on, unless StopOnError is set.
// When ctx ends, what is under way ends as its requests do, no more than one further
// input is read, and reported as cancelled, and the loop is over. So it is when
// the governor is closed. What fails all of it, such as a nil fn or a Window below
// 0, is yielded once, with an Index of -1.
//
// Breaking out of the loop, a panic in its body, in seq, Ask or Selector, and
// runtime.Goexit cancel what is under way and wait until it has ended: what waits
// never runs, and a closure that ignores its context delays the end, as it does
// that of Do.
//
// Nothing happens before the loop begins. Ranging over the sequence again begins
// anew. Inside a closure of the same governor an input is answered with ErrReentrant
// when no slot is spare, as by Do.
func Map[S comparable, C, In, R any](ctx context.Context, g *Governor[S, C], sel S, seq iter.Seq[In], fn func(context.Context, C, In) (R, error), cfg *MapConfig[S, In]) iter.Seq2[Mapped[In, R], error] {
	return func(yield func(Mapped[In, R], error) bool) {
		m := &mapping[S, C, In, R]{g: *g, sel: sel, fn: fn, yield: yield, wake: make(chan struct{}, 1)}
		if cfg != nil {
			m.cfg = *cfg
		}
		err := error(nil)
		switch {
		case ctx == nil:
			err = ErrNilContext
		case fn == nil || seq == nil:
			err = ErrNilFunc
		case m.cfg.Window < 0:
			err = fmt.Errorf("governor: MapConfig.Window is %d, want 0 or more", m.cfg.Window)
		}
		if err != nil {
			yield(Mapped[In, R]{Index: -1}, err)
			return
		}
		if m.cfg.Window == 0 {
			m.cfg.Window = 2 * g.slots
		}
		m.outer = ctx
		m.run(seq)
	}
}

// run is the loop.
func (m *mapping[S, C, In, R]) run(seq iter.Seq[In]) {
	var cancel context.CancelFunc
	m.ctx, cancel = context.WithCancel(m.outer)
	defer func() { // however the loop ends
		cancel()
		for m.n > 0 {
			m.take(true)
		}
	}()
	m.inside = m.outer.Value(token{}) != nil // of whichever governor; reentrant looks closer
	for in := range seq {
		last, ok := m.begin(in)
		if !ok || !m.hand(last) || last {
			return
		}
	}
	m.hand(true)
}

// begin submits in. It reports whether that was the last, since the governor or the
// context would refuse all others, too, and whether the loop goes on.
func (m *mapping[S, C, In, R]) begin(in In) (last, ok bool) {
	t := &mapped[S, C, In, R]{m: m, in: in, index: m.read}
	t.fn = func(ctx context.Context, conn C) (R, error) { return m.fn(ctx, conn, t.in) }
	g, sel := m.g, m.sel
	if m.cfg.Ask != nil {
		g.ask = m.cfg.Ask(in)
	}
	if m.cfg.Selector != nil {
		sel = m.cfg.Selector(in)
	}
	err := error(nil)
	if m.inside && g.reentrant(m.outer, sel) {
		// What takes the slots may be this Map's own, and end without help.
		if !m.hand(true) {
			return false, false
		}
		if g.reentrant(m.outer, sel) {
			err = ErrReentrant
		}
	}
	m.read++
	g.submit(m.ctx, &t.request, t, sel, 0, err)
	m.push(t)       // now, for the String method of a selector may have panicked
	if t.seq == 0 { // it was not let in, so that nobody else writes seq
		err = t.failure()
	}
	return t.seq == 0 && (m.outer.Err() != nil || errors.Is(err, ErrClosed)), true
}

// hand hands results to the loop: those that are there, and as many more as have
// to come before the next input may be read; all of them says rest. It reports
// whether the loop goes on.
func (m *mapping[S, C, In, R]) hand(rest bool) bool {
	for m.n > 0 {
		t := m.take(rest || m.n >= m.cfg.Window)
		if t == nil {
			return true
		}
		v, err := t.result()
		out := Mapped[In, R]{t.index, t.in, v}
		if !m.yield(out, err) || err != nil && m.cfg.StopOnError {
			return false
		}
	}
	return true
}
