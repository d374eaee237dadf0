package httpx

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// server is a real one, of a protocol.
type server struct {
	URL   string
	audit *audit // sends to it
	h2    bool
}

// protocols runs a test with servers of HTTP/1.1 and HTTP/2.
func protocols(t *testing.T, h http.HandlerFunc, test func(t *testing.T, s server)) {
	for _, h2 := range []bool{false, true} {
		name := "HTTP1"
		if h2 {
			name = "HTTP2"
		}
		t.Run(name, func(t *testing.T) { test(t, serve(t, h2, h)) })
	}
}

func serve(t *testing.T, h2 bool, h http.HandlerFunc) server {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.EnableHTTP2 = h2
	if h2 {
		srv.StartTLS()
	} else {
		srv.Start()
	}
	base := srv.Client().Transport.(*http.Transport)
	a := &audit{base: base}
	t.Cleanup(func() {
		a.check(t)
		base.CloseIdleConnections()
		srv.Close()
	})
	return server{srv.URL, a, h2}
}

// audit is a Base that sees to it that every body is closed: those of requests by
// whoever sends them, those of answers by whoever gets them.
type audit struct {
	base     http.RoundTripper
	sent     atomic.Int64
	answered atomic.Int64
	closed   atomic.Int64
}

func (a *audit) RoundTrip(req *http.Request) (*http.Response, error) {
	a.sent.Add(1)
	resp, err := a.base.RoundTrip(req)
	if err == nil && resp.Body != nil && resp.Body != http.NoBody {
		a.answered.Add(1)
		b := &audited{ReadCloser: resp.Body, a: a}
		resp.Body = b
		if w, ok := b.ReadCloser.(io.Writer); ok {
			resp.Body = &writable{b, w}
		}
	}
	return resp, err
}

func (a *audit) check(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if a.answered.Load() == a.closed.Load() {
			return
		}
	}
	t.Errorf("%d of %d bodies of answers were closed", a.closed.Load(), a.answered.Load())
}

type audited struct {
	io.ReadCloser
	a    *audit
	once sync.Once
}

func (b *audited) Close() error {
	b.once.Do(func() { b.a.closed.Add(1) })
	return b.ReadCloser.Close()
}

// transport is one that ends with the test. Its Base is the server's unless there is one.
func (s server) transport(t *testing.T, cfg Config) *Transport {
	t.Helper()
	if cfg.Base == nil {
		cfg.Base = s.audit
	}
	return transport(t, cfg)
}

func transport(t *testing.T, cfg Config) *Transport {
	t.Helper()
	tr, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	return tr
}

// fake is a Base in memory, for bubbles.
type fake func(*http.Request) (*http.Response, error)

func (f fake) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// answer is a response in memory. Headers are pairs.
func answer(status int, body string, headers ...string) *http.Response {
	h := make(http.Header)
	for i := 0; i < len(headers); i += 2 {
		h.Add(headers[i], headers[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}
}

func request(t *testing.T, method, url, body string) *http.Request {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, r)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// fetch sends req and reads the answer to its end.
func fetch(t *testing.T, rt http.RoundTripper, req *http.Request) (status int, body string) {
	t.Helper()
	resp, err := rt.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, read(t, resp)
}

func read(t *testing.T, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// once is a body that cannot be had again, and counts how often it is closed.
type once struct {
	io.Reader
	closed atomic.Int64
}

func (o *once) Close() error { o.closed.Add(1); return nil }

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
