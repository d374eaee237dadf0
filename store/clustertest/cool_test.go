package clustertest

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/flyball-go/flyball/store"
)

// Thousands of words of the vendor, told by eight nodes at once and in any order: the
// cooldown ends when the last of them does.
func TestACooldownEndsWithTheLongest(t *testing.T) {
	for _, kind := range []string{"memory", "redis", "mysql"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newMemory(t)
			if kind != "memory" {
				srv := startServer(t, kind, 0)
				s = openStore(t, srv, srv.addr, time.Minute)
			}
			if early, late := cooldowns(t, s, 10_000); early > time.Millisecond || late > time.Millisecond {
				t.Errorf("it ends %v too early, or %v too late", early, late)
			}
		})
	}
	if early, _ := cooldowns(t, overwrites{newMemory(t)}, 1000); early <= time.Millisecond {
		t.Error("a store that goes by the last word passes")
	}
}

func newMemory(t *testing.T) store.Store {
	t.Helper()
	m, err := store.NewMemory(store.MemoryConfig{TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// cooldowns has nodes tell n cooldowns or some more, and returns by how much at least the
// end is before, or behind, what they said.
func cooldowns(t *testing.T, s store.Store, n int) (early, late time.Duration) {
	const nodes, atOnce = 8, 16 // which is what an Item may have
	key := store.KeyFor("cool", string(store.NewNode()))
	start := time.Now()
	var mu sync.Mutex
	var first, last time.Duration // the longest, from when it was sent, or answered
	var wg sync.WaitGroup
	tell := func(ctx context.Context, node store.Node, it store.Item) (a store.Answer) {
		as, err := s.Exchange(ctx, node, []store.Item{it})
		if err != nil || as[0].Err != nil {
			t.Errorf("Exchange: %v", err)
			return a
		}
		return as[0]
	}
	for i := range nodes {
		wg.Go(func() {
			node := store.NewNode()
			exchanges := (n + nodes*atOnce - 1) / (nodes * atOnce)
			for seq := range exchanges {
				it := store.Item{Key: key, Seq: uint64(seq + 1)}
				longest := time.Duration(0)
				for range atOnce {
					d := time.Minute + rand.N(time.Hour)
					if i == 0 && seq == exchanges/2 && len(it.Cool) == atOnce/2 {
						d += time.Hour // the longest is none of the last
					}
					it.Cool = append(it.Cool, store.Cool{For: d})
					longest = max(longest, d)
				}
				sent := time.Since(start)
				tell(t.Context(), node, it)
				mu.Lock()
				first, last = max(first, sent+longest), max(last, time.Since(start)+longest)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	sent := time.Since(start)
	a := tell(t.Context(), store.NewNode(), store.Item{Key: key, Seq: 1})
	if len(a.Cooldowns) != 1 {
		t.Fatalf("there are %d cooldowns, want 1", len(a.Cooldowns))
	}
	left := a.Cooldowns[0].Left
	return first - (time.Since(start) + left), sent + left - last
}

// overwrites is a store that forgets a cooldown when it is told of another.
type overwrites struct{ store.Store }

func (s overwrites) Exchange(ctx context.Context, node store.Node, items []store.Item) ([]store.Answer, error) {
	if len(items[0].Cool) > 0 {
		if _, err := s.Store.Exchange(ctx, store.NewNode(), []store.Item{{Key: items[0].Key, Seq: 1, Clear: []store.Cleared{{Gen: math.MaxUint64}}, Bye: true}}); err != nil {
			return nil, err
		}
	}
	return s.Store.Exchange(ctx, node, items)
}
