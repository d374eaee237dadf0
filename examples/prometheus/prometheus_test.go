package prometheus_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/examples/internal/promtest"
	served "github.com/flyball-go/flyball/examples/prometheus"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/telemetry"
	"github.com/flyball-go/flyball/throttle"
)

const (
	dashboardFile = "../../telemetry/grafana/flyball.json"
	rulesFile     = "../../telemetry/prometheus/flyball.rules.yml"
)

// asked is a query of the dashboard, as Grafana sends it, and the labels that its
// legend names.
type asked struct {
	query  string
	legend []string
}

// queries are those of the dashboard, and the metric and the label of its variable.
func queries(t *testing.T) (all []asked, metric, label string) {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Templating struct {
			List []struct {
				Name, Definition string
			}
		}
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	for _, p := range d.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("the panel %q asks nothing", p.Title)
		}
		for _, q := range p.Targets {
			a := asked{query: strings.NewReplacer("$__rate_interval", "1m", "$governor", ".*").Replace(q.Expr)}
			for _, m := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(q.LegendFormat, -1) {
				a.legend = append(a.legend, m[1])
			}
			all = append(all, a)
		}
	}
	for _, v := range d.Templating.List {
		if m := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`).FindStringSubmatch(v.Definition); m != nil {
			metric, label = m[1], m[2]
		}
	}
	return all, metric, label
}

// eager are the rules, but alerts wait for a second only.
func eager(t *testing.T) (rules string, alerts []string) {
	t.Helper()
	text, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^ +- alert: (\w+)$`).FindAllStringSubmatch(string(text), -1) {
		alerts = append(alerts, m[1])
	}
	return regexp.MustCompile(`(?m)^( +for:) .*$`).ReplaceAllString(string(text), "$1 1s"), alerts
}

