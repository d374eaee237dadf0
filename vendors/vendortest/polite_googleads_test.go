package vendortest_test

import (
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
	"github.com/flyball-go/flyball/vendors"
	"github.com/flyball-go/flyball/vendors/vendortest"
)

// googleAdsRun searches in two customers' accounts. Google publishes no numbers of
// calls per second: these are the test's.
func googleAdsRun() (*politeRun, *vendortest.GoogleAds) {
	g := must(vendortest.NewGoogleAds(vendortest.GoogleAdsConfig{
		Project: &vendortest.Quota{Rate: 10, Burst: 100, Grace: grace}, Customer: &vendortest.Quota{Rate: 8, Burst: 80, Grace: grace},
	}))
	return &politeRun{
		adapter: vendors.GoogleAds(), handler: g,
		limits: []governor.Limit{
			{Per: throttle.Host, Quota: limiter.QuotaConfig{Limit: 100, Per: 10 * time.Second}},
			{Per: throttle.Tenant, Quota: limiter.QuotaConfig{Limit: 80, Per: 10 * time.Second}},
		},
		next: func(caller, _ int) asked {
			customer := []string{"1111111111", "2222222222"}[caller%2]
			return asked{
				method: "POST", path: "/v25/customers/" + customer + "/googleAds:search", body: `{"query":"SELECT campaign.id FROM campaign"}`,
			}
		},
		totals: func() map[string]vendortest.Totals {
			return map[string]vendortest.Totals{"project": g.Totals().Project, "customer": g.Totals().Customer}
		},
	}, g
}
