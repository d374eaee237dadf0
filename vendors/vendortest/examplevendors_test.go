package vendortest_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"time"

	"github.com/flyball-go/flyball/vendors/vendortest"
)

// fetch makes a call and prints the status, what headers say, and the body.
func fetch(method, url, body string, send map[string]string, headers ...string) {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		fmt.Println(err)
		return
	}
	for k, v := range send {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(resp.StatusCode)
	for _, h := range headers {
		fmt.Printf(" %s: %q", h, resp.Header.Get(h))
	}
	fmt.Printf(" %.60s\n", b)
}

// A test of a client's own, of what it does when GitHub has had enough of it. The
// zero config has the documented limits; this test makes one small.
func ExampleGitHub() {
	github, err := vendortest.NewGitHub(vendortest.GitHubConfig{
		Core: &vendortest.Quota{Burst: 2, Window: time.Hour, Lenient: true},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(github)
	defer server.Close()

	token := map[string]string{"Authorization": "Bearer t"}
	for range 3 { // the client under test, here one that heeds nothing
		fetch("GET", server.URL+"/repos/o/r", "", token, "X-RateLimit-Remaining")
	}
	core := github.Totals().Core
	fmt.Println(core.Accepted, "accepted", core.Refused, "refused", core.Late, "begun during a pause")
	// Output:
	// 200 X-RateLimit-Remaining: "1" {}
	// 200 X-RateLimit-Remaining: "0" {}
	// 403 X-RateLimit-Remaining: "0" {"message":"API rate limit exceeded for user ID 1.","documen
	// 2 accepted 1 refused 0 begun during a pause
}

// Requests and tokens are counted apart, and for each model.
func ExampleOpenAI() {
	openai, err := vendortest.NewOpenAI(vendortest.OpenAIConfig{
		Tokens: &vendortest.Quota{Rate: 0.001, Burst: 1000, Lenient: true},
		Answer: func(model, prompt string) (string, error) { return "You said: " + prompt, nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(openai)
	defer server.Close()

	key := map[string]string{"Authorization": "Bearer k"}
	for _, tokens := range []int{700, 301} {
		body := fmt.Sprintf(`{"model":"m","max_tokens":%d,"messages":[{"role":"user","content":"hello"}]}`, tokens)
		fetch("POST", server.URL+"/v1/chat/completions", body, key, "X-RateLimit-Remaining-Requests", "X-RateLimit-Remaining-Tokens")
	}
	// Output:
	// 200 X-RateLimit-Remaining-Requests: "499" X-RateLimit-Remaining-Tokens: "300" {"choices":[{"finish_reason":"stop","index":0,"message":{"co
	// 429 X-RateLimit-Remaining-Requests: "498" X-RateLimit-Remaining-Tokens: "300" {"error":{"code":"rate_limit_exceeded","message":"Rate limit
}

// What a query could cost is reserved, and what it did cost is paid.
func ExampleShopify() {
	shopify, err := vendortest.NewShopify(vendortest.ShopifyConfig{
		GraphQL: &vendortest.Quota{Rate: 0.001, Burst: 1000, Lenient: true},
		Cost:    func(query string) (requested, actual int) { return 600, 350 },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(shopify)
	defer server.Close()

	app := map[string]string{"X-Shopify-Access-Token": "a"}
	for range 3 {
		fetch("POST", server.URL+"/admin/api/2026-10/graphql.json", `{"query":"{ shop { name } }"}`, app)
	}
	fmt.Println(shopify.Totals().GraphQL.Used, "points used")
	// Output:
	// 200 {"data":{},"extensions":{"cost":{"actualQueryCost":350,"requ
	// 200 {"data":{},"extensions":{"cost":{"actualQueryCost":350,"requ
	// 200 {"errors":[{"extensions":{"code":"THROTTLED","documentation"
	// 700 points used
}

// Any other vendor is a quota, and a script for how it refuses: here one that counts
// by the tenant in the path and gives its waits in milliseconds.
func ExampleServer() {
	acme, err := vendortest.NewServer(vendortest.ServerConfig{
		Quota: vendortest.Quota{Burst: 2, Window: time.Hour, Lenient: true, Round: time.Second},
		Key:   func(r *http.Request) string { return r.URL.Path },
		Refuse: func(w http.ResponseWriter, _ *http.Request, v vendortest.Verdict) {
			w.Header().Set("X-Acme-Wait-Ms", fmt.Sprint(v.Delay.Round(time.Minute).Milliseconds()))
			http.Error(w, "too fast", 420)
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(acme)
	defer server.Close()

	for _, tenant := range []string{"/a", "/a", "/a", "/b"} {
		fetch("GET", server.URL+tenant, "", nil, "X-Acme-Wait-Ms")
	}
	fmt.Println(acme.Key("/a").Accepted, "accepted", acme.Key("/a").Refused, "refused")
	// Output:
	// 200 X-Acme-Wait-Ms: "" {}
	// 200 X-Acme-Wait-Ms: "" {}
	// 420 X-Acme-Wait-Ms: "3600000" too fast
	//
	// 200 X-Acme-Wait-Ms: "" {}
	// 2 accepted 1 refused
}

// Each call of a batch is judged and answered by itself; the answer to the batch is
// 200 all the same.
func ExampleMeta() {
	quota := vendortest.MetaManagement(10) // 700 calls per hour
	quota.Burst = 1
	meta, err := vendortest.NewMeta(vendortest.MetaConfig{Management: &quota})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(meta)
	defer server.Close()

	resp, err := http.PostForm(server.URL+"/v24.0/", url.Values{
		"access_token": {"t"},
		"batch":        {`[{"method":"GET","relative_url":"act_1/ads"},{"method":"GET","relative_url":"act_1/ads"}]`},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	t := meta.Totals().Management
	fmt.Println(resp.StatusCode, t.Accepted, "accepted", t.Refused, "refused")
	fetch("GET", server.URL+"/v24.0/act_1/ads?access_token=t", "", nil)
	// Output:
	// 200 1 accepted 1 refused
	// 400 {"error":{"code":80004,"error_subcode":2446079,"fbtrace_id":
}

// A report is submitted, polled and downloaded. Polls count as calls.
func ExampleMicrosoftAds() {
	user := vendortest.MicrosoftAdsMinute(3)
	ads, err := vendortest.NewMicrosoftAds(vendortest.MicrosoftAdsConfig{User: &user, Preparing: time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(ads)
	defer server.Close()

	who := map[string]string{"Authorization": "Bearer u", "DeveloperToken": "d", "CustomerId": "1"}
	reports := server.URL + "/Reporting/v13/GenerateReport/"
	fetch("POST", reports+"Submit", `{"ReportRequest":{}}`, who)
	for range 3 {
		fetch("POST", reports+"Poll", `{"ReportRequestId":"1"}`, who)
	}
	// Output:
	// 200 {"ReportRequestId":"1"}
	// 200 {"ReportRequestStatus":{"ReportDownloadUrl":null,"Status":"P
	// 200 {"ReportRequestStatus":{"ReportDownloadUrl":null,"Status":"P
	// 429 {"Errors":[{"Code":117,"Detail":null,"ErrorCode":"CallRateEx
}
