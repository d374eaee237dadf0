package httpx

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/policy"
	"github.com/flyball-go/flyball/retry"
)

const megabytes = 10 << 20 // more than HTTP/2 has on its way

// slow writes megabytes in 40 pieces, with a pause after each; with ?fail the first
// answer is 503.
type slow struct {
	calls sync.Map
	sum   [32]byte
	data  []byte
}

func newSlow() *slow {
	data := make([]byte, megabytes)
	for i := range data {
		data[i] = byte(i * 7 >> 3)
	}
	return &slow{data: data, sum: sha256.Sum256(data)}
}

func (s *slow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n, _ := s.calls.LoadOrStore(r.URL.String(), new(atomic.Int64))
	if n.(*atomic.Int64).Add(1) == 1 && r.URL.Query().Has("fail") {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	for part := s.data; len(part) > 0; part = part[min(len(part), 256<<10):] {
		if _, err := w.Write(part[:min(len(part), 256<<10)]); err != nil {
			return
		}
		w.(http.Flusher).Flush()
		time.Sleep(10 * time.Millisecond)
	}
}

func (s *slow) check(t *testing.T, resp *http.Response) {
	t.Helper()
	h := sha256.New()
	if n, err := io.Copy(h, resp.Body); err != nil || !bytes.Equal(h.Sum(nil), s.sum[:]) {
		t.Errorf("%d bytes, %v, or not the right ones", n, err)
	}
	resp.Body.Close()
}

func TestLongBodiesSurviveRetriesHedgesAndTimeouts(t *testing.T) {
	data := newSlow()
	protocols(t, data.ServeHTTP, func(t *testing.T, s server) {
		hedge, err := policy.NewHedge(policy.HedgeConfig{Parallel: true, Max: 2})
		if err != nil {
			t.Fatal(err)
		}
		limit, err := policy.NewTimeout(policy.TimeoutConfig{After: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		again, err := retry.New(retry.Config{RetryOnResult: policy.OnResult(IsFailure), Wait: func(context.Context, time.Duration) error { return nil }})
		if err != nil {
			t.Fatal(err)
		}
		tr := s.transport(t, Config{Retry: &Retry{}, Breaker: &breaker.Config{}, AttemptTimeout: time.Minute, Timeout: time.Minute})
		for name, rt := range map[string]http.RoundTripper{
			"governed":                  tr,
			"hedge":                     RoundTripper(s.audit, policy.Chain(hedge, limit)),
			"retry and timeout":         RoundTripper(s.audit, policy.Chain(again, limit)),
			"hedge around the governed": RoundTripper(tr, policy.Chain(hedge, limit)),
			"all":                       RoundTripper(tr, policy.Chain(again, hedge, limit)),
		} {
			t.Run(name, func(t *testing.T) {
				var wg sync.WaitGroup
				for i := range 2 {
					wg.Go(func() {
						url := fmt.Sprintf("%s/%s/%d", s.URL, strings.ReplaceAll(name, " ", ""), i)
						if name != "hedge" && name != "hedge around the governed" {
							url += "?fail"
						}
						resp, err := rt.RoundTrip(request(t, "GET", url, ""))
						if err != nil {
							t.Error(err)
							return
						}
						data.check(t, resp)
					})
				}
				wg.Wait()
			})
		}
	})
}

// A timeout, or a hedge, is of the call, which is over with the header of the answer:
// it does not end a body that takes longer, nor ask again.
func TestBodyOutlastsTheTimeoutAndTheHedgeOfItsCall(t *testing.T) {
	data := newSlow()
	var goesOn sync.Map // by path: closed when the second half may come
	h := func(w http.ResponseWriter, r *http.Request) {
		half := len(data.data) / 2
		w.Write(data.data[:half])
		w.(http.Flusher).Flush()
		more, _ := goesOn.Load(r.URL.Path)
		select {
		case <-more.(chan struct{}):
			w.Write(data.data[half:])
		case <-r.Context().Done():
		}
	}
	protocols(t, h, func(t *testing.T, s server) {
		tr := s.transport(t, Config{})
		for name, base := range map[string]http.RoundTripper{"alone": s.audit, "governed": tr} {
			for _, kind := range []string{"timeout", "hedge"} {
				t.Run(kind+" "+name, func(t *testing.T) {
					for after := 50 * time.Millisecond; ; after *= 2 {
						var p policy.Policy
						var err error
						if kind == "hedge" {
							p, err = policy.NewHedge(policy.HedgeConfig{Delay: after})
						} else {
							p, err = policy.NewTimeout(policy.TimeoutConfig{After: after})
						}
						if err != nil {
							t.Fatal(err)
						}
						path := fmt.Sprintf("/%s/%s/%v", kind, name, after)
						more := make(chan struct{})
						goesOn.Store(path, more)
						sent := s.audit.sent.Load()
						resp, err := RoundTripper(base, policy.Chain(p)).RoundTrip(request(t, "GET", s.URL+path, ""))
						if early := err != nil || s.audit.sent.Load() > sent+1; early && after < time.Minute {
							close(more) // it fired before the header came, on a busy machine
							if err == nil {
								resp.Body.Close()
							}
							continue
						} else if err != nil {
							t.Fatal(err)
						}
						time.Sleep(2 * after) // in the middle of the body
						close(more)
						data.check(t, resp)
						if n := s.audit.sent.Load() - sent; n != 1 {
							t.Errorf("%d were sent", n)
						}
						return
					}
				})
			}
		}
	})
}

func TestCancelledRequestsLeaveNothing(t *testing.T) {
	protocols(t, newSlow().ServeHTTP, func(t *testing.T, s server) {
		tr := s.transport(t, Config{Host: func(string) (governor.PlainConfig, error) { return governor.PlainConfig{Workers: 4}, nil }})
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if i%4 == 0 {
					time.AfterFunc(time.Duration(i)*100*time.Microsecond, cancel)
				}
				resp, err := tr.RoundTrip(request(t, "GET", s.URL+"/"+itoa(int64(i)), "").WithContext(ctx))
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
					return
				}
				if i%4 == 1 { // in the middle of the body
					io.CopyN(io.Discard, resp.Body, 1000)
					cancel()
					if _, err := io.Copy(io.Discard, resp.Body); err != nil && !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
				}
				resp.Body.Close()
			})
		}
		wg.Wait()
		g, err := tr.Host(strings.TrimPrefix(strings.TrimPrefix(s.URL, "https://"), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(time.Minute); g.Stats().InFlight != 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d slots are still taken", g.Stats().InFlight)
			}
		}
	})
}

