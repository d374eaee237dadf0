package httpx

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/policy"
	"github.com/flyball-go/flyball/vendors"
)

func TestRetryOfARequestCannotChangeWhatAllShare(t *testing.T) {
	budget := func() *policy.Budget {
		b, err := policy.NewBudget(policy.BudgetConfig{})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	shared := budget()
	of := Retry{MaxElapsed: time.Minute, MaxRetryAfter: time.Second, Budget: shared}
	same := of
	same.Attempts = 1
	for _, c := range []struct {
		name  string
		all   *Retry
		retry *Retry
		field string // "": it is sent
	}{
		{"other attempts", &of, &Retry{Attempts: 5}, ""},
		{"a changed copy", &of, &same, ""},
		{"none", &of, nil, ""},
		{"MaxElapsed", &of, &Retry{MaxElapsed: time.Hour}, "MaxElapsed is 1h0m0s"},
		{"MaxRetryAfter", &of, &Retry{MaxRetryAfter: time.Minute}, "MaxRetryAfter is 1m0s"},
		{"Budget", &of, &Retry{Budget: budget()}, "Budget"},
		{"MaxElapsed, where nothing is repeated otherwise", nil, &Retry{MaxElapsed: time.Hour}, "MaxElapsed is 1h0m0s"},
		{"Budget, where nothing is repeated otherwise", nil, &Retry{Budget: shared}, "Budget"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sent := 0
			tr := transport(t, Config{Retry: c.all, Base: fake(func(*http.Request) (*http.Response, error) { sent++; return answer(200, ""), nil })})
			req := request(t, "GET", "http://api.test/", "")
			resp, err := tr.RoundTrip(req.WithContext(WithRetry(req.Context(), c.retry)))
			if err == nil {
				resp.Body.Close()
			}
			if c.field == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), "WithRetry: "+c.field) || sent != 0 {
				t.Errorf("%v, %d sent, want an error about %s", err, sent, c.field)
			}
		})
	}
}

