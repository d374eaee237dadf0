package adsclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
)

// Many callers that find no token wait for one exchange.
func TestTokenIsFetchedOnce(t *testing.T) {
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"access_token":"t%d","expires_in":3600}`, asked.Add(1))
	}))
	defer s.Close()
	tokens, err := NewTokens(Credentials{TokenURL: s.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tokens.Close()
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if token, err := tokens.Token(t.Context()); token != "t1" || err != nil {
				t.Errorf("%q, %v", token, err)
			}
		})
	}
	wg.Wait()
	if n := asked.Load(); n != 1 {
		t.Errorf("%d exchanges", n)
	}
}

func TestTokenErrors(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"refused":     func(w http.ResponseWriter, _ *http.Request) { http.Error(w, `{"error":"invalid_grant"}`, 400) },
		"not JSON":    func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") },
		"no token":    func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") },
		"broken off":  func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"empty error": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
	} {
		s := httptest.NewServer(answer)
		tokens, err := NewTokens(Credentials{TokenURL: s.URL}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token, err := tokens.Token(t.Context()); token != "" || !Hopeless(err) {
			t.Errorf("%s: %q, %v", name, token, err)
		}
		tokens.Close()
		s.Close()
	}
	tokens := newTokens(Credentials{}, nil)
	defer tokens.Close()
	tokens.turn <- struct{}{} // someone else is fetching
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tokens.Token(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting for a turn outlives its context: %v", err)
	}
}

func TestDialRefusesBadRoots(t *testing.T) {
	if _, err := Dial(t.Context(), Config{Endpoint: "127.0.0.1:1", CA: []byte("nonsense")}); err == nil {
		t.Error("no error")
	}
	if _, err := NewTokens(Credentials{}, []byte("nonsense")); err == nil {
		t.Error("no error")
	}
}