func TestRedirectsAreRequestsOfTheirOwn(t *testing.T) {
	var posts, refused atomic.Int64
	h := func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/from":
			http.Redirect(w, r, "/to", http.StatusTemporaryRedirect)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		default:
			if refused.Add(1)%2 == 1 {
				w.Header().Set("Retry-After", "0")
				w.WriteHeader(429)
				return
			}
			posts.Add(1)
			w.Write(b)
		}
	}
	protocols(t, h, func(t *testing.T, s server) {
		c := &http.Client{Transport: s.transport(t, Config{Retry: &Retry{}})}
		resp, err := c.Post(s.URL+"/from", "text/plain", strings.NewReader("the body"))
		if err != nil {
			t.Fatal(err)
		}
		if b := read(t, resp); b != "the body" || resp.Request.URL.Path != "/to" {
			t.Errorf("%q from %s", b, resp.Request.URL)
		}
		if _, err = c.Get(s.URL + "/loop"); err == nil || !strings.Contains(err.Error(), "10 redirects") {
			t.Error(err)
		}
		c.CloseIdleConnections()
	})
}

func TestHeadTrailersInformationAndContinue(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/trailer":
			w.Header().Set("Trailer", "X-Sum")
			w.Write([]byte("body"))
			w.Header().Set("X-Sum", "42")
		case "/early":
			w.Header().Set("Link", "</style.css>")
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusOK)
		case "/continue":
			if r.Header.Get("Refuse") != "" {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			io.Copy(w, r.Body)
		default:
			w.Header().Set("Content-Length", "1000")
		}
	}
	protocols(t, h, func(t *testing.T, s server) {
		tr := s.transport(t, Config{})
		resp, err := tr.RoundTrip(request(t, "HEAD", s.URL, ""))
		if err != nil || resp.ContentLength != 1000 {
			t.Fatalf("HEAD: %v, %d", err, resp.ContentLength)
		}
		read(t, resp)

		if resp, err = tr.RoundTrip(request(t, "GET", s.URL+"/trailer", "")); err != nil {
			t.Fatal(err)
		}
		if read(t, resp); resp.Trailer.Get("X-Sum") != "42" {
			t.Errorf("trailer %v", resp.Trailer)
		}

		hints := 0
		trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, _ textproto.MIMEHeader) error { hints += code; return nil }}
		req := request(t, "GET", s.URL+"/early", "")
		fetch(t, tr, req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
		if hints != http.StatusEarlyHints {
			t.Errorf("hints %d", hints)
		}

		for _, refuse := range []string{"", "yes"} {
			req = request(t, "POST", s.URL+"/continue", "payload")
			req.Header.Set("Expect", "100-continue")
			if refuse != "" {
				req.Header.Set("Refuse", refuse)
			}
			status, body := fetch(t, tr, req)
			if refuse == "" && body != "payload" || refuse != "" && status != 403 {
				t.Errorf("%d %q", status, body)
			}
		}
	})
}

