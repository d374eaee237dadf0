package httpx

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/governor"
)

// streamed is a request with a body that cannot be had again.
func streamed(t *testing.T, url string) (*http.Request, *once) {
	body := &once{Reader: strings.NewReader("x")}
	req := request(t, "POST", url, "")
	req.Body = body
	return req, body
}

func TestBodyOfWhatIsNotSentIsClosedOnce(t *testing.T) {
	fail := errors.New("no such host")
	yes := fake(func(r *http.Request) (*http.Response, error) {
		if r.Body != nil {
			r.Body.Close()
		}
		return answer(200, "x"), nil
	})
	no := fake(func(*http.Request) (*http.Response, error) { return answer(500, ""), nil })
	take := func(t *testing.T, tr http.RoundTripper) { // the only slot
		resp, err := tr.RoundTrip(request(t, "GET", "http://api.test/", ""))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
	}
	cut := func(after time.Duration) func(*testing.T, *http.Request) *http.Request {
		return func(t *testing.T, r *http.Request) *http.Request {
			ctx, cancel := context.WithCancel(r.Context())
			go func() { time.Sleep(after); cancel() }()
			return r.WithContext(ctx)
		}
	}
	for name, c := range map[string]struct {
		cfg    Config
		before func(*testing.T, http.RoundTripper)
		req    func(*testing.T, *http.Request) *http.Request
	}{
		"invalid":      {cfg: Config{MaxHosts: -1}},
		"no host":      {req: func(t *testing.T, r *http.Request) *http.Request { r.URL.Host = ""; return r }},
		"no URL":       {req: func(t *testing.T, r *http.Request) *http.Request { r.URL = nil; return r }},
		"Host":         {cfg: Config{Host: func(string) (governor.PlainConfig, error) { return governor.PlainConfig{}, fail }}},
		"Host's error": {cfg: Config{Host: func(string) (governor.PlainConfig, error) { return governor.PlainConfig{Workers: -1}, nil }}},
		"a long host": {req: func(t *testing.T, r *http.Request) *http.Request {
			r.URL.Host = strings.Repeat("a", 1<<20)
			r.URL.Scheme = ""
			return r
		}, cfg: Config{Host: func(string) (governor.PlainConfig, error) { return governor.PlainConfig{}, fail }}},
		"WithRetry": {req: func(t *testing.T, r *http.Request) *http.Request {
			return r.WithContext(WithRetry(r.Context(), &Retry{MaxElapsed: -1}))
		}},
		"cancelled":      {req: cut(0)},
		"too many hosts": {cfg: Config{MaxHosts: 1, Base: yes}, before: take, req: func(t *testing.T, r *http.Request) *http.Request { r.URL.Host = "other.test"; return r }},
		"breaker":        {cfg: Config{Breaker: &breaker.Config{Consecutive: 1}, Base: no}, before: func(t *testing.T, rt http.RoundTripper) { fetch(t, rt, request(t, "GET", "http://api.test/", "")) }},
		"queue":          {cfg: Config{Host: workers(1), Base: yes}, before: take, req: cut(time.Second)},
		"Timeout":        {cfg: Config{Host: workers(1), Base: yes, Timeout: time.Second}, before: take},
		"closed":         {cfg: Config{Base: yes}, before: func(t *testing.T, rt http.RoundTripper) { rt.(*Transport).Close() }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := NewTransport(c.cfg)
				defer tr.Close()
				if c.before != nil {
					c.before(t, tr)
				}
				req, body := streamed(t, "http://api.test/")
				if name == "cancelled" {
					ctx, cancel := context.WithCancel(t.Context())
					cancel()
					req = req.WithContext(ctx)
				} else if c.req != nil {
					req = c.req(t, req)
				}
				if _, err := tr.RoundTrip(req); err == nil {
					t.Error("it was sent")
				} else if len(err.Error()) > 4096 {
					t.Errorf("the error has %d bytes", len(err.Error()))
				}
				if n := body.closed.Load(); n != 1 {
					t.Errorf("the body was closed %d times", n)
				}
				synctest.Wait()
				if c.before == nil {
					free(t, tr)
				}
			})
		})
	}
}

func TestGetBodyThatFailsEndsTheRequest(t *testing.T) {
	bad := errors.New("file is gone")
	for name, get := range map[string]func() (io.ReadCloser, error){
		"an error": func() (io.ReadCloser, error) { return nil, bad },
		"a panic":  func() (io.ReadCloser, error) { panic("gone") },
	} {
		for _, status := range []int{429, 503} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sent := 0
					var answers []*once
					base := fake(func(r *http.Request) (*http.Response, error) {
						sent++
						r.Body.Close()
						resp, b := tracked(status, "no", "Retry-After", "1")
						answers = append(answers, b)
						return resp, nil
					})
					tr := transport(t, Config{Retry: &Retry{AnyMethod: true}, Base: base, Host: workers(1)})
					req, body := streamed(t, "http://api.test/")
					req.GetBody = get
					resp, err := tr.RoundTrip(req)
					if sent != 1 || err == nil {
						t.Errorf("sent %d times, %v", sent, err)
					}
					if name == "an error" && err != bad {
						t.Errorf("%v, want that of GetBody", err)
					}
					if resp != nil {
						t.Error("a response and an error")
					}
					if body.closed.Load() != 1 || answers[0].closed.Load() != 1 {
						t.Errorf("bodies were closed %d and %d times", body.closed.Load(), answers[0].closed.Load())
					}
					free(t, tr)
				})
			})
		}
	}
}

func TestRedirectToAnotherHostNeedsNoSecondSlot(t *testing.T) {
	var other *httptest.Server
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", other.URL+r.URL.Path)
		w.WriteHeader(http.StatusTemporaryRedirect)
		io.WriteString(w, strings.Repeat("moved ", 10_000))
	}))
	defer first.Close()
	other = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }))
	defer other.Close()
	one, err := governor.New(governor.PlainConfig{Name: "one", Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	for name, cfg := range map[string]Config{
		"a governor each": {Host: workers(1)}, "one governor": {Governor: one}, "one host at a time": {Host: workers(1), MaxHosts: 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := &http.Client{Transport: transport(t, cfg), Timeout: time.Minute}
			for range 3 {
				resp, err := c.Post(first.URL, "text/plain", strings.NewReader("the body"))
				if err != nil {
					t.Fatal(err)
				}
				if got := read(t, resp); got != "the body" {
					t.Errorf("%q", got)
				}
			}
		})
	}
}
