package policy

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/flyball-go/flyball/event"
)

// What a Timeout does about functions that run on after their context ended.

// watch says so when stop has not been called some time after the end of ctx.
// The goroutine for it begins at the end and is ended by stop.
func (t *Timeout) watch(ctx context.Context, after time.Duration) (stop func()) {
	if t.cfg.StuckAfter > 0 {
		after = t.cfg.StuckAfter
	}
	begun := time.Now()
	returned := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(after)
		defer timer.Stop()
		select {
		case <-returned:
		case <-timer.C:
			report(t.cfg.OnEvent, event.Event{Kind: event.Stuck, Name: t.cfg.Name, Delay: time.Since(begun), Err: context.Cause(ctx)})
		}
	})
	return func() { unhook(); close(returned) }
}

// What becomes of a call on another goroutine, whichever is swapped in first.
const (
	ended int32 = 1 + iota
	abandoned
)

// leave is wait on another goroutine. It does not use c's context after the call
// was abandoned, nor does the fork anything of c.
func (t *Timeout) leave(c *Call, next Handler) error {
	if c.ctx.Err() != nil {
		return endOf(c.ctx, "call not begun", false)
	}
	ctx := t.begin(c, t.after(c))
	defer ctx.end()
	defer c.Later()
	begun := time.Now()
	fork := c.Fork(ctx)
	var state atomic.Int32
	done := make(chan ending, 1)
	go guard(func() error { return next(fork) }, func(e ending) {
		if state.CompareAndSwap(0, ended) {
			done <- e
			return
		}
		t.abandoned.Add(-1)
		if e.crash != nil {
			report(t.cfg.OnEvent, event.Event{Kind: event.Abandoned, Name: t.cfg.Name, Delay: time.Since(begun), Err: e.crash})
		}
	})
	finish := func(e ending) error {
		if e.crash == nil {
			c.Adopt(fork)
		}
		return t.judge(ctx, e.result())
	}
	select {
	case e := <-done:
		return finish(e)
	case <-ctx.Done():
	}
	if grace := t.grace(ctx.over.After); grace > 0 {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case e := <-done:
			return finish(e)
		case <-timer.C:
		}
	}
	t.abandoned.Add(1) // before the swap, so that what ends right after it finds it counted
	if !state.CompareAndSwap(0, abandoned) {
		t.abandoned.Add(-1)
		return finish(<-done)
	}
	err := endOf(ctx, "call abandoned", true)
	if context.Cause(ctx) == error(&ctx.over) {
		err = &TimeoutError{Name: ctx.over.Name, After: ctx.over.After, Ignored: true}
		report(t.cfg.OnEvent, event.Event{Kind: event.TimedOut, Name: t.cfg.Name, Delay: ctx.over.After, Err: err})
	}
	report(t.cfg.OnEvent, event.Event{Kind: event.Abandoned, Name: t.cfg.Name, Delay: time.Since(begun), Err: err})
	return err
}

func (t *Timeout) grace(after time.Duration) time.Duration {
	if t.cfg.Grace == 0 {
		return after / 100
	}
	return t.cfg.Grace
}
