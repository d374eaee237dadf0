package vendortest_test

import (
	"encoding/json"
	"strings"
	"sync/atomic"
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

// microsoftReports has reports made, asks every now and then whether they are, and
// fetches them. Ten may be pending, each for so long: so ten may be submitted in that
// time, for which submitting is a bucket, as the adapter wants it.
func microsoftReports(preparing, every time.Duration) (p *politeRun, fetched func() int64) {
	var downloads atomic.Int64
	user := vendortest.MicrosoftAdsMinute(200)
	user.Grace = grace
	m := must(vendortest.NewMicrosoftAds(vendortest.MicrosoftAdsConfig{
		User: &user, Reports: 10, Preparing: preparing,
		Report: func(string) []byte { downloads.Add(1); return nil },
	}))
	submits := must(limiter.NewQuota(limiter.QuotaConfig{Limit: 10, Per: preparing, Margin: 50 * time.Millisecond}))
	call := func(method, path, body, bucket string) asked {
		return asked{
			method: method, path: path, body: body, ask: governor.Ask{Bucket: bucket},
			header: map[string]string{"Authorization": "Bearer u", "DeveloperToken": "d", "CustomerId": "1"},
		}
	}
	const reports = "/Reporting/v13/GenerateReport/"
	return &politeRun{
		adapter: vendors.MicrosoftAds(), handler: m,
		limits: []governor.Limit{
			{Per: throttle.Host, Quota: limiter.QuotaConfig{Limit: 200, Per: time.Minute}},
			{Per: throttle.Bucket, Limiter: must(limiter.NewByKey(limiter.ByKeyConfig{Keys: map[string]limiter.Limiter{"submit": submits}}))},
		},
		job: func(_, _ int, send func(asked) ([]byte, error)) error {
			id, err := send(call("POST", reports+"Submit", `{"ReportRequest":{}}`, "submit"))
			for err == nil {
				time.Sleep(every)
				var status struct {
					ReportRequestStatus struct {
						Status            string
						ReportDownloadURL string `json:"ReportDownloadUrl"`
					}
				}
				told, failed := send(call("POST", reports+"Poll", string(id), "poll"))
				if err = failed; err == nil {
					err = json.Unmarshal(told, &status)
				}
				if at := status.ReportRequestStatus.ReportDownloadURL; err == nil && at != "" {
					_, err = send(call("GET", at[strings.Index(at, "/Reporting"):], "", "download"))
					return err
				}
			}
			return err
		},
		totals: func() map[string]vendortest.Totals {
			got := m.Totals()
			return map[string]vendortest.Totals{"user": got.User, "pending": {Accepted: got.Reports, Refused: got.OverLimit}}
		},
	}, downloads.Load
}

func TestGovernedReportsArePoliteToMicrosoftAds(t *testing.T) {
	const preparing, every = 20 * time.Second, 5 * time.Second
	p, fetched := microsoftReports(preparing, every)
	minutes := effort.Times(2)
	p.virtually(t, time.Duration(minutes)*time.Minute+preparing, func() { // in which the last are made
		p.polite(t)
		p.neverRefused(t)
		goodput(t, "reports", fetched(), 30*minutes)
	})
}

func TestGovernedClientsArePoliteToMicrosoftAds(t *testing.T) {
	p, m := microsoftRun()
	minutes := effort.Times(2)
	p.virtually(t, time.Duration(minutes)*time.Minute, func() {
		p.polite(t)
		goodput(t, "calls", m.Totals().User.Used, 200*minutes)
	})
}