func TestWhatIsSentAgain(t *testing.T) {
	plain := func(method, body string) func(*testing.T) *http.Request {
		return func(t *testing.T) *http.Request { return request(t, method, "http://api.test/", body) }
	}
	keyed := func(t *testing.T) *http.Request {
		req := request(t, "POST", "http://api.test/", "x")
		req.Header.Set("Idempotency-Key", "1")
		return req
	}
	streamed := func(t *testing.T) *http.Request {
		req := request(t, "PUT", "http://api.test/", "")
		req.Body = &once{Reader: strings.NewReader("x")}
		return req
	}
	in := func(wrap func(context.Context) context.Context, f func(*testing.T) *http.Request) func(*testing.T) *http.Request {
		return func(t *testing.T) *http.Request { r := f(t); return r.WithContext(wrap(r.Context())) }
	}
	off := func(ctx context.Context) context.Context { return WithRetry(ctx, nil) }
	five := func(ctx context.Context) context.Context { return WithRetry(ctx, &Retry{Attempts: 5, AnyMethod: true}) }
	single := func(ctx context.Context) context.Context { return WithAsk(ctx, governor.Ask{NoRetry: true}) }
	lost := errors.New("connection lost")

	for name, c := range map[string]struct {
		retry  *Retry
		req    func(*testing.T) *http.Request
		status int // 0: lost
		want   int // attempts
	}{
		"GET 500":                {&Retry{}, plain("GET", ""), 500, 3},
		"GET 503":                {&Retry{}, plain("GET", ""), 503, 3},
		"GET 501":                {&Retry{}, plain("GET", ""), 501, 1},
		"GET 404":                {&Retry{}, plain("GET", ""), 404, 1},
		"GET lost":               {&Retry{}, plain("GET", ""), 0, 3},
		"HEAD 500":               {&Retry{}, plain("HEAD", ""), 500, 3},
		"OPTIONS 500":            {&Retry{}, plain("OPTIONS", ""), 500, 3},
		"TRACE 500":              {&Retry{}, plain("TRACE", ""), 500, 3},
		"DELETE 500":             {&Retry{}, plain("DELETE", ""), 500, 3},
		"PUT 500 with body":      {&Retry{}, plain("PUT", "x"), 500, 3},
		"POST 500":               {&Retry{}, plain("POST", "x"), 500, 1},
		"PATCH 500":              {&Retry{}, plain("PATCH", "x"), 500, 1},
		"POST lost":              {&Retry{}, plain("POST", "x"), 0, 1},
		"POST 500 any method":    {&Retry{AnyMethod: true}, plain("POST", "x"), 500, 3},
		"POST 500 with a key":    {&Retry{}, keyed, 500, 3},
		"streamed PUT 500":       {&Retry{}, streamed, 500, 1},
		"streamed PUT lost":      {&Retry{}, streamed, 0, 1},
		"streamed PUT 429":       {&Retry{}, streamed, 429, 1},
		"POST 429 single":        {nil, in(single, plain("POST", "x")), 429, 1},
		"GET 500 without Retry":  {nil, plain("GET", ""), 500, 1},
		"GET lost without Retry": {nil, plain("GET", ""), 0, 1},
		"two attempts":           {&Retry{Attempts: 2}, plain("GET", ""), 500, 2},
		"off for one":            {&Retry{}, in(off, plain("GET", "")), 500, 1},
		"other for one":          {&Retry{}, in(five, plain("POST", "x")), 500, 5},
		"on for one":             {nil, in(five, plain("POST", "x")), 500, 5},
		"OnCall":                 {&Retry{OnCall: func(_ *http.Request, r *http.Response) bool { return r.StatusCode == 404 }}, plain("GET", ""), 404, 3},
		"OnCall says no":         {&Retry{OnCall: func(*http.Request, *http.Response) bool { return false }}, plain("GET", ""), 500, 1},
		"OnError says no":        {&Retry{OnError: func(_ *http.Request, err error) bool { return err != lost }}, plain("GET", ""), 0, 1},
		"schedule ends":          {&Retry{Backoff: backoff.Func(func(s backoff.Step) (time.Duration, bool) { return 0, s.Attempt < 2 })}, plain("GET", ""), 500, 2},
		"out of time":            {&Retry{Attempts: -1, MaxElapsed: 2 * time.Second}, plain("GET", ""), 500, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				attempts := 0
				tr := transport(t, Config{Retry: c.retry, Base: fake(func(r *http.Request) (*http.Response, error) {
					attempts++
					if r.Body != nil {
						if b, _ := io.ReadAll(r.Body); string(b) != "x" && len(b) != 0 {
							t.Errorf("attempt %d had the body %q", attempts, b)
						}
						r.Body.Close()
					}
					if c.status == 0 {
						return nil, lost
					}
					return answer(c.status, "the answer", "Retry-After-X", "1"), nil
				})})
				req := c.req(t)
				resp, err := tr.RoundTrip(req)
				switch {
				case c.status == 0 && err != lost:
					t.Errorf("%v, want the last error as it was", err)
				case c.status != 0 && err != nil:
					t.Error(err)
				case c.status != 0 && (resp.StatusCode != c.status || read(t, resp) != "the answer"):
					t.Errorf("status %d, or not its body", resp.StatusCode)
				}
				if attempts != c.want {
					t.Errorf("%d attempts, want %d", attempts, c.want)
				}
				if o, ok := req.Body.(*once); ok && o.closed.Load() == 0 {
					t.Error("the request's body was not closed")
				}
			})
		})
	}
}

