package httpx

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/vendors"
)

// One whose request might have been sent again is cut; see Transport.
func TestLongBodyOfARefusalIsCutAndSaysSo(t *testing.T) {
	long := strings.Repeat("x", 2*maxPeek)
	tr := transport(t, Config{Base: fake(func(*http.Request) (*http.Response, error) { return answer(429, long, "Retry-After", "36000"), nil })})
	resp, err := tr.RoundTrip(request(t, "GET", "http://api.test/", ""))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if len(b) != maxPeek || err != ErrBodyCut {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	resp.Body.Close()
}

// One of a request that is sent once is not: its pause has begun nevertheless, its end
// is as it was said, and the slot is given back with the body.
func TestLongBodyOfARefusalThatIsFinalIsGivenBackWhole(t *testing.T) {
	long := strings.Repeat("x", 3*maxPeek)
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
