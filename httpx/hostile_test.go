package httpx

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/throttle"
	"github.com/flyball-go/flyball/vendors"
)

func workers(n int) func(string) (governor.PlainConfig, error) {
	return func(string) (governor.PlainConfig, error) { return governor.PlainConfig{Workers: n}, nil }
}

// free fails when a slot is taken.
func free(t *testing.T, tr *Transport) {
	t.Helper()
	for _, s := range tr.Hosts() {
		if s.InFlight != 0 || s.Queued != 0 {
			t.Errorf("%s: %d in flight, %d in the queue", s.Name, s.InFlight, s.Queued)
		}
	}
}

// tracked is an answer that counts how often its body is closed.
func tracked(status int, body string, headers ...string) (*http.Response, *once) {
	r, b := answer(status, body, headers...), &once{Reader: strings.NewReader(body)}
	r.Body = b
	return r, b
}

func TestWhatPanicsLeavesNothingOpen(t *testing.T) {
	boom := func() { panic("boom") }
	for name, cfg := range map[string]Config{
		"RecordFailure":             {RecordFailure: func(*http.Response, error) bool { boom(); return true }},
		"OnCall":                    {Retry: &Retry{OnCall: func(*http.Request, *http.Response) bool { boom(); return true }}},
		"Modify":                    {Retry: &Retry{Backoff: backoff.None, Modify: func(int, *http.Request) { boom() }}},
		"an adapter that reads":     {Vendor: vendors.Adapter{Dialect: panicky{}}},
		"an adapter that is broken": {Vendor: vendors.Adapter{}},
	} {
		t.Run(name, func(t *testing.T) {
			var bodies, sent []*once
			cfg.Host, cfg.Base = workers(1), fake(func(r *http.Request) (*http.Response, error) {
				r.Body.Close()
				resp, b := tracked(500, strings.Repeat("x", 2*maxPeek))
				bodies = append(bodies, b)
				return resp, nil
			})
			tr := transport(t, cfg)
			body := func() (io.ReadCloser, error) {
				o := &once{Reader: strings.NewReader("x")}
				sent = append(sent, o)
				return o, nil
			}
			req := request(t, "PUT", "http://api.test/", "")
			req.Body, _ = body()
			req.GetBody = body
			if resp, err := tr.RoundTrip(req); err == nil {
				resp.Body.Close()
			}
			for i, b := range append(bodies, sent...) {
				if b.closed.Load() == 0 {
					t.Errorf("body %d of %d is open", i+1, len(bodies)+len(sent))
				}
			}
			free(t, tr)
		})
	}
}

type panicky struct{}

func (panicky) Read(vendors.Response) []throttle.Signal     { panic("boom") }
func (panicky) Learn(vendors.Response) []throttle.Quota     { panic("boom") }
func (panicky) Peek(*http.Response) int                     { panic("boom") }
func (panicky) Place(*http.Request) (tenant, bucket string) { panic("boom") }

