package dashboard_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/dashboard"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/throttle"
)

func TestActions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGovernor(t, governor.PlainConfig{})
		var log bytes.Buffer
		d := newDashboard(t, dashboard.Config{
			Governors: dashboard.Of(g), Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Guard: func(r *http.Request) bool { _, pass, _ := r.BasicAuth(); return pass == "letmein" },
		})
		const basic = "Basic am9lOmxldG1laW4=" // joe:letmein
		secret := throttle.Scope{Level: throttle.Tenant, Key: strings.Repeat("long ", 100)}
		g.Learn(throttle.Signal{Scope: secret, Delay: time.Hour})
		g.Learn(throttle.Signal{Delay: time.Hour})
		ids := map[string]string{}
		until(t, func() bool {
			for _, c := range get[dashboard.Detail](t, d, "/state.json?governor=acme").Cooldowns {
				ids[c.Scope] = c.ID
			}
			return len(ids) == 2
		})
		var tenant string
		for scope, id := range ids {
			if scope != "host" {
				tenant = id
			}
		}
		state := func() string {
			st := g.Stats()
			return fmt.Sprintf("paused %v, cooldowns %d", st.Paused, len(st.Cooldowns))
		}
		const before = "paused false, cooldowns 2"
		for _, c := range []struct {
			what, form string
			header     []string
			code       int
			after      string
		}{
			{"not allowed", "do=pause&governor=acme", nil, 403, before},
			{"wrong password", "do=pause&governor=acme", []string{"Authorization", "Basic am9lOng="}, 403, before},
			{"another site's form", "do=pause&governor=acme", []string{"Authorization", basic, "Sec-Fetch-Site", "cross-site"}, 403, before},
			{"a sibling site's form", "do=pause&governor=acme", []string{"Authorization", basic, "Sec-Fetch-Site", "same-site"}, 403, before},
			{"another origin's form", "do=pause&governor=acme", []string{"Authorization", basic, "Origin", "https://evil.example"}, 403, before},
			{"unknown governor", "do=pause&governor=other", []string{"Authorization", basic}, 404, before},
			{"unknown action", "do=explode&governor=acme", []string{"Authorization", basic}, 400, before},
			{"no form", "", []string{"Authorization", basic}, 404, before},
			{"huge form", "do=pause&governor=acme&x=" + strings.Repeat("x", 1<<20), []string{"Authorization", basic}, 400, before},
			{"no cooldown", "do=clear&governor=acme", []string{"Authorization", basic}, 404, before},
			{"unknown cooldown", "do=clear&governor=acme&cooldown=host", []string{"Authorization", basic}, 404, before},
			{"pause", "do=pause&governor=acme", []string{"Authorization", basic, "Sec-Fetch-Site", "same-origin"}, 204, "paused true, cooldowns 2"},
			{"resume", "do=resume&governor=acme", []string{"Authorization", basic, "Origin", "http://example.com"}, 204, before},
			{"clear the tenant", "do=clear&governor=acme&cooldown=" + tenant, []string{"Authorization", basic}, 204, "paused false, cooldowns 1"},
			{"clear it again", "do=clear&governor=acme&cooldown=" + tenant, []string{"Authorization", basic}, 404, "paused false, cooldowns 1"},
			{"clear the host", "do=clear&governor=acme&cooldown=" + ids["host"], []string{"Authorization", basic}, 204, "paused false, cooldowns 0"},
		} {
			if w := ask(d, "POST", "/action", c.form, c.header...); w.Code != c.code || state() != c.after {
				t.Errorf("%s: %d %s, then %s; want %d, %s", c.what, w.Code, w.Body, state(), c.code, c.after)
			}
		}
		if w := ask(d, "GET", "/action?do=pause&governor=acme", "", "Authorization", basic); w.Code != 405 {
			t.Errorf("GET: %d", w.Code)
		}
		if n := strings.Count(log.String(), "msg=\"dashboard: action\""); n != 4 || strings.Count(log.String(), "refused") != 5 {
			t.Errorf("logged %d actions:\n%s", n, &log)
		}
	})
}

