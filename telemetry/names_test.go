package telemetry

import (
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	api "go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/throttle"
)

// page is where the names are told. They are a promise: dashboards and alerts are
// made of them.
const page = "../docs/telemetry.md"

// table returns the rows of the table of page whose first column has the title, by
// their first cell.
func table(t *testing.T, title string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	_, after, ok := strings.Cut(string(text), "\n| "+title+" |")
	require.True(t, ok, "no table of %s in %s", title, page)
	rows := map[string][]string{}
	for _, l := range strings.Split(after, "\n")[2:] {
		if !strings.HasPrefix(l, "|") {
			break
		}
		var cells []string
		for _, c := range strings.Split(strings.Trim(l, "|"), "|") {
			cells = append(cells, strings.ReplaceAll(strings.TrimSpace(c), "`", ""))
		}
		require.NotContains(t, rows, cells[0], "twice")
		rows[cells[0]] = cells[1:]
	}
	return rows
}

// recorder is a meter that keeps what it made: kind, unit and description, by name.
// It has no more methods than New uses; an instrument of another kind panics.
type recorder struct {
	api.Meter
	made map[string][3]string
}

type provider struct {
	noop.MeterProvider
	meter api.Meter
}

func (p provider) Meter(string, ...api.MeterOption) api.Meter { return p.meter }

func (r *recorder) RegisterCallback(api.Callback, ...api.Observable) (api.Registration, error) {
	return noop.Registration{}, nil
}

func (r *recorder) Float64ObservableCounter(n string, o ...api.Float64ObservableCounterOption) (api.Float64ObservableCounter, error) {
	c := api.NewFloat64ObservableCounterConfig(o...)
	r.made[n] = [3]string{"counter", c.Unit(), c.Description()}
	return noop.Float64ObservableCounter{}, nil
}

func (r *recorder) Float64ObservableUpDownCounter(n string, o ...api.Float64ObservableUpDownCounterOption) (api.Float64ObservableUpDownCounter, error) {
	c := api.NewFloat64ObservableUpDownCounterConfig(o...)
	r.made[n] = [3]string{"up-down", c.Unit(), c.Description()}
	return noop.Float64ObservableUpDownCounter{}, nil
}

func (r *recorder) Float64ObservableGauge(n string, o ...api.Float64ObservableGaugeOption) (api.Float64ObservableGauge, error) {
	c := api.NewFloat64ObservableGaugeConfig(o...)
	r.made[n] = [3]string{"gauge", c.Unit(), c.Description()}
	return noop.Float64ObservableGauge{}, nil
}

func (r *recorder) Int64Counter(n string, o ...api.Int64CounterOption) (api.Int64Counter, error) {
	c := api.NewInt64CounterConfig(o...)
	r.made[n] = [3]string{"counter", c.Unit(), c.Description()}
	return noop.Int64Counter{}, nil
}

func (r *recorder) Float64Histogram(n string, o ...api.Float64HistogramOption) (api.Float64Histogram, error) {
	c := api.NewFloat64HistogramConfig(o...)
	r.made[n] = [3]string{"histogram", c.Unit(), c.Description()}
	return noop.Float64Histogram{}, nil
}

func TestThePageHasEveryMetricAsItIs(t *testing.T) {
	r := &recorder{made: map[string][3]string{}}
	_, err := New(Config{Meters: provider{meter: r}})
	require.NoError(t, err)
	attrs := attributes(t)
	want := map[string][]string{}
	for name, m := range r.made {
		want[name] = []string{m[0], m[1], strings.Join(attrs[name], ", "), m[2]}
	}
	require.Equal(t, want, table(t, "Metric"))
}

