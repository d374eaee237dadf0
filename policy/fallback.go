package policy

import (
	"context"
	"strconv"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/internal/errtree"
)

// FallbackConfig says what takes the place of a failed call.
type FallbackConfig struct {
	// Name appears in events and errors.
	Name string

	// With is what takes its place: made by Value, Func or Map, for the type of
	// the calls' results. Required.
	With Substitute

	// If says which calls have failed: by their error, or by their result with
	// OnResult. nil means all with an error, unless the caller's context has
	// ended: nobody waits for the result then.
	If Predicate

	// Max is how many substitutes may run at once; a call beyond that fails with
	// a *FallbackError. 0 means 10, less than 0 any number.
	Max int

	// OnError replaces the error that leaves the layer, its own or one from
	// further in; nil as a replacement is success. What panics in it passes
	// through to the caller. nil: errors stay as they are.
	OnError func(error) error

	// OnEvent hears of FellBack, after the substitute was successful, of
	// FallbackFailed, when it was not, and of BulkheadFull, when it could not run.
	// It is called under no lock, and waited for. A panic in it is dropped. nil:
	// nobody does.
	OnEvent func(event.Event)
}

// Substitute puts a result into calls that have failed, of one type of results:
// others stay as they are. Value, Func and Map make one.
type Substitute struct {
	fits func(c *Call) bool
	put  func(c *Call, err error) error
}

// Value is the Substitute for calls with an R that always has the same result.
func Value[R any](r R) Substitute {
	return Substitute{fits[R], func(c *Call, _ error) error { SetResult(c, r); return nil }}
}

// Func is the Substitute for calls with an R that calls fn, on the goroutine and
// with the context of the call. fn is given the call's error, nil when it was the
// result that would not do; what it returns is the call's result and error, but an
// error that says Refused of a call that was made is wrapped in one that does not.
func Func[R any](fn func(ctx context.Context, err error) (R, error)) Substitute {
	if fn == nil {
		return Substitute{}
	}
	return Map(func(ctx context.Context, _ R, err error) (R, error) { return fn(ctx, err) })
}

// Map is Func for a function that is given the call's result, too: the zero R when
// the call was not made. FallbackConfig.If selects the calls, by default those with an
// error, and Max bounds how many at once.
func Map[R any](fn func(ctx context.Context, r R, err error) (R, error)) Substitute {
	if fn == nil {
		return Substitute{}
	}
	return Substitute{fits[R], func(c *Call, err error) error {
		r, _ := Result[R](c)
		r, err = fn(c.ctx, r, err)
		SetResult(c, r)
		return err
	}}
}

// fits reports whether c's function has a result of type R.
func fits[R any](c *Call) bool {
	_, ok := Result[R](c)
	return ok
}

// Fallback puts a substitute in the place of what failed further in. A panic in
// a call is no failure, and passes through. Several Fallbacks in a chain serve
// calls with results of several types.
//
// A call that has not failed costs no allocation.
type Fallback struct {
	cfg   FallbackConfig
	seats seats // of Max; not used without a limit
}

// NewFallback returns a Fallback. The error names a field that is out of range.
func NewFallback(cfg FallbackConfig) (*Fallback, error) {
	if cfg.With.put == nil {
		return nil, outOfRange("FallbackConfig.With", "nil", "Value, Func or Map")
	}
	if cfg.Max == 0 {
		cfg.Max = 10
	}
	if cfg.If == nil {
		cfg.If = func(c *Call, err error) bool { return err != nil && c.ctx.Err() == nil }
	}
	f := &Fallback{cfg: cfg}
	if cfg.Max > 0 {
		if err := inRange("FallbackConfig.Max", cfg.Max, 0); err != nil {
			return nil, err
		}
		f.seats.max.Store(uint64(cfg.Max))
	}
	return f, nil
}

// Layer returns FallbackLayer.
func (f *Fallback) Layer() Layer { return FallbackLayer }

// String describes the fallback: "fallback(10 at once)".
func (f *Fallback) String() string {
	if f.cfg.Max < 0 {
		return describe("fallback", f.cfg.Name, "any number at once")
	}
	return describe("fallback", f.cfg.Name, strconv.Itoa(f.cfg.Max)+" at once")
}

// Wrap puts the fallback around next.
func (f *Fallback) Wrap(next Handler) Handler {
	return mapped(func(c *Call) error {
		err := next(c)
		if f.cfg.With.fits(c) && f.cfg.If(c, err) {
			return f.replace(c, err)
		}
		return err
	}, f.cfg.OnError)
}

func (f *Fallback) replace(c *Call, err error) error {
	if f.cfg.Max > 0 {
		if !f.seats.take() {
			full := &FallbackError{Name: f.cfg.Name, Max: f.cfg.Max, Err: err}
			report(f.cfg.OnEvent, event.Event{Kind: event.BulkheadFull, Name: f.cfg.Name, Err: full})
			return full
		}
		defer f.seats.giveBack()
	}
	failed := f.cfg.With.put(c, err)
	c.Later()
	e := event.Event{Kind: event.FellBack, Name: f.cfg.Name, Err: err}
	if failed != nil {
		e.Kind, e.Err = event.FallbackFailed, failed
	}
	report(f.cfg.OnEvent, e)
	return errtree.Made(failed, !errtree.Refused(err))
}
