// Package prometheus serves what a Telemetry measures to Prometheus, through the
// exporter of OpenTelemetry. It is here to be copied: Serve is all there is to it.
package prometheus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/otel/attribute"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/flyball-go/flyball/telemetry"
)

// Server serves /metrics. Its methods may be called by any number of goroutines.
type Server struct {
	Telemetry *telemetry.Telemetry
	URL       string // of the metrics

	provider *metric.MeterProvider
	http     *http.Server
	served   chan error
}

// values is how many values of a metric are kept: enough for a thousand governors
// with the scopes that cool longest of each.
const values = 50_000

// Serve measures with cfg, whose Meters are its own, and serves that at addr, a
// host and a port; port 0 is one that is free. The service, which target_info names, is
// called as the program's file is, unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES
// say otherwise. Close must be called.
func Serve(addr string, cfg telemetry.Config) (*Server, error) {
	registry := client.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry),
		exporter.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes), exporter.WithoutScopeInfo())
	if err != nil {
		return nil, fmt.Errorf("prometheus: %w", err)
	}
	whose, err := resource.Merge(resource.NewSchemaless(attribute.String("service.name", filepath.Base(os.Args[0]))), resource.Environment())
	if err != nil {
		return nil, fmt.Errorf("prometheus: %w", err)
	}
	s := &Server{
		provider: metric.NewMeterProvider(metric.WithReader(reader), metric.WithResource(whose), metric.WithCardinalityLimit(values)),
		served:   make(chan error, 1),
	}
	cfg.Meters = s.provider
	if s.Telemetry, err = telemetry.New(cfg); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prometheus: %w", err), s.Telemetry.Close(), s.provider.Shutdown(context.Background()))
	}
	s.URL = "http://" + listener.Addr().String() + "/metrics"
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	go func() { s.served <- s.http.Serve(listener) }()
	return s, nil
}

// Close ends what Serve began; a scrape that is under way may take a second. It must
// not be called twice.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		s.http.Close() // a scraper that does not read
	}
	err := <-s.served
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(err, s.Telemetry.Close(), s.provider.Shutdown(context.Background()))
}
