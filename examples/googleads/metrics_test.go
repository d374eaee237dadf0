package main

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/flyball-go/flyball/examples/internal/promtest"
)

// A real Prometheus sees the governor while the job runs, and nothing is served
// afterwards.
func TestPrometheusSeesTheJob(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a Prometheus; skipped by -short")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	urls := make(chan string, 1)
	var watch writerFunc = func(b []byte) (int, error) {
		if url, ok := strings.CutPrefix(string(b), "metrics: "); ok {
			urls <- strings.TrimSpace(url)
		}
		return len(b), nil
	}
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"-mode", "governed", "-metrics", "127.0.0.1:0", "-accounts", "20000", "-progress", "none"}, noEnv, &bytes.Buffer{}, watch)
	}()
	url := <-urls
	p := promtest.Start(t, strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/metrics"), "")
	p.Eventually(t, "reports are counted", func() bool {
		v, err := p.Query(t, `flyball_requests_ended_total{flyball_governor="googleads, governed",flyball_outcome="succeeded"} > 10`)
		if err != nil {
			t.Fatal(err)
		}
		return len(v) == 1
	})
	cancel()
	if code := <-ended; code != exitInterrupted {
		t.Errorf("exit %d", code)
	}
	if answer, err := http.Get(url); err == nil {
		answer.Body.Close()
		t.Error("the metrics are served when the job has ended")
	}
}

func TestAnAddressForMetricsThatCannotBeHadIsSaid(t *testing.T) {
	code, out, errs := program(t, "-metrics", "127.0.0.1:99999")
	if code != exitFailed || out != "" || !strings.Contains(errs, "99999") {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
}
