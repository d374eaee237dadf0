package vendortest

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"time"
)

// ShopifyConfig configures a [Shopify]. The zero config has the limits that are
// documented for a shop of the standard plan.
type ShopifyConfig struct {
	// REST is the leaky bucket of each app and shop, in calls. nil: 40, of which 2
	// leak per second; a refusal asks for 2 s.
	REST *Quota

	// GraphQL is the like bucket in points. nil: 1,000, of which 100 leak per second.
	GraphQL *Quota

	// Scale multiplies the times of limits that are nil; 0: 1. Headers have tenths
	// of a second.
	Scale float64

	// MaxKeys bounds the pairs of app and shop that are counted apart; 0: 100,000.
	MaxKeys int

	// MaxCost is how much a single query may ask for; 0: 1,000 points.
	MaxCost int

	// Cost is what a query costs: what it could, which is reserved, and what it did
	// in the end. It is called from many goroutines at once. nil: 10 each.
	Cost func(query string) (requested, actual int)

	// Data is what a query finds. It is called from many goroutines at once, while
	// the requested cost is reserved; an error is the query's. nil: nothing.
	Data func(query string) (any, error)

	// Handler answers the REST calls that were let in. nil: 200 and {}.
	Handler http.Handler
}

// Shopify is a stand-in for Shopify's Admin API, for tests:
//
//	POST /admin/api/{version}/graphql.json
//	any  /admin/api/{version}/{resource}.json
//
// in any version such as 2026-10. The shop is the request's host, the app its
// X-Shopify-Access-Token.
//
// REST is refused with 429 and Retry-After: 2.0; every answer says in
// X-Shopify-Shop-Api-Call-Limit how full the bucket is. A query reserves its
// requested cost and pays its actual one; every answer has both and the bucket in
// extensions.cost. One that does not fit is answered with 200 and an error THROTTLED;
// one above MaxCost with MAX_COST_EXCEEDED. Shopify does not punish who calls too
// early: it judges the call by the bucket.
//
// It is an http.Handler for httptest, safe for simultaneous use, and starts
// nothing. What it saw of a client's manners is in Totals.
type Shopify struct {
	cfg           ShopifyConfig
	rest, graphQL *Keyed
	rate          float64 // of points
}

// ShopifyTotals is what a Shopify saw, by limit, over all apps and shops.
type ShopifyTotals struct {
	REST    Totals `json:"rest"`
	GraphQL Totals `json:"graphql"`
}

// NewShopify returns a server without any call made to it. It returns an error that
// names the field for a quota that cannot be or a number out of range.
func NewShopify(cfg ShopifyConfig) (*Shopify, error) {
	t := newTariff(cfg.Scale, cfg.MaxKeys)
	t.atLeast("MaxCost", cfg.MaxCost, 0)
	cfg.MaxCost = cmp.Or(cfg.MaxCost, 1000)
	rest := Quota{Rate: 2, Burst: 40, Lenient: true, Pause: 2 * time.Second, Round: time.Second / 10}
	points := t.quota(cfg.GraphQL, Quota{Rate: 100, Burst: 1000, Lenient: true})
	s := &Shopify{cfg: cfg, rest: t.keyed("REST", cfg.REST, rest), graphQL: t.keyed("GraphQL", &points, points), rate: points.withDefaults().Rate}
	if err := t.err(); err != nil {
		return nil, err
	}
	if s.cfg.Cost == nil {
		s.cfg.Cost = func(string) (int, int) { return 10, 10 }
	}
	if s.cfg.Data == nil {
		s.cfg.Data = func(string) (any, error) { return struct{}{}, nil }
	}
	if s.cfg.Handler == nil {
		s.cfg.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, struct{}{}) })
	}
	return s, nil
}

// Totals returns the counts so far.
func (s *Shopify) Totals() ShopifyTotals { return ShopifyTotals{s.rest.Totals(), s.graphQL.Totals()} }

