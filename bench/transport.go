package main

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/gofri/go-github-ratelimit/v2/github_ratelimit"
	"github.com/hashicorp/go-retryablehttp"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/httpx"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/vendors"
)

// H: what a client transport adds to a good answer of a transport that does nothing,
// its body read and closed. Of the allocations one is the stub's.
//
//	H1    retry, breaker, limiter and bulkhead, beside failsafehttp with the same; the
//	      limiter is the governor's own, which learns. H1quota has a bucket of a given
//	      rate in its place, as the peer has
//	H2    retry, beside go-retryablehttp
//	H3    GitHub's limits, beside go-github-ratelimit; ours keeps them by bucket
func init() {
	three := []bound{{allocs, 4}}
	half := append([]bound{{ratio, 0.5}}, three...)
	h1 := httpx.Config{Retry: &httpx.Retry{}, Breaker: &breaker.Config{Consecutive: 5}}
	both("H1", "httpx: retry, breaker, limiter, slots", "failsafehttp, the same", half, httpxSide(h1), failsafeHTTP)
	h1.Host = hostQuota
	both("H1quota", "the same, its limiter a bucket", "failsafehttp, the same", half, httpxSide(h1), failsafeHTTP)
	both("H2", "httpx, retry", "go-retryablehttp", three, httpxSide(httpx.Config{Retry: &httpx.Retry{}}), retryableHTTP)
	both("H3", "httpx, GitHub", "go-github-ratelimit", three, httpxSide(httpx.Config{Vendor: vendors.GitHub()}), gitHubRateLimit)
}

// stubbed is an answer, with its body in the same allocation.
type stubbed struct {
	http.Response
	read bool
}

func (s *stubbed) Read(p []byte) (int, error) {
	if s.read {
		return 0, io.EOF
	}
	s.read = true
	return copy(p, "{}"), nil
}

func (s *stubbed) Close() error { return nil }

var stubHeader = http.Header{"Content-Type": {"application/json"}}

// stub answers at once.
type stub struct{}

func (stub) RoundTrip(*http.Request) (*http.Response, error) {
	s := &stubbed{Response: http.Response{StatusCode: http.StatusOK, Header: stubHeader, ContentLength: 2}}
	s.Body = s
	return &s.Response, nil
}

var errBody = errors.New("not the answer of the stub")

// sends is an operation that sends requests through rt.
func sends(rt http.RoundTripper, stop func()) (func(int) error, func(), error) {
	ctx, cancel := alive()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://api.github.com/user", nil)
	if err != nil {
		return nil, nil, err
	}
	op := func(n int) error {
		buf := make([]byte, 64)
		for range n {
			resp, err := rt.RoundTrip(req)
			if err != nil {
				return err
			}
			if n, err := resp.Body.Read(buf); n != 2 || err != nil {
				return errBody
			}
			if _, err := resp.Body.Read(buf); err != io.EOF {
				return errBody
			}
			if err := resp.Body.Close(); err != nil {
				return err
			}
		}
		return nil
	}
	return op, func() { stop(); cancel() }, nil
}

func httpxSide(cfg httpx.Config) side {
	return func() (func(int) error, func(), error) {
		cfg := cfg
		if cfg.Base == nil {
			cfg.Base = stub{}
		}
		t, err := httpx.New(cfg)
		if err != nil {
			return nil, nil, err
		}
		return sends(t, func() { t.Close() })
	}
}

// hostQuota is a limit that is never reached, and as many slots as the peer's.
func hostQuota(string) (cfg governor.PlainConfig, err error) {
	b, err := limiter.NewBucket(limiter.BucketConfig{Rate: plenty, Burst: burst})
	cfg.Workers, cfg.Limits = inFlight, []governor.Limit{{Limiter: b}}
	return cfg, err
}

func failsafeHTTP() (func(int) error, func(), error) {
	return sends(failsafehttp.NewRoundTripper(stub{},
		failsafehttp.NewRetryPolicyBuilder().WithMaxRetries(2).Build(),
		circuitbreaker.NewBuilder[*http.Response]().HandleIf(func(r *http.Response, err error) bool {
			return err != nil || httpx.IsFailure(r)
		}).WithFailureThreshold(5).WithDelay(time.Minute).Build(),
		ratelimiter.NewSmoothBuilder[*http.Response](plenty, time.Second).WithMaxWaitTime(time.Second).Build(),
		bulkhead.NewBuilder[*http.Response](inFlight).WithMaxWaitTime(time.Second).Build(),
	), func() {})
}

func retryableHTTP() (func(int) error, func(), error) {
	c := retryablehttp.NewClient()
	c.HTTPClient = &http.Client{Transport: stub{}}
	c.Logger, c.RetryMax = nil, 2
	return sends(&retryablehttp.RoundTripper{Client: c}, func() {})
}

func gitHubRateLimit() (func(int) error, func(), error) {
	return sends(github_ratelimit.New(stub{}), func() {})
}
