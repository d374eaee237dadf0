package main

import (
	"context"
	"fmt"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/failsafe-go/failsafe-go/retrypolicy"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/pool"
)

// B: the round trip of a call that does nothing, by 1, 8, 64 and 1024 submitters.
//
//	B1    Do, healthy: it runs on the caller's goroutine
//	B2    Do, healthy, with a pooled connection
//	B3    Do, with a pooled connection, through the actor, as in a cooldown or when
//	      all slots are taken: Ask.KeepConn sends it there
//	B4    Submit and Result
//	B4fs  the same beside failsafe-go, which has no actor but a goroutine a call
//	B4go  the same beside what it takes to run a call on another goroutine, and nothing
//	      else: no bound, no context, no pause
func init() {
	const workers = 64
	for _, c := range []int{1, 8, 64, 1024} {
		b := func(id, what, peer string, ours, theirs side, target ...bound) {
			add(row{
				id: fmt.Sprintf("%s/%d", id, c), what: what, peer: peer, unit: "ns", target: target,
				measure: timed(c, ours, theirs),
			})
		}
		one := func(alone, others float64) bound {
			if c == 1 {
				return bound{ratio, alone}
			}
			return bound{ratio, others}
		}
		queued := bound{ratio, 0.80}
		if c == 8 || c == 1024 {
			queued.most = 0.95
		}
		through := governor.Ask{KeepConn: true}
		b("B1", "Do", "reference", plainDo(workers), referenceDo(workers), one(0.10, 0.15), bound{allocs, 1})
		b("B2", "Do with a connection", "reference", pooledDo(workers, governor.Ask{}), referenceDo(workers), one(0.15, 0.35), bound{allocs, 1})
		b("B3", "Do with a connection, through the actor", "reference", pooledDo(workers, through), referenceDo(workers), queued, bound{allocs, 1})
		b("B4", "Submit and Result", "reference", submitResult(workers), referenceDo(workers), bound{ratio, 0.75}, bound{allocs, 2})
		b("B4fs", "Submit and Result", "failsafe-go GetAsync, composed", submitResult(workers), failsafeAsync(workers), bound{ratio, 0.25})
		b("B4go", "Submit and Result", "a go statement and a channel", submitResult(workers), goAndWait)
	}
}

//go:noinline
func noop(context.Context, struct{}) (int, error) { return 1, nil }

//go:noinline
func noopConn(context.Context, *conn) (int, error) { return 1, nil }

//go:noinline
func noopAlone() (int, error) { return 1, nil }

// alive is a context that could end, as those of real calls can.
func alive() (context.Context, context.CancelFunc) { return context.WithCancel(context.Background()) }

func plainDo(workers int) side {
	return func() (func(int) error, func(), error) {
		g, err := governor.New(governor.PlainConfig{Name: "bench", Workers: workers})
		if err != nil {
			return nil, nil, err
		}
		ctx, cancel := alive()
		op := each(func() error {
			_, err := governor.Do(ctx, g, "", noop)
			return err
		})
		return op, func() { g.Close(); cancel() }, nil
	}
}

func pooledDo(workers int, ask governor.Ask) side {
	return func() (func(int) error, func(), error) {
		g, err := governor.New(governor.Config[string, *conn]{
			Name:    "bench",
			Workers: workers,
			Pool: &pool.Config[string, *conn]{
				Open: func(context.Context, string) (*conn, error) { return new(conn), nil },
				Max:  workers,
			},
		})
		if err != nil {
			return nil, nil, err
		}
		ctx, cancel := alive()
		view := g.With(ask)
		op := each(func() error {
			_, err := governor.Do(ctx, view, "", noopConn)
			return err
		})
		return op, func() { g.Close(); cancel() }, nil
	}
}

func submitResult(workers int) side {
	return func() (func(int) error, func(), error) {
		g, err := governor.New(governor.PlainConfig{Name: "bench", Workers: workers})
		if err != nil {
			return nil, nil, err
		}
		ctx, cancel := alive()
		op := each(func() error {
			_, err := governor.Submit(ctx, g, "", noop).Result(ctx)
			return err
		})
		return op, func() { g.Close(); cancel() }, nil
	}
}

func referenceDo(workers int) side {
	return func() (func(int) error, func(), error) {
		a, err := newReference(workers)
		if err != nil {
			return nil, nil, err
		}
		ctx, cancel := alive()
		op := each(func() error {
			_, err := a.do(ctx, "", noopAlone)
			return err
		})
		return op, func() { a.close(); cancel() }, nil
	}
}

func goAndWait() (func(int) error, func(), error) {
	return each(func() error {
		result := make(chan refResult, 1)
		go func() {
			v, err := noopAlone()
			result <- refResult{v, err}
		}()
		return (<-result).err
	}), func() {}, nil
}

// failsafeAsync has the policies that a governor is to have: retry, breaker,
// limiter, bulkhead.
func failsafeAsync(workers int) side {
	return func() (func(int) error, func(), error) {
		exec := failsafe.With[int](
			retrypolicy.NewBuilder[int]().WithMaxRetries(3).WithBackoff(100*time.Millisecond, time.Second).Build(),
			circuitbreaker.NewBuilder[int]().WithFailureThreshold(5).WithDelay(time.Second).Build(),
			ratelimiter.NewSmoothBuilder[int](1e9, time.Second).WithMaxWaitTime(time.Second).Build(),
			bulkhead.NewBuilder[int](uint(workers)).WithMaxWaitTime(time.Hour).Build(),
		)
		ctx, cancel := alive()
		op := each(func() error {
			_, err := exec.WithContext(ctx).GetAsync(noopAlone).Get()
			return err
		})
		return op, cancel, nil
	}
}
