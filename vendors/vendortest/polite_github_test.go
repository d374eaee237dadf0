package vendortest_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
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

func gitHubTotals(g *vendortest.GitHub) func() map[string]vendortest.Totals {
	return func() map[string]vendortest.Totals {
		got := g.Totals()
		return map[string]vendortest.Totals{"core": got.Core, "graphql": got.GraphQL, "secondary": got.Secondary}
	}
}

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
		totals: gitHubTotals(g),
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
		totals: gitHubTotals(g),
	}
}

// gitHubCost is what the queries of the runs cost: the number that they end with.
func gitHubCost(query string) (cost int) {
	_, number, _ := strings.Cut(query, "#")
	_, _ = fmt.Sscan(number, &cost)
	return cost
}

// gitHubMutations asks queries of which every second changes something.
func gitHubMutations(g *vendortest.GitHub) *politeRun {
	p := gitHubQueries(g)
	p.limits = []governor.Limit{
		{Per: throttle.Bucket, Quota: vendors.GitHubPrimary()}, // of either, which cost one each
		{Per: throttle.Bucket, Unit: "points", Quota: vendors.GitHubGraphQLPoints()},
	}
	query := p.next
	p.next = func(caller, i int) asked {
		in := query(caller, i)
		in.body, in.ask.Cost = `{"query":"query { viewer { login } }"}`, 1
		if i%2 == 0 {
			in.body, in.ask.Cost = `{"query":"mutation { addStar }"}`, 5
		}
		return in
	}
	return p
}

// gitHubCreations opens issues.
func gitHubCreations(g *vendortest.GitHub) *politeRun {
	p := gitHubRun(g)
	p.limits = append(p.limits,
		governor.Limit{Per: throttle.Host, Quota: vendors.GitHubContent()},
		governor.Limit{Per: throttle.Host, Quota: vendors.GitHubContentHour()},
	)
	call := p.next
	p.next = func(caller, i int) asked {
		in := call(caller, i)
		in.method, in.path, in.ask.Cost = "POST", "/repos/o/r/issues", 5
		return in
	}
	return p
}

// gitHubWork makes calls, by REST or by GraphQL, that take GitHub's processors as many
// milliseconds as the caller expects, who knows how many it grants per minute.
func gitHubWork(perMinute int, call func(ms int) asked) func(*vendortest.GitHub) *politeRun {
	return func(g *vendortest.GitHub) *politeRun {
		p := gitHubRun(g)
		p.limits[1].Unit = "" // reads cost one point each
		work := limiter.QuotaConfig{Limit: perMinute, Per: time.Minute}
		p.limits = append(p.limits, governor.Limit{Per: throttle.Host, Unit: "milliseconds", Quota: work})
		header := p.next(0, 1).header
		p.next = func(_, i int) asked {
			ms := 150 + i%101
			in := call(ms)
			in.header, in.ask.Cost = header, ms
			return in
		}
		return p
	}
}

// gitHubAtOnce reads, by REST and by GraphQL, from more workers than GitHub lets in at
// once of both together.
func gitHubAtOnce(g *vendortest.GitHub) *politeRun {
	p := gitHubRun(g)
	p.workers = callers
	p.limits = []governor.Limit{{Per: throttle.Host, Limiter: must(limiter.NewConcurrency(vendors.GitHubConcurrency()))}}
	call := p.next
	p.next = func(_, i int) asked {
		in := call(0, 1)
		if i%2 == 0 {
			in.method, in.path, in.body = "POST", "/graphql", `{"query":"{ viewer { login } }"}`
		}
		return in
	}
	return p
}

// gitHubSeldom makes calls all the time, and now and then a query, which has to hear of
// what the calls were told.
func gitHubSeldom(g *vendortest.GitHub) *politeRun {
	p := gitHubRun(g)
	call := p.next
	p.job = func(caller, i int, send func(asked) ([]byte, error)) error {
		in := call(caller, i)
		if caller%20 == 0 {
			time.Sleep(time.Duration(500+rand.IntN(1000)) * time.Millisecond)
			in.method, in.path, in.body = "POST", "/graphql", `{"query":"{ viewer { login } }"}`
		}
		_, err := send(in)
		return err
	}
	return p
}