func TestUpgradedConnectionIsWrittenAndHoldsItsSlot(t *testing.T) {
	s := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		line, _ := rw.ReadString('\n')
		io.WriteString(conn, "echo "+line)
	})
	tr := s.transport(t, Config{})
	for name, rt := range map[string]http.RoundTripper{"governed": tr, "chain": RoundTripper(s.audit, policy.Chain())} {
		req := request(t, "GET", s.URL, "")
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "echo")
		resp, err := rt.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		rw, ok := resp.Body.(io.ReadWriteCloser)
		if !ok {
			t.Fatalf("%s: %T cannot be written", name, resp.Body)
		}
		io.WriteString(rw, "hello\n")
		if line, err := bufio.NewReader(rw).ReadString('\n'); line != "echo hello\n" {
			t.Errorf("%s: %q, %v", name, line, err)
		}
		if st := tr.Hosts(); name == "governed" && st[0].InFlight != 1 {
			t.Errorf("%d in flight", st[0].InFlight)
		}
		rw.Close()
	}
}

func TestTimeouts(t *testing.T) {
	block := make(chan struct{})
	protocols(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			w.WriteHeader(200)
			w.(http.Flusher).Flush()
		}
		select {
		case <-block:
		case <-r.Context().Done():
		}
	}, func(t *testing.T, s server) {
		for name, within := range map[string]func(d time.Duration) Config{
			"header":  func(d time.Duration) Config { return Config{HeaderTimeout: d, Base: s.audit.base} },
			"attempt": func(d time.Duration) Config { return Config{AttemptTimeout: d} },
			"whole":   func(d time.Duration) Config { return Config{Timeout: d, Retry: &Retry{Attempts: -1, Backoff: nil}} },
		} {
			timeout := func(err error) bool { e, ok := errors.AsType[net.Error](err); return ok && e.Timeout() }
			d := 20 * time.Millisecond
			c := &http.Client{Transport: s.transport(t, within(d))}
			if _, err := c.Get(s.URL); !timeout(err) {
				t.Errorf("%s: %v", name, err)
			}
			if name == "header" {
				continue
			}
			resp, err := c.Get(s.URL + "/body")
			for timeout(err) && d < time.Minute { // before the header came, on a busy machine
				d *= 2
				c.Transport = s.transport(t, within(d))
				resp, err = c.Get(s.URL + "/body")
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if _, err = io.ReadAll(resp.Body); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s, in the body: %v", name, err)
			}
			resp.Body.Close()
		}
	})
	close(block)
}

func TestConnectTimeoutBoundsTheDial(t *testing.T) {
	base := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	tr := transport(t, Config{Base: base, ConnectTimeout: time.Millisecond})
	if _, err := tr.RoundTrip(request(t, "GET", "http://api.test/", "")); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestCloseEndsBodiesThatAreRead(t *testing.T) {
	protocols(t, newSlow().ServeHTTP, func(t *testing.T, s server) {
		tr, err := New(Config{Base: s.audit})
		if err != nil {
			t.Fatal(err)
		}
		resp, err := tr.RoundTrip(request(t, "GET", s.URL, ""))
		if err != nil {
			t.Fatal(err)
		}
		closed := make(chan error)
		go func() { closed <- tr.Close() }()
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if e := <-closed; e != nil {
			t.Error(e)
		}
		if err != nil && !errors.Is(err, governor.ErrClosed) && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		body := &once{Reader: strings.NewReader("x")}
		req := request(t, "POST", s.URL, "")
		req.Body = body
		if _, err := tr.RoundTrip(req); !errors.Is(err, governor.ErrClosed) || body.closed.Load() != 1 {
			t.Errorf("%v, body closed %d times", err, body.closed.Load())
		}
	})
}
