package vendortest

import (
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// ask makes one call and returns the status and the decoded body.
func ask(t *testing.T, g *GoogleAds, method, path, body string) (int, any) {
	t.Helper()
	w := httptest.NewRecorder()
	g.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	var v any
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("%s: %v: %q", path, err, w.Body)
	}
	return w.Code, v
}

// dig follows keys and indexes into decoded JSON; nil where there is nothing.
func dig(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			a, _ := v.([]any)
			if p >= len(a) {
				return nil
			}
			v = a[p]
		}
	}
	return v
}

func mustGoogleAds(t *testing.T, cfg GoogleAdsConfig) *GoogleAds {
	t.Helper()
	g, err := NewGoogleAds(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

const (
	one    = "/v25/customers/1234567890/googleAds:search"
	two    = "/v31/customers/2222222222/googleAds:searchStream"
	theSQL = `{"query":"SELECT customer.id FROM customer"}`
)

func TestGoogleAdsAnswersThreeMethods(t *testing.T) {
	g := mustGoogleAds(t, GoogleAdsConfig{Customers: []string{"1234567890"}})
	if code, v := ask(t, g, "POST", one, theSQL); code != 200 || dig(v, "results", 0, "customer", "id") != "1234567890" || dig(v, "nextPageToken") != nil {
		t.Errorf("search: %d %v", code, v)
	}
	if code, v := ask(t, g, "POST", two, theSQL); code != 200 || dig(v, 0, "results", 0, "customer", "resourceName") != "customers/2222222222" {
		t.Errorf("searchStream: %d %v", code, v)
	}
	if code, v := ask(t, g, "GET", "/v25/customers:listAccessibleCustomers", ""); code != 200 || dig(v, "resourceNames", 0) != "customers/1234567890" {
		t.Errorf("list: %d %v", code, v)
	}
	if got := g.Totals(); got != (GoogleAdsTotals{}) || g.Customer("1234567890") != (Totals{}) {
		t.Errorf("no limits, but %+v", got)
	}
}

func TestGoogleAdsRefusesAsTheRealOneDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := mustGoogleAds(t, GoogleAdsConfig{Project: &Quota{Rate: 1, Burst: 3}, Customer: &Quota{Rate: 1, Burst: 1, Pause: 4500 * time.Millisecond}})
		const failure, first, quota = "error", "details", "quotaErrorDetails"
		ask(t, g, "POST", one, theSQL)

		code, v := ask(t, g, "POST", one, theSQL)
		e := dig(v, failure, first, 0, "errors", 0)
		for want, got := range map[any]any{
			429:                                      code,
			429.0:                                    dig(v, failure, "code"),
			"RESOURCE_EXHAUSTED":                     dig(v, failure, "status"),
			"RESOURCE_TEMPORARILY_EXHAUSTED":         dig(e, "errorCode", "quotaError"),
			"ACCOUNT":                                dig(e, first, quota, "rateScope"),
			"Requests per account":                   dig(e, first, quota, "rateName"),
			"4.500s":                                 dig(e, first, quota, "retryDelay"),
			"Too many requests. Retry in 5 seconds.": dig(e, "message"),
			"type.googleapis.com/google.ads.googleads.v25.errors.GoogleAdsFailure": dig(v, failure, first, 0, "@type"),
			"vendortest-2": dig(v, failure, first, 0, "requestId"),
		} {
			if got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		}

		ask(t, g, "POST", two, theSQL) // the project's last one
		time.Sleep(100 * time.Millisecond)
		code, v = ask(t, g, "POST", two, theSQL)
		e = dig(v, 0, failure, first, 0, "errors", 0) // a stream's error is in an array
		if code != 429 || dig(e, first, quota, "rateScope") != "DEVELOPER" || dig(e, first, quota, "retryDelay") != "15s" {
			t.Errorf("project: %d %v", code, v)
		}
		time.Sleep(10 * time.Second)
		_, v = ask(t, g, "GET", "/v25/customers:listAccessibleCustomers", "")
		if d := dig(v, failure, first, 0, "errors", 0, first, quota, "retryDelay"); d != "30s" {
			t.Errorf("a call during the pause: %v", v)
		}
		want := GoogleAdsTotals{
			Project:  Totals{Calls: 5, Accepted: 3, Used: 3, Refused: 2, InPause: 1, Late: 1, Escalations: 1, LongestPause: 30 * s},
			Customer: Totals{Calls: 3, Accepted: 2, Used: 2, Refused: 1, LongestPause: 4500 * time.Millisecond},
		}
		if got := g.Totals(); got != want {
			t.Errorf("totals %+v, want %+v", got, want)
		}
		if got := g.Customer("1234567890"); got.Refused != 1 || got.Calls != 2 {
			t.Errorf("customer %+v", got)
		}
		time.Sleep(30 * time.Second)
		if code, _ := ask(t, g, "POST", one, theSQL); code != 200 {
			t.Errorf("after both pauses: %d", code)
		}
	})
}

