package vendors_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/vendors"
)

// A refusal pauses those whom the vendor means, by what the program gives as tenant
// and bucket, and nobody else.
func TestRefusalsPauseThoseTheyAreMeantFor(t *testing.T) {
	h := func(pairs ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(pairs); i += 2 {
			h.Set(pairs[i], pairs[i+1])
		}
		return h
	}
	type ask = governor.Ask
	const minute = "60"
	for name, tc := range map[string]struct {
		vendor        vendors.Adapter
		refused       vendors.Response
		of            ask   // the refused call
		waits, passes []ask // calls after it
	}{
		"GitHub's resource": {
			vendors.GitHub(), vendors.Response{Status: 429, Header: h("X-RateLimit-Remaining", "0", "Retry-After", minute), Body: []byte(`{"message":"API rate limit exceeded"}`)},
			ask{Bucket: "search"}, []ask{{Bucket: "search", Tenant: "x"}}, []ask{{Bucket: "core"}, {}},
		},
		"GitHub's token": {
			vendors.GitHub(), vendors.Response{Status: 403, Header: h("Retry-After", minute), Body: []byte(`{"message":"You have exceeded a secondary rate limit"}`)},
			ask{Bucket: "search"}, []ask{{Bucket: "core"}, {}}, nil,
		},
		"Meta's account": {
			vendors.Meta(), vendors.Response{Status: 400, Header: h("X-Business-Use-Case-Usage", `{"1":[{"estimated_time_to_regain_access":1}]}`), Body: []byte(`{"error":{"code":80004}}`)},
			ask{Tenant: "act_1"}, []ask{{Tenant: "act_1", Bucket: "x"}}, []ask{{Tenant: "act_2"}},
		},
		"Meta's app": {
			vendors.Meta(), vendors.Response{Status: 403, Header: h("Retry-After", minute), Body: []byte(`{"error":{"code":4}}`)},
			ask{Tenant: "act_1"}, []ask{{Tenant: "act_2"}}, nil,
		},
		"Shopify's shop": {
			vendors.ShopifyREST(), vendors.Response{Status: 429, Header: h("Retry-After", minute)},
			ask{Tenant: "a"}, []ask{{Tenant: "a"}}, []ask{{Tenant: "b"}},
		},
		"Slack's method": {
			vendors.Slack(), vendors.Response{Status: 429, Header: h("Retry-After", minute)},
			ask{Bucket: "T1/chat.postMessage"}, []ask{{Bucket: "T1/chat.postMessage"}}, []ask{{Bucket: "T1/users.list"}, {Bucket: "T2/chat.postMessage"}},
		},
		"one object of Stripe's": {
			vendors.Stripe(), vendors.Response{Status: 429, Header: h("Stripe-Rate-Limited-Reason", "resource-specific", "Retry-After", minute)},
			ask{Bucket: "refunds"}, nil, []ask{{Bucket: "refunds"}},
		},
		"Zendesk's account, and an endpoint for longer": {
			vendors.Zendesk(), vendors.Response{Status: 429, Header: h("RateLimit-Remaining", "0", "RateLimit-Reset", minute, "Zendesk-RateLimit-tickets", "remaining=0; resets=90")},
			ask{Bucket: "tickets"}, []ask{{Bucket: "users"}, {}}, nil,
		},
		"a program without buckets": {
			vendors.Slack(), vendors.Response{Status: 429, Header: h("Retry-After", minute)},
			ask{}, []ask{{}, {Tenant: "x"}}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, err := governor.New(governor.PlainConfig{Name: "x", Vendor: tc.vendor, MaxWait: -1})
				if err != nil {
					t.Fatal(err)
				}
				defer g.Close()
				began := time.Now()
				call := func(a ask) time.Duration {
					at, err := governor.Do(t.Context(), g.With(a), "", governor.Func(func(context.Context) (time.Time, error) { return time.Now(), nil }))
					if err != nil {
						t.Error(err)
					}
					return at.Sub(began)
				}
				once := tc.of
				once.NoRetry = true
				_, err = governor.Do(t.Context(), g.With(once), "", governor.Func(func(context.Context) (int, error) {
					r := tc.refused
					r.At = time.Now()
					return 0, &vendors.ResponseError{Response: r}
				}))
				if err == nil {
					t.Fatal("not refused")
				}
				for _, a := range tc.passes {
					if after := call(a); after >= time.Minute {
						t.Errorf("%+v waited for %v", a, after)
					}
				}
				for i, a := range tc.waits {
					if after := call(a); after < time.Minute || i == 0 && after > 61*time.Second {
						t.Errorf("%+v came after %v", a, after)
					}
				}
			})
		})
	}
}
