package policy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
)

const ms = time.Millisecond

type valueKey struct{}

// view is all that can be seen of a context.
func view(ctx context.Context) string {
	over := false
	select {
	case <-ctx.Done():
		over = true
	default:
	}
	d, ok := ctx.Deadline()
	return fmt.Sprint(over, ctx.Err(), context.Cause(ctx), d.UnixNano(), ok, ctx.Value(valueKey{}))
}

// glances look at a context without waiting for it. They say what they see.
var glances = []func(ctx context.Context) string{
	func(ctx context.Context) string { return fmt.Sprint(ctx.Err()) },
	func(ctx context.Context) string { return fmt.Sprint(context.Cause(ctx)) },
	func(ctx context.Context) string { return fmt.Sprint(ctx.Value(valueKey{})) },
	func(ctx context.Context) string { d, ok := ctx.Deadline(); return fmt.Sprint(d.UnixNano(), ok) },
	func(ctx context.Context) string {
		child, cancel := context.WithCancel(ctx)
		defer cancel()
		return view(child)
	},
	view,
}

// The context of a call cannot be told from that of context.WithTimeoutCause, by
// whatever and whenever somebody looks: random callers' contexts and glances.
func TestLimitedIsLikeAContextWithADeadline(t *testing.T) {
	for seed := range uint64(effort.Times(100)) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			const after = 50 * ms
			ctx := context.WithValue(t.Context(), valueKey{}, seed)
			switch r.IntN(4) {
			case 0: // the time of a caller's end is odd, that of a glance even
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeoutCause(ctx, time.Duration(2*r.IntN(50)+1)*ms, errBoom)
				defer cancel()
			case 1:
				var cancel context.CancelCauseFunc
				ctx, cancel = context.WithCancelCause(ctx)
				time.AfterFunc(time.Duration(2*r.IntN(25)+1)*ms, func() { cancel(errBoom) })
			}
			over := TimeoutError{After: after}
			l := &timeoutContext{Context: ctx, at: time.Now().Add(after), over: over}
			want, cancel := context.WithTimeoutCause(ctx, after, &over)
			look := func() {
				glance := glances[r.IntN(len(glances))]
				synctest.Wait()
				if a, b := glance(l), glance(want); a != b {
					t.Fatalf("seed %d at %v:\n%s, want\n%s", seed, time.Until(l.at), a, b)
				}
			}
			for range r.IntN(6) {
				time.Sleep(time.Duration(2*r.IntN(20)) * ms)
				look()
			}
			synctest.Wait()
			_ = l.Err() // see TestLimitedWhenNobodyLooked
			l.end()
			cancel()
			for range 3 {
				look()
				time.Sleep(10 * ms)
			}
			if a, b := view(l), view(want); a != b {
				t.Fatalf("seed %d at the end:\n%s, want\n%s", seed, a, b)
			}
		})
	}
}

func TestLimitedWhenNobodyLooked(t *testing.T) {
	late := func(ctx context.Context) (int, error) { time.Sleep(3 * time.Second); return 0, errBoom }
	for _, c := range []struct {
		name    string
		caller  func(context.Context) (context.Context, context.CancelFunc)
		timeout bool
	}{
		{"a later deadline", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 2*time.Second)
		}, true},
		{"an earlier deadline", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second/2)
		}, false},
		{"cancelled", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			time.AfterFunc(time.Second/2, cancel)
			return ctx, cancel
		}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := Chain(must(NewTimeout(TimeoutConfig{After: time.Second})))
			ctx, cancel := c.caller(t.Context())
			defer cancel()
			_, err := Do(ctx, p, late)
			if errors.Is(err, ErrTimeout) != c.timeout || !errors.Is(err, errBoom) {
				t.Errorf("%s: %v", c.name, err)
			}
		})
	}
}

// A function may keep its context. It has ended with the call, and has nothing to
// do with calls that follow.
func TestTimeoutLeavesAKeptContextEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kept context.Context
		keep := func(ctx context.Context) (int, error) { kept = ctx; return 5, nil }
		p := Chain(must(NewTimeout(TimeoutConfig{})))
		_, _ = Do(context.WithValue(t.Context(), valueKey{}, 1), p, keep)
		first := kept
		_, _ = Do(context.WithValue(t.Context(), valueKey{}, 2), p, func(ctx context.Context) (int, error) {
			want(t, "the first call's value", first.Value(valueKey{}), any(1))
			wantErr(t, "the first call's end", first.Err(), context.Canceled)
			wantErr(t, "the second call's end", ctx.Err())
			<-first.Done()
			return 5, nil
		})
		child, cancel := context.WithCancel(first)
		defer cancel()
		wantErr(t, "a child", child.Err(), context.Canceled)
	})
}

func TestLimitedByManyGoroutinesAtOnce(t *testing.T) {
	p := Chain(must(NewTimeout(TimeoutConfig{After: time.Hour})))
	for range 500 {
		var watchers sync.WaitGroup
		_, _ = Do(t.Context(), p, func(ctx context.Context) (int, error) {
			for i := range 4 {
				watchers.Go(func() {
					glances[i](ctx)
					child, cancel := context.WithCancel(ctx)
					defer cancel()
					<-child.Done() // when the call has returned, and not before
					<-ctx.Done()
					if ctx.Err() != context.Canceled || context.Cause(ctx) != context.Canceled {
						t.Error(ctx.Err(), context.Cause(ctx))
					}
				})
			}
			return 5, nil
		})
		watchers.Wait()
	}
}
