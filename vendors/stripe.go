package vendors

import (
	"net/http"
	"strings"
	"time"

	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// Stripe returns the adapter for Stripe's API.
//
// Limited is 429, and Stripe-Rate-Limited-Reason says of what: the account's rate
// or concurrency is the host's, an endpoint's the bucket's, and resource-specific
// the one request's, as only one object is concerned. A 429 with the code
// lock_timeout and without that header is the lock of an object and no limit. No
// time is given; clients wait for 0.5 to 5 seconds. Stripe-Should-Retry: false
// forbids to repeat the call, which for one that writes wants an Idempotency-Key.
// Use one governor for each account and mode, with the endpoint as bucket.
//
// Evidence, read 2026-11-21: docs.stripe.com/rate-limits; stripe/stripe-go:stripe.go, error.go.
func Stripe() Adapter { return Adapter{stripe} }

// StripeLive is the limit of an account in live mode, per host: 100 calls per second.
func StripeLive() limiter.QuotaConfig { return documented(100, time.Second) }

// StripeSandbox is the limit of a sandbox, per host: 25 calls per second.
func StripeSandbox() limiter.QuotaConfig { return documented(25, time.Second) }

// StripeEndpoint is the limit of an endpoint, per bucket: 25 calls per second.
func StripeEndpoint() limiter.QuotaConfig { return documented(25, time.Second) }

// StripePaymentIntent is the limit on updates, per bucket, one PaymentIntent: 1,000
// calls per hour.
func StripePaymentIntent() limiter.QuotaConfig { return documented(1000, time.Hour) }

var stripe = &api{read: readStripe, place: placeStripe}

var stripeReasons = map[string]throttle.Signal{
	"global-rate":          {Kind: throttle.KindBurst},
	"endpoint-rate":        {Kind: throttle.KindBurst, Scope: throttle.Scope{Level: throttle.Bucket}},
	"global-concurrency":   {Kind: throttle.KindConcurrency},
	"endpoint-concurrency": {Kind: throttle.KindConcurrency, Scope: throttle.Scope{Level: throttle.Bucket}},
	"resource-specific":    {Kind: throttle.KindBurst, Scope: throttle.Scope{Level: throttle.Request}},
}

func readStripe(r Response, _ []quota) []throttle.Signal {
	s, ok := common(r, nil)
	if strings.EqualFold(value(r.Header, "Stripe-Should-Retry"), "false") {
		s.NoRetry = true
	}
	if r.Status < 400 || r.Status >= 500 {
		return only(s, ok)
	}
	var reply struct {
		Error struct {
			Code text `json:"code"`
			Type text `json:"type"`
		} `json:"error"`
	}
	decode(r.Body, &reply)
	reason := strings.ToLower(value(r.Header, "Stripe-Rate-Limited-Reason"))
	switch {
	case reason != "":
		known := stripeReasons[reason]
		s.Kind, s.Scope = known.Kind, known.Scope
		if s.Source == "" {
			s.Source = line(reason, 64)
		}
		ok = ok || r.Status != http.StatusPaymentRequired
	case reply.Error.Code == "lock_timeout":
		return nil
	case reply.Error.Code == "rate_limit", reply.Error.Type == "rate_limit", reply.Error.Type == "rate_limit_error":
		ok = true
	}
	return only(s, ok)
}