func TestEndsOfBodiesFreeTheSlot(t *testing.T) {
	for name, c := range map[string]struct {
		method  string
		answer  func() *http.Response
		release func(*http.Response)
	}{
		"NoBody":   {"GET", func() *http.Response { r := answer(200, ""); r.Body = http.NoBody; return r }, nil},
		"nil":      {"GET", func() *http.Response { r := answer(200, ""); r.Body = nil; return r }, nil},
		"nil, 500": {"GET", func() *http.Response { r := answer(500, ""); r.Body = nil; return r }, nil},
		"HEAD 404": {"HEAD", func() *http.Response { r := answer(404, ""); r.Body, r.ContentLength = http.NoBody, 1<<40; return r }, nil},
		"HEAD 500": {"HEAD", func() *http.Response { r := answer(500, ""); r.Body = http.NoBody; return r }, nil},
		"404":      {"GET", func() *http.Response { return answer(404, "short") }, nil},
		"to its end, and not closed": {"GET", func() *http.Response { return answer(200, "x") },
			func(r *http.Response) { io.Copy(io.Discard, r.Body) }},
		"closed three times": {"GET", func() *http.Response { return answer(200, "x") },
			func(r *http.Response) { r.Body.Close(); r.Body.Close(); r.Body.Close() }},
		"read after Close": {"GET", func() *http.Response { return answer(404, strings.Repeat("x", 2*maxPeek)) },
			func(r *http.Response) {
				r.Body.Close()
				if n, err := r.Body.Read(make([]byte, 9)); n > 0 || err == nil {
					t.Errorf("read %d bytes, %v", n, err)
				}
			}},
		"cut in the middle": {"GET", func() *http.Response {
			r := answer(200, "")
			r.Body = io.NopCloser(io.MultiReader(strings.NewReader("x"), broken{}))
			return r
		}, func(r *http.Response) { io.Copy(io.Discard, r.Body) }},
		"an error cut in the middle": {"GET", func() *http.Response {
			r := answer(503, "")
			r.Body = io.NopCloser(io.MultiReader(strings.NewReader("x"), broken{}))
			return r
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			tr := transport(t, Config{Host: workers(1), Timeout: time.Hour, AttemptTimeout: time.Hour,
				Base: fake(func(r *http.Request) (*http.Response, error) { return c.answer(), nil })})
			for range 3 { // with one slot
				resp, err := tr.RoundTrip(request(t, c.method, "http://api.test/", ""))
				if err != nil {
					t.Fatal(err)
				}
				if c.release != nil {
					c.release(resp)
				}
			}
			free(t, tr)
		})
	}
}

// broken is a connection that is lost in the middle.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestErrorCutInTheMiddleIsReadAsFarAsItCame(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "86400")
		w.WriteHeader(429)
		io.WriteString(w, "half of it")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	protocols(t, h, func(t *testing.T, s server) {
		tr := s.transport(t, Config{})
		resp, err := tr.RoundTrip(request(t, "GET", s.URL, ""))
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		if resp.StatusCode != 429 || string(b) != "half of it" || err == nil {
			t.Errorf("%d %q, %v", resp.StatusCode, b, err)
		}
		resp.Body.Close()
		free(t, tr)
	})
}

func TestAbsurdHeadersAreHarmless(t *testing.T) {
	for name, value := range map[string]string{
		"a mebibyte": strings.Repeat("9", 1<<20), "centuries": "9999999999", "a date": "Fri, 31 Dec 9999 23:59:59 GMT",
		"a year that is none": "Fri, 31 Dec 99999 23:59:59 GMT", "negative": "-9223372036854775808", "exponent": "1e308",
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Retry-After", value)
				w.Header().Set("X-RateLimit-Reset", value)
				w.WriteHeader(429)
			})
			tr := s.transport(t, Config{})
			ctx := WithAsk(t.Context(), governor.Ask{NoRetry: true})
			if status, _ := fetch(t, tr, request(t, "GET", s.URL, "").WithContext(ctx)); status != 429 {
				t.Errorf("status %d", status)
			}
			free(t, tr)
		})
	}
}

func TestGzipIsReadForTheAdapterAndLeftForTheCaller(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, `{"error":{"code":"rate_limit_exceeded","message":"Please try again in 3s."}}`+strings.Repeat(" ", 1<<20)) // 16 times maxPeek
	z.Close()
	want := packed.String()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		tr := transport(t, Config{Vendor: vendors.OpenAI(), Base: fake(func(*http.Request) (*http.Response, error) {
			calls++
			return answer(429, want, "Content-Encoding", "gzip", "Content-Type", "application/json"), nil
		})})
		ctx, cancel := context.WithTimeout(WithAsk(t.Context(), governor.Ask{NoRetry: true}), time.Hour)
		defer cancel()
		if _, body := fetch(t, tr, request(t, "GET", "http://api.test/", "").WithContext(ctx)); body != want {
			t.Errorf("%d bytes, want %d", len(body), len(want))
		}
		began := time.Now()
		fetch(t, tr, request(t, "GET", "http://api.test/", "").WithContext(ctx))
		if d := time.Since(began); d != 3*time.Second || calls != 2 {
			t.Errorf("the second call after %v, %d calls, want 3s", d, calls)
		}
	})
}
