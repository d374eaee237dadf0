package vendortest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/vendors/vendortest"
)

// servers are all of them, with the credentials that they want, a path that there
// is, and one that there is not.
func servers() map[string]struct {
	h               http.Handler
	header          map[string]string
	known, unknown  string
	fault           string // in the answer to the unknown one
	methodsAnswered bool   // whatever the method
} {
	type server = struct {
		h               http.Handler
		header          map[string]string
		known, unknown  string
		fault           string
		methodsAnswered bool
	}
	token := map[string]string{"Authorization": "Bearer t", "DeveloperToken": "d", "X-Shopify-Access-Token": "a"}
	quota := vendortest.Quota{Rate: 1e6, Burst: 1e6}
	return map[string]server{
		"GoogleAds": {must(vendortest.NewGoogleAds(vendortest.GoogleAdsConfig{Project: &quota, Customer: &quota, Operations: &quota})), token,
			"/v25/customers/1234567890/googleAds:search", "/v25/nothing", `"status":"NOT_FOUND"`, false},
		"GoogleAds mutate": {must(vendortest.NewGoogleAds(vendortest.GoogleAdsConfig{})), token,
			"/v25/customers/1234567890/campaigns:mutate", "/v25/customers/1234567890/campaigns:mutate/7", `"status":"NOT_FOUND"`, false},
		"Meta": {must(vendortest.NewMeta(vendortest.MetaConfig{App: &quota, Management: &quota, Insights: &quota, Page: &quota, Account: &quota})), token,
			"/v24.0/act_1/campaigns", "/v24.0/a//b", `"code":2500`, true},
		"Meta batch": {must(vendortest.NewMeta(vendortest.MetaConfig{App: &quota})), map[string]string{"Content-Type": "application/json"},
			"/", "/~", `"code":2500`, true},
		"MicrosoftAds": {must(vendortest.NewMicrosoftAds(vendortest.MicrosoftAdsConfig{User: &quota, Customer: &quota})), token,
			"/Reporting/v13/GenerateReport/Poll", "/Reporting/v99/x", `"Type":"AdApiFaultDetail"`, true},
		"GitHub": {must(vendortest.NewGitHub(vendortest.GitHubConfig{})), token,
			"/repos/o/r", "/nothing", `"documentation_url"`, true},
		"GitHub GraphQL": {must(vendortest.NewGitHub(vendortest.GitHubConfig{})), token,
			"/graphql", "/graphql/x", `"Not Found"`, true},
		"OpenAI": {must(vendortest.NewOpenAI(vendortest.OpenAIConfig{})), token,
			"/v1/chat/completions", "/v2/chat", `"type":"invalid_request_error"`, true},
		"Shopify": {must(vendortest.NewShopify(vendortest.ShopifyConfig{})), token,
			"/admin/api/2026-10/graphql.json", "/admin/products.json", `"errors":"Not Found"`, true},
	}
}

