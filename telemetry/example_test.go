package telemetry_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/flyball-go/flyball/httpx"
	"github.com/flyball-go/flyball/telemetry"
)

// All hosts that a client calls, as they come and go.
func ExampleTelemetry_WatchAll() {
	reader := metric.NewManualReader() // or that of an exporter
	t, err := telemetry.New(telemetry.Config{Meters: metric.NewMeterProvider(metric.WithReader(reader))})
	if err != nil {
		log.Fatal(err)
	}
	defer t.Close()
	transport := httpx.NewTransport(httpx.Config{})
	defer transport.Close()
	stop, err := t.WatchAll(transport.Governors)
	if err != nil {
		log.Fatal(err)
	}
	defer stop()

	for range 2 { // hosts
		api := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		defer api.Close()
		answer, err := (&http.Client{Transport: transport}).Get(api.URL)
		if err != nil {
			log.Fatal(err)
		}
		answer.Body.Close()
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		log.Fatal(err)
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		if m.Name == "flyball.attempts.started" {
			fmt.Println(len(m.Data.(metricdata.Sum[float64]).DataPoints), "hosts")
		}
	}
	// Output: 2 hosts
}

// A span for each request of a client, and in it what became of each attempt.
func ExampleTelemetry_Transport() {
	spans := tracetest.NewSpanRecorder() // or an exporter
	t, err := telemetry.New(telemetry.Config{Tracers: trace.NewTracerProvider(trace.WithSpanProcessor(spans))})
	if err != nil {
		log.Fatal(err)
	}
	defer t.Close()
	busy := true
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if busy {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
		}
		busy = false
	}))
	defer api.Close()
	transport := t.Transport(httpx.Config{})
	defer transport.Close()

	answer, err := (&http.Client{Transport: transport}).Get(api.URL)
	if err != nil {
		log.Fatal(err)
	}
	answer.Body.Close()
	for _, e := range spans.Ended()[0].Events() {
		if e.Name != "flyball.wait" {
			fmt.Println(e.Name)
		}
	}
	// Output:
	// flyball.attempt.started
	// flyball.attempt.ended
	// flyball.attempt.started
	// flyball.attempt.ended
}
