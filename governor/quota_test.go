package governor_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// Whatever way a vendor counts its 50 calls a minute, a Limit that only says so
// keeps them, and wastes next to nothing.
func TestDocumentedQuotaIsKeptInEveryWindow(t *testing.T) {
	const limit, calls = 50, 500
	quota := limiter.QuotaConfig{Limit: limit, Per: time.Minute}
	bubble(t, func(c *governor.PlainConfig) {
		c.Limits = []governor.Limit{{Per: throttle.Tenant, Quota: quota}}
		c.NoPace = true
	}, func(t *testing.T, g *governor.Plain) {
		var mu sync.Mutex
		starts := map[string][]time.Time{}
		for i := range 2 * calls {
			tenant := []string{"a", "b"}[i%2]
			governor.Submit(t.Context(), g.With(governor.Ask{Tenant: tenant}), "", governor.Func(func(context.Context) (int, error) {
				mu.Lock()
				defer mu.Unlock()
				starts[tenant] = append(starts[tenant], time.Now())
				return 0, nil
			}))
		}
		if err := g.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		for tenant, at := range starts {
			slices.SortFunc(at, time.Time.Compare)
			for i := limit; i < len(at); i++ {
				if d := at[i].Sub(at[i-limit]); d < time.Minute {
					t.Fatalf("tenant %s: %d calls within %v", tenant, limit+1, d)
				}
			}
			want := time.Minute * (calls/limit - 1)
			if took := at[len(at)-1].Sub(at[0]); len(at) != calls || took > want*101/100 {
				t.Errorf("tenant %s: %d calls in %v, want %d in %v", tenant, len(at), took, calls, want)
			}
		}
	})
}

func TestLimitHasALimiterOrAQuota(t *testing.T) {
	bucket, quota := newBucket(t, 1, 1), limiter.QuotaConfig{Limit: 1, Per: time.Second}
	for want, l := range map[string]governor.Limit{
		"governor: Config.Limits[0].Limiter is nil, want a limiter, or a Quota":                      {},
		"governor: Config.Limits[0].Quota is {1 1s 0s 0}, want none beside a Limiter":                {Limiter: bucket, Quota: quota},
		"governor: Config.Limits[0].Quota: limiter: QuotaConfig.Limit is 0, want 1 up to 1<<40":      {Quota: limiter.QuotaConfig{Per: time.Second}},
		"governor: Config.Limits[0].Quota: limiter: QuotaConfig.Per is 0s, want 1ns up to a century": {Quota: limiter.QuotaConfig{Limit: 1}},
	} {
		if g, err := governor.New(governor.PlainConfig{Name: "x", Limits: []governor.Limit{l}}); g != nil || err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A lane that leaves one line for another lets the next of the first be tried.
func TestLimitsOfTwoLevelsDoNotBlockEachOther(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) {
		c.NoPace = true
		c.Limits = []governor.Limit{{Per: throttle.Tenant, Limiter: newBucket(t, 1, 1)}, {Per: throttle.Bucket, Limiter: newBucket(t, 0.5, 1)}}
	}, func(t *testing.T, g *governor.Plain) {
		var reqs []*governor.Request[int]
		for i := range 40 {
			ask := governor.Ask{Tenant: []string{"a", "b"}[i%2], Bucket: []string{"x", "y", "z"}[i%3]}
			reqs = append(reqs, governor.Submit(t.Context(), g.With(ask), "", sleep(0)))
		}
		for _, r := range reqs {
			if _, err := r.Result(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// A limit that calls give back does not say when: who may start by then is let wait.
func TestLatestStartUnderALimitThatCallsGiveBack(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) {
		l, err := limiter.NewConcurrency(limiter.ConcurrencyConfig{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		c.NoPace, c.Limits = true, []governor.Limit{{Per: throttle.Tenant, Limiter: l}}
	}, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		governor.Submit(t.Context(), g, "", sleep(20*time.Millisecond))
		synctest.Wait()
		var at time.Time
		_, err := governor.Do(t.Context(), g.With(governor.Ask{StartBy: start.Add(50 * time.Millisecond)}), "", stamp(&at))
		if err != nil {
			t.Error(err)
		}
		since(t, "start", start, at, 20*time.Millisecond)
		if _, err := governor.Do(t.Context(), g.With(governor.Ask{StartBy: time.Now().Add(time.Hour), Cost: 2}), "", sleep(0)); err != governor.ErrNeverAdmissible {
			t.Errorf("got %v, want ErrNeverAdmissible", err)
		}
	})
}
