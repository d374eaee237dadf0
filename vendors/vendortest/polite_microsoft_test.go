package vendortest_test

import (
	"testing"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
	"github.com/flyball-go/flyball/vendors"
	"github.com/flyball-go/flyball/vendors/vendortest"
)

// microsoftRun asks for the campaigns of two customers, one of which could have
// more than its part of what the user has.
func microsoftRun() (*politeRun, *vendortest.MicrosoftAds) {
	user, customer := vendortest.MicrosoftAdsMinute(200), vendortest.MicrosoftAdsMinute(120)
	user.Grace, customer.Grace = grace, grace
	m := must(vendortest.NewMicrosoftAds(vendortest.MicrosoftAdsConfig{User: &user, Customer: &customer}))
	return &politeRun{
		adapter: vendors.MicrosoftAds(), handler: m,
		limits: []governor.Limit{
			{Per: throttle.Host, Quota: limiter.QuotaConfig{Limit: 200, Per: time.Minute}},
			{Per: throttle.Tenant, Quota: limiter.QuotaConfig{Limit: 120, Per: time.Minute}},
		},
		next: func(caller, _ int) asked {
			customer := []string{"1", "2"}[caller%2]
			return asked{
				method: "POST", path: "/CampaignManagement/v13/Campaigns/QueryByAccountId", body: "{}",
				header: map[string]string{"Authorization": "Bearer u", "DeveloperToken": "d", "CustomerId": customer},
				ask:    governor.Ask{Tenant: customer},
			}
		},
		totals: func() map[string]vendortest.Totals {
			return map[string]vendortest.Totals{"user": m.Totals().User, "customer": m.Totals().Customer}
		},
	}, m
}

func TestGovernedClientsArePoliteToMicrosoftAds(t *testing.T) {
	p, m := microsoftRun()
	minutes := effort.Times(2)
	p.virtually(t, time.Duration(minutes)*time.Minute, func() {
		p.polite(t)
		goodput(t, "calls", m.Totals().User.Used, 200*minutes)
	})
}
