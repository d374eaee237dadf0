package vendors_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/throttle"
	"github.com/flyball-go/flyball/vendors"
)

// A client keeps the answer beside its own error, and an adapter reads it.
func ExampleHTTP() {
	resp := &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"1.5"}}}

	err := error(&vendors.ResponseError{
		Response: vendors.Response{Status: resp.StatusCode, Header: resp.Header, At: time.Now()},
		Err:      errors.New("acme: try again later"),
	})
	delay, limited := vendors.HTTP().DelayError(fmt.Errorf("report: %w", err))
	fmt.Println(limited, delay)
	fmt.Println(err)
	// Output:
	// true 1.5s
	// vendors: HTTP 429 Too Many Requests: acme: try again later
}

func ExampleGoogleAds() {
	body := `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{
		"@type":"type.googleapis.com/google.ads.googleads.v25.errors.GoogleAdsFailure",
		"errors":[{"errorCode":{"quotaError":"RESOURCE_TEMPORARILY_EXHAUSTED"},
			"details":{"quotaErrorDetails":{"rateScope":"ACCOUNT","rateName":"Requests per account","retryDelay":"30s"}}}]}]}}`

	for _, s := range vendors.GoogleAds().Read(vendors.Response{Status: 429, Body: []byte(body)}) {
		fmt.Println(s.Scope.Level, s.Kind, s.Delay, "-", s.Source)
	}
	// Output: tenant burst 30s - Requests per account, retry in 30s
}

// An API that says in its own header how many seconds to wait needs a Dialect of
// a few lines.
func ExampleAdapter() {
	a := vendors.Adapter{Dialect: acme{}}
	err := &vendors.ResponseError{Response: vendors.Response{Status: 400, Header: http.Header{"X-Acme-Busy": {"tenant"}}}}
	for _, s := range a.Signals(err, time.Now()) {
		fmt.Println(s.Scope.Level, s.Kind, s.Delay == throttle.Unknown)
	}
	// Output: tenant concurrency true
}

type acme struct{}

func (acme) Read(r vendors.Response) []throttle.Signal {
	if r.Header.Get("X-Acme-Busy") == "" {
		return nil
	}
	return []throttle.Signal{{Kind: throttle.KindConcurrency, Scope: throttle.Scope{Level: throttle.Tenant}, Delay: throttle.Unknown}}
}

func (acme) Learn(vendors.Response) []throttle.Quota { return nil }

// RetryAfter is for adapters of one's own.
func ExampleRetryAfter() {
	h := http.Header{
		"Date":        {"Sat, 21 Nov 2026 10:00:00 GMT"},
		"Retry-After": {"Sat, 21 Nov 2026 10:00:30 GMT"},
	}
	fmt.Println(vendors.RetryAfter(h, time.Now()))
	// Output: 30s true
}

// notFound is what a client of an API returns by itself.
type notFound struct{ code string }

func (e *notFound) Error() string { return "acme: " + e.code }

// get is the one place in a client where the answer still is at hand.
func get(url string) ([]byte, error) {
	resp, err := http.Get(url)
	if err != nil {
		return nil, err // no answer, so nothing to read
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20)) // adapters read no more
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 400 {
		return body, nil
	}
	err = fmt.Errorf("acme: %s", body)
	if resp.StatusCode == http.StatusNotFound {
		err = &notFound{string(body)}
	}
	return nil, &vendors.ResponseError{
		Response: vendors.Response{Status: resp.StatusCode, Header: resp.Header, Body: body, At: time.Now()},
		Err:      err,
	}
}

// Every failure is wrapped, a rate limit or not: to tell them apart is the
// adapter's work, and callers find the client's own errors as before.
func ExampleResponseError() {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/busy" {
			w.Header().Set("Retry-After", "30")
			w.WriteHeader(http.StatusTooManyRequests)
			io.WriteString(w, "slow down")
			return
		}
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, "no such report")
	}))
	defer api.Close()

	for _, path := range []string{"/busy", "/reports/7"} {
		_, err := get(api.URL + path)
		fmt.Println(err)
		_, missing := errors.AsType[*notFound](err)
		fmt.Println("missing:", missing)
		for _, s := range vendors.HTTP().Signals(err, time.Now()) {
			fmt.Println("pause the", s.Scope, "for", s.Delay, "because of", s.Source)
		}
	}
	// Output:
	// vendors: HTTP 429 Too Many Requests: acme: slow down
	// missing: false
	// pause the host for 30s because of Retry-After: 30s
	// vendors: HTTP 404 Not Found: acme: no such report
	// missing: true
}

