package pool

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/flyball-go/flyball/event"
)

// start runs a user's function on a goroutine of its own, which it may end by
// any means: the channel gets its error, ErrGoexit or a *PanicError.
func start(fn func() error) <-chan error {
	done := make(chan error, 1)
	go func() {
		err := ErrGoexit
		defer func() {
			if v := recover(); v != nil {
				err = &PanicError{Value: v, Stack: debug.Stack()}
			}
			done <- err
		}()
		err = fn()
	}()
	return done
}

// emit reports an event and waits until it is heard.
func (p *Pool[S, C]) emit(kind event.Kind, sel S, took time.Duration, err error) {
	if p.cfg.OnEvent == nil {
		return
	}
	if <-start(func() error {
		p.cfg.OnEvent(event.Event{Time: time.Now(), Name: p.cfg.Name, Kind: kind, Source: fmt.Sprint(sel), Delay: took, Err: err})
		return nil
	}) != nil {
		p.panics.Add(1)
	}
}
