package telemetry

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/policy"
)

// The events and attributes of spans.
const (
	eventWait    = "flyball.wait"            // with keyWaited, keyAttempt if one followed, and keyError and error.type of the attempt before
	eventStarted = "flyball.attempt.started" // with keyAttempt and keyWaited
	eventEnded   = "flyball.attempt.ended"   // with keyAttempt and, if it failed, keyError and error.type
	eventItem    = "flyball.stream.first_item"

	keyAttempt  = attribute.Key("flyball.attempt")
	keyAttempts = attribute.Key("flyball.attempts")
	keyWaited   = attribute.Key("flyball.waited")  // seconds since the request, or its last attempt
	keyRefused  = attribute.Key("flyball.refused") // the request was never sent
	keyRetryIn  = attribute.Key("flyball.retry_after")
	keyError    = attribute.Key("error.message")
)

// shortest is the shortest wait that is an event: less is the way from one goroutine to
// another, of which nobody wants to read.
const shortest = time.Millisecond

// Do is governor.Do with a span around it, which is named after the governor. Each
// attempt is two events of it: when it began, after how long a wait, and when it
// ended, with its error. A wait of a millisecond or more, before an attempt or without
// one in the end, is an event of its own. The closure's context is within the span. Where the
// tracer does not record, nothing is added to governor.Do.
func Do[S comparable, C, R any](ctx context.Context, t *Telemetry, g *governor.Governor[S, C], sel S, fn func(context.Context, C) (R, error)) (R, error) {
	ctx, r := t.begin(ctx, g)
	if r == nil || fn == nil {
		return governor.Do(ctx, g, sel, fn)
	}
	defer r.span.End() // also when the closure ends this goroutine
	v, err := governor.Do(ctx, g, sel, attempts(r, fn))
	r.finish(err)
	return v, err
}

// Submit is governor.Submit with a span, as Do has, that ends when the request is
// complete: one goroutine waits for that, where the tracer records.
func Submit[S comparable, C, R any](ctx context.Context, t *Telemetry, g *governor.Governor[S, C], sel S, fn func(context.Context, C) (R, error)) *governor.Request[R] {
	ctx, r := t.begin(ctx, g)
	if r == nil || fn == nil {
		return governor.Submit(ctx, g, sel, fn)
	}
	req := governor.Submit(ctx, g, sel, attempts(r, fn))
	go func() { // ends with the request, and every request does
		defer r.span.End()
		<-req.Done()
		_, err := req.Result(context.Background())
		r.finish(err)
	}()
	return req
}

// Stream is governor.Stream with a span, as Do has, that ends with the loop.
func Stream[S comparable, C, T any](ctx context.Context, t *Telemetry, g *governor.Governor[S, C], sel S, fn func(context.Context, C) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		ctx, r := t.begin(ctx, g)
		if r == nil || fn == nil {
			governor.Stream(ctx, g, sel, fn)(yield)
			return
		}
		defer r.span.End()
		var last error
		items := 0
		for v, err := range governor.Stream(ctx, g, sel, func(ctx context.Context, conn C) iter.Seq2[T, error] {
			return attempt(r, fn(ctx, conn))
		}) {
			if last = err; err == nil {
				if items++; items == 1 {
					r.span.AddEvent(eventItem)
				}
			}
			if !yield(v, err) {
				break
			}
		}
		r.finish(last)
	}
}

// request is a span and what is known of its attempts.
type request struct {
	span trace.Span

	mu       sync.Mutex // guards what follows
	since    time.Time  // when it last began to wait, if it waits
	attempts int
	last     error // of the attempt that ended last
}

// begin returns nil when nothing is recorded, with the context for what is inside.
func (t *Telemetry) begin(ctx context.Context, h governor.Handle) (context.Context, *request) {
	if ctx == nil {
		return nil, nil // which the governor refuses
	}
	return t.beginNamed(ctx, h.Name())
}

func (t *Telemetry) beginNamed(ctx context.Context, name string) (context.Context, *request) {
	name = text(name, maxName)
	ctx, span := t.tracer.Start(ctx, name, trace.WithAttributes(t.cfg.Attributes...), trace.WithAttributes(keyGovernor.String(name)))
	if !span.IsRecording() {
		span.End()
		return ctx, nil
	}
	return ctx, &request{span: span, since: time.Now()}
}

