package policy

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/flyball-go/flyball/internal/effort"
)

// The LRU against a list.
func TestLRUMatchesAList(t *testing.T) {
	for max := 1; max < 6; max++ {
		l := must(NewLRU[int, int](max))
		var keys []int // most recently used last
		values := make(map[int]int)
		touch := func(key int) {
			keys = slices.DeleteFunc(keys, func(k int) bool { return k == key })
			keys = append(keys, key)
		}
		for i := range 3000 {
			key := rand.IntN(8)
			switch rand.IntN(3) {
			case 0:
				l.Set(key, Entry[int]{Value: i})
				touch(key)
				values[key] = i
				if len(keys) > max {
					delete(values, keys[0])
					keys = keys[1:]
				}
			case 1:
				e, ok := l.Get(key)
				v, known := values[key]
				if ok != known || e.Value != v {
					t.Fatalf("Get(%d) is %v, %v, want %v, %v", key, e.Value, ok, v, known)
				}
				if known {
					touch(key)
				}
			case 2:
				if rand.IntN(4) == 0 {
					l.Delete(key)
					delete(values, key)
					keys = slices.DeleteFunc(keys, func(k int) bool { return k == key })
				}
			}
			if l.Len() != len(values) {
				t.Fatalf("%d entries, want %d", l.Len(), len(values))
			}
		}
		n := 0
		for e := l.ring.next; e != &l.ring; e = e.next {
			n++
		}
		want(t, "linked", n, l.Len())
	}
}

func TestLRUFullAllocatesNothing(t *testing.T) {
	l := must(NewLRU[int, int](10))
	for i := range 100 {
		l.Set(i, Entry[int]{})
	}
	i := 0
	allocs(t, "Set", 0, func() { i++; l.Set(i%50, Entry[int]{}) })
	allocs(t, "Get", 0, func() { i++; l.Get(i % 50) })
}

func TestLRUConfig(t *testing.T) {
	want(t, "default", must(NewLRU[int, int](0)).max, 1000)
	_, err := NewLRU[int, int](-1)
	want(t, "error", err.Error(), "policy: invalid: NewLRU's max is -1, want 0 to 2147483647")
}

func TestLRUUnderLoad(t *testing.T) {
	l := must(NewLRU[int, int](5))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range effort.Times(500) {
				key := rand.IntN(10)
				switch rand.IntN(3) {
				case 0:
					l.Set(key, Entry[int]{Value: key})
				case 1:
					if e, ok := l.Get(key); ok && e.Value != key {
						t.Error("the entry of another key")
					}
				case 2:
					l.Delete(key)
				}
			}
		})
	}
	wg.Wait()
	want(t, "bounded", l.Len() <= 5, true)
}
