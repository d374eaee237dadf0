package httpx_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/dashboard"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/httpx"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/policy"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
	"github.com/flyball-go/flyball/vendors"
	"github.com/flyball-go/flyball/vendors/vendortest"
)

// must is for configurations that are known to be right.
func must[T any](v T, err error) T {
	if err != nil {
		log.Panic(err)
	}
	return v
}

// scripted is a server that answers with the given statuses, one after the other, and
// with 200 in the end.
func scripted(statuses ...int) *httptest.Server {
	var calls atomic.Int64
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := int(calls.Add(1))
		if n <= len(statuses) {
			if statuses[n-1] == http.StatusTooManyRequests {
				w.Header().Set("Retry-After", "0")
			}
			w.WriteHeader(statuses[n-1])
		}
		fmt.Fprintf(w, "answer %d", n)
	}))
}

func body(resp *http.Response, err error) string {
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	return string(must(io.ReadAll(resp.Body)))
}

// A client that is governed by one line: what the API refuses is waited out, by all
// who use the client, and sent again.
func ExampleNewTransport() {
	github := scripted(http.StatusTooManyRequests)
	defer github.Close()

	client := &http.Client{Transport: httpx.NewTransport(httpx.Config{Vendor: vendors.GitHub()})}
	defer client.CloseIdleConnections()

	fmt.Println(body(client.Get(github.URL)))
	// Output: answer 2
}

// Where an API documents its limits, they are told beforehand, and nothing has to be
// refused: here each model has so many requests and tokens per minute, and a request
// says which model it is for and how many tokens it may take.
func ExampleConfig() {
	server := httptest.NewServer(must(vendortest.NewOpenAI(vendortest.OpenAIConfig{})))
	defer server.Close()

	perMinute := func(n int) limiter.QuotaConfig { return limiter.QuotaConfig{Limit: n, Per: time.Minute} }
	client := &http.Client{Transport: httpx.NewTransport(httpx.Config{
		Vendor: vendors.OpenAI(),
		Host: func(string) (governor.PlainConfig, error) {
			return governor.PlainConfig{Workers: 64, MaxWait: time.Hour, Limits: []governor.Limit{
				{Per: throttle.Bucket, Quota: perMinute(500)},
				{Per: throttle.Bucket, Unit: "tokens", Quota: perMinute(30_000)},
			}}, nil
		},
	})}
	defer client.CloseIdleConnections()

	question := strings.NewReader(`{"model": "small", "max_tokens": 200, "messages": [{"role": "user", "content": "Why?"}]}`)
	ctx := httpx.WithAsk(context.Background(), governor.Ask{Bucket: "small", Cost: 200})
	req := must(http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/v1/chat/completions", question))
	req.Header.Set("Authorization", "Bearer k")
	resp := must(client.Do(req))
	defer resp.Body.Close()
	fmt.Println(resp.Status, "tokens left:", resp.Header.Get("X-RateLimit-Remaining-Tokens"))
	// Output: 200 OK tokens left: 29800
}

// A page of all hosts that the client calls, as they come and go.
func ExampleTransport_Governors() {
	api := scripted()
	defer api.Close()
	transport := httpx.NewTransport(httpx.Config{})
	defer transport.Close()
	client := &http.Client{Transport: transport}
	fmt.Println(body(client.Get(api.URL)))

	page := must(dashboard.New(dashboard.Config{Governors: transport.Governors}))
	defer page.Close()
	for _, g := range transport.Governors() {
		fmt.Println(g.Name() == strings.TrimPrefix(api.URL, "http://"), g.Stats().Succeeded)
	}
	// Output:
	// answer 1
	// true 1
}

// The wishes of one request: it is a customer's, and less urgent than others.
func ExampleWithAsk() {
	api := scripted()
	defer api.Close()
	client := &http.Client{Transport: httpx.NewTransport(httpx.Config{})}
	defer client.CloseIdleConnections()

	ctx := httpx.WithAsk(context.Background(), governor.Ask{Tenant: "acme", Priority: -1, StartBy: time.Now().Add(time.Minute)})
	req := must(http.NewRequestWithContext(ctx, http.MethodGet, api.URL, nil))
	fmt.Println(body(client.Do(req)))
	// Output: answer 1
}

// Failures are repeated, for requests that do no harm twice; one request is not to be.
func ExampleRetry() {
	api := scripted(500, 503, 200, 500)
	defer api.Close()
	client := &http.Client{Transport: httpx.NewTransport(httpx.Config{
		Retry: &httpx.Retry{
			Backoff: backoff.Constant(time.Millisecond),
			Modify:  func(n int, req *http.Request) { req.Header.Set("X-Attempt", fmt.Sprint(n)) },
		},
	})}
	defer client.CloseIdleConnections()
	fmt.Println(body(client.Get(api.URL)))

	ctx := httpx.WithRetry(context.Background(), nil)
	req := must(http.NewRequestWithContext(ctx, http.MethodGet, api.URL, nil))
	resp := must(client.Do(req))
	fmt.Println(resp.StatusCode, body(resp, nil))
	// Output:
	// answer 3
	// 500 answer 4
}

// A server that lets each caller call twice a minute.
func ExampleLimiter() {
	window := must(limiter.NewFixedWindow(limiter.FixedWindowConfig{Limit: 2, Period: time.Minute}))
	limit := must(httpx.NewLimiter(httpx.LimiterConfig{
		Limits: []httpx.Limit{{Name: "calls", Limiter: window, Limit: 2, Window: time.Minute}},
		Key:    func(r *http.Request) string { return r.Header.Get("X-Api-Key") },
	}))
	defer limit.Close()
	server := httptest.NewServer(limit.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {})))
	defer server.Close()

	for range 3 {
		resp := must(http.Get(server.URL))
		resp.Body.Close()
		fmt.Println(resp.Status, resp.Header.Get("RateLimit-Policy"), "remaining", resp.Header.Get("X-RateLimit-Remaining"))
	}
	// Output:
	// 200 OK "calls";q=2;w=60 remaining 1
	// 200 OK "calls";q=2;w=60 remaining 0
	// 429 Too Many Requests "calls";q=2;w=60 remaining 0
}

