package main

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/flyball-go/flyball/examples/clients/internal/polite"
	"github.com/flyball-go/flyball/vendors/vendortest"
)

// Stripe says of what there was too much, and not for how long.
func TestEachGoroutineGetsItsCustomerAndNoneCallsIntoAPause(t *testing.T) {
	refuse := polite.Refuse(429, `{"error":{"type":"invalid_request_error","code":"rate_limit","message":"Request rate limit exceeded."}}`, "", 0)
	polite.Check(t, vendortest.ServerConfig{
		Quota: vendortest.Quota{Burst: 25, Window: time.Second, Lenient: true}, // of an endpoint
		Refuse: func(w http.ResponseWriter, r *http.Request, v vendortest.Verdict) {
			w.Header().Set("Stripe-Rate-Limited-Reason", "endpoint-rate")
			refuse(w, r, v)
		},
		Answer: polite.JSON(200, `{"id":"cus_1","object":"customer","email":"a@example.com"}`),
	}, 40, func(url string, n int) (int, error) {
		return run(url, "sk_test_x", slices.Repeat([]string{"cus_1"}, n))
	})
}
