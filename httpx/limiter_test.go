package httpx

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/policy"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/vendors"
)

func newLimiter(t *testing.T, cfg LimiterConfig) *Limiter {
	t.Helper()
	l, err := NewLimiter(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func window(t *testing.T, name string, limit int, per time.Duration) Limit {
	t.Helper()
	w, err := limiter.NewFixedWindow(limiter.FixedWindowConfig{Limit: limit, Period: per})
	if err != nil {
		t.Fatal(err)
	}
	return Limit{Name: name, Limiter: w, Limit: limit, Window: per}
}

var ok = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok") })

func ask(h http.Handler, path, from string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", path, nil)
	r.RemoteAddr = from
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestLimiterDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newLimiter(t, LimiterConfig{}).Handler(ok)
		time.Sleep(500 * time.Millisecond)
		for i := range 1000 {
			if w := ask(h, "/", "192.0.2.1:1"); w.Code != 200 {
				t.Fatalf("call %d: %d", i, w.Code)
			}
		}
		w := ask(h, "/", "192.0.2.1:2")
		if w.Code != 429 || strings.TrimSpace(w.Body.String()) != "Too Many Requests" {
			t.Errorf("%d %q", w.Code, w.Body)
		}
		for name, want := range map[string]string{
			"Retry-After": "60", "Ratelimit-Policy": `"default";q=1000;w=60`, "Ratelimit": `"default";r=0;t=60`,
			"X-Ratelimit-Limit": "1000", "X-Ratelimit-Remaining": "0",
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
		if got := w.Header().Get("X-Ratelimit-Reset"); got < itoa(time.Now().Add(59*time.Second).Unix()) || got > itoa(time.Now().Add(61*time.Second).Unix()) {
			t.Errorf("X-RateLimit-Reset: %s", got)
		}
		if w := ask(h, "/", "192.0.2.2:1"); w.Code != 200 || w.Header().Get("X-Ratelimit-Remaining") != "999" {
			t.Errorf("another caller: %d, %v", w.Code, w.Header())
		}
		time.Sleep(time.Minute)
		if w := ask(h, "/", "192.0.2.1:1"); w.Code != 200 {
			t.Errorf("in the next minute: %d", w.Code)
		}
	})
}

func TestRejectionIsReadByOurOwnClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newLimiter(t, LimiterConfig{Limits: []Limit{window(t, "", 2, 10*time.Second)}}).Handler(ok)
		tr := transport(t, Config{Base: fake(func(r *http.Request) (*http.Response, error) { return ask(h, "/", "192.0.2.1:1").Result(), nil })})
		began := time.Now()
		for i, want := range []time.Duration{0, 0, 10 * time.Second, 10 * time.Second} {
			if status, _ := fetch(t, tr, request(t, "GET", "http://api.test/", "")); status != 200 {
				t.Fatal(status)
			}
			if d := time.Since(began); d < want || d > want+2*time.Second {
				t.Errorf("call %d after %v, want %v", i, d, want)
			}
		}
		if s := vendors.HTTP(); len(s.Learn(vendors.Response{Status: 200, Header: ask(h, "/", "192.0.2.9:1").Header()})) != 1 {
			t.Error("the headers teach nothing")
		}
	})
}

func TestLimitersStackAndTellTheTightest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app := newLimiter(t, LimiterConfig{Limits: []Limit{window(t, "app", 10, time.Minute)}})
		route := newLimiter(t, LimiterConfig{Limits: []Limit{window(t, "route", 2, time.Minute)}})
		mux := http.NewServeMux()
		mux.Handle("/narrow", route.Handler(ok))
		mux.Handle("/", ok)
		h := app.Handler(mux)
		w := ask(h, "/narrow", "192.0.2.1:1")
		if got := w.Header().Values("Ratelimit"); len(got) != 2 || !strings.HasPrefix(got[0], `"app";r=9`) || !strings.HasPrefix(got[1], `"route";r=1`) {
			t.Errorf("%q", got)
		}
		if w.Header().Get("X-Ratelimit-Remaining") != "1" || w.Header().Get("X-Ratelimit-Limit") != "2" {
			t.Errorf("%v", w.Header())
		}
		ask(h, "/narrow", "192.0.2.1:1")
		if w := ask(h, "/narrow", "192.0.2.1:1"); w.Code != 429 {
			t.Errorf("route: %d", w.Code)
		}
		if w := ask(h, "/", "192.0.2.1:1"); w.Code != 200 || w.Header().Get("X-Ratelimit-Remaining") != "6" {
			t.Errorf("elsewhere: %d, %v", w.Code, w.Header())
		}
	})
}

func TestCostExcludeKeyAndHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard []string
		h := newLimiter(t, LimiterConfig{
			Limits:     []Limit{window(t, "", 5, time.Minute)},
			Key:        func(r *http.Request) string { return r.URL.Query().Get("who") },
			Cost:       func(r *http.Request) int { return len(r.URL.Query().Get("cost")) },
			Exclude:    func(r *http.Request) bool { return r.URL.Path == "/health" },
			NoHeaders:  true,
			OnAdmitted: func(r *http.Request, key string) { heard = append(heard, "+"+key) },
			OnRejected: func(w http.ResponseWriter, r *http.Request, key string, err error) {
				heard = append(heard, "-"+key)
				w.WriteHeader(StatusOf(err) + 70)
			},
		}).Handler(ok)
		codes := ""
		for _, path := range []string{"/?who=a&cost=xxx", "/?who=a&cost=xxx", "/?who=a&cost=xx", "/?who=b&cost=x", "/?who=a", "/health", "/?who=c&cost=xxxxxx"} {
			w := ask(h, path, "192.0.2.1:1")
			codes += itoa(int64(w.Code)) + " "
			if w.Header().Get("Ratelimit") != "" || (w.Header().Get("Retry-After") != "") != (w.Code == 499 && !strings.Contains(path, "xxxxxx")) {
				t.Errorf("%s: %v", path, w.Header())
			}
		}
		if codes != "200 499 200 200 200 200 499 " {
			t.Error(codes)
		}
		if got := strings.Join(heard, " "); got != "+a -a +a +b +a -c" {
			t.Error(got)
		}
	})
}

func TestCallsWaitInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newLimiter(t, LimiterConfig{Limits: []Limit{window(t, "", 1, 4*time.Second)}, MaxQueue: 2}).Handler(ok)
		began := time.Now()
		var mu sync.Mutex
		codes := map[time.Duration]int{}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				w := ask(h, "/", "192.0.2.1:1")
				mu.Lock()
				defer mu.Unlock()
				codes[time.Since(began)] += w.Code
			})
		}
		wg.Wait()
		if codes[0] != 200+429 || codes[4*time.Second] != 200 || codes[8*time.Second] != 200 {
			t.Error(codes)
		}
	})
}

func TestRunningCallsAreCountedUntilTheyEnd(t *testing.T) {
	c, err := limiter.NewConcurrency(limiter.ConcurrencyConfig{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	h := newLimiter(t, LimiterConfig{Limits: []Limit{{Limiter: c, Whole: true}}})
	entered, leave := make(chan struct{}), make(chan struct{})
	busy := h.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(entered); <-leave; panic("gone") }))
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		ask(busy, "/", "192.0.2.1:1")
	}()
	<-entered
	if w := ask(h.Handler(ok), "/", "192.0.2.2:1"); w.Code != 429 {
		t.Errorf("%d while the other runs", w.Code)
	}
	close(leave)
	<-done
	if w := ask(h.Handler(ok), "/", "192.0.2.2:1"); w.Code != 200 {
		t.Errorf("%d after the panic", w.Code)
	}
	h.Close()
	if w := ask(h.Handler(ok), "/", "192.0.2.2:1"); w.Code != 503 {
		t.Errorf("%d when closed", w.Code)
	}
}

func TestRemoteKey(t *testing.T) {
	for from, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1", "[2001:db8:1:2:3:4:5:6]:1": "2001:db8:1:2::/64", "[::ffff:192.0.2.1]:9": "192.0.2.1",
		"[fe80::1%eth0]:1": "fe80::/64", "pipe": "pipe", "": "",
	} {
		if got := RemoteKey(&http.Request{RemoteAddr: from}); got != want {
			t.Errorf("%q: %q, want %q", from, got, want)
		}
	}
}

