package limiter

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
)

// TryTake is the three methods that it stands for, also in what can be given back
// after it.
func TestBucketTakesInOneStep(t *testing.T) {
	keys := []string{"", "a", "b"}
	for seed := range uint64(effort.Times(10)) {
		r := rand.New(rand.NewPCG(seed, 7))
		cfg := BucketConfig{Rate: 10, Burst: 1 + r.IntN(6), MaxKeys: 2}
		one, three := newBucket(t, cfg), newBucket(t, cfg)
		running, over := map[string][]int{}, map[string]int{}
		now := epoch
		for step := range 200 {
			key := keys[r.IntN(len(keys))]
			now = now.Add(time.Duration(r.ExpFloat64() * float64(40*time.Millisecond)))
			if open := running[key]; len(open) > 0 && r.IntN(2) == 0 { // one of them ends
				n := open[0]
				running[key] = open[1:]
				if used := r.IntN(n + 2); used == n {
					over[key] += n
				} else {
					one.Settle(now, key, over[key], over[key])
					three.Settle(now, key, over[key], over[key])
					over[key] = 0
					one.Settle(now, key, n, used)
					three.Settle(now, key, n, used)
				}
				continue
			}
			n := r.IntN(cfg.Burst + 2)
			if over[key] > 0 {
				three.Settle(now, key, over[key], over[key])
			}
			want := three.Wait(now, key, n)
			if want == 0 {
				three.Take(now, key, n)
			}
			if got := one.TryTake(now, key, n, over[key]); got != want {
				t.Fatalf("seed %d step %d: TryTake(%q, %d, %d) = %v, want %v", seed, step, key, n, over[key], got, want)
			}
			over[key] = 0
			if want == 0 && n > 0 {
				running[key] = append(running[key], n)
			}
			for _, key := range keys {
				if a, b := one.keys.index[key], three.keys.index[key]; (a == nil) != (b == nil) || a != nil && (a.state != b.state || a.back != b.back) {
					t.Fatalf("seed %d step %d: %q is %+v, want %+v", seed, step, key, a, b)
				}
			}
		}
	}
}
