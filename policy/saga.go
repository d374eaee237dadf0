package policy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/internal/errtree"
)

// SagaConfig says how sagas are undone.
type SagaConfig struct {
	// Name appears in events.
	Name string

	// UndoTimeout is when the context of each undo ends. 0: never.
	UndoTimeout time.Duration

	// OnError replaces the error of Run; nil as a replacement is success. What
	// panics in it passes through to the caller. nil: errors stay as they are.
	OnError func(error) error

	// OnEvent hears of Compensated, after each undo. It is called under no lock,
	// and waited for. A panic in it is dropped. nil: nobody does.
	OnEvent func(event.Event)
}

// Saga runs functions of several steps, each with its undo, and undoes what was
// done when it does not come to a good end: the pattern of Garcia-Molina and
// Salem, "Sagas", SIGMOD 1987.
//
// Undoing begins when the function has returned an error, panicked, or ended its
// goroutine: on the same goroutine, the last step first, one after the other. The
// end of the context does not touch it. An undo that fails, by whatever means, is
// not repeated, and those of earlier steps are called all the same.
type Saga struct {
	cfg SagaConfig
}

// NewSaga returns a Saga. The error names a field that is out of range.
func NewSaga(cfg SagaConfig) (*Saga, error) {
	if cfg.UndoTimeout < 0 {
		return nil, outOfRange("SagaConfig.UndoTimeout", cfg.UndoTimeout, "0 or more")
	}
	return &Saga{cfg: cfg}, nil
}

// String describes the saga: "saga(undo in 1m0s)".
func (s *Saga) String() string {
	if s.cfg.UndoTimeout > 0 {
		return describe("saga", s.cfg.Name, "undo in "+s.cfg.UndoTimeout.String())
	}
	return describe("saga", s.cfg.Name, "undo")
}

// Run calls fn and undoes, unless it returns nil, what its steps have done. It
// returns fn's error, or an *UndoError with it when something could not be
// undone; one that says Refused, when a step was made, is wrapped in one that does
// not. A panic in fn, and runtime.Goexit, pass through when all is undone; then
// only events tell of an undo that failed.
func (s *Saga) Run(ctx context.Context, fn func(ctx context.Context, steps *Steps) error) error {
	if ctx == nil || fn == nil {
		_, err := invalid[struct{}]()
		return err
	}
	return mapError(s.run(ctx, fn), s.cfg.OnError)
}

func (s *Saga) run(ctx context.Context, fn func(ctx context.Context, steps *Steps) error) (err error) {
	steps := &Steps{saga: s}
	good := false
	defer func() {
		if failed := steps.end(good); failed != nil && err != nil {
			err = &UndoError{Name: s.cfg.Name, Err: err, Undo: failed}
		}
	}()
	err = fn(ctx, steps)
	good = err == nil
	return errtree.Made(err, steps.made.Load() > 0)
}

// Steps is what a function run by a Saga has done so far. It may be used by
// several goroutines at once.
type Steps struct {
	saga *Saga
	made atomic.Int64 // steps that were made or are being, whatever came of them

	// mu is held to change the list, not while an undo runs.
	mu   sync.Mutex
	done []undo
	over bool
}

// undo is a step that was done, with its number from 1.
type undo struct {
	n   int
	ctx context.Context
	fn  func(context.Context) error
}

// ErrSagaOver is matched by the error of a step that has come too late to be part
// of its saga: it was not done, or is undone.
var ErrSagaOver = errors.New("policy: saga is over")

// Step calls do and, when that succeeds, keeps undo for the case that the saga
// does not come to a good end. undo is given do's result, and ctx without its
// end. nil: there is nothing to undo. A step whose do fails is not undone. No step
// begins when ctx has ended.
//
// A step that is done when the saga is over, since another goroutine was slow, is
// undone at once.
func Step[R any](ctx context.Context, s *Steps, do func(context.Context) (R, error), undo func(context.Context, R) error) (R, error) {
	var none R
	if ctx == nil || s == nil || do == nil {
		return invalid[R]()
	}
	if ctx.Err() != nil {
		return none, endOf(ctx, "step not begun", false)
	}
	if s.isOver() {
		return none, ErrSagaOver
	}
	s.made.Add(1)
	r, err := do(ctx)
	if errtree.Refused(err) {
		s.made.Add(-1)
	}
	if err != nil || undo == nil {
		return r, err
	}
	if failed := s.keep(ctx, func(ctx context.Context) error { return undo(ctx, r) }); failed != nil {
		return none, failed
	}
	return r, nil
}

// UndoError says that a saga failed and that not all of it could be undone. It
// unwraps to Err and all of Undo.
type UndoError struct {
	Name string  // of the Saga
	Err  error   // what the saga failed with
	Undo []error // of those that failed, in the order in which they were called
}

// Error says what failed, and which steps remain and why.
func (e *UndoError) Error() string {
	return fmt.Sprintf("policy: %v; not undone: %v", e.Err, e.Undo)
}

// Unwrap returns Err and Undo.
func (e *UndoError) Unwrap() []error { return append([]error{e.Err}, e.Undo...) }

// Refused reports false: a step was done, and remains.
func (e *UndoError) Refused() bool { return false }
