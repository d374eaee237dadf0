package policy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
)

// batches is a function for CollapseConfig.Batch that doubles, takes a second, and
// says what it was asked.
type batches struct {
	mu    sync.Mutex
	asked [][]int
	time  time.Duration
}

func (b *batches) run(ctx context.Context, keys []int) (map[int]int, error) {
	b.mu.Lock()
	b.asked = append(b.asked, slices.Clone(keys))
	b.mu.Unlock()
	if err := sleep(b.time)(ctx); err != nil {
		return nil, err
	}
	m := make(map[int]int)
	for _, k := range keys {
		m[k] = 2 * k
	}
	return m, nil
}

func (b *batches) String() string {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return fmt.Sprint(b.asked)
}

func TestCollapseDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(batches)
		x := must(NewCollapse(CollapseConfig[int, int]{Batch: b.run}))
		var wg sync.WaitGroup
		for k := range 1000 {
			wg.Go(func() {
				want(t, "Window", took(func() {
					r, err := x.Do(t.Context(), k)
					want(t, "result", r, 2*k)
					wantErr(t, "error", err)
				}), 10*time.Millisecond)
			})
		}
		wg.Wait()
		want(t, "MaxBatch", len(b.asked), 1)
	})
}

func TestCollapseWindowAndMaxBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		b := &batches{time: time.Minute}
		x := must(NewCollapse(CollapseConfig[int, int]{Name: "x", Batch: b.run, Window: time.Second, MaxBatch: 3, OnEvent: l.hear}))
		ask := func(keys ...int) {
			for _, k := range keys {
				go func() {
					if r, err := x.Do(t.Context(), k); r != 2*k || err != nil {
						t.Error(r, err)
					}
				}()
				synctest.Wait()
			}
		}
		ask(5, 5, 4, 5)
		want(t, "too early", b.String(), "[]")
		time.Sleep(time.Second - 1)
		want(t, "too early", b.String(), "[]")
		time.Sleep(time.Nanosecond)
		want(t, "the window ends", b.String(), "[[5 4]]") // equal keys once, in order
		want(t, "event", l.take(), "[collapsed x #4]")
		ask(5, 6, 7) // not of the batch that runs
		want(t, "full", b.String(), "[[5 4] [5 6 7]]")
		ask(8)
		time.Sleep(time.Second)
		want(t, "the next window", b.String(), "[[5 4] [5 6 7] [8]]")
		want(t, "events", l.take(), "[collapsed x #3]")
		time.Sleep(time.Hour)
	})
}

func TestCollapseOutcomes(t *testing.T) {
	keys := []int{1, 2, 3}
	own := KeyErrors[int]{2: errSecond}
	for name, c := range map[string]struct {
		batch func(context.Context, []int) (map[int]int, error)
		want  string
	}{
		"all":         {new(batches).run, "2 <nil>, 4 <nil>, 6 <nil>"},
		"none":        {func(context.Context, []int) (map[int]int, error) { return nil, nil }, "0 " + ErrNoResult.Error() + ", 0 " + ErrNoResult.Error() + ", 0 " + ErrNoResult.Error()},
		"error":       {func(context.Context, []int) (map[int]int, error) { return nil, errBoom }, "0 boom, 0 boom, 0 boom"},
		"part":        {func(context.Context, []int) (map[int]int, error) { return map[int]int{1: 5}, errBoom }, "5 <nil>, 0 boom, 0 boom"},
		"own error":   {func(context.Context, []int) (map[int]int, error) { return map[int]int{1: 5, 3: 6}, own }, "5 <nil>, 0 second, 6 <nil>"},
		"own wrapped": {func(context.Context, []int) (map[int]int, error) { return map[int]int{1: 5}, fmt.Errorf("x: %w", own) }, "5 <nil>, 0 second, 0 x: policy: 1 keys failed, 2: second"},
		"panic":       {func(context.Context, []int) (map[int]int, error) { panic(errBoom) }, "0 policy: function panicked: boom, 0 policy: function panicked: boom, 0 policy: function panicked: boom"},
		"goexit":      {func(context.Context, []int) (map[int]int, error) { runtime.Goexit(); return nil, nil }, "0 " + ErrGoexit.Error() + ", 0 " + ErrGoexit.Error() + ", 0 " + ErrGoexit.Error()},
	} {
		for _, most := range []int{0, 3} { // sent by the window's timer, and by the last call
			synctest.Test(t, func(t *testing.T) {
				x := must(NewCollapse(CollapseConfig[int, int]{Batch: c.batch, MaxBatch: most}))
				got := make([]string, len(keys))
				var wg sync.WaitGroup
				for i, k := range keys {
					wg.Go(func() {
						r, err := x.Do(t.Context(), k)
						got[i] = fmt.Sprint(r, " ", err)
					})
				}
				wg.Wait()
				want(t, name, got[0]+", "+got[1]+", "+got[2], c.want)
				x.Close()
				<-x.Done() // nothing is counted as running
			})
		}
	}
	want(t, "no key errors", KeyErrors[int]{}.Error(), "policy: 0 keys failed")
}

func TestCollapseCallsLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &batches{time: time.Minute}
		x := must(NewCollapse(CollapseConfig[int, int]{Batch: b.run, Window: 10 * time.Second}))
		ask := func(k int, d time.Duration) *how {
			h := new(how)
			ctx, cancel := context.WithTimeoutCause(t.Context(), d, errBoom)
			go func() {
				defer cancel()
				_, err := x.Do(ctx, k)
				*h = how{err: err}
			}()
			synctest.Wait()
			return h
		}
		early, second, other, late := ask(1, time.Second), ask(2, time.Second), ask(2, time.Hour), ask(3, 15*time.Second)
		time.Sleep(time.Second)
		synctest.Wait()
		wantErr(t, "left", early.err, context.DeadlineExceeded, errBoom)
		want(t, "left before the batch", refused(early.err) && refused(second.err), true)
		time.Sleep(9 * time.Second)
		want(t, "keys that somebody waits for", b.String(), "[[2 3]]")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		wantErr(t, "left", late.err, context.DeadlineExceeded, errBoom)
		want(t, "left after it began", refused(late.err), false)
		time.Sleep(time.Hour)
		synctest.Wait()
		wantErr(t, "stayed", other.err)

		// A batch that everybody has left before is not made, and its timer stops.
		ask(4, time.Second)
		time.Sleep(time.Second)
		synctest.Wait()
		if x.open != nil {
			t.Error("an empty batch is open")
		}
		ask(5, time.Hour)
		time.Sleep(9 * time.Second)
		want(t, "window of the next", b.String(), "[[2 3]]")
		time.Sleep(time.Second)
		want(t, "not asked for", b.String(), "[[2 3] [5]]")
		time.Sleep(time.Hour)

		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := x.Do(ended, 6)
		wantErr(t, "ended", err, context.Canceled)
		want(t, "refused", refused(err), true)
		want(t, "open", x.open == nil, true)
	})
}

// Three keys are in the batch, but one of them is not wanted any more; then it is
// again.
func TestCollapseIsFullWithKeysThatAreWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(batches)
		x := must(NewCollapse(CollapseConfig[int, int]{Batch: b.run, Window: time.Second, MaxBatch: 3}))
		ask := func(ctx context.Context, k int) {
			go func() { _, _ = x.Do(ctx, k) }()
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		ask(ctx, 1)
		ask(t.Context(), 2)
		cancel()
		synctest.Wait()
		ask(t.Context(), 3)
		want(t, "before it is full", b.String(), "[]")
		ask(t.Context(), 1)
		want(t, "full", b.String(), "[[1 2 3]]")
		time.Sleep(time.Hour)
	})
}

func TestCollapseContextOfTheBatch(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		var ctx context.Context
		var ended time.Duration
		var cause error
		begin := time.Now()
		x := must(NewCollapse(CollapseConfig[int, int]{Batch: func(c context.Context, _ []int) (map[int]int, error) {
			ctx = c
			<-c.Done()
			ended, cause = time.Since(begin), context.Cause(c)
			return nil, c.Err()
		}}))
		for i, d := range []time.Duration{time.Second, 3 * time.Second, 2 * time.Second} {
			go func() {
				c, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, i), d)
				defer cancel()
				_, _ = x.Do(c, i)
			}()
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		want(t, "ends when all have left", ended, 3*time.Second)
		want(t, "cause", cause, errLeft)
		want(t, "values of the first", ctx.Value(key{}), any(0))
		// And when the batch is over, so that nothing holds on to it.
		x = must(NewCollapse(CollapseConfig[int, int]{Batch: func(c context.Context, _ []int) (map[int]int, error) {
			ctx = c
			return nil, nil
		}}))
		_, _ = x.Do(t.Context(), 1)
		synctest.Wait()
		want(t, "cause", context.Cause(ctx), errLost)
	})
}

func TestCollapseClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &batches{time: time.Second}
		x := must(NewCollapse(CollapseConfig[int, int]{Batch: b.run, Window: time.Hour}))
		var r int
		go func() { r, _ = x.Do(t.Context(), 1) }()
		synctest.Wait()
		want(t, "Close", took(func() { x.Close(); x.Close() }), 0)
		_, err := x.Do(t.Context(), 2)
		want(t, "later", err, ErrClosed)
		want(t, "refused", refused(err), true)
		want(t, "permanent", permanent(err), true)
		want(t, "Done", took(func() { <-x.Done() }), time.Second)
		synctest.Wait()
		want(t, "flushed", r, 2)
		x.Close()
		unused := must(NewCollapse(CollapseConfig[int, int]{Batch: b.run}))
		select {
		case <-unused.Done():
			t.Error("done before Close")
		default:
		}
		unused.Close()
		<-unused.Done()
	})
}

func TestCollapseErrors(t *testing.T) {
	x := must(NewCollapse(CollapseConfig[float64, int]{
		Batch:   func(context.Context, []float64) (map[float64]int, error) { return nil, errBoom },
		OnError: func(err error) error { return fmt.Errorf("mapped: %w", err) },
	}))
	var none context.Context
	_, err := x.Do(none, 1)
	wantErr(t, "nil context", err, ErrInvalid)
	_, err = x.Do(t.Context(), math.NaN())
	wantErr(t, "NaN", err, ErrInvalid)
	_, err = x.Do(t.Context(), 1)
	want(t, "mapped", err.Error(), "mapped: boom")
	for want, cfg := range map[string]CollapseConfig[int, int]{
		"policy: invalid: CollapseConfig.Batch is nil, want a function":        {},
		"policy: invalid: CollapseConfig.Window is -1ns, want 0 or more":       {Batch: new(batches).run, Window: -1},
		"policy: invalid: CollapseConfig.MaxBatch is -1, want 0 to 2147483647": {Batch: new(batches).run, MaxBatch: -1},
	} {
		if _, err := NewCollapse(cfg); err == nil || err.Error() != want {
			t.Errorf("%v, want %v", err, want)
		}
	}
	s := must(NewCollapse(CollapseConfig[int, int]{Name: "x", Batch: new(batches).run, MaxBatch: 7})).String()
	want(t, "String", s, "collapse x(10ms, up to 7)")
	dumb := must(NewCollapse(CollapseConfig[any, int]{Batch: func(context.Context, []any) (map[any]int, error) { return nil, errBoom }}))
	h := see(func() error { _, err := dumb.Do(t.Context(), []int{1}); return err })
	want(t, "panics", h.panics != nil, true)
	_, err = dumb.Do(t.Context(), 1)
	wantErr(t, "healthy", err, errBoom)
}

// Random calls and cancellations: each gets what is its own, and nothing is left.
func TestCollapseUnderLoad(t *testing.T) {
	var largest atomic.Int64
	x := must(NewCollapse(CollapseConfig[int, int]{Window: 50 * time.Microsecond, MaxBatch: 4, Batch: func(ctx context.Context, keys []int) (map[int]int, error) {
		largest.Store(max(largest.Load(), int64(len(keys))))
		m := make(map[int]int)
		for _, k := range keys {
			switch {
			case k == 3:
				return m, KeyErrors[int]{k: errSecond}
			case rand.IntN(50) == 0:
				panic(errBoom)
			}
			m[k] = 2 * k
		}
		return m, ctx.Err()
	}}))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range effort.Times(100) {
				ctx, cancel := context.WithCancel(t.Context())
				if rand.IntN(4) == 0 {
					go cancel()
				}
				k := rand.IntN(6)
				r, err := x.Do(ctx, k)
				switch {
				case err == nil && (r != 2*k || k == 3):
					t.Error("another's result", k, r)
				case errors.Is(err, errSecond) && k != 3 && err == errSecond:
					t.Error("another's error", k)
				case errors.Is(err, context.Canceled) && ctx.Err() == nil:
					t.Error("another's cancellation")
				}
				cancel()
			}
		})
	}
	wg.Wait()
	x.Close()
	<-x.Done()
	want(t, "MaxBatch", largest.Load() <= 4, true)
	want(t, "left", x.open == nil && x.running == 0, true)
}
