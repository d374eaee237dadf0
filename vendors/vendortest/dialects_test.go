package vendortest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/throttle"
	"github.com/flyball-go/flyball/vendors"
	"github.com/flyball-go/flyball/vendors/vendortest"
)

// send makes one call to a handler and returns the answer as adapters read it.
func send(h http.Handler, in asked) vendors.Response {
	r := httptest.NewRequest(in.method, in.path, strings.NewReader(in.body))
	for k, v := range in.header {
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return vendors.Response{Status: w.Code, Header: w.Header(), Body: w.Body.Bytes(), At: time.Now()}
}

// refusal is what an adapter is to read from an answer.
type refusal struct {
	kind  throttle.Kind
	level throttle.Level
	delay time.Duration
}

func reads(t *testing.T, a vendors.Adapter, r vendors.Response, want ...refusal) {
	t.Helper()
	var got []refusal
	for _, s := range a.Read(r) {
		got = append(got, refusal{s.Kind, s.Scope.Level, s.Delay})
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("status %d %s\n%s\nreads %v, want %v", r.Status, r.Header, r.Body, got, want)
	}
}

func TestGitHubSpeaksAsItsAdapterHears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(vendortest.NewGitHub(vendortest.GitHubConfig{
			Core:    &vendortest.Quota{Burst: 3, Window: time.Hour, Round: time.Second, Lenient: true},
			GraphQL: &vendortest.Quota{Burst: 10, Window: time.Hour, Round: time.Second, Lenient: true},
			Status:  429, Cost: func(q string) int { return len(q) / 10 },
			Data: func(q string) (map[string]any, error) {
				if strings.Contains(q, "bad") {
					return nil, errors.New("Field 'bad' doesn't exist")
				}
				return map[string]any{"viewer": "me"}, nil
			},
		}))
		a := vendors.GitHub()
		auth := map[string]string{"Authorization": "Bearer t"}
		get := asked{method: "GET", path: "/user", header: auth}
		for left := 2; left >= 0; left-- {
			r := send(g, get)
			reads(t, a, r)
			q := a.Learn(r)
			if len(q) != 1 || q[0].Name != "core" || q[0].Remaining != int64(left) || q[0].Limit != 3 || time.Until(q[0].Reset) != time.Hour {
				t.Errorf("learnt %+v", q)
			}
		}
		r := send(g, get)
		if r.Status != 429 {
			t.Errorf("status %d", r.Status)
		}
		reads(t, a, r, refusal{throttle.KindQuota, throttle.Bucket, time.Hour})
		// Another token, and another resource, are not concerned.
		reads(t, a, send(g, asked{method: "GET", path: "/user", header: map[string]string{"Authorization": "Bearer u"}}))
		reads(t, a, send(g, asked{method: "GET", path: "/search/issues", header: auth}))

		query := func(q string) vendors.Response {
			body, _ := json.Marshal(map[string]string{"query": q})
			return send(g, asked{method: "POST", path: "/graphql", header: auth, body: string(body)})
		}
		r = query("{ viewer rateLimit { cost } } #" + strings.Repeat(".", 30))
		if q := a.Learn(r); len(q) != 1 || q[0].Name != "graphql" || q[0].Cost != 6 || q[0].Remaining != 4 || q[0].Unit != "points" || !strings.Contains(string(r.Body), `"viewer":"me"`) {
			t.Errorf("learnt %+v from %s", q, r.Body)
		}
		if r = query("{ bad }"); r.Status != 200 || len(a.Read(r)) != 0 {
			t.Errorf("%d %s", r.Status, r.Body)
		}
		r = query(strings.Repeat(".", 50))
		if r.Status != 200 {
			t.Errorf("status %d", r.Status)
		}
		reads(t, a, r, refusal{throttle.KindQuota, throttle.Bucket, time.Hour})

		time.Sleep(time.Hour)
		if r := send(g, get); r.Status != 200 {
			t.Errorf("after the reset: %d", r.Status)
		}
		if r := send(g, asked{method: "GET", path: "/rate_limit", header: auth}); !strings.Contains(string(r.Body), `"core":{"limit":3,"remaining":2`) {
			t.Errorf("%s", r.Body)
		}
	})
}

// A primary limit that enforces its pauses tells when they end, also where its window is
// over before: who comes back then is let in, and was never late.
func TestGitHubTellsTheEndOfAnEnforcedPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(vendortest.NewGitHub(vendortest.GitHubConfig{Core: &vendortest.Quota{Burst: 2, Window: 3 * time.Second, Pause: 15 * time.Second}}))
		get := asked{method: "GET", path: "/user", header: map[string]string{"Authorization": "Bearer t"}}
		send(g, get)
		send(g, get)
		reads(t, vendors.GitHub(), send(g, get), refusal{throttle.KindQuota, throttle.Bucket, 15 * time.Second})
		time.Sleep(500 * time.Millisecond) // it was on its way
		reads(t, vendors.GitHub(), send(g, get), refusal{throttle.KindQuota, throttle.Bucket, 14500 * time.Millisecond})
		time.Sleep(14500 * time.Millisecond)
		if r := send(g, get); r.Status != 200 || r.Header.Get("X-RateLimit-Remaining") != "1" {
			t.Errorf("after the pause: %d %v", r.Status, r.Header)
		}
		if c := g.Totals().Core; c.Late != 0 || c.Escalations != 0 || c.Accepted != 3 {
			t.Errorf("%+v", c)
		}
	})
}