func TestNobodyMayActWithoutAGuard(t *testing.T) {
	g := newGovernor(t, governor.PlainConfig{})
	d := newDashboard(t, dashboard.Config{Governors: dashboard.Of(g)})
	if w := ask(d, "POST", "/action", "do=pause&governor=acme", "Sec-Fetch-Site", "same-origin"); w.Code != 403 || g.Stats().Paused {
		t.Errorf("%d, paused %v", w.Code, g.Stats().Paused)
	}
	if get[dashboard.Overview](t, d, "/state.json").Actions {
		t.Error("actions are offered")
	}
}

// Names are data, and stay that.
func TestHostileTexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const evil = `<script>alert(1)</script>"'&` + "\u202e\x00\n"
		g := newGovernor(t, governor.PlainConfig{Name: evil})
		d := newDashboard(t, dashboard.Config{Governors: dashboard.Of(g), Process: evil})
		g.Learn(throttle.Signal{Delay: time.Hour, Source: evil + strings.Repeat("x", 10_000), Scope: throttle.Scope{Level: throttle.Tenant, Key: evil}})
		submit(t, g, evil)
		until(t, func() bool { return strings.Contains(ask(d, "GET", "/state.json", "").Body.String(), "tenant") })
		o := get[dashboard.Overview](t, d, "/state.json")
		id := o.Governors[0].ID
		if id != `<script>alert(1)</script>"'&` {
			t.Errorf("ID %q", id)
		}
		for _, target := range []string{"/state.json", "/state.json?governor=" + url.QueryEscape(id), "/", "/?governor=" + url.QueryEscape(evil)} {
			w := ask(d, "GET", target, "")
			if body := w.Body.String(); w.Code != 200 || strings.Contains(body, "<script>") || strings.Contains(body, "\u202e") || len(body) > 20_000 {
				t.Errorf("%s: %d, %d bytes: %.300s", target, w.Code, len(body), body)
			}
		}
		if w := ask(d, "GET", "/<script>alert(1)</script>", ""); w.Code != 404 || strings.Contains(w.Body.String(), "<") || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

func TestNothingSecretIsShown(t *testing.T) {
	g := newGovernor(t, governor.PlainConfig{})
	d := newDashboard(t, dashboard.Config{Governors: dashboard.Of(g), Peers: []string{"http://joe:hunter2@127.0.0.1:1/?token=hunter2"}})
	for i, source := range []string{
		"Authorization: Bearer hunter2hunter2", `{"api_key":"hunter2"}`, "dial postgres://joe:hunter2@db/x", "joe:hunter2@tcp(10.0.0.1:3306)/db",
		`Get "https://api.example.com/v1?access_token=hunter2&x=1": EOF`,
	} {
		g.Learn(throttle.Signal{Delay: time.Hour, Source: source, Scope: throttle.Scope{Level: throttle.Bucket, Key: fmt.Sprint(i)}})
	}
	retried := errors.New("password=hunter2")
	governor.Do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) { return 0, retried }))
	var body string
	until(t, func() bool {
		body = ask(d, "GET", "/state.json?governor=acme", "").Body.String()
		return strings.Count(body, `"kind":"cooling"`) == 5
	})
	body += ask(d, "GET", "/state.json", "").Body.String()
	time.Sleep(50 * time.Millisecond) // the peer has been asked
	body += ask(d, "GET", "/state.json", "").Body.String()
	if i := strings.Index(body, "hunter2"); i >= 0 {
		t.Errorf("%s", body[max(0, i-100):i+20])
	}
	if !strings.Contains(body, "https://api.example.com/v1?…") {
		t.Error("the harmless part is gone")
	}
}

// until waits for what another goroutine is about to do.
func until(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not come")
		}
	}
}
