package store_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/store/storetest"
)

// asking notes how many permits are wanted at once, at most, and how often some are.
type asking struct {
	store.Store
	most, asks atomic.Int64
}

func (a *asking) Exchange(ctx context.Context, node store.Node, items []store.Item) ([]store.Answer, error) {
	for _, it := range items {
		if it.Want > 0 {
			a.most.Store(max(a.most.Load(), it.Want))
			a.asks.Add(1)
		}
	}
	return a.Store.Exchange(ctx, node, items)
}

// Permits are fetched for Horizon ahead, at the pace at which they are used, here 100 a
// second; or for less, where they would be lost.
func TestPermitsAreFetchedForTheHorizon(t *testing.T) {
	window := func(quota int64, per time.Duration) store.Limit {
		return store.Limit{Kind: store.Window, Quota: quota, Per: per}
	}
	for _, tc := range []struct {
		name    string
		horizon time.Duration
		limit   store.Limit
		want    time.Duration
	}{
		{"a tenth of a second", 100 * time.Millisecond, window(100_000, time.Minute), 100 * time.Millisecond},
		{"two seconds", 2 * time.Second, window(100_000, time.Minute), 2 * time.Second},
		{"none said, a minute", 0, window(100_000, time.Minute), 10 * time.Second},
		{"none said, a second", 0, window(1000, time.Second), 500 * time.Millisecond},
		{"none said, a twentieth of a second", 0, window(50, 50*time.Millisecond), 50 * time.Millisecond * 3 / 4},
		{"longer than the step", time.Minute, window(1000, time.Second), time.Second * 3 / 4},
		{"longer than the lease", time.Minute, store.Limit{Kind: store.Bucket, Quota: 100_000, Per: time.Minute, Burst: 1000, Lease: time.Second}, time.Second / 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engine := &asking{Store: memory(t)}
				s := syncer(t, store.SyncerConfig{Store: engine, Horizon: tc.horizon})
				defer s.Close()
				u := &user{limit: share(t, s, tc.limit), every: 10 * time.Millisecond}
				start := time.Now()
				u.run(new(storetest.History), start.Add(time.Minute))
				want := int64(tc.want / u.every)
				if most := engine.most.Load(); most > want+1 || most < want*3/4 {
					t.Errorf("%d permits are fetched at once at most, want those for %v, %d", most, tc.want, want)
				}
				t.Logf("%d permits at once at most, in %d exchanges for %d calls", engine.most.Load(), engine.asks.Load(), u.made)
			})
		})
	}
}