// Whatever comes, the vendor's own error is the answer, and never a 5xx.
func TestServersAnswerHostileCallsAsTheirVendorsDo(t *testing.T) {
	methods := []string{"GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "CONNECT", "BREW", strings.Repeat("X", 5000)}
	large := map[string]bool{"huge": true, "deep": true, "long": true} // what reads them reads them by two methods
	bodies := map[string]func() io.Reader{
		"none":    func() io.Reader { return http.NoBody },
		"garbage": func() io.Reader { return strings.NewReader("\x00\xff{]") },
		"huge":    func() io.Reader { return io.LimitReader(endless('x'), 32<<20) },
		"deep":    func() io.Reader { return strings.NewReader(strings.Repeat(`{"operations":[`, 20_000)) },
		"long": func() io.Reader {
			return io.MultiReader(strings.NewReader(`{"query":"`), io.LimitReader(endless('x'), 32<<20))
		},
		"null": func() io.Reader { return strings.NewReader("null") },
		"wrong": func() io.Reader {
			return strings.NewReader(`{"query":5,"model":[],"operations":7,"batch":{"a":1},"ReportRequestId":{}}`)
		},
		"numbers": func() io.Reader {
			return strings.NewReader(`{"model":"m","max_tokens":-9e18,"messages":null,"query":"x","pageToken":"99999999999999999999"}`)
		},
	}
	for name, s := range servers() {
		t.Run(name, func(t *testing.T) {
			for what, body := range bodies {
				methods := methods
				if large[what] {
					methods = methods[:2]
				}
				for _, method := range methods {
					for _, path := range []string{s.known, s.unknown} {
						w := serve(s.h, method, path, body(), s.header)
						if w.Code >= 500 || w.Code < 200 {
							t.Errorf("%.20s %s with %s: status %d", method, path, what, w.Code)
						}
						if w.Code >= 400 && s.methodsAnswered && !json.Valid(w.Body.Bytes()) {
							t.Errorf("%.20s %s with %s: %d %.200s", method, path, what, w.Code, w.Body)
						}
					}
				}
			}
			w := serve(s.h, "POST", s.unknown, http.NoBody, s.header)
			if w.Code < 400 || !strings.Contains(w.Body.String(), s.fault) {
				t.Errorf("unknown path: %d %s, want %s", w.Code, w.Body, s.fault)
			}
			long := strings.Repeat("k", 1<<20)
			header := map[string]string{}
			for k := range s.header {
				header[k] = long
			}
			header["CustomerId"], header["Authorization"] = long, long
			if w := serve(s.h, "GET", "/"+long, http.NoBody, header); w.Code >= 500 || w.Body.Len() > 4<<20 {
				t.Errorf("long names: %d, %d bytes", w.Code, w.Body.Len())
			}
		})
	}
}

type endless byte

func (e endless) Read(p []byte) (int, error) {
	if len(p) > 0 {
		p[0] = byte(e)
	}
	for n := 1; n < len(p); n *= 2 {
		copy(p[n:], p[:n])
	}
	return len(p), nil
}

func serve(h http.Handler, method, path string, body io.Reader, header map[string]string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/", body)
	r.Method, r.URL.Path = method, path
	for k, v := range header {
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestConfigsThatCannotBeAreRefusedByTheirField(t *testing.T) {
	bad := &vendortest.Quota{Rate: -1}
	for want, make := range map[string]func() error{
		"Core":          func() error { _, err := vendortest.NewGitHub(vendortest.GitHubConfig{Core: bad}); return err },
		"Search":        func() error { _, err := vendortest.NewGitHub(vendortest.GitHubConfig{Search: bad}); return err },
		"CodeSearch":    func() error { _, err := vendortest.NewGitHub(vendortest.GitHubConfig{CodeSearch: bad}); return err },
		"GraphQL:":      func() error { _, err := vendortest.NewGitHub(vendortest.GitHubConfig{GraphQL: bad}); return err },
		"Anonymous":     func() error { _, err := vendortest.NewGitHub(vendortest.GitHubConfig{Anonymous: bad}); return err },
		"Points":        func() error { _, err := vendortest.NewGitHub(vendortest.GitHubConfig{Points: bad}); return err },
		"GraphQLPoints": func() error { _, err := vendortest.NewGitHub(vendortest.GitHubConfig{GraphQLPoints: bad}); return err },
		"Content":       func() error { _, err := vendortest.NewGitHub(vendortest.GitHubConfig{Content: bad}); return err },
		"ContentHour":   func() error { _, err := vendortest.NewGitHub(vendortest.GitHubConfig{ContentHour: bad}); return err },
		"Secondary":     func() error { _, err := vendortest.NewGitHub(vendortest.GitHubConfig{Secondary: bad}); return err },
		"Concurrent":    func() error { _, err := vendortest.NewGitHub(vendortest.GitHubConfig{Concurrent: -1}); return err },
		"Status is 500": func() error { _, err := vendortest.NewGitHub(vendortest.GitHubConfig{Status: 500}); return err },
		"Scale -1":      func() error { _, err := vendortest.NewGitHub(vendortest.GitHubConfig{Scale: -1}); return err },
		"keys -1":       func() error { _, err := vendortest.NewGitHub(vendortest.GitHubConfig{MaxTokens: -1}); return err },
		"Requests":      func() error { _, err := vendortest.NewOpenAI(vendortest.OpenAIConfig{Requests: bad}); return err },
		"Tokens":        func() error { _, err := vendortest.NewOpenAI(vendortest.OpenAIConfig{Tokens: bad}); return err },
		"Budget":        func() error { _, err := vendortest.NewOpenAI(vendortest.OpenAIConfig{Budget: -1}); return err },
		"Scale NaN":     func() error { _, err := vendortest.NewOpenAI(vendortest.OpenAIConfig{Scale: math.NaN()}); return err },
		"REST":          func() error { _, err := vendortest.NewShopify(vendortest.ShopifyConfig{REST: bad}); return err },
		"GraphQL: ":     func() error { _, err := vendortest.NewShopify(vendortest.ShopifyConfig{GraphQL: bad}); return err },
		"MaxCost":       func() error { _, err := vendortest.NewShopify(vendortest.ShopifyConfig{MaxCost: -1}); return err },
		"Scale +Inf": func() error {
			_, err := vendortest.NewShopify(vendortest.ShopifyConfig{Scale: math.Inf(1)})
			return err
		},
		"App":        func() error { _, err := vendortest.NewMeta(vendortest.MetaConfig{App: bad}); return err },
		"Management": func() error { _, err := vendortest.NewMeta(vendortest.MetaConfig{Management: bad}); return err },
		"Insights":   func() error { _, err := vendortest.NewMeta(vendortest.MetaConfig{Insights: bad}); return err },
		"Page":       func() error { _, err := vendortest.NewMeta(vendortest.MetaConfig{Page: bad}); return err },
		"Account":    func() error { _, err := vendortest.NewMeta(vendortest.MetaConfig{Account: bad}); return err },
		"Mutations":  func() error { _, err := vendortest.NewMeta(vendortest.MetaConfig{Mutations: bad}); return err },
		"User": func() error {
			_, err := vendortest.NewMicrosoftAds(vendortest.MicrosoftAdsConfig{User: bad})
			return err
		},
		"Customer": func() error {
			_, err := vendortest.NewMicrosoftAds(vendortest.MicrosoftAdsConfig{Customer: bad})
			return err
		},
		"Reports": func() error {
			_, err := vendortest.NewMicrosoftAds(vendortest.MicrosoftAdsConfig{Reports: -1})
			return err
		},
		"Preparing": func() error {
			_, err := vendortest.NewMicrosoftAds(vendortest.MicrosoftAdsConfig{Preparing: -time.Second})
			return err
		},
		"Rate -1": func() error {
			_, err := vendortest.NewGoogleAds(vendortest.GoogleAdsConfig{Operations: bad})
			return err
		},
	} {
		if err := make(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// Who invents credentials neither escapes the limits nor fills the memory.
func TestInventedCredentialsShareOneLimit(t *testing.T) {
	g := must(vendortest.NewGitHub(vendortest.GitHubConfig{MaxTokens: 10, Core: &vendortest.Quota{Burst: 5, Window: time.Hour, Lenient: true}}))
	let := 0
	for i := range 1000 {
		if w := serve(g, "GET", "/user", bytes.NewReader(nil), map[string]string{"Authorization": fmt.Sprint("Bearer ", i)}); w.Code == 200 {
			let++
		}
	}
	if let != 10+5 {
		t.Errorf("%d calls of a thousand tokens were let in, want 15", let)
	}
}

func TestScaleMakesEverythingFaster(t *testing.T) {
	o := must(vendortest.NewOpenAI(vendortest.OpenAIConfig{Scale: 0.001}))
	header := map[string]string{"Authorization": "Bearer k"}
	w := serve(o, "POST", "/v1/embeddings", strings.NewReader(`{"model":"m","input":"x","max_tokens":30000}`), header)
	if d, err := time.ParseDuration(w.Header().Get("X-Ratelimit-Reset-Tokens")); err != nil || d != 60*time.Millisecond {
		t.Errorf("a minute at a thousandth is %v", w.Header())
	}
}
