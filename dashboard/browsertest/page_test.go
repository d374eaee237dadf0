package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/dashboard"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/throttle"
)

const isLive = "document.getElementById('live').dataset.state == 'live' && !!document.querySelector('.card, .panel td')"

// A vendor refuses one call for five seconds: the page says so within one, counts down,
// and stops when it is over.
func TestCountdown(t *testing.T) {
	for _, c := range []struct{ view, left string }{
		{"/", ".card .left"},
		{"/?governor=acme", ".hero .left"},
	} {
		t.Run(c.view, func(t *testing.T) {
			g := newGovernor(t, governor.Config[string, int]{Name: "acme"})
			p := open(t, serve(t, dashboard.Config{Governors: dashboard.Of(g)})+c.view)
			p.until(isLive)
			shown := fmt.Sprintf("!!document.querySelector(%q)?.checkVisibility()", c.left)
			if eval[bool](p, shown) {
				t.Fatal("a countdown before the signal")
			}
			slower, lost := p.slower(), stalls(t)
			script := governortest.NewScript(governortest.Limited(5 * time.Second))
			began := lost()
			req := governor.Submit(t.Context(), g, "", func(ctx context.Context, _ int) (int, error) { return script.Call(ctx, struct{}{}) })
			for len(g.Stats().Cooldowns) == 0 {
				time.Sleep(time.Millisecond)
			}
			end := g.Stats().Cooldowns[0].Until
			before := lost()
			if took := p.until(shown); took > time.Duration(slower*float64(time.Second))+lost()-began {
				t.Errorf("the countdown appeared after %v", took)
			}
			for range 3 {
				var left float64
				most := time.Until(end).Seconds()
				said := p.text(c.left)
				least := time.Until(end).Seconds()
				fmt.Sscanf(said, "%f s", &left)
				off := .5*slower + (lost() - before).Seconds() // a page that stood still says what it said before
				if least > 0 && (left < least-off || left > most+off) {
					t.Errorf("the page says %q, it is %.1f to %.1f s", said, least, most)
				}
				before = lost()
				time.Sleep(500 * time.Millisecond)
			}
			began = lost() // also between the end and Result
			if _, err := req.Result(t.Context()); err != nil {
				t.Error(err)
			}
			p.until("!(" + shown + ")")
			if late := time.Since(end); late > time.Duration(slower*float64(1500*time.Millisecond))+lost()-began {
				t.Errorf("the countdown went %v after its end", late)
			}
			if text := eval[string](p, "document.querySelector('.badge').textContent"); text != "Idle" && text != "Ramping up" {
				t.Errorf("the governor is said to be %q", text)
			}
		})
	}
}