// One refusal of Google's may concern an account and the project that all
// accounts share. Signals keeps them apart, so that other accounts are back
// sooner; DelayError has room for the longest delay alone.
func ExampleAdapter_Signals() {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTooManyRequests)
		io.WriteString(w, `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{
			"@type":"type.googleapis.com/google.ads.googleads.v25.errors.GoogleAdsFailure","errors":[
			{"errorCode":{"quotaError":"RESOURCE_TEMPORARILY_EXHAUSTED"},
				"details":{"quotaErrorDetails":{"rateScope":"ACCOUNT","rateName":"Requests per account","retryDelay":"30s"}}},
			{"errorCode":{"quotaError":"RESOURCE_TEMPORARILY_EXHAUSTED"},
				"details":{"quotaErrorDetails":{"rateScope":"DEVELOPER","rateName":"Requests per project","retryDelay":"5s"}}}]}]}}`)
	}))
	defer api.Close()

	_, err := get(api.URL)
	for _, s := range vendors.GoogleAds().Signals(err, time.Now()) {
		fmt.Println(s.Scope.Level, s.Delay)
	}
	fmt.Println(vendors.GoogleAds().DelayError(err))
	// Output:
	// tenant 30s
	// host 5s
	// 30s true
}

// What is left of a quota is in good answers too. Whoever looks there can slow
// down before the first refusal.
func ExampleAdapter_Learn() {
	h := http.Header{}
	h.Set("RateLimit-Policy", `"burst";q=100;w=60, "daily";q=5000;w=86400`)
	h.Set("RateLimit", `"burst";r=40;t=20, "daily";r=12;t=3600`)
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

	for _, q := range vendors.HTTP().Learn(vendors.Response{Status: http.StatusOK, Header: h, At: at}) {
		fmt.Println(q.Name, q.Remaining, "of", q.Limit, "until", q.Reset.Format(time.TimeOnly))
	}
	// Output:
	// burst 40 of 100 until 10:00:20
	// daily 12 of 5000 until 11:00:00
}

// A gRPC-like client that package grpcx does not fit fills in the same Response.
// Details stay encoded: their types need not be linked into the program.
func ExampleResponse() {
	answer := vendors.Response{
		Code:    vendors.CodeResourceExhausted, // and a Status of 0: no HTTP
		Message: "Quota exceeded.",
		Details: []vendors.Any{{
			TypeURL: "type.googleapis.com/google.rpc.RetryInfo",
			Value:   []byte{0x0a, 0x02, 0x08, 0x07}, // retry_delay: 7 s
		}},
		At: time.Now(),
	}
	err := &vendors.ResponseError{Response: answer}
	fmt.Println(err)
	fmt.Println(vendors.GoogleAds().DelayError(err))
	// Output:
	// vendors: gRPC RESOURCE_EXHAUSTED
	// 7s true
}

// Servers send many forms; what cannot be read is none, which is not 0.
func ExampleRetryAfter_forms() {
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for _, v := range []string{"120", "0.2", "Sat, 21 Nov 2026 10:01:00 GMT", "Fri, 20 Nov 2026 10:00:00 GMT", "-1", "soon"} {
		delay, ok := vendors.RetryAfter(http.Header{"Retry-After": {v}}, at)
		fmt.Println(delay, ok)
	}
	// Output:
	// 2m0s true
	// 200ms true
	// 1m0s true
	// 0s true
	// 0s false
	// 0s false
}

