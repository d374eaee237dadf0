// Package strict is a stand-in for an API that refuses its first call, and all that
// come within the second after it, and then answers.
package strict

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Pause is how long an API refuses. It says so in seconds.
const Pause = time.Second

// underway is how long calls may take that were sent before the refusal was heard.
const underway = 300 * time.Millisecond

// API is one that refuses in the words of a vendor.
type API struct {
	Refuse, Answer http.HandlerFunc

	mu       sync.Mutex
	until    time.Time
	calls    atomic.Int64
	refused  atomic.Int64
	trespass atomic.Int64
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	a.calls.Add(1)
	a.mu.Lock()
	if a.until.IsZero() {
		a.until = now.Add(Pause)
	}
	until := a.until
	a.mu.Unlock()
	if now.Before(until) {
		a.refused.Add(1)
		if until.Sub(now) < Pause-underway {
			a.trespass.Add(1)
		}
		a.Refuse(w, r)
		return
	}
	a.Answer(w, r)
}

// Check has run make n calls at the same time, at the API, and expects n results,
// of calls none of which began in the pause.
func (a *API) Check(t *testing.T, n int, run func(url string, n int) (results int, err error)) {
	t.Helper()
	server := httptest.NewServer(a)
	defer server.Close()
	got, err := run(server.URL, n)
	if err != nil || got != n {
		t.Errorf("%d results, %v; want %d", got, err, n)
	}
	if refused := a.refused.Load(); refused == 0 || a.calls.Load() != int64(n)+refused {
		t.Errorf("%d calls, %d of them refused, want %d others", a.calls.Load(), refused, n)
	}
	if trespass := a.trespass.Load(); trespass > 0 {
		t.Errorf("%d calls began in the pause", trespass)
	}
}

// JSON answers with a status and a body.
func JSON(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		w.Write([]byte(body))
	}
}
