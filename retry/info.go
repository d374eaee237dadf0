package retry

import (
	"context"
	"time"

	"github.com/flyball-go/flyball/internal/current"
)

// Info is what a call may know of the attempt that it is.
type Info struct {
	Attempt int       // from 1
	Last    error     // how the attempt before ended; nil in the first; ErrResult when it was the result
	Started time.Time // when this one did; under a governor, the gate's last look before the closure
}

// FromContext returns what there is to know of the attempt that ctx, or an
// ancestor of it, was made for: by a governor for each of its closures, by Do
// from the second call on. The first call of Do, which costs no allocation, adds
// nothing to its context: ask for an Attempt above 1, not for ok, to know that
// this is a repetition. ok is false when there is no attempt. Of several around
// each other, the innermost is told.
//
// An Info is a copy, taken when the attempt started. It may be asked for by any
// goroutine, also after the attempt.
func FromContext(ctx context.Context) (info Info, ok bool) {
	a, ok := ctx.Value(current.Key{}).(interface{ AttemptInfo() Info })
	if !ok {
		return info, false
	}
	return a.AttemptInfo(), true
}

// attempt is the context of a repeated call of Do.
type attempt struct {
	context.Context
	info Info
}

func (a *attempt) AttemptInfo() Info { return a.info }

func (a *attempt) Value(key any) any {
	if key == (current.Key{}) {
		return a
	}
	return a.Context.Value(key)
}
