package httpx

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
	"github.com/flyball-go/flyball/vendors"
)

// long is more of a body than is read beforehand, by far.
var long = strings.Repeat("flyball!", 1<<17)

// Whatever ends the request, its last answer is there to its end, and those before it
// are closed. Its slot is given back with it.
func TestLongBodyOfTheLastAnswerIsGivenBackWhole(t *testing.T) {
	limited := func(n int) func(string) (governor.PlainConfig, error) {
		return func(string) (governor.PlainConfig, error) { return governor.PlainConfig{LimitedAttempts: n}, nil }
	}
	for name, c := range map[string]struct {
		cfg     Config
		status  int
		after   string        // Retry-After
		within  time.Duration // the request's context
		startBy time.Duration
		sent    int
	}{
		"refused too often":          {Config{Host: limited(1)}, 429, "1", 0, 0, 1},
		"a pause that is too long":   {Config{}, 429, "36000", 0, 0, 1},
		"a pause beyond a deadline":  {Config{}, 429, "40", time.Minute, 0, 2},
		"a pause beyond StartBy":     {Config{}, 429, "40", 0, time.Minute, 2},
		"failed too often":           {Config{Retry: &Retry{}}, 503, "", 0, 0, 3},
		"failed for too long":        {Config{Retry: &Retry{Attempts: -1, MaxElapsed: 2 * time.Second}}, 500, "", 0, 0, 3},
		"failed, and no more waits":  {Config{Retry: &Retry{Backoff: backoff.Func(func(backoff.Step) (time.Duration, bool) { return 0, false })}}, 500, "", 0, 0, 1},
		"failed, and too long a one": {Config{Retry: &Retry{Backoff: backoff.Constant(time.Hour)}}, 500, "", 0, 0, 1},
		"failed as OnCall says":      {Config{Retry: &Retry{OnCall: func(_ *http.Request, r *http.Response) bool { return r.StatusCode == 200 }}}, 200, "", 0, 0, 3},
		"it opens the breaker":       {Config{Retry: &Retry{Backoff: backoff.None}, Breaker: &breaker.Config{Consecutive: 2}}, 500, "", 0, 0, 2},
		"the same, and a backoff":    {Config{Retry: &Retry{Backoff: backoff.Constant(time.Second)}, Breaker: &breaker.Config{Consecutive: 2}}, 500, "", 0, 0, 2},
		"it is only blamed for":      {Config{Breaker: &breaker.Config{Consecutive: 1}}, 500, "", 0, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var bodies []*once
				c.cfg.Base = fake(func(*http.Request) (*http.Response, error) {
					resp, b := tracked(c.status, long)
					if bodies = append(bodies, b); c.after != "" {
						resp.Header.Set("Retry-After", c.after)
					}
					return resp, nil
				})
				tr := transport(t, c.cfg)
				ctx := t.Context()
				if c.within > 0 {
					deadline, cancel := context.WithTimeout(ctx, c.within)
					defer cancel()
					ctx = deadline
				}
				if c.startBy > 0 {
					ctx = WithAsk(ctx, governor.Ask{StartBy: time.Now().Add(c.startBy)})
				}
				resp, err := tr.RoundTrip(request(t, "GET", "http://api.test/", "").WithContext(ctx))
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				for i, b := range bodies {
					if n := b.closed.Load(); n != map[bool]int64{i < len(bodies)-1: 1}[true] {
						t.Errorf("body %d of %d was closed %d times", i+1, len(bodies), n)
					}
				}
				if n := tr.Hosts()[0].InFlight; n != 1 {
					t.Errorf("%d slots are held by the body, want 1", n)
				}
				b, err := io.ReadAll(resp.Body)
				if resp.StatusCode != c.status || len(bodies) != c.sent || string(b) != long || err != nil {
					t.Errorf("status %d, sent %d times, %d of %d bytes, %v", resp.StatusCode, len(bodies), len(b), len(long), err)
				}
				synctest.Wait()
				free(t, tr)
				resp.Body.Close()
				if n := bodies[len(bodies)-1].closed.Load(); n != 1 {
					t.Errorf("the last body was closed %d times", n)
				}
			})
		})
	}
}

// What waits holds no connection, and so there is no more to be read when it does not
// come to a further attempt after all.
func TestLongBodyOfARequestThatWaitsIsLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resp, b := tracked(429, long, "Retry-After", "30")
		tr := transport(t, Config{Base: fake(func(*http.Request) (*http.Response, error) { return resp, nil })})
		go func() {
			time.Sleep(10 * time.Second)
			if n := b.closed.Load(); n != 1 {
				t.Errorf("the body was closed %d times while the request waits", n)
			}
			free := tr.Hosts()[0].InFlight == 0
			g, err := tr.Host("api.test")
			if err != nil || !free {
				t.Errorf("%v, a slot is free: %v", err, free)
			}
			g.Learn(throttle.Signal{Delay: 10 * time.Hour})
		}()
		got, err := tr.RoundTrip(request(t, "GET", "http://api.test/", ""))
		if err != nil {
			t.Fatal(err)
		}
		read, err := io.ReadAll(got.Body)
		if got.StatusCode != 429 || string(read) != long[:maxPeek] || err != ErrBodyCut {
			t.Errorf("%d, %d bytes, %v", got.StatusCode, len(read), err)
		}
		got.Body.Close()
	})
}