func TestGoogleAdsPagesAndBatches(t *testing.T) {
	rows := func(_, query string) (out []any, err error) {
		if query == "bad" {
			return nil, errors.New("unrecognized field")
		}
		for i := range 5 {
			out = append(out, map[string]any{"campaign": map[string]string{"id": strconv.Itoa(i)}})
		}
		return out, nil
	}
	g := mustGoogleAds(t, GoogleAdsConfig{Rows: rows, Batch: 2})
	var ids []any
	token := ""
	for range 3 {
		_, v := ask(t, g, "POST", one, `{"query":"q","pageToken":"`+token+`"}`)
		for _, row := range dig(v, "results").([]any) {
			ids = append(ids, dig(row, "campaign", "id"))
		}
		token, _ = dig(v, "nextPageToken").(string)
	}
	if token != "" || len(ids) != 5 || ids[4] != "4" {
		t.Errorf("pages gave %v and then %q", ids, token)
	}
	_, v := ask(t, g, "POST", two, `{"query":"q"}`)
	if dig(v, 2, "results", 0, "campaign", "id") != "4" || dig(v, 3) != nil || dig(v, 0, "requestId") != "vendortest-4" {
		t.Errorf("batches %v", v)
	}
}

func TestGoogleAdsRefusesWhatTheRealOneRefuses(t *testing.T) {
	g := mustGoogleAds(t, GoogleAdsConfig{Customer: &Quota{}, Rows: func(_, q string) ([]any, error) { return nil, errors.New("unrecognized field") }})
	for name, tc := range map[string]struct {
		method, path, body, kind, code string
		status                         int
	}{
		"version":     {"POST", "/latest/customers/1234567890/googleAds:search", theSQL, "requestError", "UNSUPPORTED_VERSION", 400},
		"customer":    {"POST", "/v25/customers/123-456-7890/googleAds:search", theSQL, "requestError", "INVALID_CUSTOMER_ID", 400},
		"no query":    {"POST", one, `{}`, "requestError", "REQUIRED_FIELD_MISSING", 400},
		"page size":   {"POST", one, `{"query":"q","pageSize":5}`, "requestError", "PAGE_SIZE_NOT_SUPPORTED", 400},
		"no JSON":     {"POST", one, `query`, "requestError", "UNKNOWN", 400},
		"a long body": {"POST", one, `{"query":"` + strings.Repeat("x", 1<<20) + `"}`, "requestError", "UNKNOWN", 400},
		"bad query":   {"POST", one, theSQL, "queryError", "QUERY_ERROR", 400},
	} {
		code, v := ask(t, g, tc.method, tc.path, tc.body)
		if code != tc.status || dig(v, "error", "details", 0, "errors", 0, "errorCode", tc.kind) != tc.code {
			t.Errorf("%s: %d %v", name, code, v)
		}
	}
	for _, path := range []string{"/", "/v25/customers/1234567890/campaigns:change", "/v25/customers/1234567890/camp-aigns:mutate"} {
		if code, v := ask(t, g, "POST", path, ""); code != 404 || dig(v, "error", "status") != "NOT_FOUND" {
			t.Errorf("%s: %d %v", path, code, v)
		}
	}
	if got := g.Customer("123-456-7890"); got.Calls != 0 {
		t.Errorf("an impossible customer was counted: %+v", got)
	}
	// A page token from elsewhere.
	g = mustGoogleAds(t, GoogleAdsConfig{})
	for _, token := range []string{"x", "-1", "0", "7"} {
		if code, v := ask(t, g, "POST", one, `{"query":"q","pageToken":"`+token+`"}`); code != 400 || dig(v, "error", "details", 0, "errors", 0, "errorCode", "requestError") != "INVALID_PAGE_TOKEN" {
			t.Errorf("token %q: %d %v", token, code, v)
		}
	}
}

func TestBadGoogleAdsConfigsAreRefused(t *testing.T) {
	for _, cfg := range []GoogleAdsConfig{{Batch: -1}, {Project: &Quota{Rate: -1}}, {Customer: &Quota{Burst: -1}}, {Customer: &Quota{}, MaxCustomers: -1}} {
		if _, err := NewGoogleAds(cfg); err == nil {
			t.Errorf("%+v accepted", cfg)
		}
	}
}

func TestProtoJSONDurations(t *testing.T) {
	for d, want := range map[time.Duration]string{
		15 * s: "15s", 10 * s: "10s", 100 * s: "100s", 1000 * s: "1000s", 0: "0s", 1: "0.000000001s", 150 * time.Millisecond: "0.150s",
		s + 2*time.Microsecond: "1.000002s", 2*time.Hour + s/10: "7200.100s",
	} {
		if got := protoJSON(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
}