// A governor with what a vendor publishes and what it says beside that. The limit
// is counted for each resource, as GitHub does, and a refusal pauses that resource
// alone.
func ExampleGitHubPrimary() {
	g, err := governor.New(governor.PlainConfig{
		Name:   "github",
		Vendor: vendors.GitHub(),
		Limits: []governor.Limit{
			{Per: throttle.Bucket, Quota: vendors.GitHubPrimary()}, // 5,000 per hour
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer g.Close()

	core := g.With(governor.Ask{Bucket: "core"})
	issues, err := governor.Do(context.Background(), core, "", governor.Func(func(ctx context.Context) (string, error) {
		return "issues", nil // here the client asks; its errors hold a vendors.ResponseError
	}))
	fmt.Println(issues, err)
	// Output: issues <nil>
}

// Of one refusal GitHub may mean two limits: the token's and the resource's.
func ExampleGitHub() {
	h := http.Header{}
	h.Set("Retry-After", "60")
	h.Set("X-RateLimit-Remaining", "0")
	h.Set("X-RateLimit-Reset", "1795257000")
	h.Set("X-RateLimit-Resource", "core")
	for _, s := range vendors.GitHub().Read(vendors.Response{
		Status: http.StatusForbidden, Header: h, At: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC),
		Body: []byte(`{"message":"You have exceeded a secondary rate limit."}`),
	}) {
		fmt.Println(s.Scope.Level, s.Kind, s.Delay, "-", s.Source)
	}
	// Output:
	// host burst 1m0s - secondary rate limit, Retry-After: 1m0s
	// bucket quota 30m0s - core: X-Ratelimit-Reset: in 30m0s
}

// Meta answers with 400 and a code, and a header says how many minutes are left.
func ExampleMeta() {
	h := http.Header{}
	h.Set("X-Business-Use-Case-Usage", `{"1613934299308344":[{"type":"ads_management","call_count":100,"total_time":25,"estimated_time_to_regain_access":19}]}`)
	refused := vendors.Response{Status: 400, Header: h, Body: []byte(`{"error":{"code":80004,"message":"There have been too many calls to this ad-account."}}`)}

	for _, s := range vendors.Meta().Read(refused) {
		fmt.Println("pause the", s.Scope.Level, "for", s.Delay)
	}
	for _, q := range vendors.Meta().Learn(refused) {
		fmt.Println(q.Name, q.Remaining, q.Unit, "left")
	}
	// Output:
	// pause the tenant for 19m0s
	// 1613934299308344/ads_management 0 percent left
}

// A refusal that comes with status 200, and what a bucket in points teaches.
func ExampleShopifyGraphQL() {
	refused := vendors.Response{Status: 200, Body: []byte(`{"errors":[{"message":"Throttled","extensions":{"code":"THROTTLED"}}],
		"extensions":{"cost":{"requestedQueryCost":400,"throttleStatus":{"maximumAvailable":1000,"currentlyAvailable":300,"restoreRate":50}}}}`)}

	fmt.Println(vendors.ShopifyGraphQL().DelayError(&vendors.ResponseError{Response: refused}))
	for _, q := range vendors.ShopifyGraphQL().Learn(refused) {
		fmt.Println(q.Remaining, "of", q.Limit, q.Unit, "that refill in", q.Window)
	}
	// Output:
	// 2s true
	// 300 of 1000 points that refill in 20s
}

// Requests and tokens are limited apart; only the exhausted one says when to come
// again.
func ExampleOpenAI() {
	h := http.Header{}
	h.Set("X-RateLimit-Remaining-Requests", "99")
	h.Set("X-RateLimit-Reset-Requests", "120ms")
	h.Set("X-RateLimit-Remaining-Tokens", "0")
	h.Set("X-RateLimit-Reset-Tokens", "6m0s")
	busy := &vendors.ResponseError{Response: vendors.Response{Status: 429, Header: h}}
	fmt.Println(vendors.OpenAI().DelayError(busy))

	poor := &vendors.ResponseError{Response: vendors.Response{Status: 429, Body: []byte(`{"error":{"code":"insufficient_quota"}}`)}}
	_, limited := vendors.OpenAI().DelayError(poor)
	fmt.Println("no money is a limit:", limited)
	// Output:
	// 6m0s true
	// no money is a limit: false
}

// A server may forbid to repeat a call, whatever it says about others.
func ExampleGRPC() {
	for _, s := range vendors.GRPC().Read(vendors.Response{
		Code:    vendors.CodeResourceExhausted,
		Trailer: map[string][]string{"grpc-retry-pushback-ms": {"-1"}},
	}) {
		fmt.Println(s.NoRetry, s.Delay == throttle.Unknown)
	}
	// Output: true true
}
