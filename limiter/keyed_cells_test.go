package limiter

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
)

// TestKeyedForgetsNoneThatIsNotFull makes goroutines with nows out of order fight
// for a few places: cells change hands all the time, with takes under way.
func TestKeyedForgetsNoneThatIsNotFull(t *testing.T) {
	for seed := range uint64(12) {
		const interval, goroutines, keys = 100_000, 3, 5
		rounds := effort.Times(3000)
		burst, maxKeys := 1+int(seed/4%3), 1+int(seed%4)
		k := newKeyed(t, 1e9/interval, burst, maxKeys)
		var names []string // of keys that look for a place at the same cell
		for i := 0; len(names) < keys; i++ {
			if name := fmt.Sprint(i); maphash.String(k.seed, name)>>60 == seed%16 {
				names = append(names, name)
			}
		}
		var clock atomic.Int64
		var mu sync.Mutex
		var uses [keys][]use
		var wg sync.WaitGroup
		for g := range uint64(goroutines) {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(seed, g))
				var mine [keys][]use
				for range rounds {
					now := clock.Add(rnd.Int64N(2 * interval / goroutines))
					if rnd.IntN(64) == 0 {
						runtime.Gosched() // and come late
					}
					i, n := rnd.IntN(keys), 1+rnd.IntN(burst)
					if k.AllowAt(k.time.base.Add(time.Duration(now)), names[i], n) {
						mine[i] = append(mine[i], use{now, n})
					}
				}
				mu.Lock()
				defer mu.Unlock()
				for i := range uses {
					uses[i] = append(uses[i], mine[i]...)
				}
			})
		}
		wg.Wait()
		for i := range uses {
			envelope(t, uses[i], interval, int64(burst))
			if len(uses[i]) < rounds/100 {
				t.Errorf("key %d was used %d times only", i, len(uses[i]))
			}
		}
		if n := k.Len(); n > maxKeys {
			t.Errorf("%d keys, the most is %d", n, maxKeys)
		}
	}
}

// TestKeyedCellIsTheKeys holds on to a cell that is claimed, given away or left.
func TestKeyedCellIsTheKeys(t *testing.T) {
	k := newKeyed(t, 10, 1, 1)
	sh, a, b := &k.shards[0], uint64(5), uint64(6) // neighbours
	if wait := sh.take(&k.gcra, a, origin, 1); wait != 0 {
		t.Fatal(wait)
	}
	later := origin + int64(time.Second)
	s := sh.table.Load().find(a)
	if _, ok := s.claim(origin + int64(time.Second)/10 - 1); ok {
		t.Error("a cell was claimed before its bucket was full")
	}
	if wait := sh.take(&k.gcra, b, later, 1); wait != 0 {
		t.Fatal(wait)
	}
	if s.hash.Load() != b {
		t.Fatal("b did not overwrite a")
	}
	if _, ok := s.take(&k.gcra, a, later+int64(time.Second), 1); ok {
		t.Error("a was taken from in b's cell")
	}
	sh.trim(later + int64(time.Second))
	if _, ok := s.take(&k.gcra, b, later+int64(time.Second), 1); ok {
		t.Error("b was taken from in a table that was replaced")
	}
}

// TestKeyedCellGivesTheHashFirst watches a cell that changes hands.
func TestKeyedCellGivesTheHashFirst(t *testing.T) {
	var s cell
	var done atomic.Bool
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for !done.Load() {
				if tat, hash := s.tat.Load(), s.hash.Load(); tat > int64(hash) {
					t.Errorf("owner %d has the tat of %d", hash, tat)
					return
				}
			}
		})
	}
	for i := range int64(effort.Times(20_000)) {
		if _, ok := s.claim(i); !ok {
			t.Fatal("not claimed")
		}
		s.give(uint64(i+1), i+1)
	}
	done.Store(true)
	wg.Wait()
}

// TestKeyedGrowsWithTakesUnderWay lets goroutines take from keys while their
// shards grow and are trimmed. Each key must come to its burst, and no further.
func TestKeyedGrowsWithTakesUnderWay(t *testing.T) {
	for _, maxKeys := range []int{6000, 1 << 20} {
		const keys, goroutines, burst = 6000, 4, 3
		k := newKeyed(t, 1e-6, burst, maxKeys)
		var taken [keys]atomic.Int64
		var wg sync.WaitGroup
		for g := range uint64(goroutines) {
			wg.Go(func() {
				for i, key := range rand.New(rand.NewPCG(g, 10)).Perm(keys) {
					for range 2 {
						if k.Allow(fmt.Sprint(key)) {
							taken[key].Add(1)
						}
					}
					if i%2000 == int(g) {
						k.Trim()
					}
				}
			})
		}
		wg.Wait()
		for key := range taken {
			if n := taken[key].Load(); n != burst {
				t.Fatalf("of %d keys at most, key %d was taken from %d times", maxKeys, key, n)
			}
		}
		if n := k.Len(); n != keys {
			t.Errorf("%d keys in use, want %d", n, keys)
		}
	}
}