// The secondary limits of which calls use up a part each, and each where it is met
// first. The primary limits are as documented, too.
func TestGovernedClientsArePoliteToTheSecondaryLimitsOfGitHub(t *testing.T) {
	points := func(what string) int {
		if strings.HasPrefix(what, "PATCH") || strings.HasPrefix(what, "mutation") {
			return 5
		}
		return 1
	}
	creations := func(string) int { return 1 }
	issues := func(ms int) asked { return asked{method: "GET", path: fmt.Sprintf("/repos/o/r/issues?q=%%23%d", ms)} }
	query := func(ms int) asked {
		return asked{method: "POST", path: "/graphql", body: fmt.Sprintf(`{"query":"{ viewer { login } } # %d"}`, ms)}
	}
	for name, limit := range map[string]struct {
		run     func(*vendortest.GitHub) *politeRun
		takes   func(what string) int // of the limit: a method with its parameter q, or a query
		works   bool                  // takes that many milliseconds, too
		minutes int
		quota   int // of all these minutes
	}{
		"points":                {run: gitHubRun, takes: points, minutes: 3, quota: 3 * 900},
		"points of GraphQL":     {run: gitHubMutations, takes: points, minutes: 3, quota: 3 * 2000},
		"creations":             {run: gitHubCreations, takes: creations, minutes: 6, quota: 6 * 80},
		"creations of an hour":  {run: gitHubCreations, takes: creations, minutes: 120, quota: 2 * 500},
		"processors":            {run: gitHubWork(90_000, issues), takes: gitHubCost, works: true, minutes: 3, quota: 3 * 90_000},
		"processors of GraphQL": {run: gitHubWork(60_000, query), takes: gitHubCost, works: true, minutes: 3, quota: 3 * 60_000},
	} {
		t.Run(name, func(t *testing.T) {
			var used atomic.Int64 // by calls that were let in
			what := func(r *http.Request) string { return r.Method + " " + r.URL.Query().Get("q") }
			cfg := vendortest.GitHubConfig{
				REST: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					used.Add(int64(limit.takes(what(r))))
					slow().ServeHTTP(w, r)
				}),
				Data: func(query string) (map[string]any, error) {
					used.Add(int64(limit.takes(query)))
					return nil, nil
				},
			}
			if limit.works {
				cfg.CPUTime = func(r *http.Request, query string) time.Duration {
					return time.Duration(limit.takes(cmp.Or(query, what(r)))) * time.Millisecond
				}
			}
			p := limit.run(must(vendortest.NewGitHub(cfg)))
			p.virtually(t, time.Duration(limit.minutes)*time.Minute, func() {
				p.polite(t)
				p.neverRefused(t)
				goodput(t, name, used.Load(), limit.quota)
			})
		})
	}
}

// All of a hundred calls at once are made use of, by twice as many callers.
func TestGovernedClientsArePoliteToTheConcurrencyLimitOfGitHub(t *testing.T) {
	many := vendortest.Quota{Burst: 1_000_000, Window: time.Hour, Lenient: true}
	var took atomic.Int64
	work := func() {
		d := time.Duration(1000+rand.IntN(3000)) * time.Millisecond // so long that the way there counts little
		time.Sleep(d)
		took.Add(d.Milliseconds())
	}
	g := must(vendortest.NewGitHub(vendortest.GitHubConfig{
		Core: &many, Points: &many, GraphQL: &many, GraphQLPoints: &many,
		REST: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { work() }),
		Data: func(string) (map[string]any, error) { work(); return nil, nil },
	}))
	p := gitHubAtOnce(g)
	minutes := effort.Times(2)
	p.virtually(t, time.Duration(minutes)*time.Minute, func() {
		p.polite(t)
		p.neverRefused(t)
		goodput(t, "milliseconds of calls", took.Load(), 100*60_000*minutes)
		if most := g.Totals().MostConcurrent; most != 100 {
			t.Errorf("%d calls at once, want 100", most)
		}
	})
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