// attributes are those of each metric, without the governor's own and constant ones.
func attributes(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string]map[string]bool{}
	see := func(metric string, keys ...attribute.Key) {
		if all[metric] == nil {
			all[metric] = map[string]bool{}
		}
		for _, k := range keys {
			all[metric][string(k)] = true
		}
	}
	s := governor.Stats{
		Breaker: &governor.BreakerStats{Stats: breaker.Stats{Until: time.Now()}, Refusing: true}, Observe: true, Cooldowns: make([]governor.CooldownStats, 1),
		Limits: []governor.LimitStats{{Rate: 1, Quota: &throttle.Quota{Remaining: 1}}},
		Pool:   pool.Stats{Max: 1}, RecentWait: governor.Latency{Count: 1}, RecentCall: governor.Latency{Count: 1},
	}
	for _, i := range instruments(1) {
		n := 0
		i.read(&s, func(_ float64, l label, own ...attribute.KeyValue) {
			n++
			require.Equal(t, l == ownLabel, len(own) > 0, i.name)
			if see(i.name, keyGovernor); l != noLabel && l != ownLabel {
				see(i.name, labels[l].Key)
			}
			for _, a := range own {
				see(i.name, a.Key)
			}
		})
		require.NotZero(t, n, i.name)
	}
	reader := metric.NewManualReader()
	tel, err := New(Config{Meters: metric.NewMeterProvider(metric.WithReader(reader))})
	require.NoError(t, err)
	tel.OnEvent(event.Event{Kind: event.BreakerSuccess, Name: "b", Delay: time.Second})
	hear := tel.attempts(tel.newWatch(named("g")))
	hear(event.Event{Kind: event.Started})
	hear(event.Event{Kind: event.AttemptEnded})
	var data metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &data))
	for _, m := range data.ScopeMetrics[0].Metrics {
		var set attribute.Set
		switch d := m.Data.(type) {
		case metricdata.Sum[int64]:
			set = d.DataPoints[0].Attributes
		case metricdata.Histogram[float64]:
			set = d.DataPoints[0].Attributes
		}
		for _, a := range set.ToSlice() {
			see(m.Name, a.Key)
		}
	}
	sorted := map[string][]string{}
	for m, keys := range all {
		sorted[m] = slices.Sorted(maps.Keys(keys))
	}
	return sorted
}

// nameOnly is a governor of which only the name is asked.
type nameOnly struct {
	governor.Handle
	name string
}

func named(name string) governor.Handle { return nameOnly{name: name} }
func (n nameOnly) Name() string         { return n.name }

func TestThePageHasEveryAttribute(t *testing.T) {
	have := slices.Sorted(maps.Keys(table(t, "Attribute")))
	want := map[string]bool{"error.type": true}
	for _, k := range []attribute.Key{keyGovernor, keyName, keyKind, keyOutcome, keyState, keyScope, keyLevel, keyPhase, keyQuantile, keyLimit,
		keyAttempt, keyAttempts, keyWaited, keyRefused, keyRetryIn, keyError} {
		want[string(k)] = true
	}
	require.Equal(t, slices.Sorted(maps.Keys(want)), have)
	require.Equal(t, []string{eventEnded, eventStarted, eventItem, eventWait}, slices.Sorted(maps.Keys(table(t, "Span event"))))
}

// What OpenTelemetry's conventions say of names.
func TestNamesKeepTheConventions(t *testing.T) {
	all := table(t, "Metric")
	for name, row := range all {
		require.Regexp(t, `^flyball(\.[a-z][a-z_]*)+$`, name)
		require.NotContains(t, name, "total")
		for other := range all {
			require.False(t, strings.HasPrefix(other, name+"."), "%s is a metric, and the namespace of %s", name, other)
		}
		require.Regexp(t, `^(s|\{[a-z]+\}(/s)?)$`, row[1], name)
	}
}

// Every label stands for one attribute, and every attribute has a value.
func TestLabels(t *testing.T) {
	seen := map[attribute.KeyValue]bool{}
	for l := noLabel + 1; l < ownLabel; l++ {
		require.True(t, labels[l].Valid(), "%d", l)
		require.False(t, seen[labels[l]], "%v", labels[l])
		seen[labels[l]] = true
	}
}

// A field of Stats that is a counter and in no metric is one that was forgotten.
func TestEveryNumberOfStatsIsMeasured(t *testing.T) {
	typ := reflect.TypeFor[governor.Stats]()
	for i := range typ.NumField() {
		f := typ.Field(i)
		var s governor.Stats
		switch v := reflect.ValueOf(&s).Elem().Field(i); v.Kind() {
		case reflect.Uint64:
			v.SetUint(7)
		case reflect.Int:
			v.SetInt(7)
		default:
			continue
		}
		s.Observe = true
		found := false
		for _, i := range instruments(1) {
			i.read(&s, func(v float64, _ label, _ ...attribute.KeyValue) { found = found || v == 7 })
		}
		require.True(t, found, "Stats.%s is in no metric", f.Name)
	}
}
