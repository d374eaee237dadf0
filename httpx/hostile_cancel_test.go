package httpx

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/policy"
	"github.com/flyball-go/flyball/retry"
)

func TestCancellationAnywhereGivesEverythingBack(t *testing.T) {
	for name, status := range map[string]int{"in the pause": 429, "between attempts": 503, "before the header": 0, "in the body": 200, "in a body that is peeked at": 404} {
		for _, how := range []string{"cancel", "client.Timeout"} {
			t.Run(name+", "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var bodies []*once
					tr := transport(t, Config{
						Host: workers(1), Retry: &Retry{Backoff: backoff.Constant(time.Hour)},
						Base: fake(func(r *http.Request) (*http.Response, error) {
							resp, b := tracked(status, "x", "Retry-After", "30")
							switch status {
							case 0:
								<-r.Context().Done()
								return nil, context.Cause(r.Context())
							case 200, 404:
								b.Reader = io.MultiReader(strings.NewReader("x"), until{r.Context()})
							}
							bodies = append(bodies, b)
							return resp, nil
						}),
					})
					c := &http.Client{Transport: tr}
					ctx, cancel := context.WithCancel(t.Context())
					if how == "cancel" {
						go func() { time.Sleep(5 * time.Second); cancel() }()
					} else {
						c.Timeout = 5 * time.Second
					}
					began := time.Now()
					resp, err := c.Do(request(t, "GET", "http://api.test/", "").WithContext(ctx))
					if err == nil {
						_, err = io.ReadAll(resp.Body)
						resp.Body.Close()
					}
					cancel()
					if err == nil && status != 429 && status != 503 || time.Since(began) > 5*time.Second {
						t.Errorf("%v after %v", err, time.Since(began))
					}
					synctest.Wait()
					for _, b := range bodies {
						if b.closed.Load() == 0 {
							t.Error("a body is open")
						}
					}
					free(t, tr)
				})
			})
		}
	}
}

// net/http drops the connection of a body that nobody reads or closes when its context
// ends. Its slot must not outlast it.
func TestSlotOfABodyThatIsLeftAloneGoesBackWithItsContext(t *testing.T) {
	for name, cfg := range map[string]func(limit time.Duration) Config{
		"cancel":         func(time.Duration) Config { return Config{} },
		"deadline":       func(time.Duration) Config { return Config{} },
		"AttemptTimeout": func(limit time.Duration) Config { return Config{AttemptTimeout: limit} },
		"Timeout":        func(limit time.Duration) Config { return Config{Timeout: limit} },
	} {
		for _, status := range []int{200, 404, 503} {
			t.Run(name+" "+itoa(int64(status)), func(t *testing.T) {
				protocols(t, func(w http.ResponseWriter, r *http.Request) {
					w.WriteHeader(status)
					io.WriteString(w, strings.Repeat("x", 2*maxPeek))
					w.(http.Flusher).Flush()
					<-r.Context().Done() // the client is gone
				}, func(t *testing.T, s server) {
					var tr *Transport
					var resp *http.Response
					cancel := func() {}
					err := context.DeadlineExceeded
					// The answer is to begin in time, for which a slow machine needs longer.
					for limit := 50 * time.Millisecond; errors.Is(err, context.DeadlineExceeded) && limit < 10*time.Second; limit *= 2 {
						c := cfg(limit)
						c.Host = workers(1)
						tr = s.transport(t, c)
						ctx := t.Context()
						if name == "deadline" {
							ctx, cancel = context.WithTimeout(ctx, limit)
						} else {
							ctx, cancel = context.WithCancel(ctx)
						}
						defer cancel()
						resp, err = tr.RoundTrip(request(t, "GET", s.URL, "").WithContext(ctx))
					}
					if err != nil {
						t.Fatal(err)
					}
					if name == "cancel" {
						cancel()
					}
					for end := time.Now().Add(10 * time.Second); tr.Hosts()[0].InFlight > 0; time.Sleep(time.Millisecond) {
						if time.Now().After(end) {
							t.Fatal("the slot is still taken")
						}
					}
					if _, err := io.ReadAll(resp.Body); err == nil {
						t.Error("the body could be read after its context had ended")
					}
					resp.Body.Close()
					free(t, tr)
				})
			})
		}
	}
}