func TestThePageNamesTheService(t *testing.T) {
	for env, want := range map[string]string{"": filepath.Base(os.Args[0]), "reports": "reports"} {
		t.Setenv("OTEL_SERVICE_NAME", env)
		s, err := served.Serve("127.0.0.1:0", telemetry.Config{})
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if line := `target_info{service_name="` + want + `"} 1`; err != nil || !strings.Contains(string(page), line) {
			t.Errorf("%v, no %s in\n%s", err, line, page)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestPromtoolAcceptsTheRules(t *testing.T) {
	if testing.Short() {
		t.Skip("needs promtool; skipped by -short")
	}
	out, err := exec.Command("promtool", "check", "rules", rulesFile).CombinedOutput()
	if err != nil {
		t.Fatalf("%v (promtool is in the Debian package prometheus)\n%s", err, out)
	}
}

// A real Prometheus scrapes a program in which everything happens that there is a
// metric for: every query of the dashboard has data, every alert fires, and what it
// knows is what Stats say.
func TestEveryQueryHasDataAndEveryAlertFires(t *testing.T) {
	s, err := served.Serve("127.0.0.1:0", telemetry.Config{Histograms: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	rules, alerts := eager(t)
	acme, busy, watched := program(t, s.Telemetry)
	p := promtest.Start(t, strings.TrimSuffix(strings.TrimPrefix(s.URL, "http://"), "/metrics"), rules)
	// What increases between two scrapes is seen to increase.
	p.Eventually(t, "the counters are known", func() bool {
		v, err := p.Query(t, `flyball_panics_total{flyball_governor="acme"}`)
		return err == nil && len(v) == 1
	})
	time.Sleep(2 * time.Second) // some evaluations
	if early := alertsOf(t, p); len(early) > 0 {
		t.Errorf("alerts while all is well: %+v", early)
	}
	happen(t, s.Telemetry, acme, busy)

	all, metric, label := queries(t)
	if len(all) < 30 {
		t.Fatalf("only %d queries", len(all))
	}
	for _, q := range all {
		p.Eventually(t, q.query, func() bool {
			v, err := p.Query(t, q.query)
			if err != nil {
				t.Fatal(err)
			}
			for _, sample := range v {
				for _, label := range q.legend {
					if sample.Labels[label] == "" {
						t.Fatalf("%s: the legend names %s, of which %v has none", q.query, label, sample.Labels)
					}
				}
			}
			return len(v) > 0
		})
	}
	if names, err := p.Values(label, metric); err != nil || !slices.Equal(names, []string{"acme", "busy", "watched"}) {
		t.Errorf("the dashboard can choose among %v, %v", names, err)
	}
	if told := slices.Sorted(maps.Keys(about)); !slices.Equal(told, slices.Sorted(slices.Values(alerts))) {
		t.Errorf("the rules are %v, want %v", alerts, told)
	}
	var last map[string][]string
	p.Eventually(t, "every alert fires, of whom it is about", func() bool {
		firing := map[string][]string{}
		for _, a := range alertsOf(t, p) {
			name, of := a.Labels["alertname"], a.Labels["flyball_governor"]
			if a.State != "firing" {
				continue
			}
			firing[name] = append(firing[name], of)
			for _, text := range a.Annotations {
				if strings.Contains(text, "{{") || strings.Contains(text, "no value") {
					t.Fatalf("%s says %q", name, text)
				}
			}
			if !strings.Contains(a.Annotations["summary"], of) {
				t.Fatalf("%s says %q, and not that it is about %s", name, a.Annotations["summary"], of)
			}
		}
		if !maps.EqualFunc(firing, last, slices.Equal) {
			t.Log("firing:", firing)
		}
		last = firing
		return maps.EqualFunc(firing, about, slices.Equal)
	})
	for _, g := range []governor.Handle{acme, busy, watched} {
		same(t, p, g)
	}
}

// about are the alerts, and the governors that make them fire.
var about = map[string][]string{
	"FlyballCoolingForLong": {"acme"}, "FlyballBreakerRefuses": {"acme"}, "FlyballRequestsGivenUp": {"acme"}, "FlyballEventsDropped": {"acme"},
	"FlyballPanics": {"acme"}, "FlyballQueueAlmostFull": {"busy"}, "FlyballRequestsOverflow": {"busy"}, "FlyballCallsStuck": {"busy"},
	"FlyballPoolExhausted": {"busy"},
}

func alertsOf(t *testing.T, p *promtest.Server) []promtest.Alert {
	t.Helper()
	all, err := p.Alerts()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// same compares what Prometheus knows of a governor with its Stats.
func same(t *testing.T, p *promtest.Server, g governor.Handle) {
	t.Helper()
	s := g.Stats()
	for query, want := range map[string]float64{
		`flyball_requests_submitted_total{flyball_governor="NAME"}`:                         float64(s.Submitted),
		`flyball_requests_ended_total{flyball_governor="NAME",flyball_outcome="succeeded"}`: float64(s.Succeeded),
		`flyball_requests_ended_total{flyball_governor="NAME",flyball_outcome="failed"}`:    float64(s.Failed),
		`flyball_requests_ended_total{flyball_governor="NAME",flyball_outcome="dropped"}`:   float64(s.Dropped),
		`flyball_requests_ended_total{flyball_governor="NAME",flyball_outcome="refused"}`:   float64(s.Refused),
		`flyball_requests_gave_up_total{flyball_governor="NAME"}`:                           float64(s.GaveUp),
		`flyball_requests_overflowed_total{flyball_governor="NAME"}`:                        float64(s.Overflow),
		`flyball_attempts_started_total{flyball_governor="NAME"}`:                           float64(s.Started),
		`flyball_attempts_limited_total{flyball_governor="NAME"}`:                           float64(s.Limited),
		`flyball_attempts_retried_total{flyball_governor="NAME"}`:                           float64(s.Retried),
		`flyball_panics_total{flyball_governor="NAME"}`:                                     float64(s.Panics),
		`flyball_events_dropped_total{flyball_governor="NAME"}`:                             float64(s.EventsDropped),
		`flyball_cooling{flyball_governor="NAME"}`:                                          float64(len(s.Cooldowns)),
		`flyball_queue_length{flyball_governor="NAME"}`:                                     float64(s.Queued),
		`flyball_slots_usage{flyball_governor="NAME"}`:                                      float64(s.InFlight),
		`flyball_call_quantile_seconds{flyball_governor="NAME",flyball_quantile="0.99"}`:    s.RecentCall.P99.Seconds(),
	} {
		query = strings.ReplaceAll(query, "NAME", g.Name())
		if s.RecentCall.Count == 0 && strings.Contains(query, "quantile") {
			continue
		}
		var got []promtest.Sample
		p.Eventually(t, query, func() (is bool) {
			var err error
			if got, err = p.Query(t, query); err != nil {
				t.Fatal(err)
			}
			return len(got) == 1 && got[0].Value == want
		})
	}
}

// program makes three governors: acme, which has everything, busy, which comes to
// nothing, and watched, which only observes.
func program(t *testing.T, tel *telemetry.Telemetry) (acme, busy *governor.Governor[string, int], watched *governor.Plain) {
	t.Helper()
	b := must(breaker.New(breaker.Config{Name: "acme", Window: 10, MinCalls: 10, FailureRate: 1}))
	dial := func(_ context.Context, sel string) (int, error) {
		if sel == "down" {
			return 0, errDown
		}
		return 1, nil
	}
	acme = must(governor.New(governor.Config[string, int]{
		Name: "acme", Vendor: governortest.Vendor{}, Workers: 4, Pool: &pool.Config[string, int]{Open: dial, Max: 2}, Breaker: b,
		Limits: []governor.Limit{{Per: throttle.Host, Limiter: must(limiter.NewBucket(limiter.BucketConfig{Rate: 10_000, Burst: 1000}))}},
		Retry:  &retry.Config{Attempts: 2, RetryIf: func(err error) bool { return errors.Is(err, errBusy) }},
	}))
	busy = must(governor.New(governor.Config[string, int]{
		Name: "busy", Vendor: governortest.Vendor{}, Workers: 1, MaxQueue: 5, Overflow: governor.Reject, StuckAfter: 10 * time.Millisecond,
		Pool: &pool.Config[string, int]{Open: dial, Max: 1},
	}))
	watched = must(governor.New(governor.PlainConfig{Name: "watched", Vendor: governortest.Vendor{}, Observe: true}))
	t.Cleanup(func() { acme.Close(); watched.Close() })
	for _, h := range []governor.Handle{acme, busy, watched} {
		must(tel.Watch(h))
	}
	must(0, do(watched, nil))
	return acme, busy, watched
}

var errDown, errBusy = errors.New("down"), errors.New("busy")

func do(g *governor.Plain, err error) error {
	_, err = governor.Do(context.Background(), g, "", governor.Func(func(context.Context) (int, error) { return 0, err }))
	return err
}

// happen makes everything happen.
func happen(t *testing.T, tel *telemetry.Telemetry, acme, busy *governor.Governor[string, int]) {
	t.Helper()
	ctx := t.Context()
	call := func(sel string, err error) {
		governor.Do(ctx, acme, sel, func(context.Context, int) (int, error) { return 0, err })
	}
	slow, hear := make(chan struct{}), make(chan struct{})
	stop := acme.Listen(func(event.Event) {
		select {
		case <-hear:
		default:
			close(hear)
		}
		<-slow
	})
	for range 500 { // each has some events, and the listener keeps 1024
		call("a", nil)
	}
	close(slow)
	stop()
	<-hear
	for _, sel := range []string{"b", "c", "d", "down"} {
		call(sel, nil)
	}
	call("a", errBusy)                                                                           // retried, and given up
	governor.Do(ctx, acme, "a", func(context.Context, int) (int, error) { panic("on purpose") }) // counted
	acme.Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Tenant, Key: "ann\xff"}, Delay: time.Hour, Source: "429"})
	for range 20 { // opens the breaker, for a minute
		call("a", errDown)
	}

	free := make(chan struct{})
	var requests []*governor.Request[int]
	for range 8 {
		requests = append(requests, governor.Submit(ctx, busy, "a", func(context.Context, int) (int, error) { <-free; return 0, nil }))
	}
	t.Cleanup(func() {
		close(free)
		for _, r := range requests {
			r.Result(context.Background())
		}
		busy.Close()
	})
	alone := must(breaker.New(breaker.Config{Name: "db", OnEvent: tel.OnEvent}))
	breaker.Do(ctx, alone, func(context.Context) (int, error) { return 0, errDown })
}