// When nothing happens any more, every number on the page is that of Stats.
func TestNumbersAgreeWithStats(t *testing.T) {
	g := newGovernor(t, governor.Config[string, int]{Name: "acme", Workers: 4, Pool: conns(4), Limits: bucket(200), NoPace: true, Breaker: must(breaker.New(breaker.Config{}))})
	p := open(t, serve(t, dashboard.Config{Governors: dashboard.Of(g)})+"/?governor=acme")
	call := func(tenant string, err error) *governor.Request[int] {
		return governor.Submit(t.Context(), g.With(governor.Ask{Tenant: tenant, NoRetry: true}), "reports", func(context.Context, int) (int, error) { return 0, err })
	}
	var all []*governor.Request[int]
	for n := range 120 {
		var err error
		if n%10 == 0 {
			err = fmt.Errorf("down")
		}
		all = append(all, call(fmt.Sprint("t", n%3), err))
	}
	for _, r := range all {
		r.Result(t.Context())
	}
	call("t0", governortest.Limited(50*time.Millisecond)).Result(t.Context())
	for slices.ContainsFunc(g.Stats().Cooldowns, func(c governor.CooldownStats) bool { return c.Phase == "cooling" }) {
		time.Sleep(10 * time.Millisecond)
	}
	g.Pause()
	for range 7 {
		call("waits", nil)
	}
	st := g.Stats()
	if st.Limited != 1 || st.Breaker.Failed == 0 {
		t.Fatalf("nothing to show: %+v", st)
	}
	fact := func(name string) string {
		return eval[string](p, fmt.Sprintf("[...document.querySelectorAll('.facts dt')].find(d => d.textContent === %q)?.nextElementSibling.textContent ?? ''", name))
	}
	p.until("document.querySelector('.badge').textContent == 'Paused' && document.querySelectorAll('.tile')[2].querySelector('dd').textContent == '7 of 10,000'")
	for name, want := range map[string]uint64{"Submitted": st.Submitted, "Attempts started": st.Started, "Succeeded": st.Succeeded, "Failed": st.Failed, "Retried": st.Retried,
		"idle": uint64(st.Pool.Idle), "in use": uint64(st.Pool.InUse), "failed to open": st.Pool.Failed} {
		if got := fact(name); got != fmt.Sprint(want) {
			t.Errorf("%s: the page says %q, Stats %d", name, got, want)
		}
	}
	tile := func(n int) string {
		return eval[string](p, fmt.Sprintf("document.querySelectorAll('.tile')[%d].querySelector('dd').textContent", n))
	}
	for n, want := range []string{"0 of 4", "7 of 10,000", "1 in 1 cooldown"} {
		if got := tile(1 + n); got != want {
			t.Errorf("tile %d: %q, want %q", 1+n, got, want)
		}
	}
	for name, want := range map[string]string{"Calls": "pass", "Until": "–", "Opened by": "–", "Failed, of those it counts": fmt.Sprintf("%d of %d", st.Breaker.Failed, st.Breaker.Calls),
		"Failure rate": said(p, "rate", 100*st.Breaker.FailureRate)[0] + " %", "Opened in a row": "0"} {
		if got := fact(name); got != want {
			t.Errorf("breaker, %s: %q, want %q", name, got, want)
		}
	}
	if note := eval[string](p, "document.querySelector('section[aria-label=\"Breaker\"] .note2').textContent"); note != st.Breaker.State.String() {
		t.Errorf("breaker: %q, want %v", note, st.Breaker.State)
	}
	var times []float64
	for _, l := range []governor.Latency{st.RecentCall, st.RecentWait, st.Call, st.Wait} {
		for _, d := range []time.Duration{l.P50, l.P90, l.P99, l.Max} {
			times = append(times, float64(d)/1e6)
		}
	}
	spans := said(p, "span", times...)
	if got := eval[[]string](p, "[...document.querySelectorAll('section[aria-label=\"Latency\"] tbody tr')].flatMap(r => [...r.cells].slice(1, 5).map(c => c.textContent))"); !slices.Equal(got, spans) {
		t.Errorf("latencies: %q, want %q", got, spans)
	}
	for n, want := range []string{spans[0] + " / " + spans[2], spans[4] + " / " + spans[6]} {
		if got := tile(4 + n); got != want {
			t.Errorf("tile %d: %q, want %q", 4+n, got, want)
		}
	}
	if rows := eval[string](p, "[...document.querySelectorAll('section[aria-label=\"Queue by lane\"] tbody tr')].map(r => r.innerText).join('|')"); strings.Join(strings.Fields(rows), " ") != "waits reports – 0 7 hand" {
		t.Errorf("lanes: %q", rows)
	}
	if got := eval[string](p, "document.querySelector('section[aria-label=\"Errors by kind\"] tbody tr').innerText"); strings.Join(strings.Fields(got), " ") != "Refused by the vendor 1 1" {
		t.Errorf("errors: %q", got)
	}
	if rows := eval[string](p, "[...document.querySelectorAll('section[aria-label=\"Queue by tenant\"] tbody tr')].map(r => r.innerText).join('|')"); strings.Join(strings.Fields(rows), " ") != "waits 1 7" {
		t.Errorf("tenants: %q", rows)
	}
	if got := eval[string](p, "document.querySelector('section[aria-label=\"Errors by kind\"] tbody tr:nth-child(2)').innerText"); strings.Join(strings.Fields(got), " ") != fmt.Sprintf("Failed %d %d", st.Failed, st.Failed) {
		t.Errorf("errors: %q", got)
	}
	if got := eval[string](p, "[...document.querySelectorAll('section[aria-label=\"Latency\"] tbody tr')].map(r => r.cells[5].textContent).join()"); got != fmt.Sprintf("%d,%d,%d,%d", st.RecentCall.Count, st.RecentWait.Count, st.Call.Count, st.Wait.Count) {
		t.Errorf("calls: %q, want those of %+v", got, st)
	}
	if got := eval[string](p, "document.querySelector('section[aria-label=\"Limits\"] tbody tr').innerText"); !strings.Contains(strings.Join(strings.Fields(got), " "), "The whole host 200 10 of 10") {
		t.Errorf("limits: %q", got)
	}
	if got := eval[string](p, "document.querySelector('section[aria-label=\"Recent events\"] tbody tr').cells[1].textContent"); got != "paused" {
		t.Errorf("the latest event: %q", got)
	}
	p.until("document.querySelector('.tile dd').textContent == '0 of 200'") // the rate of the last 5 s
}

