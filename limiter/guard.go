package limiter

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/internal/errtree"
	"github.com/flyball-go/flyball/policy"
)

// guard is a layer that admits calls by what came of others.
type guard interface {
	// enter admits a call, or returns why it does not.
	enter(c *policy.Call) error

	// leave is told once what came of a call that was admitted, and sent at sent.
	leave(c *policy.Call, sent time.Time, v verdict)
}

// pass takes a call through g. match says which errors are bad.
func pass(g guard, c *policy.Call, next policy.Handler, match func(error) bool) error {
	ctx := c.Context()
	if ctx.Err() != nil {
		return endOf(ctx)
	}
	if err := g.enter(c); err != nil {
		return err
	}
	sent := c.Now()
	var v verdict // neutral when next or match panics or exits
	defer func() { g.leave(c, sent, v) }()
	err := next(c)
	v = judge(ctx, err, match)
	return err
}

// verdict is what an outcome says about the server.
type verdict uint8

const (
	neutral verdict = iota
	good
	bad
	other // an error that is not one of those asked for
)

// judge says what err, the outcome of a call with ctx, says about the server.
func judge(ctx context.Context, err error, match func(error) bool) verdict {
	switch {
	case err == nil:
		return good
	case ctx.Err() != nil || errtree.Refused(err):
		return neutral
	case match(err):
		return bad
	}
	return other
}

// orAny is match, or what takes its place.
func orAny(match func(error) bool) func(error) bool {
	if match != nil {
		return match
	}
	return func(err error) bool { return !errors.Is(err, context.Canceled) }
}

// named is kind with the name, if there is one.
func named(kind, name string) string { return strings.TrimSpace(kind + " " + name) }

// mapped is what onError makes of err.
func mapped(err error, onError func(error) error) error {
	if err != nil && onError != nil {
		return onError(err)
	}
	return err
}

// tellRefused returns err, once onEvent has heard of it.
func tellRefused(onEvent func(event.Event), name string, err *LimitedError) error {
	event.Tell(onEvent, event.Event{Kind: event.LimitRefused, Name: name, Delay: eventDelay(err.After), Err: err})
	return err
}

// eventDelay is d as an event has it: delays there are added up, and Never is none.
func eventDelay(d time.Duration) time.Duration {
	if d == Never {
		return 0
	}
	return d
}
