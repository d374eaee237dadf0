package httpx

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/governor"
)

// A body of a mebibyte is read from the connection, of which none is left behind.
func TestLongRefusalsOverRealConnections(t *testing.T) {
	var refused atomic.Int64
	h := func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		after, status := r.URL.Query().Get("after"), 429
		switch {
		case r.URL.Path == "/recovers" && refused.Add(1)%2 == 0:
			status = 200
		case r.URL.Path == "/fails":
			status = 503
		}
		if after != "" {
			w.Header().Set("Retry-After", after)
		}
		w.WriteHeader(status)
		io.WriteString(w, long)
	}
	protocols(t, h, func(t *testing.T, s server) {
		for name, c := range map[string]struct {
			path   string
			once   bool // the request's body cannot be had again
			cfg    Config
			status int
		}{
			"a pause that is too long":    {path: "/?after=36000", status: 429},
			"a request that is sent once": {path: "/?after=1", once: true, status: 429},
			"refused too often": {path: "/?after=0", status: 429, cfg: Config{Host: func(string) (governor.PlainConfig, error) {
				return governor.PlainConfig{LimitedAttempts: 1}, nil
			}}},
			"sent again":         {path: "/recovers?after=0", status: 200},
			"failed too often":   {path: "/fails", status: 503, cfg: Config{Retry: &Retry{AnyMethod: true, Backoff: backoff.None}}},
			"not to be repeated": {path: "/fails", status: 503, cfg: Config{Retry: &Retry{}}},
		} {
			t.Run(name, func(t *testing.T) {
				tr := s.transport(t, c.cfg)
				req := request(t, "POST", s.URL+c.path, "x")
				if c.once {
					req.GetBody = nil
				}
				if status, body := fetch(t, tr, req); status != c.status || body != long {
					t.Errorf("%d, %d of %d bytes", status, len(body), len(long))
				}
				s.audit.check(t)
				free(t, tr)
			})
		}
		t.Run("closed unread", func(t *testing.T) {
			tr := s.transport(t, Config{})
			resp, err := tr.RoundTrip(request(t, "GET", s.URL+"/?after=36000", ""))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			s.audit.check(t)
			free(t, tr)
		})
		t.Run("its Transport is closed", func(t *testing.T) {
			tr := s.transport(t, Config{})
			resp, err := tr.RoundTrip(request(t, "GET", s.URL+"/?after=36000", ""))
			if err != nil {
				t.Fatal(err)
			}
			closed := make(chan error)
			go func() { closed <- tr.Close() }()
			if n, err := io.Copy(io.Discard, resp.Body); err != nil && !errors.Is(err, governor.ErrClosed) && !errors.Is(err, context.Canceled) {
				t.Errorf("%d bytes, %v", n, err)
			}
			resp.Body.Close()
			if err := <-closed; err != nil {
				t.Error(err)
			}
		})
	})
}
