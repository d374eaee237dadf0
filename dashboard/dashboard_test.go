package dashboard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/dashboard"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

func newGovernor(t *testing.T, cfg governor.PlainConfig) *governor.Plain {
	t.Helper()
	if cfg.Name == "" {
		cfg.Name = "acme"
	}
	if cfg.Vendor == nil {
		cfg.Vendor = governortest.Vendor{}
	}
	g, err := governor.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

func newDashboard(t *testing.T, cfg dashboard.Config) *dashboard.Dashboard {
	t.Helper()
	d, err := dashboard.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// ask makes a request, in a form when there is one, and returns the answer.
func ask(d http.Handler, method, target, form string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(form))
	if form != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w
}

func get[T any](t *testing.T, d http.Handler, target string) (v T) {
	t.Helper()
	w := ask(d, "GET", target, "")
	if w.Code != 200 || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%s: %d, %s: %s", target, w.Code, w.Header().Get("Content-Type"), w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("%s: %v of %s", target, err, w.Body)
	}
	return v
}

// call makes one call as a tenant, that ends in err.
func call(t *testing.T, g *governor.Plain, tenant string, err error) {
	t.Helper()
	governor.Do(t.Context(), g.With(governor.Ask{Tenant: tenant, NoRetry: true}), "", governor.Func(func(context.Context) (int, error) {
		time.Sleep(10 * time.Millisecond)
		return 0, err
	}))
}

// submit leaves a request waiting.
func submit(t *testing.T, g *governor.Plain, tenant string) {
	t.Helper()
	governor.Submit(t.Context(), g.With(governor.Ask{Tenant: tenant}), "", governor.Func(func(context.Context) (int, error) { return 0, nil }))
}

func TestConfigIsValidated(t *testing.T) {
	none := dashboard.Of()
	for _, c := range []struct {
		cfg  dashboard.Config
		want string
	}{
		{dashboard.Config{}, "Config.Governors is nil"},
		{dashboard.Config{Governors: none, History: time.Second}, "Config.History is 1s"},
		{dashboard.Config{Governors: none, History: 2 * time.Hour}, "Config.History is 2h0m0s"},
		{dashboard.Config{Governors: none, MaxClients: -1}, "Config.MaxClients is -1"},
		{dashboard.Config{Governors: none, PeerTimeout: -1}, "Config.PeerTimeout is -1ns"},
		{dashboard.Config{Peers: make([]string, 101)}, "Config.Peers is of length 101"},
		{dashboard.Config{Peers: []string{"10.0.0.7:80"}}, "Config.Peers[0]"},
		{dashboard.Config{Peers: []string{"http://a/", "ftp://joe:hunter2@b/"}}, "Config.Peers[1]: ftp://joe:xxxxx@b/"},
	} {
		if d, err := dashboard.New(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("error %v, want %q", err, c.want)
			if d != nil {
				d.Close()
			}
		}
	}
}

func TestPageAndItsFilesAllowNothingFromElsewhere(t *testing.T) {
	d := newDashboard(t, dashboard.Config{Governors: dashboard.Of()})
	files := map[string]string{"/": "text/html", "/app.css": "text/css", "/icon.svg": "image/svg+xml"}
	for _, f := range []string{"main", "overview", "detail", "chart", "dom", "format", "words"} {
		files["/"+f+".js"] = "text/javascript"
	}
	for path, kind := range files {
		w := ask(d, "GET", path, "")
		if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), kind) || w.Body.Len() == 0 {
			t.Errorf("%s: %d, %s, %d bytes", path, w.Code, w.Header().Get("Content-Type"), w.Body.Len())
		}
		if csp := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none';") || strings.Contains(csp, "unsafe") || strings.Contains(csp, "*") {
			t.Errorf("%s: policy %q", path, csp)
		}
		for _, outside := range []string{"http://", "https://", "//cdn"} {
			if body := strings.ReplaceAll(w.Body.String(), "http://www.w3.org/2000/svg", ""); strings.Contains(body, outside) {
				t.Errorf("%s has an address in it: %s", path, outside)
			}
		}
		if again := ask(d, "GET", path, "", "If-None-Match", w.Header().Get("ETag")); again.Code != 304 || again.Body.Len() != 0 {
			t.Errorf("%s, which has not changed: %d", path, again.Code)
		}
	}
	for _, c := range []struct {
		method, path string
		code         int
	}{
		{"GET", "/gone", 404}, {"GET", "/assets/app.css", 404}, {"GET", "/../dashboard.go", 404},
		{"POST", "/", 405}, {"DELETE", "/state.json", 405}, {"GET", "/action", 405}, {"HEAD", "/live", 405}, {"HEAD", "/", 200},
	} {
		if w := ask(d, c.method, c.path, ""); w.Code != c.code {
			t.Errorf("%s %s: %d, want %d", c.method, c.path, w.Code, c.code)
		}
	}
}

func TestStateTellsWhatStatsTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket, err := limiter.NewBucket(limiter.BucketConfig{Rate: 50, Burst: 100})
		if err != nil {
			t.Fatal(err)
		}
		g := newGovernor(t, governor.PlainConfig{Limits: []governor.Limit{{Limiter: bucket}}})
		d := newDashboard(t, dashboard.Config{Governors: dashboard.Of(g), Process: "test"})
		for range 20 {
			call(t, g, "one", nil)
		}
		for range 3 {
			call(t, g, "one", errors.New("down"))
		}
		g.Learn(throttle.Signal{Kind: throttle.KindBurst, Delay: 20 * time.Second, Source: "slow down"})
		submit(t, g, "one")
		submit(t, g, "two")
		submit(t, g, "two")
		time.Sleep(3 * time.Second)
		synctest.Wait()

		o := get[dashboard.Overview](t, d, "/state.json")
		if o.Process != "test" || len(o.Governors) != 1 || o.Actions {
			t.Fatalf("%+v", o)
		}
		st, s := g.Stats(), o.Governors[0]
		want := dashboard.Summary{
			ID: "acme", Name: "acme", Process: "test", State: "cooling", Queued: 3, MaxQueue: 10000, Workers: 16, Quota: 50,
			Rate: s.Rate, Started: 23, Succeeded: 20, Failed: 3, Episodes: 1, Cooling: 1, Cooled: 3000,
			CallP50: float64(st.Call.P50.Microseconds()) / 1000, CallP99: float64(st.Call.P99.Microseconds()) / 1000, WaitP99: float64(st.Wait.P99.Microseconds()) / 1000,
			Cooldowns: s.Cooldowns, Spark: s.Spark,
		}
		if fmt.Sprintf("%+v", s) != fmt.Sprintf("%+v", want) {
			t.Errorf("got  %+v\nwant %+v", s, want)
		}
		if len(s.Spark) != 3 || s.Spark[0] != 23 || s.Spark[1] != 0 || s.Rate < 7 || s.Rate > 8 {
			t.Errorf("rates %v, %v", s.Spark, s.Rate)
		}
		if len(s.Cooldowns) != 1 {
			t.Fatalf("%+v", s)
		}
		c := s.Cooldowns[0]
		if c.Scope != "host" || c.Phase != "cooling" || c.Kind != "burst" || c.Source != "slow down" || c.Length != 20000 || c.Left != 17000 {
			t.Errorf("%+v", c)
		}

		t2 := get[dashboard.Detail](t, d, "/state.json?governor=acme")
		if l := t2.Limits; len(l) != 1 || l[0] != (dashboard.Limit{Per: "host", Rate: 50, Limit: 100, Remaining: 100, Window: 2000}) {
			t.Errorf("limits %+v", l)
		}
		if t2.Stats.Started != st.Started || t2.Stats.Submitted != st.Submitted || t2.Stats.Call != st.Call || t2.Stats.Wait != st.Wait {
			t.Errorf("%+v, want %+v", t2.Stats, st)
		}
		if tenants := fmt.Sprint(t2.Tenants); tenants != "[{two 2 1} {one 1 1}]" || len(t2.Lanes) != 2 || t2.LaneCount != 2 {
			t.Errorf("tenants %s, lanes %+v", tenants, t2.Lanes)
		}
		if i := slices.IndexFunc(t2.Errors, func(e dashboard.Errors) bool { return e.Kind == "failed" }); t2.Errors[i] != (dashboard.Errors{Kind: "failed", Total: 3, Recent: 3}) {
			t.Errorf("%+v", t2.Errors)
		}
		if h := t2.History; len(h.Time) != 3 || fmt.Sprint(h.Rate) != "[23 0 0]" || fmt.Sprint(h.Cooling) != "[1 1 1]" || fmt.Sprint(h.Queued) != "[3 3 3]" || fmt.Sprint(h.Quota) != "[50 50 50]" {
			t.Errorf("%+v", h)
		}
		var kinds []string
		for _, e := range t2.Events {
			kinds = append(kinds, e.Kind)
		}
		if fmt.Sprint(kinds) != "[learned cooling]" || t2.Events[1].Delay != 20000 || t2.Events[1].Source != "slow down" {
			t.Errorf("%+v", t2.Events)
		}
		for _, target := range []string{"/state.json?governor=other", "/state.json?governor=acme&peer=1", "/state.json?governor=acme&peer=-1", "/state.json?governor="} {
			if w := ask(d, "GET", target, ""); w.Code != 404 {
				t.Errorf("%s: %d", target, w.Code)
			}
		}
	})
}

