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

// Peek implements Peeker.
func (a *api) Peek(r *http.Response) int {
	if a.peek == nil || !strings.Contains(r.Header.Get("Content-Type"), "json") {
		return 0
	}
	path := ""
	if r.Request != nil && r.Request.URL != nil {
		path = r.Request.URL.Path
	}
	if !a.peek(path, r.Header) {
		return 0
	}
	return peekable
}

// peekable is what can be asked for.
const peekable = 64 << 10

// always is for APIs of which any call may be answered with 200 and an error.
func always(string, http.Header) bool { return true }

// gitHubGraphQL are the answers that have errors of their own.
func gitHubGraphQL(path string, h http.Header) bool {
	return h.Get("X-Ratelimit-Resource") == "graphql" || strings.HasSuffix(path, "/graphql")
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

// metaBatched are the answers to what is sent to the root.
func metaBatched(path string, _ http.Header) bool {
	return strings.Count(strings.Trim(path, "/"), "/") == 0
}

// graphBatched are the answers to batches.
func graphBatched(path string, _ http.Header) bool { return strings.HasSuffix(path, "/$batch") }

// redditAction are the answers to what a user does.
func redditAction(path string, _ http.Header) bool { return strings.HasPrefix(path, "/api/") }

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
