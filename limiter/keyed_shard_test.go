package limiter

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
)

func TestKeyedMaxKeysAndMemory(t *testing.T) {
	const maxKeys = 40_000
	k := newKeyed(t, 1e-6, 1, maxKeys)
	if n := len(k.shards); n != 4 {
		t.Errorf("%d shards", n)
	}
	in, first := 0, 0
	for i := range 50_000 {
		var before []*cells
		for s := range k.shards {
			before = append(before, k.shards[s].table.Load())
		}
		if k.Allow(fmt.Sprint(i)) {
			in++
		} else if first == 0 {
			first = in
		}
		grew := 0
		for s := range k.shards {
			if k.shards[s].table.Load() != before[s] {
				grew++
			}
		}
		if grew > 1 {
			t.Fatalf("key %d made %d shards grow", i, grew)
		}
		if i >= 8000 && i%1000 == 0 {
			bytes := 0
			for s := range k.shards {
				bytes += len(*k.shards[s].table.Load()) * int(unsafe.Sizeof(cell{}))
			}
			if per := float64(bytes) / float64(in); per > 24 {
				t.Errorf("%d keys take %.1f bytes each", in, per)
			}
		}
	}
	if in != maxKeys || k.Len() != maxKeys || first < maxKeys*97/100 {
		t.Errorf("%d of %d keys are in use, and %d when the first one found no place", in, maxKeys, first)
	}
	if unsafe.Sizeof(shard{}) != 64 || unsafe.Sizeof(cell{}) != 16 {
		t.Errorf("a shard takes %d bytes, a cell %d", unsafe.Sizeof(shard{}), unsafe.Sizeof(cell{}))
	}
}

func TestKeyedOneKeyTooMany(t *testing.T) {
	k := newKeyed(t, 10, 2, 2)
	at := func(d int64) time.Time { return k.time.base.Add(ms(d)) }
	try := func(d int64, key string, n int, want time.Duration) {
		t.Helper()
		if got := k.Try(at(d), key, n); got != want {
			t.Errorf("at %v, %d of %s come in %v, want %v", ms(d), n, key, got, want)
		}
	}
	try(0, "a", 2, 0)
	try(0, "b", 1, 0)
	try(0, "c", 1, ms(100)) // b is full then
	try(50, "c", 1, ms(50)) // known without a search
	try(50, "a", 1, ms(50)) // which is no matter to those in use
	try(50, "b", 1, 0)      // until 200
	try(99, "c", 1, ms(1))  // not known without a search
	try(100, "c", 1, ms(100))
	try(200, "c", 2, 0)
	try(200, "d", 1, 0) // a and b are full
	try(200, "b", 1, ms(100))
	try(200, "c", 1, ms(100))
	if n := k.Len(); n != 2 {
		t.Errorf("%d keys", n)
	}
}

// TestKeyedComesLate has a key come with a now from before its place went to
// another key.
func TestKeyedComesLate(t *testing.T) {
	k := newKeyed(t, 10, 1, 1)
	at := func(d int64) time.Time { return k.time.base.Add(ms(d)) }
	for d, key := range map[int64]string{0: "a"} {
		if !k.AllowAt(at(d), key, 1) || !k.AllowAt(at(100), "b", 1) {
			t.Fatal("not full")
		}
	}
	if k.AllowAt(at(99), "a", 1) {
		t.Error("a, taken from at 0, was taken from at 99, as its place went to b at 100")
	}
	if d := k.Try(at(60), "a", 1); d != ms(40) {
		t.Errorf("told to wait %v", d)
	}
	k = newKeyed(t, 10, 1, 1)
	if !k.AllowAt(at(0), "a", 1) {
		t.Fatal("not full")
	}
	k.shards[0].trim(k.time.at(at(100)))
	if k.Len() != 0 || k.AllowAt(at(99), "a", 1) {
		t.Error("a was trimmed and forgotten too early")
	}
}

// TestKeyedSearchesSeldom sends a key to a shard that had no place a moment ago.
func TestKeyedSearchesSeldom(t *testing.T) {
	k := newKeyed(t, 100, 1, 10_000)
	now := k.time.base
	for i := range 10_000 {
		if !k.AllowAt(now, fmt.Sprint(i), 1) {
			t.Fatal("no place")
		}
	}
	d := k.Try(now, "one", 1)
	if least := ms(80); d < least { // 8 us for each of at least 10,000 places; all keys are full in 10 ms
		t.Errorf("the next search is worth it in %v, want at least %v", d, least)
	}
	if again := k.Try(now.Add(time.Millisecond), "two", 1); again != d-time.Millisecond {
		t.Errorf("a search that was not worth it: %v, and %v a millisecond later", d, again)
	}
	found := 0
	for i := range 20 { // most have the place of a full bucket on their way
		if k.AllowAt(now.Add(ms(20)), fmt.Sprint("new ", i), 1) {
			found++
		}
	}
	if found == 0 {
		t.Error("none of 20 keys overwrote one of 10,000 full buckets")
	}
	if !k.AllowAt(now.Add(d), "three", 1) {
		t.Error("nor was it worth it then")
	}
}

func TestKeyedTrim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyed(t, 1, 10, 50_000)
		take := func(from, to int) {
			for i := from; i < to; i++ {
				if !k.Allow(fmt.Sprint(i)) {
					t.Fatal("no place")
				}
			}
		}
		places := func() (n int) {
			for i := range k.shards {
				n += len(*k.shards[i].table.Load())
			}
			return n
		}
		take(0, 100)
		time.Sleep(time.Nanosecond)
		take(100, 10_000)
		time.Sleep(time.Nanosecond)
		take(10_000, 10_001)
		time.Sleep(time.Second - 2*time.Nanosecond)
		before := places()
		k.Trim()
		if places() > before {
			t.Errorf("trimmed from %d places to %d", before, places())
		}
		if n := k.Len(); n > 10_001 || n < 9901 {
			t.Errorf("%d keys, of which 9901 are in use", n)
		}
		take(200, 300)
		time.Sleep(time.Nanosecond)
		k.Trim()
		if n := k.Len(); n != 101 {
			t.Errorf("%d keys, of which 101 are in use", n)
		}
		if d := k.Try(time.Now(), "10000", 10); d != time.Nanosecond {
			t.Errorf("a key was forgotten a nanosecond too early: it is full in %v", d)
		}
		if n := places(); n > 101*10/7+16*len(k.shards) {
			t.Errorf("%d places for 101 keys", n)
		}
		for i := 200; i < 300; i++ {
			if d := k.Try(time.Now(), fmt.Sprint(i), 10); d != time.Second {
				t.Fatalf("a key was forgotten, or taken from: it is full in %v", d)
			}
		}
	})
}