func TestGitHubsSecondaryLimits(t *testing.T) {
	auth := map[string]string{"Authorization": "Bearer t"}
	for name, tc := range map[string]struct {
		in    asked
		calls int // that are let in
	}{
		"points of reads":    {asked{method: "GET", path: "/user"}, 900},
		"points of writes":   {asked{method: "PATCH", path: "/user"}, 180},
		"points of queries":  {asked{method: "POST", path: "/graphql", body: `{"query":"{ viewer }"}`}, 2000},
		"points of changes":  {asked{method: "POST", path: "/graphql", body: `{"query":" mutation { x }"}`}, 400},
		"content per minute": {asked{method: "POST", path: "/repos/o/r/issues"}, 80},
		"time of reads":      {asked{method: "GET", path: "/slow"}, 45},
		"time of queries":    {asked{method: "POST", path: "/graphql", body: `{"query":"{ slow }"}`}, 30},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := must(vendortest.NewGitHub(vendortest.GitHubConfig{
				REST: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
				CPUTime: func(r *http.Request, query string) time.Duration {
					if r.URL.Path == "/slow" || strings.Contains(query, "slow") {
						return 2 * time.Second
					}
					return 0
				},
			}))
			tc.in.header = auth
			for i := range tc.calls {
				if r := send(g, tc.in); r.Status >= 300 {
					t.Fatalf("%s: call %d: %d %s", name, i, r.Status, r.Body)
				}
			}
			for _, want := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute} {
				reads(t, vendors.GitHub(), send(g, tc.in), refusal{throttle.KindBurst, throttle.Host, want})
				time.Sleep(2 * time.Second) // ignored: the next one asks for twice as much
			}
			if got := g.Totals().Secondary; got.Escalations != 2 || got.Late != 2 {
				t.Errorf("%s: %+v", name, got)
			}
			time.Sleep(4 * time.Minute)
			if r := send(g, asked{method: "GET", path: "/user", header: auth}); r.Status != 200 {
				t.Errorf("%s: after the pause: %d", name, r.Status)
			}
		})
	}
	// The time of queries is of the time of all calls.
	synctest.Test(t, func(t *testing.T) {
		g := must(vendortest.NewGitHub(vendortest.GitHubConfig{
			CPUTime: func(*http.Request, string) time.Duration { return 50 * time.Second },
		}))
		if r := send(g, asked{method: "POST", path: "/graphql", body: `{"query":"{ viewer }"}`, header: auth}); r.Status != 200 {
			t.Errorf("50 s of 60: %d", r.Status)
		}
		reads(t, vendors.GitHub(), send(g, asked{method: "GET", path: "/user", header: auth}), refusal{throttle.KindBurst, throttle.Host, time.Minute})
	})
	// 500 pieces of content in an hour, 80 in none of its minutes.
	synctest.Test(t, func(t *testing.T) {
		g := must(vendortest.NewGitHub(vendortest.GitHubConfig{}))
		for i := range 501 {
			r := send(g, asked{method: "POST", path: "/repos/o/r/issues", header: auth})
			if limited := r.Status == 403; limited != (i == 500) {
				t.Fatalf("call %d: %d", i, r.Status)
			}
			time.Sleep(time.Second)
		}
	})
	// One call more at once than 100.
	synctest.Test(t, func(t *testing.T) {
		g := must(vendortest.NewGitHub(vendortest.GitHubConfig{REST: slow()}))
		for range 100 {
			go send(g, asked{method: "GET", path: "/user", header: auth})
		}
		synctest.Wait()
		reads(t, vendors.GitHub(), send(g, asked{method: "GET", path: "/user", header: auth}), refusal{throttle.KindBurst, throttle.Host, time.Minute})
		if got := g.Totals().MostConcurrent; got != 101 {
			t.Errorf("%d at once", got)
		}
		time.Sleep(time.Second)
	})
}

func TestGitHubWithoutATokenHasSixtyCalls(t *testing.T) {
	g := must(vendortest.NewGitHub(vendortest.GitHubConfig{}))
	for i := range 61 {
		if r := send(g, asked{method: "GET", path: "/users/x"}); (r.Status == 403) != (i == 60) {
			t.Fatalf("call %d: %d", i, r.Status)
		}
	}
}

