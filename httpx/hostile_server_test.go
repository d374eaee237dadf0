package httpx

import (
	"context"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/limiter"
)

// atOnce is a limit of n calls at once, of each key or of all.
func atOnce(t *testing.T, n int, whole bool) Limit {
	t.Helper()
	c, err := limiter.NewConcurrency(limiter.ConcurrencyConfig{Limit: n})
	if err != nil {
		t.Fatal(err)
	}
	return Limit{Name: "at-once", Limiter: c, Whole: whole}
}

// recovered serves a call, as a server does, and reports whether the handler panicked.
func recovered(h http.Handler, w http.ResponseWriter, r *http.Request) (panicked bool) {
	defer func() { panicked = recover() != nil }()
	h.ServeHTTP(w, r)
	return
}

func TestPanickingFunctionsKeepNoPermit(t *testing.T) {
	boom := true
	fail := func() {
		if boom {
			panic("boom")
		}
	}
	for name, cfg := range map[string]LimiterConfig{
		"Key":        {Key: func(*http.Request) string { fail(); return "k" }},
		"Cost":       {Cost: func(*http.Request) int { fail(); return 1 }},
		"Exclude":    {Exclude: func(*http.Request) bool { fail(); return false }},
		"OnAdmitted": {OnAdmitted: func(*http.Request, string) { fail() }},
		"handler":    {},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.Limits = []Limit{atOnce(t, 1, true)}
			next := ok
			if name == "handler" {
				next = func(w http.ResponseWriter, r *http.Request) { fail(); ok(w, r) }
			}
			h := newLimiter(t, cfg).Handler(next)
			boom = true
			if !recovered(h, httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)) {
				t.Error("the panic did not reach the server")
			}
			boom = false
			if w := ask(h, "/", "192.0.2.1:1"); w.Code != 200 {
				t.Errorf("%d afterwards", w.Code)
			}
		})
	}
}

func TestStrangeCostsAndKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cost, key := 1, "k"
		l := newLimiter(t, LimiterConfig{
			Limits: []Limit{window(t, "rate", 10, time.Minute), atOnce(t, 5, true)},
			Cost:   func(*http.Request) int { return cost }, Key: func(*http.Request) string { return key },
		})
		h := l.Handler(ok)
		for _, c := range []struct{ cost, status int }{
			{0, 200}, {-1, 200}, {math.MinInt, 200}, {6, 429}, {math.MaxInt, 429}, {5, 200}, {5, 200}, {1, 429}, {0, 200},
		} {
			cost = c.cost
			w := ask(h, "/", "192.0.2.1:1")
			if w.Code != c.status {
				t.Errorf("cost %d: %d, want %d", c.cost, w.Code, c.status)
			}
			after := w.Header().Get("Retry-After")
			if want := map[bool]string{true: "60"}[c.cost == 1]; after != want {
				t.Errorf("cost %d: Retry-After %q, want %q: never for what never fits", c.cost, after, want)
			}
		}
		cost = 1
		for _, k := range []string{"", strings.Repeat("x", 1<<20), "\x00\r\n", "日本"} {
			key = k
			if w := ask(h, "/", "192.0.2.1:1"); w.Code != 200 {
				t.Errorf("key of %d bytes: %d", len(k), w.Code)
			}
		}
		key = ""
		for range 9 {
			ask(h, "/", "")
		}
		if w := ask(h, "/", ""); w.Code != 429 {
			t.Errorf("the empty key is not limited: %d", w.Code)
		}
	})
}

// A limit keeps 100,000 keys unless its MaxKeys says otherwise, as the limiters' own tests
// show; a LimiterConfig adds no bound of its own. Here the limit keeps 10,000, to be quick.
// Twice as many have come when what a flood of others adds is measured.
func TestKeysOfAFloodAreBounded(t *testing.T) {
	calls, err := limiter.NewFixedWindow(limiter.FixedWindowConfig{Limit: 1000, Period: time.Minute, MaxKeys: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	l := newLimiter(t, LimiterConfig{Limits: []Limit{{Limiter: calls}}, Key: func(r *http.Request) string { return r.URL.Path }, NoHeaders: true})
	h := l.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r, w := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder()
	come := func(from, to int) {
		for i := from; i < to; i++ {
			r.URL.Path = itoa(int64(i))
			h.ServeHTTP(w, r)
		}
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const many = 20_000
	come(0, many)
	before := heap()
	come(many, many+effort.Times(2*many))
	if grown := heap() - before; grown > 1<<20 {
		t.Errorf("%d KiB more are kept for keys that came once", grown>>10)
	}
	runtime.KeepAlive(l)
}

func TestStreamsAtOnceAreCountedUntilTheyEnd(t *testing.T) {
	l := newLimiter(t, LimiterConfig{Limits: []Limit{atOnce(t, 3, true)}, MaxQueue: 100, MaxWait: time.Minute})
	var running, most atomic.Int64
	srv := httptest.NewServer(l.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := running.Add(1)
		defer running.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		for range 20 {
			io.WriteString(w, "part\n")
			if http.NewResponseController(w).Flush() != nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
	})))
	defer srv.Close()
	tr := transport(t, Config{})
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			resp, err := tr.RoundTrip(request(t, "GET", srv.URL, "").WithContext(ctx))
			if err != nil {
				t.Error(err)
				return
			}
			if i%3 == 0 { // in the middle
				io.CopyN(io.Discard, resp.Body, 7)
				cancel()
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		})
	}
	wg.Wait()
	if m := most.Load(); m > 3 || m == 0 {
		t.Errorf("%d streams at once, want up to 3", m)
	}
	resp, err := tr.RoundTrip(request(t, "GET", srv.URL, ""))
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(err, resp)
	}
	read(t, resp)
}

func TestCallerWhoGoesAwayLeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, LimiterConfig{Limits: []Limit{atOnce(t, 1, true)}, MaxQueue: 1, MaxWait: time.Hour})
		h := l.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Minute) }))
		go ask(h, "/", "192.0.2.1:1")
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		go h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil).WithContext(ctx))
		synctest.Wait()
		if l.Shared().Waiting() != 1 {
			t.Fatal("nobody waits")
		}
		cancel()
		synctest.Wait()
		if n := l.Shared().Waiting(); n != 0 {
			t.Errorf("%d wait", n)
		}
		if w := ask(h, "/", "192.0.2.1:1"); w.Code != 200 {
			t.Errorf("the next: %d", w.Code)
		}
	})
}
