package vendortest_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/throttle"
	"github.com/flyball-go/flyball/vendors"
	"github.com/flyball-go/flyball/vendors/vendortest"
)

func TestMicrosoftAdsSpeaksAsItsAdapterHears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		user := vendortest.MicrosoftAdsMinute(9)
		customer := vendortest.MicrosoftAdsMinute(2)
		m := must(vendortest.NewMicrosoftAds(vendortest.MicrosoftAdsConfig{User: &user, Customer: &customer}))
		a := vendors.MicrosoftAds()
		call := func(customer, service string) vendors.Response {
			return send(m, asked{method: "POST", path: "/" + service + "/v13/Campaigns/QueryByIds", body: "{}",
				header: map[string]string{"Authorization": "Bearer u", "DeveloperToken": "d", "CustomerId": customer}})
		}
		reads(t, a, call("1", "CampaignManagement"))
		time.Sleep(10 * time.Second)
		reads(t, a, call("1", "CampaignManagement"))
		r := call("1", "CampaignManagement")
		for name := range r.Header {
			if strings.Contains(strings.ToLower(name), "retry") || strings.Contains(strings.ToLower(name), "limit") {
				t.Errorf("there is a header %s", name)
			}
		}
		reads(t, a, r, refusal{throttle.KindBurst, throttle.Host, time.Minute})
		reads(t, a, call("2", "CampaignManagement"))
		reads(t, a, call("1", "Bulk"))
		time.Sleep(50 * time.Second) // the window slides
		reads(t, a, call("1", "CampaignManagement"))
	})
}

func TestMicrosoftAdsReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := must(vendortest.NewMicrosoftAds(vendortest.MicrosoftAdsConfig{Reports: 2, MaxKeys: 3}))
		call := func(user, path, body string) string {
			r := send(m, asked{method: "POST", path: "/Reporting/v13/GenerateReport/" + path, body: body,
				header: map[string]string{"Authorization": "Bearer " + user, "DeveloperToken": "d"}})
			if got := vendors.MicrosoftAds().Read(r); len(got) > 0 {
				return fmt.Sprint(got[0].Kind, got[0].Delay == throttle.Unknown)
			}
			return string(r.Body)
		}
		submit := func() string { return call("u", "Submit", "{}") }
		if got := submit(); got != `{"ReportRequestId":"1"}` {
			t.Error(got)
		}
		time.Sleep(5 * time.Second)
		submit()
		if got := submit(); got != "concurrency true" {
			t.Errorf("a third: %s", got)
		}
		poll := func() string { return call("u", "Poll", `{"ReportRequestId":"1"}`) }
		if got := poll(); !strings.Contains(got, `"Pending"`) {
			t.Error(got)
		}
		if r := send(m, asked{method: "GET", path: "/Reporting/download/1"}); r.Status != 404 {
			t.Errorf("%d before its time", r.Status)
		}
		time.Sleep(5 * time.Second)
		if got := poll(); !strings.Contains(got, `"ReportDownloadUrl":"http://example.com/Reporting/download/1"`) || !strings.Contains(got, `"Success"`) {
			t.Error(got)
		}
		if r := send(m, asked{method: "GET", path: "/Reporting/download/1"}); r.Status != 200 || string(r.Body) != "\"Report\",\"1\"\n" {
			t.Errorf("%d %s", r.Status, r.Body)
		}
		if got := call("v", "Poll", `{"ReportRequestId":"1"}`); !strings.Contains(got, "InvalidReportId") {
			t.Errorf("another user's: %s", got)
		}
		submit() // the third that is kept
		if got := submit(); got != "concurrency true" {
			t.Errorf("more than are kept: %s", got)
		}
		time.Sleep(25 * time.Hour)
		if got := submit(); got != `{"ReportRequestId":"4"}` {
			t.Errorf("a day later: %s", got)
		}
		if got := m.Totals(); got.Reports != 4 || got.OverLimit != 2 {
			t.Errorf("%+v", got)
		}
	})
}

func TestGoogleAdsMutates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		day := vendortest.GoogleAdsDay(10)
		g := must(vendortest.NewGoogleAds(vendortest.GoogleAdsConfig{Operations: &day}))
		a := vendors.GoogleAds()
		call := func(path, body string) vendors.Response {
			return send(g, asked{method: "POST", path: "/v25/customers/1234567890/" + path, body: body})
		}
		r := call("campaigns:mutate", `{"operations":[{"create":{"name":"x"}},{"update":{"resourceName":"customers/1/campaigns/7"}},{"remove":"customers/1/campaigns/8"}]}`)
		if want := `{"results":[{"resourceName":"customers/1234567890/campaigns/1"},{"resourceName":"customers/1/campaigns/7"},{"resourceName":"customers/1/campaigns/8"}]}`; string(r.Body) != want {
			t.Errorf("%s", r.Body)
		}
		r = call("googleAds:mutate", `{"mutateOperations":[{}],"validateOnly":true}`)
		if string(r.Body) != `{"results":[]}` {
			t.Errorf("%s", r.Body)
		}
		r = call("campaigns:mutate", `{"partialFailure":true,"operations":[{"create":{}},5]}`)
		if r.Status != 200 || !strings.Contains(string(r.Body), `"index":1`) || !strings.Contains(string(r.Body), `"code":3`) || len(a.Read(r)) != 0 {
			t.Errorf("%d %s", r.Status, r.Body)
		}
		if r = call("campaigns:mutate", `{"operations":[5]}`); r.Status != 400 {
			t.Errorf("%d %s", r.Status, r.Body)
		}
		call("googleAds:search", `{"query":"SELECT 1"}`) // one operation: 2 are left
		time.Sleep(time.Hour)
		reads(t, a, call("campaigns:mutate", `{"operations":[{},{},{}]}`), refusal{throttle.KindQuota, throttle.Host, 23 * time.Hour})
		for body, want := range map[string]string{
			`{}`: "REQUIRED_FIELD_MISSING", `{"operations":[` + strings.Repeat("{},", 10) + `{}]}`: "TOO_MANY_MUTATE_OPERATIONS",
			`{"operations":[` + strings.Repeat("{},", 10_000) + `{}]}`: "TOO_MANY_MUTATE_OPERATIONS", `[`: "UNKNOWN",
		} {
			if r := call("campaigns:mutate", body); r.Status != 400 || !strings.Contains(string(r.Body), want) || len(a.Read(r)) != 0 {
				t.Errorf("%d %s, want %s", r.Status, r.Body, want)
			}
		}
		if got := g.Totals().Operations; got.Used != 8 {
			t.Errorf("%+v", got)
		}
	})
}
