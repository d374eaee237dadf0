package policy

import (
	"context"
	"fmt"
	"time"

	"github.com/flyball-go/flyball/event"
)

func (s *Steps) isOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// keep notes how to undo a step that is done, or does it when it is too late.
func (s *Steps) keep(ctx context.Context, fn func(context.Context) error) error {
	s.mu.Lock()
	u := undo{len(s.done) + 1, context.WithoutCancel(ctx), fn}
	over := s.over
	s.done = append(s.done, u)
	s.mu.Unlock()
	if !over {
		return nil
	}
	var failed []error
	s.saga.undo([]undo{u}, &failed)
	if failed != nil {
		return &UndoError{Name: s.saga.cfg.Name, Err: ErrSagaOver, Undo: failed}
	}
	return ErrSagaOver
}

// end ends the saga and, unless it was good, undoes its steps.
func (s *Steps) end(good bool) (failed []error) {
	s.mu.Lock()
	done := s.done
	s.over = true
	s.mu.Unlock()
	if !good {
		s.saga.undo(done, &failed)
	}
	return failed
}

// undo calls the last of done, and then, however that ends, those before.
func (s *Saga) undo(done []undo, failed *[]error) {
	if len(done) == 0 {
		return
	}
	defer s.undo(done[:len(done)-1], failed)
	u := done[len(done)-1]
	begun := time.Now()
	guard(func() error {
		ctx := u.ctx
		if s.cfg.UndoTimeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, s.cfg.UndoTimeout)
			defer cancel()
		}
		return u.fn(ctx)
	}, func(e ending) {
		err := e.error()
		if err != nil {
			err = fmt.Errorf("step %d: %w", u.n, err)
			*failed = append(*failed, err)
		}
		report(s.cfg.OnEvent, event.Event{Kind: event.Compensated, Name: s.cfg.Name, Attempt: u.n, Delay: time.Since(begun), Err: err})
	})
}
