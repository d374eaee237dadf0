package policy

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/event"
)

// diary notes what is done and undone.
type diary struct {
	mu    sync.Mutex
	notes []string
}

func (d *diary) note(s string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.notes = append(d.notes, s)
}

func (d *diary) String() string { return strings.Join(d.notes, " ") }

// step is one with a number for its result.
func (d *diary) step(ctx context.Context, s *Steps, n int, fail error) error {
	r, err := Step(ctx, s, func(context.Context) (int, error) {
		d.note(fmt.Sprint(n))
		return n, fail
	}, func(_ context.Context, r int) error {
		d.note(fmt.Sprint("-", r))
		return nil
	})
	if err == nil && r != n {
		return fmt.Errorf("result %d of step %d", r, n)
	}
	return err
}

func TestSagaUndoesInReverse(t *testing.T) {
	s := must(NewSaga(SagaConfig{}))
	for name, c := range map[string]struct {
		end  func(err error) error
		fail error
		want string
		how  how
	}{
		"good":             {func(err error) error { return err }, nil, "1 2 3", how{}},
		"failed step":      {func(err error) error { return err }, errBoom, "1 2 3 -2 -1", how{err: errBoom}},
		"forgiven step":    {func(error) error { return nil }, errBoom, "1 2 3", how{}},
		"failed otherwise": {func(error) error { return errSecond }, nil, "1 2 3 -3 -2 -1", how{err: errSecond}},
		"panic":            {func(error) error { panic(errBoom) }, nil, "1 2 3 -3 -2 -1", how{panics: errBoom}},
		"goexit":           {func(error) error { runtime.Goexit(); return nil }, nil, "1 2 3 -3 -2 -1", how{goexit: true}},
	} {
		var d diary
		h := see(func() error {
			return s.Run(t.Context(), func(ctx context.Context, steps *Steps) error {
				if err := d.step(ctx, steps, 1, nil); err != nil {
					return err
				}
				if err := d.step(ctx, steps, 2, nil); err != nil {
					return err
				}
				return c.end(d.step(ctx, steps, 3, c.fail))
			})
		})
		want(t, name, d.String(), c.want)
		want(t, name, h, c.how)
	}
}

// A step that panics, or ends its goroutine, was not done.
func TestSagaStepThatDoesNotReturn(t *testing.T) {
	s := must(NewSaga(SagaConfig{}))
	for _, end := range []func(context.Context) (int, error){panics, goexit} {
		var d diary
		see(func() error {
			return s.Run(t.Context(), func(ctx context.Context, steps *Steps) error {
				_ = d.step(ctx, steps, 1, nil)
				_, err := Step(ctx, steps, end, func(context.Context, int) error { d.note("undone"); return nil })
				return err
			})
		})
		want(t, "diary", d.String(), "1 -1")
	}
}

func TestSagaUndoCannotBeCancelled(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		for _, d := range []time.Duration{0, time.Second} {
			s := must(NewSaga(SagaConfig{UndoTimeout: d}))
			ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "v"), time.Minute)
			defer cancel()
			var undo context.Context
			_ = s.Run(ctx, func(ctx context.Context, steps *Steps) error {
				_, _ = Step(ctx, steps, five, func(ctx context.Context, _ int) error {
					if undo = ctx; ctx.Err() != nil {
						t.Error(ctx.Err())
					}
					return nil
				})
				<-ctx.Done()
				_, err := Step(ctx, steps, func(context.Context) (int, error) { t.Error("begun"); return 0, nil }, nil)
				wantErr(t, "no step begins", err, context.DeadlineExceeded)
				want(t, "refused", refused(err), true)
				return err
			})
			want(t, "value", undo.Value(key{}), any("v"))
			deadline, ok := undo.Deadline()
			want(t, "UndoTimeout", ok, d > 0)
			if ok {
				want(t, "UndoTimeout", time.Until(deadline), time.Second)
			}
		}
	})
}

// However an undo ends, the others are called, and the outcome says of it.
func TestSagaUndoThatFails(t *testing.T) {
	run := func(s *Saga, d *diary, end func() error, bad func() error) how {
		return see(func() error {
			return s.Run(t.Context(), func(ctx context.Context, steps *Steps) error {
				for n := 1; n <= 3; n++ {
					_, _ = Step(ctx, steps, five, func(context.Context, int) error {
						d.note(fmt.Sprint("-", n))
						if n == 2 {
							return bad()
						}
						return nil
					})
				}
				return end()
			})
		})
	}
	fail := func() error { return errBoom }
	for name, c := range map[string]struct {
		bad    func() error
		match  error
		text   string
		goexit bool
	}{
		"error":  {func() error { return errSecond }, errSecond, "policy: boom; not undone: [step 2: second]", false},
		"panic":  {func() error { panic(errSecond) }, errSecond, "policy: boom; not undone: [step 2: policy: function panicked: second]", false},
		"goexit": {func() error { runtime.Goexit(); return nil }, nil, "", true},
	} {
		var l log
		var d diary
		s := must(NewSaga(SagaConfig{Name: "s", OnEvent: l.hear}))
		h := run(s, &d, fail, c.bad)
		want(t, name, d.String(), "-3 -2 -1")
		want(t, name, h.goexit, c.goexit)
		want(t, name, len(l.events), 3)
		want(t, name, l.events[1].Err != nil && l.events[1].Attempt == 2 && l.events[1].Name == "s" && l.events[1].Kind == event.Compensated, true)
		if !c.goexit {
			e, ok := errors.AsType[*UndoError](h.err)
			if !ok || e.Err != errBoom || len(e.Undo) != 1 || e.Name != "s" || refused(e) {
				t.Fatalf("%s: %#v", name, h.err)
			}
			wantErr(t, name, h.err, errBoom, c.match)
			want(t, name, h.err.Error(), c.text)
		}
		// In a panic the panic goes on.
		d = diary{}
		h = run(s, &d, func() error { panic(errFirst) }, c.bad)
		want(t, name, d.String(), "-3 -2 -1")
		if !c.goexit && h.panics != errFirst {
			t.Errorf("%s: %+v", name, h)
		}
	}
	// All of them fail.
	s := must(NewSaga(SagaConfig{}))
	err := s.Run(t.Context(), func(ctx context.Context, steps *Steps) error {
		for _, e := range []error{errFirst, errSecond} {
			_, _ = Step(ctx, steps, five, func(context.Context, int) error { return e })
		}
		return errBoom
	})
	want(t, "all", err.Error(), "policy: boom; not undone: [step 2: second step 1: first]")
	wantErr(t, "all", err, errBoom, errFirst, errSecond)
}

