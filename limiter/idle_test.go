package limiter

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
)

// A limiter is idle when the log of every key says that it might as well never have
// been seen.
func TestIdle(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			busy, idle, seeds := 0, 0, effort.Times(4)
			for seed := range uint64(seeds) {
				rnd, l := rand.New(rand.NewPCG(seed, 7)), k.new(t, 0)
				l.Wait(epoch, "", 1) // time begins
				logs, now := make([][]taken, 3), int64(0)
				for range 60 {
					now += rnd.Int64N(k.scale * 2)
					if rnd.IntN(8) == 0 {
						now += 20 * k.scale
					}
					at, key := epoch.Add(time.Duration(now)), rnd.IntN(len(logs))
					want := true
					for _, log := range logs {
						want = want && k.idle(log, now)
					}
					if got := l.(Idler).Idle(at); got != want {
						t.Fatalf("seed %d at %d: idle is %v, want %v: %+v", seed, now, got, want, logs)
					}
					if want {
						idle++
					} else {
						busy++
					}
					if n := 1 + rnd.IntN(2); l.Wait(at, fmt.Sprint(key), n) == 0 {
						l.Take(at, fmt.Sprint(key), n)
						logs[key] = append(logs[key], taken{at: now, n: n, cost: n})
					}
				}
			}
			if busy < 3*seeds || idle < 3*seeds {
				t.Errorf("busy %d times, idle %d", busy, idle)
			}
		})
	}
}

func TestIdleConcurrency(t *testing.T) {
	c, err := NewConcurrency(ConcurrencyConfig{Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	idle := []bool{c.Idle(epoch)}
	c.Take(epoch, "a", 2)
	idle = append(idle, c.Idle(epoch))
	c.Release(epoch, "a", 2)
	if idle = append(idle, c.Idle(epoch)); fmt.Sprint(idle) != "[true false true]" {
		t.Errorf("idle: %v", idle)
	}
}

func TestAQuotaCanBeAskedWhetherItIsIdle(t *testing.T) {
	for _, limit := range []int{1, 1 << 20} {
		if _, ok := newQuota(t, QuotaConfig{Limit: limit, Per: time.Minute}).(Idler); !ok {
			t.Errorf("a quota of %d is no Idler", limit)
		}
	}
}
