package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flyball-go/flyball/internal/isnil"
)

// Handler takes a call the rest of its way: through the layers further in, and
// into its function. It returns the call's error.
type Handler func(c *Call) error

// Policy is a layer.
type Policy interface {
	// Wrap returns a handler that puts the layer around next. It is called once
	// for each chain that the layer is part of. The handler must call next on
	// the goroutine it was called on, or fork the call, and must survive a
	// panic and runtime.Goexit inside next: what it took, it gives back in a
	// deferred call.
	Wrap(next Handler) Handler

	// Layer says where in a Stack the policy belongs.
	Layer() Layer

	// String describes the policy in a few words, with its settings.
	String() string
}

// Layer is a place in the usual order, outermost first.
type Layer uint8

const (
	CacheLayer    Layer = iota // a stored result needs nothing of what follows
	FallbackLayer              // what takes the place of whatever fails inside
	RetryLayer                 // each repetition passes all that follows again
	HedgeLayer                 // as does each of several attempts at once
	BreakerLayer
	LimiterLayer
	BulkheadLayer
	TimeoutLayer // of one attempt
	ChaosLayer   // in place of the vendor
)

// Pipeline is layers around a call, composed. The zero Pipeline has none.
type Pipeline struct {
	handler  Handler // nil: no layers
	policies []Policy
	base     time.Time
	short    shortcut
	calls    sync.Pool // of *typed[R], for the R last used
}

// Chain composes policies, the first one outermost. It panics if one is nil, a nil
// pointer, or makes a nil handler: a chain is made when a program starts, from what
// its author wrote down.
func Chain(policies ...Policy) *Pipeline {
	h := Handler((*Call).run)
	for _, p := range slices.Backward(policies) {
		mustNotBeNil(p)
		if h = p.Wrap(h); h == nil {
			panic(fmt.Sprintf("policy: %v makes a nil handler", p))
		}
	}
	base := time.Now()
	return &Pipeline{handler: h, policies: slices.Clone(policies), base: base, short: shortcutOf(policies, base)}
}

func mustNotBeNil(p Policy) {
	if p == nil {
		panic("policy: nil policy in a chain")
	}
	if isnil.Pointer(p) {
		panic(fmt.Sprintf("policy: nil %T in a chain", p))
	}
}

// Stack composes policies in the order of their layers, and those of one layer as
// they are given.
func Stack(policies ...Policy) *Pipeline {
	sorted := slices.Clone(policies)
	for _, p := range sorted {
		mustNotBeNil(p)
	}
	slices.SortStableFunc(sorted, func(a, b Policy) int { return int(a.Layer()) - int(b.Layer()) })
	return Chain(sorted...)
}

// Describe lists the layers, outermost first, each as its String says: for tests
// that pin down how a program is guarded.
func Describe(p *Pipeline) []string {
	var d []string
	if p == nil {
		return d
	}
	for _, layer := range p.policies {
		d = append(d, layer.String())
	}
	return d
}

// String is Describe in one line.
func (p *Pipeline) String() string { return strings.Join(Describe(p), " > ") }

// ErrInvalid is matched by the errors for a nil context or function, a key that is
// not equal to itself, and a configuration that is out of range: they name the
// field and its value. They are permanent: to try again is no use.
var ErrInvalid error = invalidError("policy: invalid")

type invalidError string

func (e invalidError) Error() string   { return string(e) }
func (e invalidError) Permanent() bool { return true }

// Do calls fn through the layers of p and returns its result, or the error of the
// layer that did not let it come to that. When fn was called and failed, its
// value is returned too. fn runs on the goroutine of Do, unless a layer says
// otherwise; a panic in it, and runtime.Goexit, pass through Do when every layer
// has given back what it took.
func Do[R any](ctx context.Context, p *Pipeline, fn func(context.Context) (R, error)) (R, error) {
	if ctx == nil || fn == nil {
		return invalid[R]()
	}
	if p == nil || p.handler == nil {
		return fn(ctx)
	}
	if p.short.open && ctx.Err() == nil {
		return runDirect(ctx, p, fn)
	}
	return through[R](ctx, p, fn, nil)
}

// through takes a call through the handlers of p, from where it came directly.
func through[R any](ctx context.Context, p *Pipeline, fn func(context.Context) (R, error), from *progress[R]) (R, error) {
	t, ok := p.calls.Get().(*typed[R])
	if !ok {
		t = new(typed[R])
		t.op, t.base = t, p.base
	}
	t.ctx, t.fn = ctx, fn
	if from != nil {
		t.resume(from, p.short.clock)
	}
	err := p.handler(&t.Call)
	r := t.val
	t.reset() // not deferred: after a panic or Goexit somebody may still have it
	p.calls.Put(t)
	return r, err
}

func invalid[R any]() (none R, _ error) {
	return none, fmt.Errorf("%w: nil context or function", ErrInvalid)
}

// Run is Do for a function without a result.
func Run(ctx context.Context, p *Pipeline, fn func(context.Context) error) error {
	if fn == nil {
		_, err := invalid[struct{}]()
		return err
	}
	_, err := Do(ctx, p, func(ctx context.Context) (struct{}, error) { return struct{}{}, fn(ctx) })
	return err
}

// Wrap returns fn with the layers of p around it.
func Wrap[R any](p *Pipeline, fn func(context.Context) (R, error)) func(context.Context) (R, error) {
	return func(ctx context.Context) (R, error) { return Do(ctx, p, fn) }
}

// Wrap1 is Wrap for a function of one argument.
func Wrap1[A, R any](p *Pipeline, fn func(context.Context, A) (R, error)) func(context.Context, A) (R, error) {
	return func(ctx context.Context, a A) (R, error) {
		if fn == nil {
			return invalid[R]()
		}
		return Do(ctx, p, func(ctx context.Context) (R, error) { return fn(ctx, a) })
	}
}

// Wrap2 is Wrap for a function of two arguments.
func Wrap2[A, B, R any](p *Pipeline, fn func(context.Context, A, B) (R, error)) func(context.Context, A, B) (R, error) {
	return func(ctx context.Context, a A, b B) (R, error) {
		if fn == nil {
			return invalid[R]()
		}
		return Do(ctx, p, func(ctx context.Context) (R, error) { return fn(ctx, a, b) })
	}
}
