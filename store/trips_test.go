package store_test

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/store"
)

// demands are what eight processes would like to do, as weights. nil: as much as they
// can; the others want 5/4 of the quota, and make up for what they had to wait.
var demands = []struct {
	name   string
	weight func(i int) float64
}{
	{"all", nil},
	{"even", func(int) float64 { return 1 }},
	{"ten to one", func(i int) float64 {
		if i == 0 {
			return 10
		}
		return 1
	}},
	{"zipf", func(i int) float64 { return math.Pow(float64(i+1), -1.5) }},
}

func demand(l store.Limit, weight func(i int) float64) []*user {
	users := many(8)
	if weight == nil {
		return users
	}
	sum := 0.0
	for i := range users {
		sum += weight(i)
	}
	for i, u := range users {
		u.keeps = true
		u.every = time.Duration(float64(l.Per) * sum / (1.25 * float64(l.Quota) * weight(i)))
	}
	return users
}

// Processes a millisecond from their store use nearly all of a quota, and seldom
// ask: by the counts of their exchanges, which no machine makes faster or slower.
func TestAQuotaIsUsedInFewRoundTrips(t *testing.T) {
	for i, l := range []struct {
		quota int64
		per   time.Duration
		most  float64 // round trips per call of a Window
	}{
		{10, time.Second, 2},
		{50, time.Second, 0.8},
		{100, time.Second, 0.4},
		{1000, time.Second, 0.06},
		{10_000, time.Second, 0.011},
		{10_000, time.Minute, 0.012},
		{100_000, time.Minute, 0.0015},
	} {
		for j, kind := range []store.Kind{store.Window, store.Sliding, store.Bucket} {
			least, most := 0.99, l.most
			switch {
			case kind != store.Window && l.quota < 50:
				least, most = 0.90, 2
			case kind != store.Window:
				least, most = 0.95, 2
			}
			limit := store.Limit{Kind: kind, Quota: l.quota, Per: l.per}
			for k, d := range demands {
				// Many calls take long: by default one demand of each kind, in turn, of many a
				// Window alone, which has a bound of its own for each quota, and not the most.
				if effort.Usual() && l.quota > 10 && (k != (i+j)%len(demands) || l.quota > 1000 && kind != store.Window || l.quota > 10_000) {
					continue
				}
				most := most
				if d.name == "zipf" { // of eight, one has half of all calls, and the last a fiftieth
					most *= 1.05
				}
				t.Run(fmt.Sprintf("%s of %d in %v/%s", kind, l.quota, l.per, d.name), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						periods := 10
						if l.quota > 100 {
							periods = 4
						}
						if l.quota > 1000 {
							periods = 3
						}
						if l.quota > 10_000 {
							periods = 2
						}
						used, trips := utilisation(t, limit, demand(limit, d.weight), periods)
						t.Logf("of %d in %v: %.4f used, %.4f round trips a call", l.quota, l.per, used, trips)
						if used < least {
							t.Errorf("%.4f of the quota %d used, want at least %v", used, l.quota, least)
						}
						if trips > most {
							t.Errorf("%.4f round trips per call of a quota of %d, want at most %v", trips, l.quota, most)
						}
					})
				})
			}
		}
	}
}

// utilisation returns which part of the quota users use, but in the first period, in
// which a Sliding limit has all of it at once; and the round trips of all periods per
// call.
func utilisation(t *testing.T, l store.Limit, users []*user, periods int) (part, trips float64) {
	var count counting
	end := time.Duration(periods) * l.Per
	h, start := cluster(t, l, users, end, func(s store.Store) store.Store {
		return &faulty{Store: s, count: &count.n, delay: func() time.Duration { return time.Millisecond }}
	})
	used := h.Total(start.Add(l.Per), start.Add(end))
	return float64(used) / float64(int64(periods-1)*l.Quota), float64(count.n.Load()) / float64(h.Total(start, start.Add(end)))
}