func TestConfigurationsThatMakeNoSense(t *testing.T) {
	bad := func(err error, field string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v, want one about %s", err, field)
		}
	}
	for field, cfg := range map[string]LimiterConfig{
		"Limits[0].Limiter": {Limits: []Limit{{}}}, "Limits[0].Name": {Limits: []Limit{{Name: `a"b`, Limiter: window(t, "", 1, 1).Limiter}}},
		"MaxQueue": {MaxQueue: -1},
	} {
		_, err := NewLimiter(cfg)
		bad(err, field)
	}
	for field, cfg := range map[string]Config{
		"Timeout": {Timeout: -1}, "HeaderTimeout": {HeaderTimeout: -1}, "Config.Base": {Base: fake(nil), ConnectTimeout: 1}, "MaxHosts": {MaxHosts: -1},
		"Config.Breaker": {Breaker: &breaker.Config{FailureRate: 2}}, "Config.Retry": {Retry: &Retry{MaxElapsed: -1}},
	} {
		_, err := New(cfg)
		bad(err, field)
		body := &once{Reader: strings.NewReader("")}
		req := request(t, "POST", "http://api.test/", "")
		req.Body = body
		tr := NewTransport(cfg)
		_, err = tr.RoundTrip(req)
		bad(err, field)
		tr.CloseIdleConnections()
		if tr.Close(); body.closed.Load() != 1 {
			t.Errorf("%s: the body was not closed", field)
		}
	}
	tr := transport(t, Config{Base: fake(nil)})
	_, err := tr.RoundTrip(&http.Request{})
	bad(err, "URL")
	req := request(t, "GET", "http://api.test/", "")
	_, err = tr.RoundTrip(req.WithContext(WithRetry(req.Context(), &Retry{MaxElapsed: -1})))
	bad(err, "WithRetry")
}

func chainOf(t *testing.T, ps ...policy.Policy) *policy.Pipeline {
	t.Helper()
	return policy.Chain(ps...)
}

func TestMiddlewareAnswersForWhatWasNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := breaker.New(breaker.Config{Consecutive: 1})
		if err != nil {
			t.Fatal(err)
		}
		status := 500
		h := Middleware(chainOf(t, b))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status) }))
		if w := ask(h, "/", ""); w.Code != 500 {
			t.Errorf("the handler's own: %d", w.Code)
		}
		time.Sleep(500 * time.Millisecond)
		if w := ask(h, "/", ""); w.Code != 503 || w.Header().Get("Retry-After") != "60" {
			t.Errorf("open: %d, %v", w.Code, w.Header())
		}

		limit, err := policy.NewTimeout(policy.TimeoutConfig{After: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		late := Middleware(chainOf(t, limit))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			w.WriteHeader(http.StatusBadGateway)
		}))
		if w := ask(late, "/", ""); w.Code != 502 {
			t.Errorf("an answer after the end: %d", w.Code)
		}

		again, err := retry.New(retry.Config{})
		if err != nil {
			t.Fatal(err)
		}
		calls := 0
		twice := Middleware(chainOf(t, again))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { calls++; w.WriteHeader(500) }))
		if w := ask(twice, "/", ""); w.Code != 500 || calls != 1 {
			t.Errorf("%d after %d calls", w.Code, calls)
		}
	})
}

func TestChainSendsNothingTwiceThatCannotBe(t *testing.T) {
	again, err := retry.New(retry.Config{RetryOnResult: policy.OnResult(IsFailure), Wait: func(context.Context, time.Duration) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	lost := errors.New("lost")
	for _, failing := range []bool{true, false} {
		sent := 0
		rt := RoundTripper(fake(func(r *http.Request) (*http.Response, error) {
			sent++
			io.Copy(io.Discard, r.Body)
			r.Body.Close()
			if failing {
				return nil, lost
			}
			return answer(503, "down"), nil
		}), chainOf(t, again))
		req := request(t, "POST", "http://api.test/", "")
		body := &once{Reader: strings.NewReader("x")}
		req.Body = body
		resp, err := rt.RoundTrip(req)
		if sent != 1 || body.closed.Load() != 1 {
			t.Errorf("sent %d times, closed %d times", sent, body.closed.Load())
		}
		if failing && !errors.Is(err, lost) || !failing && (err != nil || read(t, resp) != "down") {
			t.Error(resp, err)
		}
	}
}

func FuzzRemoteKey(f *testing.F) {
	f.Add("192.0.2.1:1")
	f.Add("[::1%a]:2")
	f.Fuzz(func(t *testing.T, addr string) {
		key := RemoteKey(&http.Request{RemoteAddr: addr})
		if len(key) > len(addr)+64 {
			t.Errorf("%q: %q", addr, key)
		}
	})
}
