package vendortest_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
	"github.com/flyball-go/flyball/vendors"
	"github.com/flyball-go/flyball/vendors/vendortest"
)

// metaRun reads campaigns of two ad accounts with ten active ads each.
func metaRun() (*politeRun, *vendortest.Meta) {
	quota := vendortest.MetaManagement(10)
	quota.Grace = grace
	m := must(vendortest.NewMeta(vendortest.MetaConfig{Management: &quota}))
	return &politeRun{
		adapter: vendors.Meta(), handler: m,
		limits: []governor.Limit{{Per: throttle.Tenant, Quota: limiter.QuotaConfig{Limit: 300 + 40*10, Per: time.Hour}}},
		next: func(caller, _ int) asked {
			account := []string{"act_1", "act_2"}[caller%2]
			return asked{method: "GET", path: "/v24.0/" + account + "/campaigns?access_token=t"}
		},
		totals: func() map[string]vendortest.Totals {
			return map[string]vendortest.Totals{"calls": m.Totals().Management}
		},
	}, m
}

// metaBatches reads the same ten at a time: each call of a batch counts.
func metaBatches() (*politeRun, *vendortest.Meta) {
	p, m := metaRun()
	p.parts = true
	p.next = func(caller, _ int) asked {
		account := []string{"act_1", "act_2"}[caller%2]
		call := fmt.Sprintf(`{"method":"GET","relative_url":"v24.0/%s/campaigns"}`, account)
		batch := "[" + call + strings.Repeat(","+call, 9) + "]"
		return asked{
			method: "POST", path: "/v24.0/", body: url.Values{"access_token": {"t"}, "batch": {batch}}.Encode(),
			header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"},
			ask:    governor.Ask{Tenant: account, Cost: 10},
		}
	}
	return p, m
}

func TestGovernedBatchesArePoliteToMeta(t *testing.T) {
	p, m := metaBatches()
	hours := effort.Times(1)
	p.virtually(t, time.Duration(hours)*time.Hour, func() {
		p.polite(t)
		p.neverRefused(t)
		goodput(t, "calls of two accounts", m.Totals().Management.Used, 2*700*hours)
	})
}

func TestGovernedClientsArePoliteToMeta(t *testing.T) {
	p, m := metaRun()
	hours := effort.Times(1)
	p.virtually(t, time.Duration(hours)*time.Hour, func() {
		p.polite(t)
		goodput(t, "calls of two accounts", m.Totals().Management.Used, 2*700*hours)
	})
}
