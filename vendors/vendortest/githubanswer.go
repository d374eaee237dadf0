package vendortest

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// gitHubCall is one call as GitHub's limits see it.
type gitHubCall struct {
	at       time.Time
	token    string
	resource string
	primary  *Keyed
	cost     int // of the primary limit
	points   int // of the secondary one
	creates  bool
	query    *string // of GraphQL; nil: REST
	fault    string  // of GraphQL: why the call cannot be read
}

func (g *GitHub) read(w http.ResponseWriter, r *http.Request) *gitHubCall {
	c := &gitHubCall{at: time.Now(), token: client(r, "Authorization"), resource: "core", primary: g.core, cost: 1, points: 5}
	switch path := r.URL.Path; {
	case path == "/graphql" && r.Method == http.MethodPost:
		c.readQuery(g, w, r)
		return c
	case path == "/search/code":
		c.resource, c.primary = "code_search", g.codeSearch
	case strings.HasPrefix(path, "/search/"):
		c.resource, c.primary = "search", g.search
	case r.Header.Get("Authorization") == "":
		c.primary = g.anonymous
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		c.points = 1
	case http.MethodPost:
		c.creates = true
	}
	return c
}

func (c *gitHubCall) readQuery(g *GitHub, w http.ResponseWriter, r *http.Request) {
	var in struct {
		Query string `json:"query"`
	}
	if err := decode(w, r, &in); err != nil {
		c.fault = "Problems parsing JSON"
	} else if in.Query == "" {
		c.fault = "A query attribute must be specified and must be a string."
	}
	c.resource, c.primary, c.query, c.points = "graphql", g.graphQL, &in.Query, 1
	if strings.HasPrefix(strings.TrimSpace(in.Query), "mutation") {
		c.points = 5
	}
	if g.cfg.Cost != nil && c.fault == "" {
		c.cost = max(0, g.cfg.Cost(in.Query))
	}
}

// usage is what a client is told of a limit. Until the end of a pause that is enforced
// nothing is left, though the window may be over before: who comes back when he was
// told to is not to find that he came too early.
func (c *gitHubCall) usage(k *Keyed) Usage {
	u := k.Usage(c.token, c.at)
	if u.Pause > 0 && !k.q.Lenient {
		u.Used, u.Full = max(u.Used, u.Limit), max(u.Full, u.Pause)
	}
	return u
}

// headers says what is left of the call's primary limit.
func (g *GitHub) headers(w http.ResponseWriter, c *gitHubCall) Usage {
	u := c.usage(c.primary)
	h := w.Header()
	h.Set("X-RateLimit-Limit", strconv.Itoa(u.Limit))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(max(0, u.Limit-u.Used)))
	h.Set("X-RateLimit-Used", strconv.Itoa(u.Used))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(unixSeconds(c.at.Add(u.Full)), 10))
	h.Set("X-RateLimit-Resource", c.resource)
	return u
}

type gitHubFault struct {
	Message string `json:"message"`
	URL     string `json:"documentation_url"`
}

func gitHubError(message, url string) gitHubFault { return gitHubFault{message, url} }

// exceeded refuses by the primary limit.
func (g *GitHub) exceeded(w http.ResponseWriter, c *gitHubCall) {
	const text = "API rate limit exceeded for user ID 1."
	if c.query != nil {
		reply(w, http.StatusOK, map[string]any{"errors": []any{map[string]string{"type": "RATE_LIMITED", "message": text}}})
		return
	}
	reply(w, g.cfg.Status, gitHubError(text, "https://docs.github.com/rest/overview/resources-in-the-rest-api#rate-limiting"))
}

// refuse refuses by the secondary limits.
func (g *GitHub) refuse(w http.ResponseWriter, c *gitHubCall, v Verdict) {
	g.headers(w, c)
	w.Header().Set("Retry-After", wholeSeconds(v.Delay))
	reply(w, http.StatusForbidden, gitHubError(
		"You have exceeded a secondary rate limit. Please wait a few minutes before you try again.",
		"https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"))
}

// answer answers a query.
func (g *GitHub) answer(w http.ResponseWriter, c *gitHubCall, u Usage) {
	if c.fault != "" {
		reply(w, http.StatusBadRequest, gitHubError(c.fault, "https://docs.github.com/graphql"))
		return
	}
	data := map[string]any{}
	if g.cfg.Data != nil {
		found, err := g.cfg.Data(*c.query)
		if err != nil {
			reply(w, http.StatusOK, map[string]any{"data": nil, "errors": []any{map[string]string{"type": "INVALID", "message": err.Error()}}})
			return
		}
		for k, v := range found { // not the test's own map: it may be shared
			data[k] = v
		}
	}
	if strings.Contains(*c.query, "rateLimit") {
		data["rateLimit"] = map[string]any{
			"limit": u.Limit, "cost": c.cost, "remaining": max(0, u.Limit-u.Used), "used": u.Used,
			"resetAt": time.Unix(unixSeconds(c.at.Add(u.Full)), 0).UTC().Format(time.RFC3339),
		}
	}
	reply(w, http.StatusOK, map[string]any{"data": data})
}

// status answers GET /rate_limit.
func (g *GitHub) status(w http.ResponseWriter, c *gitHubCall) {
	resources := map[string]any{}
	for name, k := range map[string]*Keyed{"core": c.primary, "search": g.search, "code_search": g.codeSearch, "graphql": g.graphQL} {
		u := c.usage(k)
		resources[name] = map[string]any{
			"limit": u.Limit, "used": u.Used, "remaining": max(0, u.Limit-u.Used), "reset": unixSeconds(c.at.Add(u.Full)),
		}
	}
	g.headers(w, c)
	reply(w, http.StatusOK, map[string]any{"resources": resources, "rate": resources["core"]})
}