func TestOpenAISpeaksAsItsAdapterHears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := must(vendortest.NewOpenAI(vendortest.OpenAIConfig{
			Requests: &vendortest.Quota{Rate: 3.0 / 60, Burst: 3, Lenient: true, Counted: true},
			Tokens:   &vendortest.Quota{Rate: 1000.0 / 60, Burst: 1000, Lenient: true}, Budget: 2500, Models: []string{"gpt", "mini"},
		}))
		a := vendors.OpenAI()
		ask := func(model string, tokens int) vendors.Response {
			return send(o, asked{method: "POST", path: "/v1/chat/completions", header: map[string]string{"Authorization": "Bearer k"},
				body: fmt.Sprintf(`{"model":%q,"max_tokens":%d,"messages":[{"role":"user","content":"hi"}]}`, model, tokens)})
		}
		r := ask("gpt", 400)
		reads(t, a, r)
		if q := a.Learn(r); len(q) != 2 || q[0].Limit != 3 || q[0].Remaining != 2 || q[0].Reset.Sub(r.At) != 20*time.Second ||
			q[1].Unit != "tokens" || q[1].Remaining != 600 || q[1].Reset.Sub(r.At) != 24*time.Second {
			t.Errorf("learnt %+v", q)
		}
		if h := r.Header.Get("X-Ratelimit-Reset-Requests"); h != "20s" {
			t.Errorf("reset %q", h)
		}
		// 300 of 900 tokens are missing.
		reads(t, a, ask("gpt", 900), refusal{throttle.KindBurst, throttle.Bucket, 18 * time.Second})
		reads(t, a, ask("mini", 900)) // each model for itself
		reads(t, a, ask("gpt", 10))
		// Three requests: the next comes in 20 s, and counts, so that it is 40 s then.
		reads(t, a, ask("gpt", 10), refusal{throttle.KindBurst, throttle.Bucket, 40 * time.Second})
		time.Sleep(2 * time.Minute)
		r = ask("gpt", 1001)
		reads(t, a, r) // no time makes it fit
		if r.Status != 429 || !strings.Contains(string(r.Body), "Request too large") {
			t.Errorf("%d %s", r.Status, r.Body)
		}
		reads(t, a, ask("gpt", 1000))
		time.Sleep(time.Minute)
		r = ask("mini", 500) // 2,310 of 2,500 are spent
		reads(t, a, r)
		if r.Status != 429 || !strings.Contains(string(r.Body), "insufficient_quota") {
			t.Errorf("%d %s", r.Status, r.Body)
		}
		if q := a.Learn(ask("mini", 190)); len(q) != 2 || q[1].Remaining != 810 {
			t.Errorf("what could not be paid counts: %+v", q)
		}
	})
}

func TestShopifySpeaksAsItsAdaptersHear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := must(vendortest.NewShopify(vendortest.ShopifyConfig{Cost: shopifyCost, Data: func(q string) (any, error) {
			if strings.HasSuffix(q, "bad") {
				return nil, errors.New("Field 'bad' doesn't exist on type 'QueryRoot'")
			}
			return map[string]string{"shop": "x"}, nil
		}}))
		a := vendors.ShopifyREST()
		get := asked{method: "GET", path: "/admin/api/2026-10/orders.json", header: shopifyApp}
		for i := range 40 {
			r := send(s, get)
			if q := a.Learn(r); len(q) != 1 || q[0].Limit != 40 || q[0].Remaining != int64(39-i) {
				t.Fatalf("learnt %+v", q)
			}
		}
		r := send(s, get)
		if h := r.Header.Get("Retry-After"); h != "2.0" {
			t.Errorf("Retry-After %q", h)
		}
		reads(t, a, r, refusal{throttle.KindBurst, throttle.Tenant, 2 * time.Second})

		a = vendors.ShopifyGraphQL()
		query := func(q string) vendors.Response {
			return send(s, asked{method: "POST", path: "/admin/api/2026-10/graphql.json", header: shopifyApp, body: `{"query":"` + q + `"}`})
		}
		r = query("900 100")
		reads(t, a, r)
		if q := a.Learn(r); len(q) != 1 || q[0].Cost != 100 || q[0].Remaining != 900 || q[0].Limit != 1000 || q[0].Unit != "points" || q[0].Window != 10*time.Second {
			t.Errorf("learnt %+v from %s", q, r.Body)
		}
		query("800 800")
		r = query("600 1") // 100 are left
		if r.Status != 200 {
			t.Errorf("status %d", r.Status)
		}
		reads(t, a, r, refusal{throttle.KindBurst, throttle.Tenant, 5 * time.Second})
		time.Sleep(5 * time.Second)
		reads(t, a, query("600 1"))
		if r := query("1001 1"); len(a.Read(r)) != 0 || !strings.Contains(string(r.Body), "MAX_COST_EXCEEDED") {
			t.Errorf("%s", r.Body)
		}
		if r := query("1 1 bad"); len(a.Read(r)) != 0 || !strings.Contains(string(r.Body), "doesn't exist") {
			t.Errorf("%s", r.Body)
		}
	})
}