// Whoever reads, closes and cancels at the same time gives back once.
func TestContextThatEndsBesideReadAndClose(t *testing.T) {
	protocols(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, strings.Repeat("x", 4<<10)) }, func(t *testing.T, s server) {
		tr := s.transport(t, Config{Host: workers(4)})
		for i := range effort.Times(200) {
			ctx, cancel := context.WithCancel(t.Context())
			resp, err := tr.RoundTrip(request(t, "GET", s.URL, "").WithContext(ctx))
			if err != nil {
				t.Fatal(err)
			}
			var all sync.WaitGroup
			for j, do := range []func(){cancel, func() { io.Copy(io.Discard, resp.Body) }, func() { resp.Body.Close() }} {
				if i%4 != j {
					all.Go(do)
				}
			}
			all.Wait()
			cancel()
			resp.Body.Close()
		}
		for end := time.Now().Add(10 * time.Second); tr.Hosts()[0].InFlight > 0 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		free(t, tr)
	})
}

// until is a body that ends with its request.
type until struct{ ctx context.Context }

func (u until) Read([]byte) (int, error) { <-u.ctx.Done(); return 0, u.ctx.Err() }

func TestChainLeavesNothingWhenItsBasePanicsOrItsBodyFails(t *testing.T) {
	bad := errors.New("file is gone")
	again := newRetry(t)
	var contexts []context.Context
	var bodies []*once
	base := fake(func(r *http.Request) (*http.Response, error) {
		r.Body.Close()
		contexts = append(contexts, r.Context())
		resp, b := tracked(503, strings.Repeat("x", 2*maxPeek))
		bodies = append(bodies, b)
		return resp, nil
	})
	req, body := streamed(t, "http://api.test/")
	req.GetBody = func() (io.ReadCloser, error) { return nil, bad }
	if _, err := RoundTripper(base, policy.Chain(again)).RoundTrip(req); !errors.Is(err, bad) {
		t.Error(err)
	}
	if body.closed.Load() != 1 || bodies[0].closed.Load() == 0 || contexts[0].Err() == nil {
		t.Errorf("closed %d, %d, context %v", body.closed.Load(), bodies[0].closed.Load(), contexts[0].Err())
	}

	var leaked context.Context
	boom := fake(func(r *http.Request) (*http.Response, error) { leaked = r.Context(); panic("boom") })
	func() {
		defer func() { _ = recover() }()
		_, _ = RoundTripper(boom, policy.Chain()).RoundTrip(request(t, "GET", "http://api.test/", ""))
	}()
	if leaked.Err() == nil {
		t.Error("the context of an attempt that panicked goes on")
	}
}

func TestManyHostsAreBounded(t *testing.T) {
	var sent atomic.Int64
	tr := transport(t, Config{MaxHosts: 50, Base: fake(func(*http.Request) (*http.Response, error) { sent.Add(1); return answer(204, ""), nil })})
	calls := int64(effort.Times(400))
	for i := range calls {
		resp, err := tr.RoundTrip(request(t, "GET", "http://h"+itoa(i)+".test/", ""))
		for errors.Is(err, governor.ErrTooManyHosts) { // a hundred that were forgotten have not yet ended
			runtime.Gosched()
			resp, err = tr.RoundTrip(request(t, "GET", "http://h"+itoa(i)+".test/", ""))
		}
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	if n := len(tr.Hosts()); n > 50 || sent.Load() != calls {
		t.Errorf("%d hosts, %d sent", n, sent.Load())
	}
}

func newRetry(t *testing.T) policy.Policy {
	t.Helper()
	p, err := retry.New(retry.Config{RetryOnResult: policy.OnResult(IsFailure), Backoff: backoff.None})
	if err != nil {
		t.Fatal(err)
	}
	return p
}