// said returns how the page writes numbers, by a function of its format.js.
func said(p *tab, fn string, all ...float64) []string {
	p.t.Helper()
	js, err := json.Marshal(all)
	if err != nil {
		p.t.Fatal(err)
	}
	return eval[[]string](p, fmt.Sprintf("import('./format.js').then(f => %s.map(x => f.%s(x)))", js, fn))
}

func TestActionsNeedTheGuard(t *testing.T) {
	const post = `fetch("action", {method: "POST", body: new URLSearchParams({do: "pause", governor: "acme"})}).then(r => r.status)`
	const buttons = "[...document.querySelectorAll('main button')].filter(b => b.checkVisibility()).map(b => b.textContent).join()"
	cool := func(g *gov) {
		g.Learn(throttle.Signal{Delay: time.Hour})
		g.Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Tenant, Key: "1"}, Delay: time.Hour})
	}
	t.Run("none", func(t *testing.T) {
		g := newGovernor(t, governor.Config[string, int]{Name: "acme"})
		cool(g)
		p := open(t, serve(t, dashboard.Config{Governors: dashboard.Of(g)})+"/?governor=acme")
		p.quiet = true // a refused request is an error on the console
		p.until("!!document.querySelector('.hero')?.checkVisibility()")
		if got := eval[string](p, buttons); got != "" {
			t.Errorf("it offers %s", got)
		}
		if code := eval[int](p, post); code != 403 || g.Stats().Paused {
			t.Errorf("status %d, paused %v", code, g.Stats().Paused)
		}
	})
	t.Run("given", func(t *testing.T) {
		g := newGovernor(t, governor.Config[string, int]{Name: "acme"})
		cool(g)
		p := open(t, serve(t, dashboard.Config{Governors: dashboard.Of(g), Guard: func(*http.Request) bool { return true }})+"/?governor=acme")
		p.until("(" + buttons + ") == 'Pause,Clear,Clear,Clear'")
		press := func(name, answer string) {
			eval[bool](p, fmt.Sprintf("[...document.querySelectorAll('main button')].find(b => b.checkVisibility() && b.textContent == %q).click() || true", name))
			if answer != "" {
				p.until("document.getElementById('ask').open")
				eval[bool](p, fmt.Sprintf("document.querySelector('#ask button[value=%s]').click() || true", answer))
			}
		}
		press("Pause", "no")
		time.Sleep(100 * time.Millisecond)
		if g.Stats().Paused {
			t.Error("paused, although the person did not agree")
		}
		// That a dialog was closed is told with the next frame: whoever asks again before
		// it has another question.
		eval[bool](p, `(async () => {
			const pause = document.querySelector(".title .button"), answer = (x) => document.querySelector("#ask button[value=" + x + "]").click();
			const frame = () => new Promise(requestAnimationFrame);
			pause.click();
			answer("no");
			pause.click();
			await frame();
			await frame();
			answer("yes");
			return true;
		})()`)
		p.until("document.querySelector('.title .button').textContent == 'Resume'")
		if !g.Stats().Paused {
			t.Error("not paused")
		}
		press("Resume", "")
		p.until("document.querySelector('.title .button').textContent == 'Pause'")
		if g.Stats().Paused {
			t.Error("not resumed")
		}
		press("Clear", "yes")
		p.until("(" + buttons + ") == 'Pause,Clear,Clear'")
		if left := g.Stats().Cooldowns; len(left) != 1 || left[0].Scope.Key != "1" {
			t.Errorf("left are %+v", left)
		}
	})
}

