package vendortest

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// GitHubConfig configures a [GitHub]. The zero config has the limits that GitHub
// documents for a user's token. A limit that a test does not want is one of a
// large Burst.
type GitHubConfig struct {
	// The primary limits, of each token and resource. nil: 5,000 calls per hour of
	// Core, 30 per minute of Search, 10 of CodeSearch, 5,000 points per hour of
	// GraphQL, and 60 calls per hour for each address that sends no token. Those are
	// Lenient, as GitHub is. One of your own that is not enforces its Pause, 15 s unless
	// set, after each window that was too small; headers tell the end of the longer of
	// the two.
	Core, Search, CodeSearch, GraphQL, Anonymous *Quota

	// The secondary limits, of each token. nil: 900 points per minute of REST calls
	// (1 for one that reads, 5 for one that writes), 2,000 of GraphQL calls (5 for a
	// mutation), and 80 calls that create content (POST) per minute and 500 per hour.
	// Where one is exceeded Secondary's pause begins, and its Rate and Burst mean
	// nothing; nil: a minute, which doubles up to an hour for calls made meanwhile.
	Points, GraphQLPoints, Content, ContentHour, Secondary *Quota

	// CPU and GraphQLCPU are how many milliseconds of its processors GitHub spends on a
	// token's calls, and on those of GraphQL among them; limits of the secondary kind,
	// too. nil: 90 s and 60 s per minute.
	CPU, GraphQLCPU *Quota

	// CPUTime is what a call takes of that; query is "" for REST. It is called from
	// many goroutines at once. nil: none does.
	CPUTime func(r *http.Request, query string) time.Duration

	// Concurrent is how many calls of a token may run at once; 0: 100.
	Concurrent int

	// Status is that of a refusal by a primary limit of REST, 403 or 429; 0: 403.
	Status int

	// Scale multiplies the times of all limits that are nil; 0: 1. Headers have
	// whole seconds.
	Scale float64

	// MaxTokens bounds the tokens that are counted apart; 0: 100,000.
	MaxTokens int

	// Cost is how many points of GraphQL's primary limit a query costs. It is called
	// from many goroutines at once. nil: 1.
	Cost func(query string) int

	// REST answers the calls that were let in. nil: 200 and {} below the usual
	// collections, 404 elsewhere.
	REST http.Handler

	// Data is what a query finds. It is called from many goroutines at once; an
	// error is the query's. nil: nothing. What a query that has the word rateLimit
	// asks for is added.
	Data func(query string) (map[string]any, error)
}

// GitHub is a stand-in for GitHub's REST and GraphQL APIs, for tests: any path,
// POST /graphql, and GET /rate_limit, which costs nothing. Every answer has the
// headers X-RateLimit-Limit, -Remaining, -Used, -Reset and -Resource.
//
// A refusal by a primary limit is 403 or 429 with nothing remaining, from GraphQL
// 200 with an error of type RATE_LIMITED; the limit is renewed, for the calls of
// an hour that began with the first, at X-RateLimit-Reset. A refusal by a secondary
// limit is 403 with Retry-After. It refuses all calls of the token until then, and
// asks for more of those who go on: that it doubles is a model of what GitHub only
// threatens.
//
// It does not look whether a token is a good one. It is an http.Handler for
// httptest, safe for simultaneous use, and starts nothing. What it saw of a
// client's manners is in Totals.
type GitHub struct {
	cfg GitHubConfig

	core, search, codeSearch, graphQL, anonymous *Keyed
	points, graphQLPoints, content, contentHour  *Keyed
	cpu, graphQLCPU                              *Keyed
	secondary                                    *Keyed

	// mu guards what follows. Nothing is called while it is held.
	mu      sync.Mutex
	running map[string]int // calls by token, as long as there are any
	most    int
}

// GitHubTotals is what a GitHub saw, by limit, over all tokens.
type GitHubTotals struct {
	Core           Totals `json:"core"` // with those of addresses without a token
	Search         Totals `json:"search"`
	CodeSearch     Totals `json:"code_search"`
	GraphQL        Totals `json:"graphql"`
	Secondary      Totals `json:"secondary"`       // calls by all secondary limits together
	MostConcurrent int    `json:"most_concurrent"` // of one token
}

