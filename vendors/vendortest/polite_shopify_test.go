package vendortest_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
	"github.com/flyball-go/flyball/vendors"
	"github.com/flyball-go/flyball/vendors/vendortest"
)

var shopifyApp = map[string]string{"X-Shopify-Access-Token": "a"}

func shopifyCalls(s *vendortest.Shopify) *politeRun {
	return &politeRun{
		adapter: vendors.ShopifyREST(), handler: s,
		limits: []governor.Limit{{Per: throttle.Tenant, Quota: vendors.ShopifyCalls()}},
		next: func(int, int) asked {
			return asked{method: "GET", path: "/admin/api/2026-10/products.json", header: shopifyApp, ask: governor.Ask{Tenant: "shop"}}
		},
		totals: func() map[string]vendortest.Totals { return map[string]vendortest.Totals{"calls": s.Totals().REST} },
	}
}

// shopifyCost is what the queries of the runs cost: the numbers that they name.
func shopifyCost(query string) (requested, actual int) {
	_, _ = fmt.Sscanf(query, "%d %d", &requested, &actual)
	return requested, actual
}

func shopifyQueries(s *vendortest.Shopify, l governor.Limit) *politeRun {
	l.Per, l.Unit = throttle.Tenant, "points"
	return &politeRun{
		adapter: vendors.ShopifyGraphQL(), handler: s,
		limits: []governor.Limit{l},
		next: func(_, i int) asked {
			requested := 10 + i%40
			body, _ := json.Marshal(map[string]string{"query": fmt.Sprintf("%d %d", requested, requested/3)})
			return asked{
				method: "POST", path: "/admin/api/2026-10/graphql.json", header: shopifyApp, body: string(body),
				ask: governor.Ask{Tenant: "shop", Cost: requested},
			}
		},
		totals: func() map[string]vendortest.Totals { return map[string]vendortest.Totals{"points": s.Totals().GraphQL} },
	}
}

func TestGovernedClientsArePoliteToShopify(t *testing.T) {
	s := must(vendortest.NewShopify(vendortest.ShopifyConfig{Handler: slow()}))
	minutes := effort.Times(2)
	p := shopifyCalls(s)
	p.virtually(t, time.Duration(minutes)*time.Minute, func() {
		p.polite(t)
		goodput(t, "calls", s.Totals().REST.Used, 2*60*minutes)
	})
	for name, l := range map[string]governor.Limit{
		"a bucket": {Limiter: must(limiter.NewBucket(limiter.BucketConfig{Rate: 100, Burst: 1000}))},
		"a quota":  {Quota: vendors.ShopifyPoints()},
	} {
		s := must(vendortest.NewShopify(vendortest.ShopifyConfig{Cost: shopifyCost}))
		p := shopifyQueries(s, l)
		p.virtually(t, time.Duration(minutes)*time.Minute, func() {
			p.polite(t)
			goodput(t, "points by "+name, s.Totals().GraphQL.Used, 100*60*minutes)
		})
	}
}