// A gateway: callers are limited on the way in, and calls governed on the way out.
func ExampleLimiter_Handler() {
	backend := scripted(http.StatusTooManyRequests)
	defer backend.Close()

	proxy := httputil.NewSingleHostReverseProxy(must(url.Parse(backend.URL)))
	proxy.Transport = httpx.NewTransport(httpx.Config{Retry: &httpx.Retry{}})
	once := must(limiter.NewFixedWindow(limiter.FixedWindowConfig{Limit: 1, Period: time.Hour}))
	limit := must(httpx.NewLimiter(httpx.LimiterConfig{Limits: []httpx.Limit{{Limiter: once}}}))
	defer limit.Close()

	gateway := httptest.NewServer(limit.Handler(proxy))
	defer gateway.Close()

	for range 2 {
		resp := must(http.Get(gateway.URL))
		fmt.Println(resp.StatusCode, body(resp, nil))
	}
	// Output:
	// 200 answer 2
	// 429 Too Many Requests
}

// Any chain of policies is a RoundTripper: here answers that are failures are repeated,
// each attempt within a second.
func ExampleRoundTripper() {
	api := scripted(http.StatusBadGateway)
	defer api.Close()

	chain := policy.Chain(
		must(retry.New(retry.Config{RetryOnResult: policy.OnResult(httpx.IsFailure), Backoff: backoff.None})),
		must(policy.NewTimeout(policy.TimeoutConfig{After: time.Second})),
	)
	client := &http.Client{Transport: httpx.RoundTripper(nil, chain)}

	fmt.Println(body(client.Get(api.URL)))
	// Output: answer 2
}

// And it is middleware: here one call at a time.
func ExampleMiddleware() {
	room := must(policy.NewBulkhead(policy.BulkheadConfig{Max: 1}))
	var handler http.Handler
	handler = httpx.Middleware(policy.Chain(room))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner := httptest.NewRecorder()
		handler.ServeHTTP(inner, r) // while this one runs
		fmt.Fprint(w, inner.Code)
	}))

	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	fmt.Println(w.Code, w.Body)
	// Output: 200 503
}