var shopifyPath = regexp.MustCompile(`^/admin/api/(?:[0-9]{4}-[0-9]{2}|unstable)/([a-zA-Z0-9_/-]{1,200})\.json$`)

// ServeHTTP implements http.Handler.
func (s *Shopify) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fail := func(status int, text string) { reply(w, status, map[string]string{"errors": text}) }
	path := shopifyPath.FindStringSubmatch(r.URL.Path)
	app := r.Header.Get("X-Shopify-Access-Token")
	switch {
	case path == nil:
		fail(http.StatusNotFound, "Not Found")
		return
	case app == "":
		fail(http.StatusUnauthorized, "[API] Invalid API key or access token (unrecognized login or wrong password)")
		return
	}
	key := short(short(app) + "\x00" + r.Host)
	if path[1] == "graphql" {
		if r.Method != http.MethodPost {
			fail(http.StatusMethodNotAllowed, "Method Not Allowed")
			return
		}
		s.query(w, r, key)
		return
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete:
	default:
		fail(http.StatusNotAcceptable, "Not Acceptable")
		return
	}
	now := time.Now()
	v := s.rest.Admit(key, now)
	u := s.rest.Usage(key, now)
	w.Header().Set("X-Shopify-Shop-Api-Call-Limit", fmt.Sprintf("%d/%d", min(u.Used, u.Limit), u.Limit))
	if !v.Accepted {
		w.Header().Set("Retry-After", strconv.FormatFloat(ceil(v.Delay, time.Second/10).Seconds(), 'f', 1, 64))
		fail(http.StatusTooManyRequests, "Exceeded 2 calls per second for api client. Reduce request rates to resume uninterrupted service.")
		return
	}
	s.cfg.Handler.ServeHTTP(w, r)
}

// query answers a GraphQL call.
func (s *Shopify) query(w http.ResponseWriter, r *http.Request, key string) {
	var in struct {
		Query string `json:"query"`
	}
	if err := decode(w, r, &in); err != nil || in.Query == "" {
		reply(w, http.StatusBadRequest, map[string]string{"errors": "Required parameter missing or invalid"})
		return
	}
	requested, actual := s.cfg.Cost(in.Query)
	requested = max(0, requested)
	actual = max(0, min(actual, requested))
	if requested > s.cfg.MaxCost {
		s.answer(w, key, nil, requested, nil, "MAX_COST_EXCEEDED",
			fmt.Sprintf("Query cost is %d, which exceeds the single query max cost limit (%d).", requested, s.cfg.MaxCost))
		return
	}
	if v := s.graphQL.AdmitN(key, time.Now(), requested); !v.Accepted {
		s.answer(w, key, nil, requested, nil, "THROTTLED", "Throttled")
		return
	}
	data, err := s.cfg.Data(in.Query)
	s.graphQL.Refund(key, time.Now(), requested-actual)
	if err != nil {
		s.answer(w, key, nil, requested, &actual, "", err.Error())
		return
	}
	s.answer(w, key, data, requested, &actual, "", "")
}

func (s *Shopify) answer(w http.ResponseWriter, key string, data any, requested int, actual *int, code, message string) {
	u := s.graphQL.Usage(key, time.Now())
	out := map[string]any{"extensions": map[string]any{"cost": map[string]any{
		"requestedQueryCost": requested, "actualQueryCost": actual,
		"throttleStatus": map[string]any{"maximumAvailable": u.Limit, "currentlyAvailable": max(0, u.Limit-u.Used), "restoreRate": s.rate},
	}}}
	if message == "" {
		out["data"] = data
		reply(w, http.StatusOK, out)
		return
	}
	e := map[string]any{"message": message}
	if code != "" {
		e["extensions"] = map[string]string{"code": code, "documentation": "https://shopify.dev/api/usage/limits"}
	}
	out["errors"] = []any{e}
	reply(w, http.StatusOK, out)
}