// A 429 was not executed, nor was what a vendor calls throttling. Any other 5xx may have
// been, whatever it says of when it ends.
func TestWhatIsSentAgainAfterAPause(t *testing.T) {
	keyed := func(r *http.Request) { r.Header.Set("X-Idempotency-Key", "1") }
	fault := `<s:Envelope><s:Body><s:Fault><detail><AdApiFaultDetail><Errors><AdApiError><Code>117</Code><ErrorCode>CallRateExceeded</ErrorCode></AdApiError></Errors></AdApiFaultDetail></detail></s:Fault></s:Body></s:Envelope>`
	for _, c := range []struct {
		name   string
		vendor vendors.Adapter
		status int
		body   string
		retry  *Retry
		method string
		change func(*http.Request)
		want   int
	}{
		{"HTTP 429", vendors.HTTP(), 429, "", nil, "POST", nil, 2},
		{"HTTP 529", vendors.HTTP(), 529, "", nil, "POST", nil, 2},
		{"HTTP 500", vendors.HTTP(), 500, "", nil, "POST", nil, 1},
		{"HTTP 502", vendors.HTTP(), 502, "", nil, "PATCH", nil, 1},
		{"HTTP 503", vendors.HTTP(), 503, "", nil, "POST", nil, 1},
		{"HTTP 504", vendors.HTTP(), 504, "", nil, "POST", nil, 1},
		{"HTTP 503, Retry", vendors.HTTP(), 503, "", &Retry{}, "POST", nil, 1},
		{"HTTP 503 of a GET", vendors.HTTP(), 503, "", nil, "GET", nil, 2},
		{"HTTP 503 of a PUT", vendors.HTTP(), 503, "", nil, "PUT", nil, 2},
		{"HTTP 503 with a key", vendors.HTTP(), 503, "", nil, "POST", keyed, 2},
		{"HTTP 503 of any method", vendors.HTTP(), 503, "", &Retry{AnyMethod: true}, "POST", nil, 2},
		{"Notion 500", vendors.Notion(), 500, "{}", nil, "POST", nil, 1},
		{"Notion 503", vendors.Notion(), 503, `{"additional_data":{"retry_after":"1"}}`, nil, "PATCH", nil, 1},
		{"Notion 529", vendors.Notion(), 529, "{}", nil, "POST", nil, 2},
		{"Atlassian 503", vendors.Atlassian(), 503, "{}", nil, "POST", nil, 1},
		{"Stripe 500", vendors.Stripe(), 500, "{}", nil, "POST", nil, 1},
		{"AWS 503", vendors.AWS(), 503, "{}", nil, "POST", nil, 1},
		{"AWS 503 SlowDown", vendors.AWS(), 503, "<Error><Code>SlowDown</Code></Error>", nil, "POST", nil, 2},
		{"Microsoft's fault 117", vendors.MicrosoftAds(), 500, fault, nil, "POST", nil, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				tr := transport(t, Config{Vendor: c.vendor, Retry: c.retry, Base: fake(func(r *http.Request) (*http.Response, error) {
					r.Body.Close()
					if n++; n == 1 {
						return answer(c.status, c.body, "Retry-After", "1"), nil
					}
					return answer(200, ""), nil
				})})
				req := request(t, c.method, "http://api.test/v1/charges", "x")
				if c.change != nil {
					c.change(req)
				}
				began := time.Now()
				status, body := fetch(t, tr, req)
				if n != c.want || c.want == 1 && (status != c.status || body != c.body) {
					t.Errorf("sent %d times, answered %d %q, want %d times", n, status, body, c.want)
				}
				fetch(t, tr, request(t, "GET", "http://api.test/v1/charges", "x"))
				if d := time.Since(began); d < time.Second {
					t.Errorf("the next request was sent after %v, want a pause of 1 s", d)
				}
			})
		})
	}
}