// What came before the cursor is not told again, and what it is not told of is.
func TestCursorLeavesOutWhatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGovernor(t, governor.PlainConfig{})
		d := newDashboard(t, dashboard.Config{Governors: dashboard.Of(g)})
		learn := func(tenant string) {
			g.Learn(throttle.Signal{Delay: time.Minute, Scope: throttle.Scope{Level: throttle.Tenant, Key: tenant}})
			synctest.Wait()
		}
		learn("a")
		time.Sleep(2500 * time.Millisecond)
		first := get[dashboard.Detail](t, d, "/state.json?governor=acme")
		if len(first.History.Time) != 2 || len(first.Events) != 2 {
			t.Fatalf("%+v", first)
		}
		learn("b") // after the answer, in the same second
		again := get[dashboard.Detail](t, d, "/state.json?governor=acme&since="+first.Cursor)
		if len(again.History.Time) != 0 || len(again.Events) != 2 || again.Events[0].Scope != "tenant:b" {
			t.Errorf("%+v", again)
		}
		time.Sleep(time.Second)
		last := get[dashboard.Detail](t, d, "/state.json?governor=acme&since="+again.Cursor)
		if len(last.History.Time) != 1 || len(last.Events) != 2 { // b is told twice: its sample was not done
			t.Errorf("%+v", last)
		}
		for _, odd := range []string{"other-1", "x", "-1", first.Cursor + "9", url.QueryEscape("\x00")} {
			if all := get[dashboard.Detail](t, d, "/state.json?governor=acme&since="+odd); len(all.History.Time) != 3 || len(all.Events) != 4 {
				t.Errorf("%q: %d points, %d events", odd, len(all.History.Time), len(all.Events))
			}
		}
	})
}

func TestStates(t *testing.T) {
	host, narrow := throttle.Scope{}, throttle.Scope{Level: throttle.Bucket, Key: "b"}
	for want, do := range map[string]func(t *testing.T, g *governor.Plain){
		"idle":    func(*testing.T, *governor.Plain) {},
		"paused":  func(t *testing.T, g *governor.Plain) { g.Pause() },
		"cooling": func(t *testing.T, g *governor.Plain) { g.Learn(throttle.Signal{Scope: host, Delay: time.Hour}) },
		"probing": func(t *testing.T, g *governor.Plain) {
			g.Learn(throttle.Signal{Scope: host, Delay: time.Second})
			time.Sleep(1500 * time.Millisecond)
		},
		"partly": func(t *testing.T, g *governor.Plain) { g.Learn(throttle.Signal{Scope: narrow, Delay: time.Hour}) },
		"busy": func(t *testing.T, g *governor.Plain) {
			governor.Submit(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, nil }))
		},
		"closed": func(t *testing.T, g *governor.Plain) { g.Close() },
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newGovernor(t, governor.PlainConfig{})
			d := newDashboard(t, dashboard.Config{Governors: dashboard.Of(g)})
			do(t, g)
			time.Sleep(time.Second)
			synctest.Wait()
			if s := get[dashboard.Overview](t, d, "/state.json").Governors[0]; s.State != want {
				t.Errorf("state %s, want %s", s.State, want)
			}
		})
	}
}

// Governors come and go, and names are no keys.
func TestListChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var list atomic.Pointer[[]governor.Handle]
		list.Store(new([]governor.Handle))
		d := newDashboard(t, dashboard.Config{Governors: func() []governor.Handle { return *list.Load() }})
		ids := func() (all string) {
			time.Sleep(time.Second)
			synctest.Wait()
			for _, g := range get[dashboard.Overview](t, d, "/state.json").Governors {
				all += g.ID + " "
			}
			return all
		}
		a, b, twin := newGovernor(t, governor.PlainConfig{Name: "a"}), newGovernor(t, governor.PlainConfig{Name: "b"}), newGovernor(t, governor.PlainConfig{Name: "a"})
		for _, c := range []struct {
			list []governor.Handle
			want string
		}{
			{nil, ""}, {[]governor.Handle{a, nil}, "a "}, {[]governor.Handle{b, a, a}, "b a "}, {[]governor.Handle{a, twin, b}, "a a~2 b "}, {[]governor.Handle{twin}, "a~2 "}, {nil, ""},
		} {
			list.Store(&c.list)
			if got := ids(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		}
	})
}

