package httpx

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/vendors"
)

func TestRefusedRequestIsSentAgainAsItWas(t *testing.T) {
	var calls atomic.Int64
	echo := func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if calls.Add(1)%2 == 1 {
			w.Header().Set("Retry-After", "0")
			http.Error(w, "not now", http.StatusTooManyRequests)
			return
		}
		w.Write([]byte(r.Method + " " + r.Header.Get("X-Mine") + " " + string(b)))
	}
	protocols(t, echo, func(t *testing.T, s server) {
		tr := s.transport(t, Config{})
		for _, method := range []string{"POST", "PUT"} { // a refusal was not executed, whatever the method
			req := request(t, method, s.URL+"/x", "payload")
			req.Header.Set("X-Mine", "kept")
			before := req.Clone(context.Background())
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := read(t, resp), method+" kept payload"; got != want {
				t.Errorf("%q, want %q", got, want)
			}
			if resp.Request != req {
				t.Error("the answer's Request is another one")
			}
			if req.Context() != t.Context() || len(req.Header) != len(before.Header) || req.ContentLength != before.ContentLength {
				t.Error("the request was changed")
			}
			if s.h2 != (resp.ProtoMajor == 2) {
				t.Errorf("protocol %s", resp.Proto)
			}
		}
	})
}

func TestPauseIsForAllAndExactlyAsLongAsTheVendorSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var mu sync.Mutex
		var at []time.Duration
		calls := 0
		tr := transport(t, Config{Base: fake(func(*http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			calls++
			at = append(at, time.Since(began))
			if calls == 1 {
				return answer(429, "no", "Retry-After", "7"), nil
			}
			return answer(200, "yes"), nil
		})})
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				if i > 0 {
					time.Sleep(time.Second) // into the pause
				}
				if status, _ := fetch(t, tr, request(t, "GET", "http://api.test/", "")); status != 200 {
					t.Errorf("status %d", status)
				}
			})
		}
		wg.Wait()
		for i, d := range at[1:] {
			if d < 7*time.Second {
				t.Errorf("call %d began after %v, in the pause", i+1, d)
			}
		}
		if at[1] != 7*time.Second || len(at) != 21 {
			t.Errorf("%d calls, the second after %v, want 21, 7s", len(at), at[1])
		}
	})
}

func TestHostsDoNotShareAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := transport(t, Config{Base: fake(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == "a.test" && r.URL.Path == "/first" {
				return answer(429, "", "Retry-After", "60"), nil
			}
			return answer(200, ""), nil
		})})
		ctx := WithAsk(t.Context(), governor.Ask{NoRetry: true})
		if status, _ := fetch(t, tr, request(t, "GET", "http://a.test/first", "").WithContext(ctx)); status != 429 {
			t.Fatalf("status %d, want the refusal itself", status)
		}
		began := time.Now()
		fetch(t, tr, request(t, "GET", "http://b.test/", ""))
		if d := time.Since(began); d != 0 {
			t.Errorf("another host waited %v", d)
		}
		fetch(t, tr, request(t, "GET", "http://A.TEST:80/", "")) // the same host in other words
		if d := time.Since(began); d != time.Minute {
			t.Errorf("the host waited %v, want 1m", d)
		}
	})
}

func TestSlotIsHeldUntilTheBodyHasEnded(t *testing.T) {
	ends := map[string]func(*http.Response){
		"read":   func(r *http.Response) { io.Copy(io.Discard, r.Body) },
		"closed": func(r *http.Response) { r.Body.Close(); r.Body.Close() },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := 0
				tr := transport(t, Config{
					Host: func(string) (governor.PlainConfig, error) { return governor.PlainConfig{Workers: 1}, nil },
					Base: fake(func(*http.Request) (*http.Response, error) { sent++; return answer(200, "long"), nil }),
				})
				first, err := tr.RoundTrip(request(t, "GET", "http://api.test/", ""))
				if err != nil {
					t.Fatal(err)
				}
				go func() { fetch(t, tr, request(t, "GET", "http://api.test/", "")) }()
				synctest.Wait()
				if sent != 1 {
					t.Fatalf("%d requests were sent while the slot was taken", sent)
				}
				end(first)
				synctest.Wait()
				if sent != 2 {
					t.Errorf("%d requests were sent after it was free, want 2", sent)
				}
			})
		})
	}
}

func TestAnswerWithoutBodyHoldsNothing(t *testing.T) {
	tr := transport(t, Config{Base: fake(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 204, Header: http.Header{}, Body: http.NoBody}, nil
	})})
	for range 200 { // more than there are slots
		if _, err := tr.RoundTrip(request(t, "GET", "http://api.test/", "")); err != nil {
			t.Fatal(err)
		}
	}
}

func TestForgottenBodyIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := transport(t, Config{Base: fake(func(*http.Request) (*http.Response, error) { return answer(200, "x"), nil })})
		resp, err := tr.RoundTrip(request(t, "GET", "http://api.test/", ""))
		if err != nil {
			t.Fatal(err)
		}
		stuck := make(chan event.Event, 10)
		defer tr.Listen(func(e event.Event) { stuck <- e }, event.Stuck)()
		select {
		case <-stuck:
		case <-time.After(10 * time.Minute):
			t.Error("no Stuck event")
		}
		resp.Body.Close()
	})
}

func TestQuotaOfAGoodAnswerIsHeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		tr := transport(t, Config{Vendor: vendors.GitHub(), Base: fake(func(r *http.Request) (*http.Response, error) {
			return answer(200, "{}", "X-RateLimit-Limit", "60", "X-RateLimit-Remaining", "0", "X-RateLimit-Resource", "core",
				"X-RateLimit-Reset", itoa(began.Add(90*time.Second).Unix())), nil
		})})
		fetch(t, tr, request(t, "GET", "https://api.github.test/user", ""))
		fetch(t, tr, request(t, "GET", "https://api.github.test/search/issues", "")) // another resource
		if d := time.Since(began); d != 0 {
			t.Errorf("another bucket waited %v", d)
		}
		fetch(t, tr, request(t, "GET", "https://api.github.test/user", ""))
		if d := time.Since(began).Truncate(time.Second); d < 90*time.Second || d > 92*time.Second {
			t.Errorf("waited %v for the reset, want 90s", d)
		}
	})
}

func TestConnectTimeoutKeepsHTTP2(t *testing.T) {
	for _, base := range []*http.Transport{{}, {ForceAttemptHTTP2: true}, {TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}}} {
		cfg := Config{Base: base, ConnectTimeout: time.Second}
		_, own := cfg.transport()
		own.Clone() // which decides on protocols
		_, want := base.TLSNextProto["h2"]
		if _, got := own.TLSNextProto["h2"]; got != want {
			t.Errorf("HTTP/2 is %v, want %v", got, want)
		}
	}
}

func TestConnectTimeoutKeepsTheDialersOfBase(t *testing.T) {
	mine := errors.New("mine")
	slow := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	for _, c := range []struct {
		name, url string
		base      *http.Transport
		want      error
	}{
		//lint:ignore SA1019 others may still use it
		{"Dial", "http://api.test/", &http.Transport{Dial: func(string, string) (net.Conn, error) { return nil, mine }}, mine},
		{"DialContext", "http://api.test/", &http.Transport{DialContext: slow}, context.DeadlineExceeded},
		//lint:ignore SA1019 others may still use it
		{"DialTLS", "https://api.test/", &http.Transport{DialTLS: func(string, string) (net.Conn, error) { return nil, mine }}, mine},
		{"DialTLSContext", "https://api.test/", &http.Transport{DialTLSContext: slow}, context.DeadlineExceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := transport(t, Config{Base: c.base, ConnectTimeout: 3 * time.Second})
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				began := time.Now()
				_, err := tr.RoundTrip(request(t, "GET", c.url, "").WithContext(ctx))
				took := time.Since(began)
				if !errors.Is(err, c.want) || took != 0 && c.want == mine || took != 3*time.Second && c.want != mine {
					t.Errorf("%v after %v, want %v", err, took, c.want)
				}
			})
		})
	}
}

