package vendors

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/throttle"
)

// A batch of which a part was done must not be sent again as it was: it would be done
// twice. Its pause is learned all the same.
func TestBatchIsRepeatedOnlyWhenNothingOfItWasDone(t *testing.T) {
	const (
		metaGood    = `{"code":200,"body":"{\"id\":\"1\"}"}`
		metaRefused = `{"code":400,"headers":[{"name":"X-Business-Use-Case-Usage","value":"{\"1\":[{\"type\":\"ads_management\",\"estimated_time_to_regain_access\":3}]}"}],"body":"{\"error\":{\"code\":80004}}"}`
		good        = `{"id":"1","status":201,"body":{}}`
		refused     = `{"id":"2","status":429,"headers":{"Retry-After":"180"}}`
		dependent   = `{"id":"3","status":424,"body":{"error":{"code":"failedDependency"}}}`
	)
	graph := func(items ...string) string {
		return `{"x":{"responses":[0]},"responses":[` + strings.Join(items, ",") + `]}`
	}
	meta := func(items ...string) string { return `[` + strings.Join(items, ",") + `]` }
	for name, c := range map[string]struct {
		adapter Adapter
		body    string
		limited bool
		noRetry bool
	}{
		"Meta, all refused":              {Meta(), meta(metaRefused, metaRefused), true, false},
		"Meta, a part":                   {Meta(), meta(metaGood, metaRefused), true, true},
		"Meta, one not answered":         {Meta(), meta("null", metaRefused), true, true},
		"Meta, another error":            {Meta(), meta(metaRefused, `{"code":400,"body":"{\"error\":{\"code\":100}}"}`), true, true},
		"Meta, none":                     {Meta(), meta(metaGood, metaGood), false, false},
		"Meta, too long to be seen all":  {Meta(), meta(metaRefused, metaGood)[:len(metaRefused)+9], true, true},
		"Meta, cut behind an item":       {Meta(), meta(metaRefused, metaGood)[:len(metaRefused)+1], true, true},
		"Graph, all refused":             {MicrosoftGraph(), graph(refused, refused), true, false},
		"Graph, with what depends":       {MicrosoftGraph(), graph(refused, dependent), true, false},
		"Graph, a part":                  {MicrosoftGraph(), graph(good, refused), true, true},
		"Graph, none":                    {MicrosoftGraph(), graph(good, dependent), false, false},
		"Graph, too long to be seen all": {MicrosoftGraph(), graph(refused, good)[:len(graph(refused))], true, true},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.adapter.Read(Response{Status: 200, Header: http.Header{}, Body: []byte(c.body), At: time.Now()})
			if len(got) == 0 && !c.limited {
				return
			}
			if len(got) != 1 || !c.limited || got[0].NoRetry != c.noRetry || got[0].Delay != 3*time.Minute || got[0].Scope.Level != throttle.Tenant {
				t.Errorf("%+v, want limited: %v, not to be repeated: %v", got, c.limited, c.noRetry)
			}
		})
	}
}

// Who reads a body beforehand makes its caller wait: only where there may be an error.
func TestGoodAnswersThatAreLookedInto(t *testing.T) {
	for _, c := range []struct {
		adapter Adapter
		method  string
		url     string
		peeks   bool
	}{
		{GitHub(), "POST", "https://api.github.com/graphql", true},
		{GitHub(), "POST", "https://github.example.com/api/graphql", true},
		{GitHub(), "GET", "https://api.github.com/repos/o/r/issues", false},
		{Meta(), "POST", "https://graph.facebook.com/", true},
		{Meta(), "POST", "https://graph.facebook.com/v24.0", true},
		{Meta(), "GET", "https://graph.facebook.com/v24.0/act_1/campaigns", false},
		{Meta(), "GET", "https://graph.facebook.com/v24.0/me?batching=1", false},
		{Meta(), "POST", "https://graph.facebook.com/v24.0/me?batch=[]", true},
		{Meta(), "POST", "https://graph.facebook.com/v24.0/act_1/?access_token=x&batch=%5B%5D", true},
		{Meta(), "POST", "https://graph.facebook.com/v24.0/act_1/campaigns", true}, // the batch may be in its form
		{MicrosoftGraph(), "POST", "https://graph.microsoft.com/v1.0/$batch", true},
		{MicrosoftGraph(), "GET", "https://graph.microsoft.com/v1.0/users", false},
		{Reddit(), "POST", "https://oauth.reddit.com/api/submit", true},
		{Reddit(), "GET", "https://oauth.reddit.com/r/golang/new", false},
		{LinkedIn(), "GET", "https://api.linkedin.com/v2/shares/1", true},
		{Slack(), "POST", "https://slack.com/api/chat.postMessage", true},
		{ShopifyGraphQL(), "POST", "https://s.myshopify.com/admin/api/2026-10/graphql.json", true},
		{ShopifyREST(), "GET", "https://s.myshopify.com/admin/api/2026-10/products.json", false},
		{TikTokAds(), "GET", "https://business-api.tiktok.com/open_api/v1.3/campaign/get/", true},
		{TikTokOpenAPI(), "GET", "https://open.tiktokapis.com/v2/user/info/", true},
		{Stripe(), "POST", "https://api.stripe.com/v1/charges", false},
		{OpenAI(), "POST", "https://api.openai.com/v1/chat/completions", false},
	} {
		at, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		for kind, want := range map[string]bool{
			"application/json; charset=utf-8": c.peeks, "application/JSON": c.peeks, "Application/Problem+Json": c.peeks,
			"text/javascript; charset=UTF-8": c.peeks, "": c.peeks,
			"text/event-stream": false, "text/html": false, "application/octet-stream": false,
		} {
			r := &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {kind}}, Request: &http.Request{Method: c.method, URL: at}}
			if n := c.adapter.Peek(r); n > 0 != want {
				t.Errorf("%s %s as %q: %d bytes, want any: %v", c.method, c.url, kind, n, want)
			}
		}
	}
	for _, r := range []*http.Response{{}, {Request: &http.Request{}}} {
		if n := Slack().Peek(r); n == 0 {
			t.Error("nothing is known, and nothing looked into")
		}
		Meta().Peek(r)
		GitHub().Peek(r)
	}
}
