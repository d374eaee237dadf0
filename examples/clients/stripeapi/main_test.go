package main

import (
	"slices"
	"testing"

	"github.com/flyball-go/flyball/examples/clients/internal/strict"
)

func TestNoGoroutineCallsIntoThePause(t *testing.T) {
	api := &strict.API{
		Refuse: strict.JSON(429, `{"error":{"type":"invalid_request_error","code":"rate_limit","message":"Request rate limit exceeded."}}`, "Retry-After", "1", "Stripe-Rate-Limited-Reason", "endpoint-rate"),
		Answer: strict.JSON(200, `{"id":"cus_1","object":"customer","email":"a@example.com"}`),
	}
	api.Check(t, 20, func(url string, n int) (int, error) {
		return run(url, "sk_test_x", slices.Repeat([]string{"cus_1"}, n))
	})
}
