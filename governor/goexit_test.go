package governor_test

import (
	"context"
	"runtime"

	"github.com/flyball-go/flyball/governor"
)

// goexit ends the goroutine. It has a result so that a closure can return it.
func goexit() error {
	runtime.Goexit()
	return nil
}

// do is Do for closures that may end their goroutine, which is the caller's where
// they run inline. It returns ErrGoexit then, as Do does where they do not.
func do[S comparable, C, R any](ctx context.Context, g *governor.Governor[S, C], sel S, fn func(context.Context, C) (R, error)) (v R, err error) {
	err = governor.ErrGoexit
	done := make(chan struct{})
	go func() {
		defer close(done)
		v, err = governor.Do(ctx, g, sel, fn)
	}()
	<-done
	return v, err
}