func TestServerThatForbidsToRepeat(t *testing.T) {
	for _, c := range []struct {
		name, header, value string
		vendor              vendors.Adapter
		retry               *Retry
		want                int
	}{
		{"Stripe", "Stripe-Should-Retry", "false", vendors.Stripe(), &Retry{}, 1},
		{"OpenAI", "X-Should-Retry", "false", vendors.OpenAI(), &Retry{}, 1},
		{"Anthropic", "X-Should-Retry", "FALSE", vendors.Anthropic(), &Retry{}, 1},
		{"any", "X-Should-Retry", "false", vendors.HTTP(), &Retry{}, 1},
		{"any, whatever OnCall says", "X-Should-Retry", "false", vendors.HTTP(), &Retry{OnCall: func(*http.Request, *http.Response) bool { return true }}, 1},
		{"any, allowed", "X-Should-Retry", "true", vendors.HTTP(), &Retry{}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, blamed := 0, 0
				tr := transport(t, Config{Vendor: c.vendor, Retry: c.retry,
					RecordFailure: func(*http.Response, error) bool { blamed++; return true },
					Base: fake(func(*http.Request) (*http.Response, error) {
						n++
						return answer(500, "{}", c.header, c.value), nil
					})})
				if status, body := fetch(t, tr, request(t, "GET", "http://api.test/", "")); status != 500 || body != "{}" || n != c.want || blamed != n {
					t.Errorf("sent %d times, blamed %d times, want %d; answered %d %q", n, blamed, c.want, status, body)
				}
			})
		})
	}
}

func TestBackoffAndModify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var at []time.Duration
		var seen []string
		tr := transport(t, Config{
			Retry: &Retry{Modify: func(n int, r *http.Request) { r.Header.Set("Attempt", itoa(int64(n))) }},
			Base: fake(func(r *http.Request) (*http.Response, error) {
				at, seen = append(at, time.Since(began)), append(seen, r.Header.Get("Attempt"))
				return answer(500, ""), nil
			}),
		})
		req := request(t, "GET", "http://api.test/", "")
		fetch(t, tr, req)
		if want := []time.Duration{0, 500 * time.Millisecond, 1500 * time.Millisecond}; !slices.Equal(at, want) {
			t.Errorf("attempts at %v, want %v", at, want)
		}
		if want := []string{"", "2", "3"}; !slices.Equal(seen, want) || req.Header.Get("Attempt") != "" {
			t.Errorf("headers %q, want %q, and none in the original", seen, want)
		}
	})
}

func TestCancellingTheRequestEndsItsRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		tr := transport(t, Config{
			Retry: &Retry{Attempts: -1, Backoff: backoff.Constant(10 * time.Second)},
			Base:  fake(func(*http.Request) (*http.Response, error) { attempts++; return answer(500, "x"), nil }),
		})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { time.Sleep(25 * time.Second); cancel() }()
		began := time.Now()
		_, err := tr.RoundTrip(request(t, "GET", "http://api.test/", "").WithContext(ctx))
		if !errors.Is(err, context.Canceled) || time.Since(began) != 25*time.Second || attempts != 3 {
			t.Errorf("%v after %v and %d attempts, want Canceled, 25s, 3", err, time.Since(began), attempts)
		}
	})
}

func TestWaitingForARetryHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := false
		tr := transport(t, Config{
			Host:  func(string) (governor.PlainConfig, error) { return governor.PlainConfig{Workers: 1}, nil },
			Retry: &Retry{Backoff: backoff.Constant(time.Minute)},
			Base: fake(func(r *http.Request) (*http.Response, error) {
				if r.URL.Path == "/fails" && !failed {
					failed = true
					return answer(500, "x"), nil
				}
				return answer(200, "x"), nil
			}),
		})
		go func() { fetch(t, tr, request(t, "GET", "http://api.test/fails", "")) }()
		synctest.Wait()
		began := time.Now()
		fetch(t, tr, request(t, "GET", "http://api.test/", ""))
		if d := time.Since(began); d != 0 {
			t.Errorf("waited %v for the slot of one that waits itself", d)
		}
		time.Sleep(2 * time.Minute)
	})
}

func TestRetryBudgetHoldsForTheTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget, err := policy.NewBudget(policy.BudgetConfig{})
		if err != nil {
			t.Fatal(err)
		}
		attempts := atomic.Int64{}
		tr := transport(t, Config{
			Retry: &Retry{Attempts: 2, Budget: budget, Backoff: backoff.Constant(time.Second)},
			Base:  fake(func(*http.Request) (*http.Response, error) { attempts.Add(1); return answer(500, ""), nil }),
		})
		for range 50 {
			go func() { fetch(t, tr, request(t, "GET", "http://api.test/", "")) }()
		}
		time.Sleep(time.Minute)
		if n := attempts.Load(); n <= 50 || n > 65 {
			t.Errorf("%d attempts of 50 requests, want some repetitions and not many", n)
		}
	})
}

func TestConnectionLostIsSentAgain(t *testing.T) {
	var calls atomic.Int64
	drop := func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1)%3 != 0 {
			panic(http.ErrAbortHandler)
		}
		b, _ := io.ReadAll(r.Body)
		w.Write(b)
	}
	protocols(t, drop, func(t *testing.T, s server) {
		calls.Store(0)
		tr := s.transport(t, Config{Retry: &Retry{Backoff: backoff.None}})
		big := bytes.Repeat([]byte("abc"), 100_000)
		req, err := http.NewRequestWithContext(t.Context(), "PUT", s.URL, bytes.NewReader(big))
		if err != nil {
			t.Fatal(err)
		}
		if _, body := fetch(t, tr, req); body != string(big) {
			t.Errorf("the server got %d bytes, want %d", len(body), len(big))
		}
	})
}

func TestLastAnswerHasItsWholeBody(t *testing.T) {
	for _, size := range []int{0, 1, 511, 4096, maxPeek - 1, maxPeek} {
		body := strings.Repeat("x", size)
		tr := transport(t, Config{Retry: &Retry{Attempts: 2, Backoff: backoff.None},
			Base: fake(func(*http.Request) (*http.Response, error) { return answer(500, body), nil })})
		_, got := fetch(t, tr, request(t, "GET", "http://api.test/", ""))
		if got != body {
			t.Errorf("%d bytes, want %d", len(got), size)
		}
	}
}

func TestRefusalIsTheAnswerOfWhoCannotWaitForItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		tr := transport(t, Config{Base: fake(func(*http.Request) (*http.Response, error) {
			attempts++
			return answer(429, "later", "Retry-After", "40"), nil
		})})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		status, body := fetch(t, tr, request(t, "GET", "http://api.test/", "").WithContext(ctx))
		if d := time.Since(began); status != 429 || body != "later" || attempts != 2 || d != 40*time.Second {
			t.Errorf("%d %q, %d attempts, %v; want the second refusal, when the third could not come in time", status, body, attempts, d)
		}
		_, err := tr.RoundTrip(request(t, "GET", "http://api.test/", "").WithContext(ctx)) // never sent
		if e, ok := errors.AsType[*governor.LateError](err); !ok || e.RetryAfter() != 40*time.Second || attempts != 2 {
			t.Errorf("%v, %d attempts", err, attempts)
		}
		if e, ok := err.(interface{ Timeout() bool }); !ok || !e.Timeout() {
			t.Errorf("%T does not say that it is a timeout", err)
		}
	})
}

func TestLongPauseIsAnErrorForWhoWasNeverSentAndAnAnswerForWhoWas(t *testing.T) {
	tr := transport(t, Config{Base: fake(func(*http.Request) (*http.Response, error) {
		return answer(429, "tomorrow", "Retry-After", "36000"), nil
	})})
	if status, body := fetch(t, tr, request(t, "GET", "http://api.test/", "")); status != 429 || body != "tomorrow" {
		t.Errorf("%d %q", status, body)
	}
	unread := &once{Reader: strings.NewReader("x")}
	req := request(t, "POST", "http://api.test/", "")
	req.Body = unread
	_, err := tr.RoundTrip(req)
	if e, ok := errors.AsType[*governor.CooldownError](err); !ok || !governor.IsRefused(err) || e.RetryAfter() < 9*time.Hour {
		t.Error(err)
	}
	if unread.closed.Load() != 1 {
		t.Error("the body of a request that was not sent was not closed")
	}
}
