package retry

import (
	"errors"
	"math"
	"regexp"
	"testing"
	"time"

	"github.com/flyball-go/flyball/backoff"
)

var named = regexp.MustCompile(`^retry: invalid: (MaxElapsed|MaxRetryAfter|Backoff)\b`)

// Whatever is configured, New says what is wrong with it, or makes a Retry whose
// decisions stay within it.
func FuzzConfig(f *testing.F) {
	f.Add(0, int64(0), int64(0), int64(0), 0.0, int64(0))
	f.Add(-1, int64(-1), int64(-5), int64(-1), math.NaN(), int64(math.MinInt64))
	f.Add(3, int64(time.Second), int64(time.Hour), int64(time.Minute), 2.0, int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, attempts int, elapsed, most, initial int64, multiplier float64, hint int64) {
		cfg := Config{
			Attempts: attempts, MaxElapsed: time.Duration(elapsed), MaxRetryAfter: time.Duration(most),
			Backoff: backoff.Exponential{Initial: time.Duration(initial), Multiplier: multiplier},
		}
		if _, err := New(cfg); err != nil {
			if !errors.Is(err, ErrInvalid) || !named.MatchString(err.Error()) {
				t.Fatalf("%v does not match ErrInvalid, or names no field", err)
			}
			return
		}
		for n := range 5 {
			wait, again, _ := cfg.Next(backoff.Step{Attempt: n + 1, Err: After(time.Duration(hint), errBoom)})
			if wait < 0 || again && attempts > 0 && n+1 >= attempts {
				t.Fatalf("%+v: after attempt %d wait %v, again %v", cfg, n+1, wait, again)
			}
		}
	})
}
