package governor

import (
	"context"
	"iter"
	"time"
)

// Stream returns the sequence of items that fn yields, read under g: the slot
// and the connection are held from the start of the attempt to the end of the loop.
//
//	for row, err := range governor.Stream(ctx, g, Reports, query) {
//		if err != nil {
//			return err
//		}
//		use(row)
//	}
//
// The sequence of fn runs on the goroutine of the loop. An error before the
// first item is treated like a closure's: a rate limit is waited out, a failure
// is retried as Config.Retry says. After the first item nothing is repeated, for
// the loop has seen it: an error, a rate limit or an Again too, is yielded once, with
// a zero T, and ends the loop; what the vendor said in it is learned all the same. An
// error of the governor's is yielded like that. Breaking out of the loop, a panic in its
// body, and runtime.Goexit give everything back.
//
// Nothing happens before the loop begins. Ranging over the sequence again makes
// a new request. The loop's body is no closure: a blocking call to g in it waits
// for a slot of its own, and if every slot is held by such a loop, for ever.
func Stream[S comparable, C, T any](ctx context.Context, g *Governor[S, C], sel S, fn func(context.Context, C) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		s := &streamed[C, T]{fn: fn, yield: yield}
		err := error(nil)
		if fn == nil {
			err = ErrNilFunc
		} else if g.reentrant(ctx, sel) {
			err = ErrReentrant
		}
		if g.submit(ctx, &s.request, s, sel, stream, err) {
			for a, _ := s.receive(g.core); a != nil; a, _ = s.receive(g.core) {
				a.core.try(a)
				if !a.back { // its state would not do: an abandoned one may have been granted once more
					break
				}
			}
		}
		if err = s.failure(); err != nil && !s.stopped {
			var none T
			yield(none, err)
		}
	}
}

// streamed is a request whose closure is a loop on the caller's goroutine.
type streamed[C, T any] struct {
	request
	fn      func(context.Context, C) iter.Seq2[T, error]
	yield   func(T, error) bool
	begun   bool // an item was yielded: nothing is repeated any more
	stopped bool // the loop has ended: nothing may be yielded
	idle    *time.Timer
}

func (s *streamed[C, T]) open(ctx context.Context, l lease) error {
	return dial[C](ctx, l)
}

func (s *streamed[C, T]) clear() {}

func (s *streamed[C, T]) awaited() bool { return true }

// run reads the sequence. While the loop's body runs, a.body says that a panic
// or Goexit is not the sequence's.
func (s *streamed[C, T]) run(a *attempt) error {
	var conn C
	if a.lease != nil {
		conn = a.lease.(conner[C]).Value()
	}
	defer func() {
		if s.idle != nil {
			s.idle.Stop() // a body that panics does not return
		}
	}()
	for v, err := range s.fn(a, conn) {
		if err != nil {
			if s.begun {
				err = tooLate(err)
			}
			return err
		}
		if !s.begun {
			s.begun = true
			s.flags |= noRetry
			if a.core.gate.firstItem(a.core.now(), a) {
				a.core.wakeUp()
			}
		}
		a.body, s.stopped = true, true
		s.watch(a)
		if !s.yield(v, nil) {
			a.body = false
			s.returned()
			return nil
		}
		a.body, s.stopped = false, false
		if !s.returned() && !a.core.observe {
			a.ill().stalled = true
			return ErrStreamStalled
		}
	}
	return nil
}

// watch ends the attempt's context when the loop takes too long for an item.
func (s *streamed[C, T]) watch(a *attempt) {
	switch d := a.core.streamIdle; {
	case d == 0:
	case s.idle == nil:
		s.idle = time.AfterFunc(d, func() { // nothing is repeated from here on: it is this attempt's
			if c := a.core; c.observe {
				c.wouldRefuse(a.r, ErrStreamStalled)
			} else {
				a.cancel(ErrStreamStalled)
			}
		})
	default:
		s.idle.Reset(d)
	}
}

// returned reports whether the loop has come back in time.
func (s *streamed[C, T]) returned() bool { return s.idle == nil || s.idle.Stop() }