// A saga that has made a step is none that was never sent, whatever the step that
// ended it says; not even when all is undone.
func TestSagaThatMadeAStepIsNotRefused(t *testing.T) {
	s := must(NewSaga(SagaConfig{}))
	for name, c := range map[string]struct {
		first func(context.Context) (int, error)
		want  bool
	}{"done": {five, false}, "failed": {fails, false}, "panicked": {panics, false}, "refused": {func(context.Context) (int, error) { return 0, errRefused }, true}} {
		err := s.Run(t.Context(), func(ctx context.Context, steps *Steps) error {
			see(func() error { return second(Step(ctx, steps, c.first, nil)) })
			return second(Step(ctx, steps, func(context.Context) (int, error) { return 0, errRefused }, nil))
		})
		wantErr(t, name, err, errRefused)
		want(t, name, refused(err), c.want)
	}
}

func TestSagaLateSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, end := range []error{nil, errBoom} {
			s := must(NewSaga(SagaConfig{}))
			var d diary
			var late, failed, never error
			var kept *Steps
			err := s.Run(t.Context(), func(ctx context.Context, steps *Steps) error {
				kept = steps
				go func() {
					_, late = Step(ctx, steps, slow(time.Second, 1), func(context.Context, int) error { d.note("undone"); return nil })
				}()
				go func() {
					_, failed = Step(ctx, steps, slow(time.Second, 1), func(context.Context, int) error { return errSecond })
				}()
				synctest.Wait()
				return end
			})
			want(t, "run", err, end)
			_, never = Step(t.Context(), kept, func(context.Context) (int, error) { t.Error("done"); return 0, nil }, nil)
			wantErr(t, "never", never, ErrSagaOver)
			time.Sleep(time.Minute)
			synctest.Wait()
			want(t, "diary", d.String(), "undone")
			wantErr(t, "late", late, ErrSagaOver)
			wantErr(t, "failed", failed, ErrSagaOver, errSecond)
		}
	})
}

func TestSagaParallelSteps(t *testing.T) {
	s := must(NewSaga(SagaConfig{}))
	var d diary
	err := s.Run(t.Context(), func(ctx context.Context, steps *Steps) error {
		var wg sync.WaitGroup
		for n := range 50 {
			wg.Go(func() { _ = d.step(ctx, steps, n, nil) })
		}
		wg.Wait()
		return errBoom
	})
	want(t, "error", err, errBoom)
	want(t, "done and undone", len(d.notes), 100)
}

func TestSagaInvalid(t *testing.T) {
	s := must(NewSaga(SagaConfig{OnError: func(err error) error { return fmt.Errorf("mapped: %w", err) }}))
	var none context.Context
	wantErr(t, "nil context", s.Run(none, func(context.Context, *Steps) error { return nil }), ErrInvalid)
	wantErr(t, "nil function", s.Run(t.Context(), nil), ErrInvalid)
	err := s.Run(t.Context(), func(ctx context.Context, steps *Steps) error {
		_, err := Step[int](ctx, steps, nil, nil)
		wantErr(t, "nil step", err, ErrInvalid)
		_, err = Step(none, steps, five, nil)
		wantErr(t, "nil context", err, ErrInvalid)
		_, err = Step(ctx, nil, five, nil)
		wantErr(t, "nil steps", err, ErrInvalid)
		r, err := Step(ctx, steps, fails, nil)
		want(t, "value of a failed step", r, 7)
		return err
	})
	want(t, "mapped", err.Error(), "mapped: boom")
	want(t, "String", must(NewSaga(SagaConfig{Name: "s", UndoTimeout: time.Minute})).String(), "saga s(undo in 1m0s)")
	want(t, "String", s.String(), "saga(undo)")
	_, err = NewSaga(SagaConfig{UndoTimeout: -1})
	want(t, "UndoTimeout", err.Error(), "policy: invalid: SagaConfig.UndoTimeout is -1ns, want 0 or more")
}