// NewGitHub returns a server without any call made to it. It returns an error that
// names the field for a quota that cannot be or a number out of range.
func NewGitHub(cfg GitHubConfig) (*GitHub, error) {
	t := newTariff(cfg.Scale, cfg.MaxTokens)
	cfg.Concurrent = cmp.Or(cfg.Concurrent, 100)
	cfg.Status = cmp.Or(cfg.Status, http.StatusForbidden)
	t.atLeast("Concurrent", cfg.Concurrent, 1)
	if cfg.Status != http.StatusForbidden && cfg.Status != http.StatusTooManyRequests {
		t.errs = append(t.errs, fmt.Errorf("vendortest: Status is %d, want 403 or 429", cfg.Status))
	}
	per := func(n int, window time.Duration) Quota {
		return Quota{Burst: n, Window: window, Round: time.Second, Lenient: true}
	}
	sliding := func(n int, window time.Duration) Quota {
		return Quota{Burst: n, Window: window, Sliding: true, Lenient: true}
	}
	g := &GitHub{
		cfg: cfg, running: make(map[string]int),
		core:          t.keyed("Core", cfg.Core, per(5000, time.Hour)),
		search:        t.keyed("Search", cfg.Search, per(30, time.Minute)),
		codeSearch:    t.keyed("CodeSearch", cfg.CodeSearch, per(10, time.Minute)),
		graphQL:       t.keyed("GraphQL", cfg.GraphQL, per(5000, time.Hour)),
		anonymous:     t.keyed("Anonymous", cfg.Anonymous, per(60, time.Hour)),
		points:        t.keyed("Points", cfg.Points, sliding(900, time.Minute)),
		graphQLPoints: t.keyed("GraphQLPoints", cfg.GraphQLPoints, sliding(2000, time.Minute)),
		content:       t.keyed("Content", cfg.Content, sliding(80, time.Minute)),
		contentHour:   t.keyed("ContentHour", cfg.ContentHour, sliding(500, time.Hour)),
		cpu:           t.keyed("CPU", cfg.CPU, sliding(90_000, time.Minute)),
		graphQLCPU:    t.keyed("GraphQLCPU", cfg.GraphQLCPU, sliding(60_000, time.Minute)),
		secondary:     t.keyed("Secondary", cfg.Secondary, Quota{Pause: time.Minute, MaxPause: time.Hour}),
	}
	if err := t.err(); err != nil {
		return nil, err
	}
	if g.cfg.REST == nil {
		g.cfg.REST = http.HandlerFunc(g.rest)
	}
	return g, nil
}

// Totals returns the counts so far.
func (g *GitHub) Totals() GitHubTotals {
	t := GitHubTotals{
		Core: g.core.Totals(), Search: g.search.Totals(), CodeSearch: g.codeSearch.Totals(),
		GraphQL: g.graphQL.Totals(), Secondary: g.secondary.Totals(),
	}
	t.Core.add(g.anonymous.Totals())
	g.mu.Lock()
	defer g.mu.Unlock()
	t.MostConcurrent = g.most
	return t
}

// ServeHTTP implements http.Handler.
func (g *GitHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := g.read(w, r)
	if r.URL.Path == "/rate_limit" {
		g.status(w, c)
		return
	}
	room := g.enter(c.token)
	defer g.leave(c.token)
	if v := g.judge(c, g.affords(c, r) && room); !v.Accepted {
		g.refuse(w, c, v)
		return
	}
	v := c.primary.AdmitN(c.token, c.at, c.cost)
	used := g.headers(w, c)
	if !v.Accepted {
		g.exceeded(w, c)
		return
	}
	if c.query == nil {
		g.cfg.REST.ServeHTTP(w, r)
		return
	}
	g.answer(w, c, used)
}

// judge asks the secondary limits. All are asked, whatever one says: a call that
// is refused has been made.
func (g *GitHub) judge(c *gitHubCall, room bool) Verdict {
	ok := room
	if c.query != nil {
		ok = g.graphQLPoints.AdmitN(c.token, c.at, c.points).Accepted && ok
	} else {
		ok = g.points.AdmitN(c.token, c.at, c.points).Accepted && ok
		if c.creates {
			ok = g.content.Admit(c.token, c.at).Accepted && ok
			ok = g.contentHour.Admit(c.token, c.at).Accepted && ok
		}
	}
	if !ok {
		return g.secondary.Refuse(c.token, c.at)
	}
	return g.secondary.AdmitN(c.token, c.at, 0)
}

// affords asks the limits of time.
func (g *GitHub) affords(c *gitHubCall, r *http.Request) bool {
	if g.cfg.CPUTime == nil {
		return true
	}
	query := ""
	if c.query != nil {
		query = *c.query
	}
	n := int(max(0, g.cfg.CPUTime(r, query)).Milliseconds())
	ok := g.cpu.AdmitN(c.token, c.at, n).Accepted
	if c.query != nil {
		ok = g.graphQLCPU.AdmitN(c.token, c.at, n).Accepted && ok
	}
	return ok
}

// enter counts a call as running, and reports whether it may.
func (g *GitHub) enter(token string) bool {
	token = short(token)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running[token]++
	g.most = max(g.most, g.running[token])
	return g.running[token] <= g.cfg.Concurrent
}

func (g *GitHub) leave(token string) {
	token = short(token)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running[token]--; g.running[token] == 0 {
		delete(g.running, token)
	}
}

// rest answers REST calls by default.
func (g *GitHub) rest(w http.ResponseWriter, r *http.Request) {
	root, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch root {
	case "app", "gists", "issues", "notifications", "orgs", "repos", "search", "user", "users":
		switch r.Method {
		case http.MethodGet, http.MethodHead, http.MethodPatch, http.MethodPut:
			reply(w, http.StatusOK, struct{}{})
			return
		case http.MethodPost:
			reply(w, http.StatusCreated, struct{}{})
			return
		case http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
	reply(w, http.StatusNotFound, gitHubError("Not Found", "https://docs.github.com/rest"))
}
