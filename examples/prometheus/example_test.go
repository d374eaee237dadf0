package prometheus_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/telemetry"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// printed prints the lines of a page that begin with the prefix.
func printed(url, prefix string) {
	answer := must(http.Get(url))
	defer answer.Body.Close()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), prefix) {
			fmt.Println(lines.Text())
		}
	}
}

func Example() {
	registry := client.NewRegistry()
	exporter := must(prometheus.New(prometheus.WithRegisterer(registry), prometheus.WithoutScopeInfo(),
		prometheus.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes)))
	provider := metric.NewMeterProvider(metric.WithReader(exporter))
	defer provider.Shutdown(context.Background())

	t := must(telemetry.New(telemetry.Config{Meters: provider}))
	defer t.Close()
	g := must(governor.New(governor.PlainConfig{Name: "acme"}))
	defer g.Close()
	stop := must(t.Watch(g))
	defer stop()

	for range 3 {
		must(governor.Do(context.Background(), g, "", governor.Func(func(context.Context) (int, error) { return 1, nil })))
	}
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer server.Close()
	printed(server.URL, "flyball_requests_ended_total")
	// Output:
	// flyball_requests_ended_total{flyball_governor="acme",flyball_outcome="dropped"} 0
	// flyball_requests_ended_total{flyball_governor="acme",flyball_outcome="failed"} 0
	// flyball_requests_ended_total{flyball_governor="acme",flyball_outcome="refused"} 0
	// flyball_requests_ended_total{flyball_governor="acme",flyball_outcome="succeeded"} 3
}