func TestErrorInAGoodAnswerIsARefusal(t *testing.T) {
	for name, c := range map[string]struct {
		vendor governor.Vendor
		url    string
		body   string
	}{
		"Slack":          {vendors.Slack(), "https://slack.test/api/chat.postMessage", `{"ok":false,"error":"ratelimited"}`},
		"GitHub GraphQL": {vendors.GitHub(), "https://api.github.test/graphql", `{"errors":[{"type":"RATE_LIMITED","message":"API rate limit exceeded"}]}`},
		"a Graph batch":  {vendors.MicrosoftGraph(), "https://graph.test/v1.0/$batch", `{"responses":[{"id":"1","status":429,"headers":{"Retry-After":"3"}}]}`},
		"Reddit":         {vendors.Reddit(), "https://oauth.reddit.test/api/submit", `{"json":{"errors":[["RATELIMIT","Try again in 3 seconds.","ratelimit"]]}}`},
		"LinkedIn":       {vendors.LinkedIn(), "https://api.linkedin.test/v2/shares/1", `{"author!":{"message":"Throttled","status":429}}`},
		"a Meta batch":   {vendors.Meta(), "https://graph.test/v24.0/", `[{"code":400,"body":"{\"error\":{\"code\":17}}"}]`},
		"TikTok":         {vendors.TikTokAds(), "https://tiktok.test/open_api/v1.3/x", `{"code":40100,"message":"Requests made too frequently"}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				tr := transport(t, Config{Vendor: c.vendor, Base: fake(func(*http.Request) (*http.Response, error) {
					if calls++; calls == 1 {
						return answer(200, c.body, "Content-Type", "application/json", "Retry-After", "3"), nil
					}
					return answer(200, `{"ok":true}`, "Content-Type", "application/json"), nil
				})})
				method := "POST"
				if name == "LinkedIn" { // a POST would have been executed
					method = "GET"
				}
				began := time.Now()
				if _, body := fetch(t, tr, request(t, method, c.url, "{}")); body != `{"ok":true}` || calls != 2 {
					t.Errorf("%q after %d calls", body, calls)
				}
				if d := time.Since(began); d < 3*time.Second {
					t.Errorf("sent again after %v", d)
				}
			})
		})
	}
}

func TestEventStreamIsNotReadBeforehand(t *testing.T) {
	for _, v := range []governor.Vendor{vendors.Slack(), vendors.OpenAI(), vendors.HTTP()} {
		in, out := io.Pipe()
		tr := transport(t, Config{Vendor: v, Base: fake(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: in}, nil
		})})
		resp, err := tr.RoundTrip(request(t, "GET", "https://api.test/api/events", "")) // returns, though nothing was written
		if err != nil {
			t.Fatal(err)
		}
		out.Close()
		read(t, resp)
	}
}

func TestRefusalWithATricklingBodyPausesOthersMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, out := io.Pipe()
		calls := 0
		tr := transport(t, Config{Base: fake(func(*http.Request) (*http.Response, error) {
			if calls++; calls == 1 {
				r := answer(429, "", "Retry-After", "30")
				r.Body = in
				return r, nil
			}
			return answer(200, "ok"), nil
		})})
		go func() { fetch(t, tr, request(t, "GET", "http://api.test/", "")) }()
		time.Sleep(2 * time.Second)
		began := time.Now()
		go func() { time.Sleep(5 * time.Second); out.Close() }()
		fetch(t, tr, request(t, "GET", "http://api.test/", ""))
		if d := time.Since(began); d < 25*time.Second {
			t.Errorf("a request was sent %v into a pause of 30s", d)
		}
		synctest.Wait()
	})
}

func TestBreakerOpensForFailuresAndNotForCancellations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status, hang := 503, false
		sent := 0
		tr := transport(t, Config{
			Breaker: &breaker.Config{Consecutive: 3},
			Base: fake(func(r *http.Request) (*http.Response, error) {
				sent++
				if hang {
					<-r.Context().Done()
					return nil, r.Context().Err()
				}
				return answer(status, "body"), nil
			}),
		})
		get := func() (int, error) {
			resp, err := tr.RoundTrip(request(t, "GET", "http://api.test/", ""))
			if err != nil {
				return 0, err
			}
			if b := read(t, resp); b != "body" {
				t.Errorf("body %q", b)
			}
			return resp.StatusCode, nil
		}
		for _, status = range []int{503, 404, 500, 501, 502, 503} { // with what is no failure in between
			if s, err := get(); s != status || err != nil {
				t.Fatalf("%d, %v", s, err)
			}
		}
		hang = true
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := tr.RoundTrip(request(t, "GET", "http://api.test/", "").WithContext(ctx)); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			cancel()
		}
		hang, status = false, 500
		get() // the third in a row, as 501 had ended the first one
		before := sent
		_, err := get()
		if !errors.Is(err, breaker.ErrOpen) || !governor.IsRefused(err) || sent != before {
			t.Fatalf("%v, %d sent", err, sent-before)
		}
		time.Sleep(30*time.Second - 1)
		if _, err := get(); !errors.Is(err, breaker.ErrOpen) {
			t.Errorf("before 30s: %v", err)
		}
		time.Sleep(time.Nanosecond)
		if s, err := get(); s != 500 || err != nil {
			t.Errorf("the trial: %d, %v", s, err)
		}
		time.Sleep(time.Minute - 1) // twice as long
		if _, err := get(); !errors.Is(err, breaker.ErrOpen) {
			t.Errorf("before another minute: %v", err)
		}
		time.Sleep(time.Nanosecond)
		status = 200
		for range 10 {
			if s, err := get(); s != 200 {
				t.Errorf("the end: %d, %v", s, err)
			}
		}
	})
}

func TestBreakerIsOpenTwiceAsLongEachTimeAndClosesAfterTenTrials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status := 500
		tr := transport(t, Config{
			Breaker: &breaker.Config{Consecutive: 1},
			Base:    fake(func(*http.Request) (*http.Response, error) { return answer(status, "body"), nil }),
		})
		get := func() error {
			resp, err := tr.RoundTrip(request(t, "GET", "http://api.test/", ""))
			if err == nil {
				read(t, resp)
			}
			return err
		}
		state := func() breaker.State { return tr.Hosts()[0].Breaker.State }
		for n, open := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 10 * time.Minute, 10 * time.Minute} {
			if err := get(); err != nil { // what opens it, or the trial that opens it again
				t.Fatalf("opening %d: %v", n+1, err)
			}
			time.Sleep(open - 1)
			if err := get(); !errors.Is(err, breaker.ErrOpen) {
				t.Fatalf("opening %d is over before %v: %v", n+1, open, err)
			}
			time.Sleep(time.Nanosecond)
		}
		status = 200
		for n := 1; n <= 10; n++ {
			if err := get(); err != nil {
				t.Fatalf("trial %d: %v", n, err)
			}
			if want := map[bool]breaker.State{false: breaker.HalfOpen, true: breaker.Closed}[n == 10]; state() != want {
				t.Fatalf("%v after %d trials, want %v", state(), n, want)
			}
		}
		status = 500
		if err := get(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		if err := get(); err != nil {
			t.Errorf("once closed, it is open for 30s again: %v", err)
		}
	})
}

func TestRecordFailureDecidesForTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status := 503
		tr := transport(t, Config{
			Retry:         &Retry{Attempts: 2},
			Breaker:       &breaker.Config{Consecutive: 2},
			RecordFailure: func(resp *http.Response, err error) bool { return resp != nil && resp.StatusCode == 404 },
			Base:          fake(func(*http.Request) (*http.Response, error) { return answer(status, "body"), nil }),
		})
		for range 5 { // repeated, but not blamed for
			if s, _ := fetch(t, tr, request(t, "GET", "http://api.test/", "")); s != 503 {
				t.Fatal(s)
			}
		}
		status = 404
		for range 2 {
			if s, b := fetch(t, tr, request(t, "GET", "http://api.test/", "")); s != 404 || b != "body" {
				t.Fatal(s, b)
			}
		}
		if _, err := tr.RoundTrip(request(t, "GET", "http://api.test/", "")); !errors.Is(err, breaker.ErrOpen) {
			t.Error(err)
		}
	})
}

func TestLongFailureIsBlamedForWhenItHasBeenRead(t *testing.T) {
	long := strings.Repeat("x", 3*maxPeek)
	tr := transport(t, Config{
		Breaker: &breaker.Config{Consecutive: 1},
		Base:    fake(func(*http.Request) (*http.Response, error) { return answer(500, long), nil }),
	})
	if s, b := fetch(t, tr, request(t, "GET", "http://api.test/", "")); s != 500 || b != long {
		t.Fatalf("%d, %d bytes", s, len(b))
	}
	if _, err := tr.RoundTrip(request(t, "GET", "http://api.test/", "")); !errors.Is(err, breaker.ErrOpen) {
		t.Error(err)
	}
}

// through is a RoundTripper that counts.
type through struct {
	next http.RoundTripper
	sent int
}

func (r *through) RoundTrip(req *http.Request) (*http.Response, error) {
	r.sent++
	return r.next.RoundTrip(req)
}

// idler is a RoundTripper that answers, and is told when idle connections are to be closed.
type idler struct{ closed int }

func (*idler) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Body: http.NoBody, Request: req}, nil
}

func (b *idler) CloseIdleConnections() { b.closed++ }

func TestWrapIsAroundWhatSendsEachAttempt(t *testing.T) {
	base, wrap := &idler{}, &through{}
	tr := NewTransport(Config{Base: base, Wrap: func(next http.RoundTripper) http.RoundTripper { wrap.next = next; return wrap }})
	defer tr.Close()
	for range 2 {
		resp, err := (&http.Client{Transport: tr}).Get("http://api.example.com/")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	tr.CloseIdleConnections()
	if wrap.next != http.RoundTripper(base) || wrap.sent != 2 || base.closed != 1 {
		t.Errorf("around %v, %d sent, idle connections closed %d times", wrap.next, wrap.sent, base.closed)
	}
	if tr, err := New(Config{Wrap: func(http.RoundTripper) http.RoundTripper { return nil }}); tr != nil || err == nil || !strings.Contains(err.Error(), "Config.Wrap") {
		t.Errorf("a Wrap that returns nil: %v", err)
	}
}
