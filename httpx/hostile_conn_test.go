package httpx

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/governor"
)

func TestCloseOfATransportWithOneGovernorLeavesNoConnection(t *testing.T) {
	g, err := governor.New(governor.PlainConfig{Name: "all"})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	srv := httptest.NewUnstartedServer(ok)
	closed := make(chan struct{}, 10)
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			closed <- struct{}{}
		}
	}
	srv.Start()
	defer srv.Close()
	tr, err := New(Config{Governor: g})
	if err != nil {
		t.Fatal(err)
	}
	fetch(t, tr, request(t, "GET", srv.URL, ""))
	if err := tr.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-closed:
	case <-time.After(30 * time.Second):
		t.Error("a connection of the Transport is still there")
	}
}

func TestConnectionsAreUsedAgainWhateverTheAnswer(t *testing.T) {
	var conns, calls atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		switch calls.Add(1) % 4 {
		case 0:
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(429)
		case 1:
			http.Error(w, "down", http.StatusServiceUnavailable)
		case 2:
			w.WriteHeader(204)
		default:
			io.WriteString(w, strings.Repeat("x", 1<<20))
		}
	}))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	srv.Start()
	defer srv.Close()
	tr := transport(t, Config{Retry: &Retry{Backoff: backoff.None}, Timeout: time.Minute, AttemptTimeout: time.Minute})
	for range 12 {
		fetch(t, tr, request(t, "PUT", srv.URL, "x"))
	}
	if conns.Load() != 1 {
		t.Errorf("%d connections for %d calls one after the other", conns.Load(), calls.Load())
	}
}
