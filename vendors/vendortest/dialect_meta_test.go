package vendortest_test

import (
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/throttle"
	"github.com/flyball-go/flyball/vendors"
	"github.com/flyball-go/flyball/vendors/vendortest"
)

func TestMetaSpeaksAsItsAdapterHears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := func(n int) *vendortest.Quota { q := vendortest.MetaManagement(0); q.Burst = n; return &q }
		m := must(vendortest.NewMeta(vendortest.MetaConfig{App: one(2), Management: one(4), Insights: one(2), Page: one(1), Account: one(9),
			Mutations: &vendortest.Quota{Burst: 1, Window: time.Second, Sliding: true, Lenient: true}}))
		a := vendors.Meta()
		call := func(method, path string) vendors.Response {
			return send(m, asked{method: method, path: "/v24.0/" + path, header: map[string]string{"Authorization": "Bearer t"}})
		}
		r := call("GET", "act_1/campaigns")
		reads(t, a, r)
		if q := a.Learn(r); len(q) != 2 || q[0].Name != "account" || q[0].Remaining != 89 || q[1].Name != "1/ads_management" || q[1].Remaining != 75 || !q[1].Reset.IsZero() {
			t.Errorf("learnt %+v", q)
		}
		reads(t, a, call("POST", "act_1/campaigns"))
		reads(t, a, call("POST", "act_1/campaigns"), refusal{throttle.KindBurst, throttle.Tenant, throttle.Unknown}) // 613
		time.Sleep(90 * time.Second)
		reads(t, a, call("GET", "act_1/ads"))
		r = call("GET", "act_1/ads") // the last
		if q := a.Learn(r); len(q) != 2 || q[1].Remaining != 0 || q[1].Reset.Sub(r.At) != 59*time.Minute {
			t.Errorf("learnt %+v", q)
		}
		hour := 59 * time.Minute // of the one that began 90 s ago, in whole minutes
		reads(t, a, call("GET", "act_1/ads"), refusal{throttle.KindQuota, throttle.Tenant, hour})
		reads(t, a, call("GET", "act_2/ads"))
		reads(t, a, call("GET", "act_1/insights"))
		reads(t, a, call("GET", "act_1/insights"))
		reads(t, a, call("GET", "act_1/insights"), refusal{throttle.KindQuota, throttle.Tenant, time.Hour})
		reads(t, a, call("GET", "page_1/feed"))
		reads(t, a, call("GET", "page_1/feed"), refusal{throttle.KindQuota, throttle.Tenant, throttle.Unknown}) // 32 has no time
		reads(t, a, call("GET", "me"))
		r = call("GET", "me")
		if r.Status != 403 {
			t.Errorf("code 4 with status %d", r.Status)
		}
		reads(t, a, r, refusal{throttle.KindQuota, throttle.Host, throttle.Unknown})
	})
}

func TestMetaAnswersEachPartOfABatchByItself(t *testing.T) {
	quota := vendortest.MetaManagement(0)
	quota.Burst = 2
	m := must(vendortest.NewMeta(vendortest.MetaConfig{Management: &quota, Answer: func(method, path string, p url.Values) (any, error) {
		if p.Get("name") == "bad" {
			return nil, errors.New("bad name")
		}
		return map[string]string{"path": path, "name": p.Get("name")}, nil
	}}))
	send := func(batch string) vendors.Response {
		return send(m, asked{method: "POST", path: "/v24.0/", header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"},
			body: url.Values{"access_token": {"t"}, "batch": {batch}}.Encode()})
	}
	r := send(`[{"method":"GET","relative_url":"act_1/ads?fields=id"},{"method":"post","relative_url":"v24.0/act_1/ads","body":"name=x"},
		{"method":"GET","relative_url":"act_1/ads"},{"method":"GET","relative_url":"act_2/ads?name=bad"},{"method":"GET","relative_url":"//"}]`)
	var items []struct {
		Code    int
		Headers []struct{ Name, Value string }
		Body    string
	}
	if err := json.Unmarshal(r.Body, &items); err != nil || len(items) != 5 {
		t.Fatalf("%v: %s", err, r.Body)
	}
	for i, want := range []struct {
		code int
		body string
	}{{200, `{"name":"","path":"act_1/ads"}`}, {200, `{"name":"x","path":"act_1/ads"}`}, {400, `"code":80004`}, {400, "bad name"}, {400, `"code":2500`}} {
		if items[i].Code != want.code || !strings.Contains(items[i].Body, want.body) {
			t.Errorf("part %d: %+v, want %d %s", i, items[i], want.code, want.body)
		}
	}
	if len(items[2].Headers) != 1 || !strings.Contains(items[2].Headers[0].Value, `"estimated_time_to_regain_access":60`) {
		t.Errorf("headers %v", items[2].Headers)
	}
	reads(t, vendors.Meta(), r, refusal{throttle.KindQuota, throttle.Tenant, time.Hour})
	if got := m.Totals().Management; got.Calls != 4 || got.Accepted != 3 {
		t.Errorf("%+v", got)
	}
	many := "[" + strings.Repeat(`{"method":"GET","relative_url":"me"},`, 50) + `{"method":"GET","relative_url":"me"}]`
	for _, bad := range []string{many, "{", "7"} {
		if r := send(bad); r.Status != 400 || !strings.Contains(string(r.Body), `"code":100`) {
			t.Errorf("%d %s", r.Status, r.Body)
		}
	}
}