// The breaker was opened by others, which says more than that the request was refused.
func TestLongBodyOfAnAnswerThatIsNotGivenOutIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resp, b := tracked(429, long, "Retry-After", "0")
		tr := transport(t, Config{Breaker: &breaker.Config{Consecutive: 1}, Base: fake(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/failing" {
				return answer(500, ""), nil
			}
			time.Sleep(time.Second)
			return resp, nil
		})})
		go func() {
			time.Sleep(500 * time.Millisecond) // while the other is under way
			fetch(t, tr, request(t, "GET", "http://api.test/failing", ""))
		}()
		if got, err := tr.RoundTrip(request(t, "GET", "http://api.test/", "")); got != nil || !errors.Is(err, breaker.ErrOpen) {
			t.Errorf("%v, %v", got, err)
		}
		synctest.Wait()
		if n := b.closed.Load(); n != 1 {
			t.Errorf("the body was closed %d times", n)
		}
		free(t, tr)
	})
}

// The pause of one that is final has begun nevertheless, and its end is as it was said.
func TestLongBodyOfARefusalThatIsFinalIsGivenBackWhole(t *testing.T) {
	for name, tc := range map[string]struct {
		ask    governor.Ask
		vendor vendors.Adapter
		header []string
	}{
		"by its request":  {ask: governor.Ask{NoRetry: true}, vendor: vendors.HTTP()},
		"by the vendor":   {vendor: vendors.HTTP(), header: []string{"X-Should-Retry", "false"}},
		"a bucket's only": {ask: governor.Ask{NoRetry: true, Bucket: "m"}, vendor: vendors.Anthropic()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := 0
				tr := NewTransport(Config{Vendor: tc.vendor, Host: workers(2), Base: fake(func(*http.Request) (*http.Response, error) {
					if begun++; begun > 1 {
						return answer(200, "{}"), nil
					}
					return answer(429, long, append(tc.header, "Retry-After", "30")...), nil
				})})
				defer tr.Close()
				ctx := WithAsk(t.Context(), tc.ask)
				resp, err := tr.RoundTrip(request(t, "GET", "http://api.test/", "").WithContext(ctx))
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				time.Sleep(10 * time.Second)
				if n := tr.Hosts()[0].InFlight; n != 1 {
					t.Errorf("%d slots are held by the body, want 1", n)
				}
				b, err := io.ReadAll(resp.Body)
				if resp.StatusCode != 429 || string(b) != long || err != nil {
					t.Errorf("status %d, %d of %d bytes, %v", resp.StatusCode, len(b), len(long), err)
				}
				resp.Body.Close()
				free(t, tr)
				ask := tc.ask
				ask.NoRetry = false
				status, _ := fetch(t, tr, request(t, "GET", "http://api.test/", "").WithContext(WithAsk(t.Context(), ask)))
				if d := time.Since(began); status != 200 || d != 30*time.Second {
					t.Errorf("the next call: %d after %v, want 200 after 30s", status, d)
				}
			})
		})
	}
}

// witness is a limiter that counts the successes that it hears of.
type witness struct {
	limiter.Limiter
	accepted atomic.Int64
}

func (w *witness) Accepted(time.Time, time.Time, string) { w.accepted.Add(1) }

// Nor is it a success when it has been read.
func TestLongRefusalIsNoSuccessToTheLimiters(t *testing.T) {
	bucket, err := limiter.NewBucket(limiter.BucketConfig{Rate: 100, Burst: 100})
	if err != nil {
		t.Fatal(err)
	}
	w := &witness{Limiter: bucket}
	tr := transport(t, Config{
		Host: func(string) (governor.PlainConfig, error) {
			return governor.PlainConfig{Limits: []governor.Limit{{Limiter: w}}}, nil
		},
		Base: fake(func(*http.Request) (*http.Response, error) {
			return answer(429, strings.Repeat("x", 2*maxPeek), "Retry-After", "30"), nil
		}),
	})
	fetch(t, tr, request(t, "GET", "http://api.test/", "").WithContext(WithAsk(t.Context(), governor.Ask{NoRetry: true})))
	if n := w.accepted.Load(); n != 0 {
		t.Errorf("%d calls were accepted, want none", n)
	}
}

// Who reads a body may have another goroutine close it, as of any response.
func TestBodyIsClosedBesideItsReader(t *testing.T) {
	tr := transport(t, Config{Base: fake(func(*http.Request) (*http.Response, error) {
		resp, _ := tracked(404, long)
		return resp, nil
	})})
	for range 100 {
		resp, err := tr.RoundTrip(request(t, "GET", "http://api.test/", ""))
		if err != nil {
			t.Fatal(err)
		}
		begun, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			for i := 0; ; i++ {
				if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
					return
				}
				if i == 10 {
					close(begun)
				}
			}
		}()
		<-begun
		resp.Body.Close()
		<-ended
	}
	free(t, tr)
}
