package dashboard_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flyball-go/flyball/dashboard"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/throttle"
)

// Two processes name each other; each shows both, and none of them twice.
func TestPeersAreMerged(t *testing.T) {
	t.Parallel()
	a, b := newGovernor(t, governor.PlainConfig{Name: "ads"}), newGovernor(t, governor.PlainConfig{Name: "ads"})
	var one, two atomic.Pointer[dashboard.Dashboard]
	late := func(p *atomic.Pointer[dashboard.Dashboard]) string {
		return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.Load().ServeHTTP(w, r) })) + "/"
	}
	urlOne, urlTwo := late(&one), late(&two)
	yes := func(*http.Request) bool { return true }
	one.Store(newDashboard(t, dashboard.Config{Governors: dashboard.Of(a), Process: "one", Peers: []string{urlTwo}, Guard: yes}))
	two.Store(newDashboard(t, dashboard.Config{Governors: dashboard.Of(b), Process: "two", Peers: []string{urlOne}, Guard: yes}))
	b.Learn(throttle.Signal{Delay: time.Hour, Source: "slow down"})

	s := listen(t, urlOne+"live")
	var o dashboard.Overview
	for o, _ = read[dashboard.Overview](s); len(o.Governors) < 2 || len(o.Governors[1].Cooldowns) == 0; {
		o, _ = read[dashboard.Overview](s)
	}
	if g := o.Governors; g[0].Process != "one" || g[0].Peer != 0 || g[1].Process != "two" || g[1].Peer != 1 || g[1].State != "cooling" || g[1].Cooldowns[0].Left > 3600e3 || g[1].Cooldowns[0].Left < 3500e3 {
		t.Errorf("%+v", g)
	}
	if len(o.Peers) != 1 || o.Peers[0] != (dashboard.Peer{Number: 1, Process: "two", Up: true}) {
		t.Errorf("%+v", o.Peers)
	}
	if own := get[dashboard.Overview](t, one.Load(), "/state.json?own"); len(own.Governors) != 1 || own.Peers != nil {
		t.Errorf("%+v", own)
	}
	d := listen(t, urlOne+"live?governor=ads&peer=1")
	first, m := read[dashboard.Detail](d)
	if m.event != "detail" || first.Process != "two" || first.Peer != 1 || first.Actions || len(first.Events) != 2 {
		t.Errorf("%s, %+v", m.event, first)
	}
	if again, _ := read[dashboard.Detail](d); len(again.Events) != 0 {
		t.Errorf("told again: %+v", again.Events)
	}
	if _, m := read[struct{}](listen(t, urlOne+"live?governor=other&peer=1")); m.event != "gone" {
		t.Errorf("%+v", m)
	}
	if w := ask(one.Load(), "POST", "/action", "do=clear&governor=ads&peer=1&cooldown="+first.Cooldowns[0].ID); w.Code != 404 || len(b.Stats().Cooldowns) != 1 {
		t.Errorf("an action crossed: %d", w.Code)
	}
}

// What a peer answers may be anything.
func TestPeersThatAreNoDashboards(t *testing.T) {
	t.Parallel()
	answer := func(kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			io.WriteString(w, body)
		}
	}
	long := strings.Repeat("<b>x", 1000)
	down := httptest.NewServer(nil)
	down.Close()
	for problem, peer := range map[string]http.Handler{
		"it answers with status 500":                                 http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }),
		"it answers with status 302":                                 http.RedirectHandler("http://127.0.0.1:1/", http.StatusFound),
		"it answers something else than a dashboard":                 answer("text/html", "<html>"),
		"it answers something else than a dashboard of this version": answer("application/json", `{"governors": 7}`),
		"its answer is too large":                                    answer("application/json", `{"process": "`+strings.Repeat("x", 9<<20)+`"}`),
		"no answer within 500ms":                                     http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }),
		"no connection":                                              nil,
		"":                                                           answer("application/json", fmt.Sprintf(`{"process": %q, "governors": [%s{"id": %[1]q, "state": %[1]q, "cooldowns": [{"left": -1}]}]}`, long, strings.Repeat("{},", 5000))),
	} {
		address := "http://joe:hunter2@" + strings.TrimPrefix(down.URL, "http://")
		if peer != nil {
			address = serve(t, peer)
		}
		patience := time.Minute
		if strings.HasPrefix(problem, "no answer") {
			patience = 500 * time.Millisecond
		}
		d := newDashboard(t, dashboard.Config{Peers: []string{address}, PeerTimeout: patience})
		var o dashboard.Overview
		until(t, func() bool {
			o = get[dashboard.Overview](t, d, "/state.json")
			return o.Peers[0].Problem != "not asked yet"
		})
		if o.Peers[0].Problem != problem || o.Peers[0].Up != (problem == "") || strings.Contains(fmt.Sprint(o), "hunter2") {
			t.Errorf("%q, want %q: %+v", o.Peers[0].Problem, problem, o.Peers)
		}
		if problem == "" && (len(o.Governors) != 4000 || len(o.Peers[0].Process) > 220) {
			t.Errorf("%d governors, of %s", len(o.Governors), o.Peers[0].Process)
		}
		if problem == "" {
			continue
		}
		code := ask(d, "GET", "/state.json?peer=1&governor="+url.QueryEscape("<b>"), "").Code
		if code != 502 {
			t.Errorf("%q: its governor: %d", problem, code)
		}
	}
}

func TestPeerThatComesBack(t *testing.T) {
	t.Parallel()
	g := newGovernor(t, governor.PlainConfig{})
	theirs := newDashboard(t, dashboard.Config{Governors: dashboard.Of(g), Process: "theirs"})
	var broken atomic.Bool
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() {
			w.WriteHeader(503)
			return
		}
		theirs.ServeHTTP(w, r)
	}))
	d := newDashboard(t, dashboard.Config{Peers: []string{url}})
	s := listen(t, serve(t, d)+"/live")
	for _, up := range []bool{true, false, true} {
		broken.Store(!up)
		for n := 0; ; n++ {
			o, _ := read[dashboard.Overview](s)
			if p := o.Peers[0]; p.Up == up && len(o.Governors) > 0 == up && (up || p.Process == "theirs") {
				break
			}
			if n > 60 {
				t.Fatalf("up %v: %+v", up, o)
			}
		}
	}
}
