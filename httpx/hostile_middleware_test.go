package httpx

import (
	"context"
	"io"
	stdlog "log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/policy"
)

// tardy is a layer that gives a call up before its goroutine has run.
type tardy struct{}

func (tardy) Wrap(next policy.Handler) policy.Handler {
	return func(c *policy.Call) error {
		late := c.Fork(context.Background())
		go func() { time.Sleep(time.Second); _ = next(late) }()
		return context.DeadlineExceeded
	}
}

func (tardy) Layer() policy.Layer { return policy.TimeoutLayer }
func (tardy) String() string      { return "tardy" }

func TestHandlerDoesNotBeginWhenTheAnswerIsGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := false
		w := ask(Middleware(policy.Chain(tardy{}))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { begun = true })), "/", "")
		time.Sleep(time.Minute)
		if begun || w.Code != 503 {
			t.Errorf("begun %v, %d", begun, w.Code)
		}
	})
}

// Many libraries look for an http.Hijacker.
func TestConnectionIsTakenOverBehindMiddleware(t *testing.T) {
	for after := 10 * time.Millisecond; !takenOver(t, after); after *= 2 {
		if after > time.Minute {
			t.Fatal("no time is long enough")
		}
	}
}

// takenOver reports whether the connection was taken over before the timeout, which a
// busy machine may not do.
func takenOver(t *testing.T, after time.Duration) bool {
	limit, err := policy.NewTimeout(policy.TimeoutConfig{After: after})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	var taken atomic.Bool
	srv := httptest.NewUnstartedServer(Middleware(policy.Chain(limit))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, ok := w.(http.Hijacker)
		if !ok {
			t.Error("no http.Hijacker")
			return
		}
		conn, _, err := h.Hijack()
		if err != nil {
			if r.Context().Err() == nil {
				t.Error(err)
			}
			return
		}
		taken.Store(true)
		defer conn.Close()
		<-r.Context().Done() // a long conversation
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nmine")
	})))
	srv.Config.ErrorLog = stdlog.New(&log, "", 0)
	srv.Start()
	resp, err := http.Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	got := read(t, resp)
	http.DefaultClient.CloseIdleConnections()
	srv.Close()
	if taken.Load() && got != "mine" {
		t.Errorf("%q", got)
	}
	if log.Len() > 0 {
		t.Error("the server complains: " + log.String())
	}
	return taken.Load()
}

// A handler that is left behind by a timeout writes to nobody's answer.
func TestTimeoutAroundAHandlerThatHeedsNothing(t *testing.T) {
	limit, err := policy.NewTimeout(policy.TimeoutConfig{After: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		status  int
		body    string
	}{
		"writes late":    {func(w http.ResponseWriter, _ *http.Request) { time.Sleep(2 * time.Second); io.WriteString(w, "late") }, 200, "late"},
		"writes nothing": {func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 504, "Gateway Timeout\n"},
		"wrote before":   {func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "half"); <-r.Context().Done() }, 200, "half"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := ask(Middleware(policy.Chain(limit))(c.handler), "/", "192.0.2.1:1")
				if w.Code != c.status || w.Body.String() != c.body {
					t.Errorf("%d %q", w.Code, w.Body)
				}
			})
		})
	}
	if !recovered(Middleware(policy.Chain(limit))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })),
		httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)) {
		t.Error("a panic did not pass")
	}
}
