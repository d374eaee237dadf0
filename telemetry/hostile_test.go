package telemetry_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/policy"
	"github.com/flyball-go/flyball/telemetry"
	"github.com/flyball-go/flyball/throttle"
)

// Exporters refuse everything when one text is not UTF-8, and tenants are named by
// others.
func TestNamesThatNoExporterTakesAreMended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, reader := measured(t, telemetry.Config{})
		g := plain(t, governor.PlainConfig{Name: "a\xffb"})
		watch(t, tel, g)
		_, err := tel.Watch(plain(t, governor.PlainConfig{Name: "a\xfeb"}))
		require.Error(t, err, "it would have the same name")
		g.Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Tenant, Key: "\xc3\x28"}, Delay: time.Minute})
		g.Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Tenant, Key: strings.Repeat("é", 1<<20)}, Delay: time.Minute})
		tel.OnEvent(event.Event{Kind: event.Retry, Name: "\xff"})
		got := read(t, reader)
		got.take(t, "flyball.cooldown.remaining", "governor=a�b,level=tenant,phase=cooling,scope=tenant:�(", 60)
		got.take(t, "flyball.cooldown.remaining", "governor=a�b,level=tenant,phase=cooling,scope=tenant:"+strings.Repeat("é", 124), 60)
		got.take(t, "flyball.policy.events", "event=retry,name=�", 1)
		for key := range got {
			require.True(t, utf8.ValidString(key), "%q", key)
		}
	})
}

func TestTextsOfSpansAreShortAndUTF8(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, spans := traced(t)
		g := plain(t, governor.PlainConfig{Name: "a\xffb"})
		page := errors.New("x" + strings.Repeat("é", 1<<20) + "\xff")
		_, err := telemetry.Do(t.Context(), tel, g, "", governor.Func(func(context.Context) (int, error) { return 0, page }))
		require.Equal(t, page, err)
		s := spans.Ended()[0]
		want := "x" + strings.Repeat("é", 511) // the 512th would have ended beyond 1024 bytes
		require.Equal(t, want, s.Status().Description)
		require.Equal(t, want, attrs(s.Events()[1].Attributes)["error.message"])
		require.Equal(t, "a�b", attrs(s.Attributes())["flyball.governor"])
		require.Equal(t, "a�b", s.Name())
	})
}

// bad is a governor, one of whose parts panics when it is asked.
type bad struct{ governor.Handle }

func (bad) Name() string          { return "bad" }
func (bad) Stats() governor.Stats { panic("boom") }

func TestAPanicOfOneGovernorHarmsNoOther(t *testing.T) {
	tel, reader := measured(t, telemetry.Config{})
	watch(t, tel, plain(t, governor.PlainConfig{Name: "acme"}))
	watch(t, tel, bad{plain(t, governor.PlainConfig{Name: "x"})})
	watch(t, tel, plain(t, governor.PlainConfig{Name: "other"}))
	var data metricdata.ResourceMetrics
	require.ErrorContains(t, reader.Collect(t.Context(), &data), `"bad" panicked: boom`)
	n := 0
	for _, m := range data.ScopeMetrics[0].Metrics {
		if m.Name == "flyball.paused" {
			n = len(m.Data.(metricdata.Sum[float64]).DataPoints)
		}
	}
	require.Equal(t, 2, n)
}

func TestACollectionThatNobodyWaitsForEnds(t *testing.T) {
	tel, reader := measured(t, telemetry.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := 0
	for _, name := range []string{"a", "b", "c"} {
		watch(t, tel, asking{plain(t, governor.PlainConfig{Name: name}), func() { asked++; cancel() }})
	}
	var data metricdata.ResourceMetrics
	require.ErrorIs(t, reader.Collect(ctx, &data), context.Canceled)
	require.Equal(t, 1, asked)
}

// asking is a governor that tells when it is asked.
type asking struct {
	governor.Handle
	asked func()
}

func (a asking) Stats() governor.Stats { a.asked(); return a.Handle.Stats() }

func TestAClosedGovernorIsMeasuredUntilItIsStopped(t *testing.T) {
	tel, reader := measured(t, telemetry.Config{Histograms: true})
	g := plain(t, governor.PlainConfig{Name: "acme"})
	stop := watch(t, tel, g)
	_, err := governor.Do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) { return 0, nil }))
	require.NoError(t, err)
	require.NoError(t, g.Close())
	read(t, reader).take(t, "flyball.requests.ended", "governor=acme,outcome=succeeded", 1)
	stop()
	require.NotContains(t, read(t, reader), "flyball.paused{governor=acme}")
}

func TestNothingIsMeasuredAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, reader := measured(t, telemetry.Config{Histograms: true})
		g := plain(t, governor.PlainConfig{Name: "acme"})
		stop := watch(t, tel, g)
		require.NoError(t, tel.Close())
		_, err := governor.Do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) { return 0, nil }))
		require.NoError(t, err)
		tel.OnEvent(event.Event{Kind: event.BreakerSuccess, Name: "b"})
		synctest.Wait()
		require.Empty(t, read(t, reader))
		stop()
	})
}

// stop of an earlier watch does not touch a later one of the same name.
func TestStoppingAgainStopsNobodyElse(t *testing.T) {
	tel, reader := measured(t, telemetry.Config{})
	stop := watch(t, tel, plain(t, governor.PlainConfig{Name: "acme"}))
	stop()
	watch(t, tel, plain(t, governor.PlainConfig{Name: "acme"}))
	stop()
	require.Contains(t, read(t, reader), "flyball.paused{governor=acme}")
}

// Run it under the race detector: two readers collect while governors come and go,
// and policies tell.
func TestEverythingAtOnce(t *testing.T) {
	a, b := metric.NewManualReader(), metric.NewManualReader()
	tel, err := telemetry.New(telemetry.Config{Histograms: true, Meters: metric.NewMeterProvider(metric.WithReader(a), metric.WithReader(b))})
	require.NoError(t, err)
	g := []*governor.Plain{plain(t, governor.PlainConfig{Name: "a"}), plain(t, governor.PlainConfig{Name: "b"})}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 50 {
				switch i {
				case 0, 1, 2, 3:
					if stop, err := tel.Watch(g[i%2]); err == nil {
						governor.Do(context.Background(), g[i%2], "", governor.Func(func(context.Context) (int, error) { return 0, nil }))
						stop()
					}
				case 4:
					_ = a.Collect(context.Background(), &metricdata.ResourceMetrics{})
				case 5:
					_ = b.Collect(context.Background(), &metricdata.ResourceMetrics{})
				case 6:
					tel.OnEvent(event.Event{Kind: event.Kind(n % 60), Name: "x"})
				case 7:
					if n == 40 {
						_ = tel.Close()
					}
				}
			}
		})
	}
	all.Wait()
	require.NoError(t, tel.Close())
}

func TestEachAttemptOfAStreamBeginsAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, spans := traced(t)
		g := plain(t, governor.PlainConfig{Name: "acme"})
		n := 0
		for _, err := range telemetry.Stream(t.Context(), tel, g, "", func(context.Context, struct{}) iter.Seq2[int, error] {
			return func(yield func(int, error) bool) {
				time.Sleep(time.Second)
				if n++; n == 1 {
					yield(0, governortest.Limited(15*time.Second))
					return
				}
				yield(7, nil)
			}
		}) {
			require.NoError(t, err)
		}
		var got []any
		for _, e := range story(spans.Ended()[0]) {
			if s, ok := e.(string); ok {
				got = append(got, s)
			}
		}
		require.Equal(t, []any{
			"0s flyball.attempt.started", "1s flyball.attempt.ended", "1s flyball.wait",
			"16s flyball.attempt.started", "17s flyball.stream.first_item", "17s flyball.attempt.ended",
		}, got)
		require.Equal(t, 15.0, attrs(spans.Ended()[0].Events()[2].Attributes)["flyball.waited"])
	})
}

// nilError is an error that is a nil pointer: none of its methods can be called.
type nilError struct{ text string }

func (e *nilError) Error() string             { return e.text }
func (e *nilError) ErrorType() string         { return e.text }
func (e *nilError) Refused() bool             { return e.text != "" }
func (e *nilError) RetryAfter() time.Duration { return time.Duration(len(e.text)) }

// What a call ends with is the caller's, whether or not a span can say it.
func TestAnErrorOfWhichMethodsPanicIsTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, spans := traced(t)
		g := plain(t, governor.PlainConfig{Name: "acme"})
		fails := func(context.Context) (int, error) { return 0, (*nilError)(nil) }
		_, err := telemetry.Do(t.Context(), tel, g, "", governor.Func(fails))
		require.IsType(t, (*nilError)(nil), errors.Unwrap(err), "%T", err)
		require.Zero(t, g.Stats().Panics)

		g.Pause()
		ctx, cancel := context.WithCancelCause(t.Context())
		req := telemetry.Submit(ctx, tel, g, "", governor.Func(func(context.Context) (int, error) { return 1, nil }))
		synctest.Wait()
		cancel((*nilError)(nil))
		_, err = req.Result(t.Context())
		require.Error(t, err)

		_, err = policy.Do(t.Context(), policy.Chain(tel.Span("x")), fails)
		require.IsType(t, (*nilError)(nil), err)
		synctest.Wait()
		require.Len(t, spans.Ended(), 3)
	})
}