func TestGroupsGovernorsAreListed(t *testing.T) {
	group, err := governor.NewGroup(governor.GroupConfig[string, struct{}]{Config: func(string) (governor.PlainConfig, error) { return governor.PlainConfig{}, nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	for _, host := range []string{"b", "a"} {
		if _, err := group.Get(host); err != nil {
			t.Fatal(err)
		}
	}
	d := newDashboard(t, dashboard.Config{Governors: dashboard.OfGroup(group)})
	if o := get[dashboard.Overview](t, d, "/state.json"); len(o.Governors) != 2 || o.Governors[0].ID != "a" {
		t.Errorf("%+v", o)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGovernor(t, governor.PlainConfig{})
		d := newDashboard(t, dashboard.Config{Governors: dashboard.Of(g), History: 10 * time.Second})
		for i := range 300 { // of each, two events
			g.Learn(throttle.Signal{Delay: time.Hour, Scope: throttle.Scope{Level: throttle.Tenant, Key: fmt.Sprint(i)}})
			time.Sleep(time.Second)
		}
		synctest.Wait()
		last := get[dashboard.Detail](t, d, "/state.json?governor=acme")
		if len(last.History.Time) != 10 || len(last.Events) != 256 || len(last.Cooldowns) != 50 || last.Cooling != 300 {
			t.Errorf("%d points, %d events, %d of %d cooldowns", len(last.History.Time), len(last.Events), len(last.Cooldowns), last.Cooling)
		}
		if e := last.Events[255]; e.Scope != "tenant:299" || e.ID != 600 {
			t.Errorf("the last event is %+v", e)
		}
	})
}

// A thousand alike do not push out what came before.
func TestEventsAlikeAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGovernor(t, governor.PlainConfig{Overflow: governor.Reject, MaxQueue: 1})
		d := newDashboard(t, dashboard.Config{Governors: dashboard.Of(g)})
		g.Pause()
		for range 1000 {
			submit(t, g, "")
			synctest.Wait()
		}
		all := get[dashboard.Detail](t, d, "/state.json?governor=acme").Events
		if len(all) != 2 || all[0].Kind != "paused" || all[1].Kind != "overflow" || all[1].Count != 999 || all[1].Error == "" {
			t.Errorf("%+v", all)
		}
	})
}

func TestOnDemandAsksWhenAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGovernor(t, governor.PlainConfig{})
		listed := 0
		d := newDashboard(t, dashboard.Config{OnDemand: true, Governors: func() []governor.Handle { listed++; return []governor.Handle{g} }})
		time.Sleep(time.Minute)
		if listed != 1 {
			t.Errorf("listed %d times while nobody looked", listed)
		}
		call(t, g, "", nil)
		if o := get[dashboard.Overview](t, d, "/state.json"); o.Governors[0].Succeeded != 1 {
			t.Errorf("%+v", o)
		}
	})
}

func TestClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which ends only if nothing is left
		g := newGovernor(t, governor.PlainConfig{})
		d := newDashboard(t, dashboard.Config{Governors: dashboard.Of(g), Guard: func(*http.Request) bool { return true }})
		d.Close()
		d.Close()
		for _, target := range []string{"/state.json", "/live", "/state.json?governor=acme"} {
			if w := ask(d, "GET", target, ""); w.Code != 503 {
				t.Errorf("%s: %d", target, w.Code)
			}
		}
		if w := ask(d, "POST", "/action", "do=pause&governor=acme"); w.Code != 503 {
			t.Errorf("action: %d", w.Code)
		}
		if w := ask(d, "GET", "/", ""); w.Code != 200 {
			t.Errorf("page: %d", w.Code)
		}
	})
}

func TestStripPrefix(t *testing.T) {
	d := newDashboard(t, dashboard.Config{Governors: dashboard.Of(newGovernor(t, governor.PlainConfig{}))})
	mux := http.NewServeMux()
	mux.Handle("/flyball/", http.StripPrefix("/flyball", d))
	srv := httptest.NewServer(mux)
	defer srv.Close()
	for _, path := range []string{"/flyball", "/flyball/", "/flyball/main.js", "/flyball/state.json"} {
		res, err := http.Get(srv.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != 200 || len(b) == 0 {
			t.Errorf("%s: %d", path, res.StatusCode)
		}
	}
}
