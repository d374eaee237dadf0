package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/policy"
	"github.com/flyball-go/flyball/telemetry"
	"github.com/flyball-go/flyball/throttle"
)

// traced makes a Telemetry, and what has its spans.
func traced(t *testing.T, options ...sdk.TracerProviderOption) (*telemetry.Telemetry, *tracetest.SpanRecorder) {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	tel, err := telemetry.New(telemetry.Config{
		Tracers:    sdk.NewTracerProvider(append(options, sdk.WithSpanProcessor(spans))...),
		Attributes: []attribute.KeyValue{attribute.String("region", "eu")},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tel.Close()) })
	return tel, spans
}

// attrs makes attributes comparable.
func attrs(all []attribute.KeyValue) map[string]any {
	m := map[string]any{}
	for _, a := range all {
		m[string(a.Key)] = a.Value.AsInterface()
	}
	return m
}

// story is a span's events: how long after its begin, and what.
func story(s sdk.ReadOnlySpan) (all []any) {
	for _, e := range s.Events() {
		all = append(all, e.Time.Sub(s.StartTime()).String()+" "+e.Name, attrs(e.Attributes))
	}
	return all
}

func TestASpanTellsOfEachAttemptAndItsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, spans := traced(t)
		g := plain(t, governor.PlainConfig{Name: "acme"})
		n := 0
		_, err := telemetry.Do(t.Context(), tel, g, "", governor.Func(func(ctx context.Context) (int, error) {
			require.True(t, trace.SpanFromContext(ctx).IsRecording(), "the closure is within the span")
			time.Sleep(time.Second)
			if n++; n == 1 {
				return 0, governortest.Limited(15 * time.Second)
			}
			return 7, nil
		}))
		require.NoError(t, err)
		require.Len(t, spans.Ended(), 1)
		s := spans.Ended()[0]
		require.Equal(t, "acme", s.Name())
		require.Equal(t, 17*time.Second, s.EndTime().Sub(s.StartTime()))
		require.Equal(t, map[string]any{"region": "eu", "flyball.governor": "acme", "flyball.attempts": int64(2)}, attrs(s.Attributes()))
		require.Equal(t, codes.Unset, s.Status().Code)
		require.Equal(t, []any{
			"0s flyball.attempt.started", map[string]any{"flyball.attempt": int64(1), "flyball.waited": 0.0},
			"1s flyball.attempt.ended", map[string]any{"flyball.attempt": int64(1), "error.message": governortest.Limited(15 * time.Second).Error(), "error.type": "*governortest.Refusal"},
			"1s flyball.wait", map[string]any{"flyball.attempt": int64(2), "flyball.waited": 15.0, "error.message": governortest.Limited(15 * time.Second).Error(), "error.type": "*governortest.Refusal"},
			"16s flyball.attempt.started", map[string]any{"flyball.attempt": int64(2), "flyball.waited": 15.0},
			"17s flyball.attempt.ended", map[string]any{"flyball.attempt": int64(2)},
		}, story(s))
	})
}

func TestASpanTellsOfAWaitThatEndsWithoutAnAttempt(t *testing.T) {
	late := errors.New("too late")
	limited := governortest.Limited(time.Minute)
	wait := func(d float64) map[string]any { return map[string]any{"flyball.waited": d} }
	for name, c := range map[string]struct {
		cooled bool
		fn     func() error
		want   []any
	}{
		"cancelled in the queue": {cooled: true, want: []any{"0s flyball.wait", wait(5)}},
		"cancelled after a refusal": {fn: func() error { time.Sleep(time.Second); return limited }, want: []any{
			"0s flyball.attempt.started", map[string]any{"flyball.attempt": int64(1), "flyball.waited": 0.0},
			"1s flyball.attempt.ended", map[string]any{"flyball.attempt": int64(1), "error.message": limited.Error(), "error.type": "*governortest.Refusal"},
			"1s flyball.wait", map[string]any{"flyball.waited": 4.0, "error.message": limited.Error(), "error.type": "*governortest.Refusal"},
		}},
		"failed at last": {fn: func() error { time.Sleep(time.Second); return late }, want: []any{
			"0s flyball.attempt.started", map[string]any{"flyball.attempt": int64(1), "flyball.waited": 0.0},
			"1s flyball.attempt.ended", map[string]any{"flyball.attempt": int64(1), "error.message": "too late", "error.type": "*errors.errorString"},
		}},
	} {
		for form, run := range map[string]func(context.Context, *telemetry.Telemetry, *governor.Plain) error{
			"Do": func(ctx context.Context, tel *telemetry.Telemetry, g *governor.Plain) error {
				_, err := telemetry.Do(ctx, tel, g, "", governor.Func(func(context.Context) (int, error) { return 0, c.fn() }))
				return err
			},
			"Submit": func(ctx context.Context, tel *telemetry.Telemetry, g *governor.Plain) error {
				_, err := telemetry.Submit(ctx, tel, g, "", governor.Func(func(context.Context) (int, error) { return 0, c.fn() })).Result(context.Background())
				return err
			},
			"Stream": func(ctx context.Context, tel *telemetry.Telemetry, g *governor.Plain) (last error) {
				for _, last = range telemetry.Stream(ctx, tel, g, "", func(context.Context, struct{}) iter.Seq2[int, error] {
					return func(yield func(int, error) bool) { yield(0, c.fn()) }
				}) {
				}
				return last
			},
		} {
			t.Run(name+", "+form, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tel, spans := traced(t)
					g := plain(t, governor.PlainConfig{Name: "acme"})
					if c.cooled {
						g.Learn(throttle.Signal{Delay: time.Minute})
					}
					ctx, cancel := context.WithCancel(t.Context()) // of a deadline the governor would know beforehand
					defer time.AfterFunc(5*time.Second, cancel).Stop()
					require.Error(t, run(ctx, tel, g))
					synctest.Wait()
					require.Len(t, spans.Ended(), 1)
					require.Equal(t, c.want, story(spans.Ended()[0]))
				})
			})
		}
	}
}

func TestASpanTellsWhyARequestWasRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, spans := traced(t)
		g := plain(t, governor.PlainConfig{Name: "acme", MaxWait: time.Second})
		g.Learn(throttle.Signal{Delay: time.Minute, Source: "429"})
		_, err := telemetry.Do(t.Context(), tel, g, "", governor.Func(func(context.Context) (int, error) { return 0, nil }))
		require.Error(t, err)
		s := spans.Ended()[0]
		require.Equal(t, codes.Error, s.Status().Code)
		require.Equal(t, err.Error(), s.Status().Description)
		got := attrs(s.Attributes())
		require.Equal(t, true, got["flyball.refused"])
		require.Equal(t, 60.0, got["flyball.retry_after"])
		require.Empty(t, s.Events(), "at the door nothing waits")
	})
}

func TestASubmittedRequestsSpanEndsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, spans := traced(t)
		g := plain(t, governor.PlainConfig{Name: "acme"})
		ctx, parent := sdk.NewTracerProvider().Tracer("").Start(t.Context(), "parent")
		req := telemetry.Submit(ctx, tel, g, "", governor.Func(func(context.Context) (int, error) {
			time.Sleep(time.Minute)
			return 7, errors.New("not found")
		}))
		synctest.Wait()
		require.Empty(t, spans.Ended())
		require.Len(t, spans.Started(), 1)
		time.Sleep(time.Hour) // nobody asks for the result
		s := spans.Ended()[0]
		require.Equal(t, parent.SpanContext().SpanID(), s.Parent().SpanID())
		require.Equal(t, time.Minute, s.EndTime().Sub(s.StartTime()))
		require.Equal(t, "not found", s.Status().Description)
		v, err := req.Result(t.Context())
		require.Equal(t, 7, v)
		require.Error(t, err)
	})
}

func TestASpanOutlivesNeitherPanicNorGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, spans := traced(t)
		g := plain(t, governor.PlainConfig{Name: "acme"})
		_, err := telemetry.Do(t.Context(), tel, g, "", governor.Func(func(context.Context) (int, error) { panic("boom") }))
		require.Error(t, err)
		require.Len(t, spans.Ended(), 1)
		require.Contains(t, spans.Ended()[0].Status().Description, "boom")
		go telemetry.Do(t.Context(), tel, g, "", governor.Func(func(context.Context) (int, error) { runtime.Goexit(); return 0, nil }))
		synctest.Wait()
		require.Len(t, spans.Ended(), 2)
		require.Len(t, spans.Ended()[1].Events(), 2)
	})
}

func TestNothingIsAddedWhereNothingIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, spans := traced(t, sdk.WithSampler(sdk.NeverSample()))
		g := plain(t, governor.PlainConfig{Name: "acme"})
		fn := governor.Func(func(ctx context.Context) (int, error) {
			require.True(t, trace.SpanContextFromContext(ctx).IsValid(), "what is inside knows that it is not sampled")
			return 7, nil
		})
		v, err := telemetry.Do(t.Context(), tel, g, "", fn)
		require.NoError(t, err)
		require.Equal(t, 7, v)
		_, err = telemetry.Submit(t.Context(), tel, g, "", fn).Result(t.Context())
		require.NoError(t, err)
		require.Empty(t, spans.Started())
	})
}

func TestWhatIsNilIsTheGovernorsToRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, _ := traced(t)
		g := plain(t, governor.PlainConfig{Name: "acme"})
		_, err := telemetry.Do[string, struct{}, int](t.Context(), tel, g, "", nil)
		require.ErrorIs(t, err, governor.ErrNilFunc)
		var none context.Context
		_, err = telemetry.Do(none, tel, g, "", governor.Func(func(context.Context) (int, error) { return 0, nil }))
		require.ErrorIs(t, err, governor.ErrNilContext)
		_, err = telemetry.Submit[string, struct{}, int](t.Context(), tel, g, "", nil).Result(t.Context())
		require.ErrorIs(t, err, governor.ErrNilFunc)
	})
}

func TestAStreamsSpanEndsWithItsLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, spans := traced(t)
		g := plain(t, governor.PlainConfig{Name: "acme"})
		items := func(context.Context, struct{}) iter.Seq2[int, error] {
			return func(yield func(int, error) bool) {
				for i := range 5 {
					time.Sleep(time.Second)
					if !yield(i, nil) {
						return
					}
				}
				yield(0, errors.New("cut off"))
			}
		}
		for v := range telemetry.Stream(t.Context(), tel, g, "", items) {
			if v == 2 {
				break
			}
		}
		for range telemetry.Stream(t.Context(), tel, g, "", items) {
		}
		require.Len(t, spans.Ended(), 2)
		for i, want := range []struct {
			took time.Duration
			err  string
		}{{3 * time.Second, ""}, {5 * time.Second, "cut off"}} {
			s := spans.Ended()[i]
			require.Equal(t, want.took, s.EndTime().Sub(s.StartTime()))
			require.Equal(t, want.err, s.Status().Description)
			require.Len(t, s.Events(), 3)
			require.Equal(t, "flyball.stream.first_item", s.Events()[1].Name)
		}
	})
}

func TestALayerIsASpanAroundWhatIsInside(t *testing.T) {
	tel, spans := traced(t)
	chain := policy.Chain(tel.Span("lookup"))
	v, err := policy.Do(t.Context(), chain, func(ctx context.Context) (int, error) {
		require.True(t, trace.SpanFromContext(ctx).IsRecording())
		return 7, errors.New("not found")
	})
	require.Equal(t, 7, v)
	require.Error(t, err)
	s := spans.Ended()[0]
	require.Equal(t, "lookup", s.Name())
	require.Equal(t, "not found", s.Status().Description)
	require.Equal(t, map[string]any{"region": "eu", "error.type": "*errors.errorString"}, attrs(s.Attributes()))
	require.Equal(t, "span(lookup)", tel.Span("lookup").String())
}

// logged returns the records that were written.
func logged(t *testing.T, b *bytes.Buffer) (all []map[string]any) {
	t.Helper()
	for dec := json.NewDecoder(b); dec.More(); {
		var r map[string]any
		require.NoError(t, dec.Decode(&r))
		delete(r, "time")
		all = append(all, r)
	}
	return all
}

func TestLogWritesWhatAnEventSays(t *testing.T) {
	var b bytes.Buffer
	write := telemetry.Log(slog.New(slog.NewJSONHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug})))
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	write(event.Event{Kind: event.Cooling, Name: "acme", Scope: "host", Delay: time.Second, Until: at, Source: "429", Err: errors.New("slow down")})
	write(event.Event{Kind: event.Started, Name: "acme", Request: 3, Attempt: 2})
	require.Equal(t, []map[string]any{
		{"level": "WARN", "msg": "cooling", "name": "acme", "scope": "host", "delay": 1e9, "until": "2030-01-02T03:04:05Z", "source": "429", "err": "slow down"},
		{"level": "DEBUG", "msg": "started", "name": "acme", "request": 3.0, "attempt": 2.0},
	}, logged(t, &b))
	telemetry.Log(slog.New(slog.NewJSONHandler(&b, nil)))(event.Event{Kind: event.Started})
	require.Empty(t, logged(t, &b), "below the level")
}

func TestRecordsWithinASpanSayWhichOne(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(telemetry.NewLogHandler(slog.NewJSONHandler(&b, nil))).With("a", 1).WithGroup("g")
	ctx, span := sdk.NewTracerProvider().Tracer("").Start(t.Context(), "")
	log.InfoContext(ctx, "in", "b", 2)
	log.InfoContext(t.Context(), "out")
	id := span.SpanContext()
	require.Equal(t, []map[string]any{
		{"level": "INFO", "msg": "in", "a": 1.0, "g": map[string]any{"b": 2.0, "trace_id": id.TraceID().String(), "span_id": id.SpanID().String()}},
		{"level": "INFO", "msg": "out", "a": 1.0},
	}, logged(t, &b))
}