// What users and vendors wrote is shown as they wrote it.
func TestHostileNames(t *testing.T) {
	const evil = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`
	g := newGovernor(t, governor.Config[string, int]{Name: evil})
	g.Learn(throttle.Signal{Delay: time.Hour, Source: evil})
	g.Learn(throttle.Signal{Delay: time.Hour, Source: evil, Scope: throttle.Scope{Level: throttle.Tenant, Key: evil}})
	governor.Submit(t.Context(), g.With(governor.Ask{Tenant: evil, Bucket: evil}), evil, func(context.Context, int) (int, error) { return 0, nil })
	p := open(t, serve(t, dashboard.Config{Governors: dashboard.Of(g), Process: evil})+"/")
	p.until(isLive)
	if got := p.text(".card h2"); got != evil {
		t.Errorf("%q", got)
	}
	eval[bool](p, "document.querySelector('.card a').click() || true")
	p.until("document.body.innerText.includes('Queue by tenant') && document.querySelectorAll('.panel td').length > 10")
	time.Sleep(1200 * time.Millisecond)
	if title := eval[string](p, "document.title"); !strings.Contains(title, "<img src=x") {
		t.Errorf("title %q", title)
	}
	if n := eval[int](p, "document.querySelectorAll('main img, main script').length"); n != 0 {
		t.Errorf("%d nodes made of names", n)
	}
}

// What another process says of a governor harms the view of no other.
func TestHostilePeer(t *testing.T) {
	for _, state := range []string{"constructor", "__proto__", "toString"} {
		peer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"process":"p","governors":[{"id":"x","name":"a","state":%[1]q},{"id":"x","name":"b","state":%[1]q}]}`, state)
		}))
		defer peer.Close()
		g := newGovernor(t, governor.Config[string, int]{Name: "acme"})
		p := open(t, serve(t, dashboard.Config{Governors: dashboard.Of(g), Peers: []string{peer.URL}})+"/")
		p.until("document.querySelectorAll('.card').length == 3")
		g.Pause()
		p.until("document.body.innerText.includes('Paused')")
		time.Sleep(2500 * time.Millisecond) // two updates more
		if n := eval[int](p, "document.querySelectorAll('.card').length"); n != 3 {
			t.Errorf("%s: %d cards, want 3", state, n)
		}
	}
}

// Names that are shown alike, being of one beginning, are rows of their own.
func TestNamesAlikeStayRows(t *testing.T) {
	g := newGovernor(t, governor.Config[string, int]{Name: "acme"})
	g.Pause()
	for _, b := range []string{"https://api.example.com/v1?page=1", "https://api.example.com/v1?page=2"} {
		governor.Submit(t.Context(), g.With(governor.Ask{Bucket: b, Tenant: b}), "", func(context.Context, int) (int, error) { return 0, nil })
	}
	p := open(t, serve(t, dashboard.Config{Governors: dashboard.Of(g)})+"/?governor=acme")
	p.until(isLive)
	time.Sleep(3500 * time.Millisecond)
	for _, of := range []string{"lane", "tenant"} {
		if n := eval[int](p, "document.querySelectorAll('section[aria-label=\"Queue by "+of+"\"] tbody tr').length"); n != 2 {
			t.Errorf("%d rows by %s, want 2", n, of)
		}
	}
}

// The stream breaks, and comes back, and the past is not lost nor told twice.
func TestReconnects(t *testing.T) {
	g := newGovernor(t, governor.Config[string, int]{Name: "acme"})
	d := must(dashboard.New(dashboard.Config{Governors: dashboard.Of(g)}))
	t.Cleanup(func() { d.Close() })
	gate := &door{to: d}
	p := open(t, gate.serve(t)+"/?governor=acme")
	p.quiet = true
	p.until("document.getElementById('live').dataset.state == 'live'")
	g.Learn(throttle.Signal{Delay: time.Hour, Source: "first"})
	p.until("document.body.innerText.includes('first')")
	gate.shut(true)
	p.until("document.getElementById('live').dataset.state == 'lost'")
	g.Learn(throttle.Signal{Delay: 2 * time.Hour, Source: "second"})
	time.Sleep(time.Second)
	gate.shut(false)
	p.until("document.getElementById('live').dataset.state == 'live' && document.body.innerText.includes('second')")
	if n := eval[int](p, "[...document.querySelectorAll('section[aria-label=\"Recent events\"] tbody tr')].filter(r => r.innerText.includes('first')).length"); n != 2 {
		t.Errorf("%d events of the first signal, want 2: learned, cooling", n)
	}
}
