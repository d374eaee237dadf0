package httpx

import (
	"io"
	"net/http"
	"testing"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/vendors"
)

// thin answers at once, with one allocation.
type thin struct{}

type thinAnswer struct {
	http.Response
	read bool
}

func (a *thinAnswer) Read(p []byte) (int, error) {
	if a.read {
		return 0, io.EOF
	}
	a.read = true
	return copy(p, "{}"), nil
}

func (a *thinAnswer) Close() error { return nil }

var thinHeader = http.Header{"Content-Type": {"application/json"}}

func (thin) RoundTrip(*http.Request) (*http.Response, error) {
	a := &thinAnswer{Response: http.Response{StatusCode: 200, Header: thinHeader, ContentLength: 2}}
	a.Body = a
	return &a.Response, nil
}

// costs are configurations and how many allocations they add to a good answer.
var costs = map[string]Config{
	"HTTP":              {},
	"retry and breaker": {Retry: &Retry{}, Breaker: &breaker.Config{Consecutive: 5}},
	"GitHub, by bucket": {Vendor: vendors.GitHub()},
	"a limit": {Host: func(string) (cfg governor.PlainConfig, err error) {
		b, err := limiter.NewBucket(limiter.BucketConfig{Rate: 1e9})
		cfg.Limits = []governor.Limit{{Limiter: b}}
		return cfg, err
	}},
}

func spend(tb testing.TB, tr *Transport, req *http.Request, buf []byte) {
	resp, err := tr.RoundTrip(req)
	if err != nil {
		tb.Fatal(err)
	}
	for err == nil {
		_, err = resp.Body.Read(buf)
	}
	resp.Body.Close()
}

func TestAGoodAnswerCostsTwoAllocations(t *testing.T) {
	for name, cfg := range costs {
		cfg.Base = thin{}
		tr := transport(t, cfg)
		req, buf := request(t, "GET", "https://api.github.com/user", ""), make([]byte, 64)
		if n := testing.AllocsPerRun(1000, func() { spend(t, tr, req, buf) }); n > 3 {
			t.Errorf("%s: %v allocations, want 2 and that of the answer", name, n)
		}
	}
}

func BenchmarkGoodAnswer(b *testing.B) {
	for name, cfg := range costs {
		b.Run(name, func(b *testing.B) {
			cfg.Base = thin{}
			tr := NewTransport(cfg)
			defer tr.Close()
			req, err := http.NewRequest("GET", "https://api.github.com/user", nil)
			if err != nil {
				b.Fatal(err)
			}
			buf := make([]byte, 64)
			b.ReportAllocs()
			for b.Loop() {
				spend(b, tr, req, buf)
			}
		})
	}
}
