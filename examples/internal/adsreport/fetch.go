// Package adsreport is the job of the examples with Google Ads: finding accounts,
// fetching their reports, and the table of what came of it.
//
// It knows nothing of governors: when a call is made, and made again, is for the
// caller. Its functions may be called by any number of goroutines.
package adsreport

import (
	"context"
	"fmt"
	"strconv"

	"github.com/flyball-go/flyball/examples/internal/adsclient"
	"github.com/flyball-go/flyball/examples/internal/adspb"
	"github.com/flyball-go/flyball/examples/internal/fakeads"
)

// Queries are those that -report stands for.
var Queries = map[string]string{
	"daily":     "SELECT campaign.id, campaign.name, segments.date, metrics.impressions, metrics.clicks, metrics.cost_micros, metrics.conversions FROM campaign WHERE segments.date DURING LAST_7_DAYS",
	"hourly":    "SELECT campaign.id, campaign.name, segments.date, segments.hour, metrics.impressions, metrics.clicks, metrics.cost_micros, metrics.conversions FROM campaign WHERE segments.date DURING LAST_7_DAYS",
	"campaigns": "SELECT campaign.id, campaign.name, campaign.status, campaign.advertising_channel_type, campaign_budget.amount_micros FROM campaign",
}

// Call is one call to make: which service, for whose sake, and what.
type Call struct {
	Service adsclient.Service
	Tenant  string // the account; empty: none
	Run     func(context.Context, *adsclient.Client) error
}

// Fetch fetches the report of one account and returns what it adds up to. Rows are
// added up as they come, and count when the stream has ended well.
func Fetch(ctx context.Context, c *adsclient.Client, a adsclient.Access, query string) (sum fakeads.Totals, err error) {
	err = c.SearchStream(ctx, a, query, func(rows []*adspb.GoogleAdsRow) {
		for _, r := range rows {
			m := r.GetMetrics()
			sum.Add(fakeads.Totals{Rows: 1, Impressions: m.GetImpressions(), Clicks: m.GetClicks(),
				CostMicros: m.GetCostMicros(), Conversions: m.GetConversions()})
		}
	})
	return sum, err
}

const findClients = "SELECT customer_client.id FROM customer_client WHERE customer_client.manager = FALSE AND customer_client.status = ENABLED"

// Find finds the accounts to report, and the manager that each is reached through:
// login, or the managers that the credentials open, then the accounts below them.
// one makes a call.
func Find(ctx context.Context, login string, one func(context.Context, Call) error) ([]adsclient.Access, error) {
	var found []adsclient.Access
	var tops []string
	if login != "" {
		tops = []string{login}
	} else if err := one(ctx, Call{adsclient.Customers, "", func(ctx context.Context, c *adsclient.Client) (err error) {
		tops, err = c.ListAccessibleCustomers(ctx)
		return err
	}}); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, top := range tops {
		var below []string
		if err := one(ctx, Call{adsclient.GoogleAds, top, func(ctx context.Context, c *adsclient.Client) error {
			below = nil
			return c.SearchStream(ctx, adsclient.Access{Customer: top, Login: top}, findClients, func(rows []*adspb.GoogleAdsRow) {
				for _, r := range rows {
					below = append(below, strconv.FormatInt(r.GetCustomerClient().GetId(), 10))
				}
			})
		}}); err != nil {
			return nil, fmt.Errorf("account %s: %w", top, err)
		}
		for _, id := range below {
			if !seen[id] {
				seen[id] = true
				found = append(found, adsclient.Access{Customer: id, Login: top})
			}
		}
	}
	return found, nil
}
