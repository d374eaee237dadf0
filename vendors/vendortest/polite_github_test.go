package vendortest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/throttle"
	"github.com/flyball-go/flyball/vendors"
	"github.com/flyball-go/flyball/vendors/vendortest"
)

func gitHubRun(g *vendortest.GitHub) *politeRun {
	return &politeRun{
		adapter: vendors.GitHub(), handler: g, workers: 100,
		limits: []governor.Limit{
			{Per: throttle.Bucket, Quota: vendors.GitHubPrimary()},
			{Per: throttle.Host, Unit: "points", Quota: vendors.GitHubPoints()},
		},
		next: func(_, i int) asked { // one call in ten writes
			in := asked{method: "GET", path: "/repos/o/r/issues/7", header: map[string]string{"Authorization": "Bearer t"}}
			if i%10 == 0 {
				in.method, in.ask.Cost = "PATCH", 5
			}
			return in
		},
		totals: func() map[string]vendortest.Totals {
			return map[string]vendortest.Totals{"primary": g.Totals().Core, "secondary": g.Totals().Secondary}
		},
	}
}

// gitHubQueries asks queries that may cost ten points. What they did they say.
func gitHubQueries(g *vendortest.GitHub) *politeRun {
	return &politeRun{
		adapter: vendors.GitHub(), handler: g, workers: 100,
		limits: []governor.Limit{
			{Per: throttle.Bucket, Unit: "points", Quota: vendors.GitHubPrimary()},
			{Per: throttle.Bucket, Quota: vendors.GitHubGraphQLPoints()}, // of queries, which cost one each
		},
		next: func(_, i int) asked {
			return asked{
				method: "POST", path: "/graphql", header: map[string]string{"Authorization": "Bearer t"},
				body: fmt.Sprintf(`{"query":"{ rateLimit { cost } } # %d"}`, 1+i%10), ask: governor.Ask{Cost: 10},
			}
		},
		totals: func() map[string]vendortest.Totals {
			return map[string]vendortest.Totals{"primary": g.Totals().GraphQL, "secondary": g.Totals().Secondary}
		},
	}
}

// gitHubCost is what the queries of the runs cost: the number that they end with.
func gitHubCost(query string) (cost int) {
	_, number, _ := strings.Cut(query, "#")
	_, _ = fmt.Sscan(number, &cost)
	return cost
}

func TestGovernedQueriesArePoliteToGitHub(t *testing.T) {
	part := 10 // as for its calls
	if !effort.Usual() {
		part = 1
	}
	window := time.Hour / time.Duration(part)
	g := must(vendortest.NewGitHub(vendortest.GitHubConfig{
		Cost: gitHubCost, GraphQL: &vendortest.Quota{Burst: 5000 / part, Window: window, Round: time.Second, Lenient: true},
	}))
	p := gitHubQueries(g)
	p.limits[0].Quota.Limit /= part
	p.limits[0].Quota.Per /= time.Duration(part)
	p.virtually(t, 2*window, func() {
		p.polite(t)
		p.neverRefused(t)
		goodput(t, "points", g.Totals().GraphQL.Used, 2*5000/part)
	})
}

func TestGovernedClientsArePoliteToGitHub(t *testing.T) {
	// The documented hour has 5000 calls. A part of both shows the same.
	part := 10
	if !effort.Usual() {
		part = 1
	}
	window := time.Hour / time.Duration(part)
	g := must(vendortest.NewGitHub(vendortest.GitHubConfig{
		REST: slow(), Core: &vendortest.Quota{Burst: 5000 / part, Window: window, Round: time.Second, Lenient: true},
	}))
	p := gitHubRun(g)
	primary := vendors.GitHubPrimary()
	primary.Limit /= part
	primary.Per /= time.Duration(part)
	p.limits[0].Quota = primary
	p.virtually(t, 2*window, func() {
		p.polite(t)
		goodput(t, "calls", g.Totals().Core.Used, 2*5000/part)
		if most := g.Totals().MostConcurrent; most > 100 || most < 50 {
			t.Errorf("%d calls at once, want up to 100", most)
		}
	})
}
