package vendors_test

import (
	"errors"
	"fmt"
	"net/http"
	"time"

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