func attempts[C, R any](r *request, fn func(context.Context, C) (R, error)) func(context.Context, C) (R, error) {
	return func(ctx context.Context, conn C) (v R, err error) {
		n := r.started()
		err = errGone
		defer func() { r.ended(n, err) }()
		v, err = fn(ctx, conn)
		return v, err
	}
}

// attempt tells of a stream's attempt: it begins with its first item, or the wait for
// it, and ends with its last.
func attempt[T any](r *request, seq iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		n := r.started()
		last := errGone
		defer func() { r.ended(n, last) }()
		for v, err := range seq {
			if last = err; !yield(v, err) {
				return
			}
			last = errGone
		}
		last = nil
	}
}

var errGone = errors.New("it panicked, or ended its goroutine")

func (r *request) started() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.attempts++
	r.waited(now, keyAttempt.Int(r.attempts))
	r.span.AddEvent(eventStarted, trace.WithTimestamp(now),
		trace.WithAttributes(keyAttempt.Int(r.attempts), keyWaited.Float64(now.Sub(r.since).Seconds())))
	return r.attempts
}

func (r *request) ended(n int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	with := because(err, keyAttempt.Int(n))
	r.since, r.last = time.Now(), err
	r.span.AddEvent(eventEnded, trace.WithTimestamp(r.since), trace.WithAttributes(with...))
}

// waited tells of a wait that is over, at the time when it began. The caller holds mu.
func (r *request) waited(now time.Time, more ...attribute.KeyValue) {
	if d := now.Sub(r.since); d >= shortest {
		with := append(because(r.last, keyWaited.Float64(d.Seconds())), more...)
		r.span.AddEvent(eventWait, trace.WithTimestamp(r.since), trace.WithAttributes(with...))
	}
}

// because returns attributes, and what says err.
func because(err error, with ...attribute.KeyValue) []attribute.KeyValue {
	if err != nil {
		with = append(with, keyError.String(words(err)), kindOf(err))
	}
	return with
}

// words is what err says. An Error method is the user's, and may panic, as that of a nil
// pointer: fmt says so then.
func words(err error) string { return text(fmt.Sprint(err), maxError) }

// kindOf is semconv.ErrorType, or the type's name when that asks a method which panics.
func kindOf(err error) (kind attribute.KeyValue) {
	defer func() {
		if recover() != nil {
			kind = semconv.ErrorTypeKey.String(fmt.Sprintf("%T", err))
		}
	}()
	return semconv.ErrorType(err)
}

// given reports whether err is what the last attempt ended with: then nothing waited
// after it, only its result, for the goroutine that takes it.
func (r *request) given(err error) bool {
	return r.attempts > 0 && (err == nil || r.last != nil && reflect.ValueOf(err).Comparable() && err == r.last)
}

// finish sets what the request has come to.
func (r *request) finish(err error) {
	r.mu.Lock()
	if !r.given(err) {
		r.waited(time.Now())
	}
	r.span.SetAttributes(keyAttempts.Int(r.attempts))
	r.mu.Unlock()
	if err == nil {
		return
	}
	r.span.SetAttributes(kindOf(err))
	r.span.SetStatus(codes.Error, words(err))
	defer func() { _ = recover() }() // of a method of err's: then it says nothing
	if governor.IsRefused(err) {
		r.span.SetAttributes(keyRefused.Bool(true))
	}
	if later, ok := errors.AsType[interface {
		error
		RetryAfter() time.Duration
	}](err); ok {
		r.span.SetAttributes(keyRetryIn.Float64(later.RetryAfter().Seconds()))
	}
}

// Span is a layer for chains of policies that are used alone, outermost: a span
// around all that is inside, named name.
func (t *Telemetry) Span(name string) policy.Policy { return &spans{t, name} }

type spans struct {
	t    *Telemetry
	name string
}

func (s *spans) Layer() policy.Layer { return policy.CacheLayer }

func (s *spans) String() string { return "span(" + s.name + ")" }

func (s *spans) Wrap(next policy.Handler) policy.Handler {
	return func(c *policy.Call) error {
		ctx, span := s.t.tracer.Start(c.Context(), s.name, trace.WithAttributes(s.t.cfg.Attributes...))
		defer span.End()
		err := c.WithContext(ctx, next)
		if err != nil {
			span.SetAttributes(kindOf(err))
			span.SetStatus(codes.Error, words(err))
		}
		return err
	}
}
