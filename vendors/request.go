package vendors

import (
	"net/http"
	"net/url"
	"strings"
)

// Placer is a Dialect that tells from a request whose limits it is counted under, as
// far as that is in method, host and path; "" where it is not. It is called from many
// goroutines at once and must be quick.
type Placer interface {
	Dialect
	Place(r *http.Request) (tenant, bucket string)
}

// Peeker is a Dialect that finds refusals, or costs, in the bodies of good answers:
// it says how many bytes of r's it wants to read, from what else r says; 0 for none.
// Whoever asks waits for those bytes, so that it is not to ask for a stream's.
type Peeker interface {
	Dialect
	Peek(r *http.Response) int
}

// Place is that of the Dialect, if it is a Placer.
func (a Adapter) Place(r *http.Request) (tenant, bucket string) {
	if p, ok := a.Dialect.(Placer); ok && r.URL != nil {
		return p.Place(r)
	}
	return "", ""
}

// Peek is that of the Dialect, if it is a Peeker.
func (a Adapter) Peek(r *http.Response) int {
	if p, ok := a.Dialect.(Peeker); ok {
		return p.Peek(r)
	}
	return 0
}

// Place implements Placer.
func (a *api) Place(r *http.Request) (tenant, bucket string) {
	if a.place == nil {
		return "", ""
	}
	return a.place(r.URL)
}

// Peek implements Peeker. An answer that does not say what it is may be JSON, and Meta
// calls its own text/javascript where the request does not say what it accepts.
func (a *api) Peek(r *http.Response) int {
	if a.peek == nil {
		return 0
	}
	kind := strings.ToLower(r.Header.Get("Content-Type"))
	if kind != "" && !strings.Contains(kind, "json") && !strings.Contains(kind, "javascript") || !a.peek(r) {
		return 0
	}
	return peekable
}

// peekable is what can be asked for.
const peekable = 64 << 10

// askedFor is what r answers, as far as it is known; the URL is never nil.
func askedFor(r *http.Response) (method string, u *url.URL) {
	if r.Request == nil || r.Request.URL == nil {
		return "", &url.URL{}
	}
	return r.Request.Method, r.Request.URL
}

// always is for APIs of which any call may be answered with 200 and an error.
func always(*http.Response) bool { return true }

// gitHubGraphQL are the answers that have errors of their own.
func gitHubGraphQL(r *http.Response) bool {
	_, u := askedFor(r)
	return r.Header.Get("X-Ratelimit-Resource") == "graphql" || strings.HasSuffix(u.Path, "/graphql")
}

// placeGitHub knows the resources by their paths, those of a server of one's own too.
func placeGitHub(u *url.URL) (tenant, bucket string) {
	path := strings.TrimPrefix(strings.TrimPrefix(u.Path, "/api"), "/v3")
	switch {
	case path == "/graphql":
		return "", "graphql"
	case path == "/search/code":
		return "", "code_search"
	case strings.HasPrefix(path, "/search/"):
		return "", "search"
	}
	return "", "core"
}

// metaBatched are the answers to what is sent to the root, and to what has or may have,
// in the form that it posts, a parameter batch: any path takes one.
func metaBatched(r *http.Response) bool {
	method, u := askedFor(r)
	return method == http.MethodPost || strings.Count(strings.Trim(u.Path, "/"), "/") == 0 || u.Query().Has("batch")
}

// graphBatched are the answers to batches.
func graphBatched(r *http.Response) bool {
	_, u := askedFor(r)
	return strings.HasSuffix(u.Path, "/$batch")
}

// redditAction are the answers to what a user does.
func redditAction(r *http.Response) bool {
	_, u := askedFor(r)
	return strings.HasPrefix(u.Path, "/api/")
}

// placeMeta finds an ad account.
func placeMeta(u *url.URL) (tenant, bucket string) {
	for part := range strings.SplitSeq(u.Path, "/") {
		if id, ok := strings.CutPrefix(part, "act_"); ok && allDigits(id) {
			return part, ""
		}
	}
	return "", ""
}

// Place implements Placer: the customer, of a path such as
// /v21/customers/1234567890/googleAds:search.
func (googleAds) Place(r *http.Request) (tenant, bucket string) {
	_, rest, _ := strings.Cut(r.URL.Path, "/customers/")
	id, _, _ := strings.Cut(rest, "/")
	if id, _, _ = strings.Cut(id, ":"); !allDigits(id) {
		return "", ""
	}
	return id, ""
}

// placeSlack finds the method.
func placeSlack(u *url.URL) (tenant, bucket string) {
	if method, ok := strings.CutPrefix(u.Path, "/api/"); ok && !strings.Contains(method, "/") {
		return "", method
	}
	return "", ""
}

// placeStripe finds the kind of object, such as v1/charges.
func placeStripe(u *url.URL) (tenant, bucket string) {
	path := strings.TrimPrefix(u.Path, "/")
	version, rest, _ := strings.Cut(path, "/")
	kind, _, _ := strings.Cut(rest, "/")
	return "", path[:min(len(path), len(version)+1+len(kind))]
}

// placeHost is for APIs with a host for each tenant.
func placeHost(u *url.URL) (tenant, bucket string) { return u.Host, "" }

func placeHubSpot(u *url.URL) (tenant, bucket string) {
	if strings.HasSuffix(u.Path, "/search") {
		return "", "search"
	}
	return "", ""
}

func placePath(u *url.URL) (tenant, bucket string) { return "", u.Path }

func allDigits(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "0123456789") == ""
}
