package limiter

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
)

func newKeyed(t testing.TB, rate float64, burst, maxKeys int) *Keyed {
	t.Helper()
	k, err := NewKeyed(KeyedConfig{Rate: rate, Burst: burst, MaxKeys: maxKeys})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestKeyedIsTheLogOfAllTakes compares a Keyed that has too few places with a log
// of all that was taken from each key.
func TestKeyedIsTheLogOfAllTakes(t *testing.T) {
	crowded, seeds := 0, effort.Times(8)
	for seed := range uint64(seeds) {
		rnd := rand.New(rand.NewPCG(seed, 9))
		const interval = int64(time.Second)/7 + 1 // 142857142.86 ns
		burst, maxKeys := 1+rnd.IntN(5), 1+rnd.IntN(6)
		k := newKeyed(t, 7, burst, maxKeys)
		logs := make([]useLog, 10)
		for i := range logs {
			logs[i] = useLog{interval: interval, burst: int64(burst)}
		}
		var now int64
		for range 300 {
			now += int64(rnd.ExpFloat64() * float64(interval) / 2)
			at := epoch.Add(time.Duration(now))
			i, n := rnd.IntN(len(logs)), 1+rnd.IntN(burst)
			key := fmt.Sprint("key ", i)
			d := k.Try(at, key, n)
			inUse := 0
			for i := range logs {
				if !logs[i].admits(now, burst) {
					inUse++
				}
			}
			log, full := &logs[i], logs[i].admits(now, burst)
			switch crowd := full && inUse >= maxKeys; {
			case (d == 0) != (log.admits(now, n) && !crowd):
				t.Fatalf("seed %d at %d: Try(%s, %d) = %v, %d of %d keys in use, the log admits: %v", seed, now, key, n, d, inUse, maxKeys, log.admits(now, n))
			case d == 0:
				log.take(now, n)
			case crowd:
				crowded++
				if most := int64(burst) * interval; int64(d) > most {
					t.Fatalf("seed %d: %d keys in use, one of which will be full in %d ns, but wait %d", seed, inUse, most, d)
				}
			case log.admits(now+int64(d)-1, n) || !log.admits(now+int64(d), n):
				t.Fatalf("seed %d at %d: Try(%s, %d) = %d ns is not the nanosecond", seed, now, key, n, d)
			}
			if k.Len() > maxKeys {
				t.Fatalf("seed %d: %d keys, the most is %d", seed, k.Len(), maxKeys)
			}
		}
	}
	if crowded < 10*seeds {
		t.Errorf("only %d found no place: the test tests little", crowded)
	}
}

func TestKeyedTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyed(t, 1, 3, 1)
		for _, n := range []int{0, -1, math.MinInt} {
			if !k.AllowAt(time.Now(), "a", n) || k.Take("a", n) != nil || k.Len() != 0 {
				t.Errorf("%d permits are not allowed, or leave something", n)
			}
		}
		var limited *LimitedError
		if err := k.Take("a", 4); !errors.As(err, &limited) || limited.After != Never || limited.Key != "a" {
			t.Errorf("4 of a bucket of 3: %v", err)
		}
		if err := k.Take("a", 3); err != nil {
			t.Error(err)
		}
		if err := k.Take("a", 2); !errors.As(err, &limited) || !errors.Is(err, ErrLimited) || limited.After != 2*time.Second || limited.Key != "a" {
			t.Errorf("2 of an empty bucket: %v", err)
		}
		if err := k.Take("b", 1); !errors.As(err, &limited) || limited.After != 3*time.Second || limited.Key != "b" {
			t.Errorf("one key too many: %v", err)
		}
		time.Sleep(time.Second)
		if !k.Allow("a") || k.Allow("a") {
			t.Error("not one permit came back in a second")
		}
	})
}

func TestKeyedWallClockStepsChangeNothing(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		k := newKeyed(t, 1, 10, 0)
		now := time.Now()
		if !k.AllowAt(now, "a", 10) {
			t.Fatal("not full")
		}
		if d := k.Try(stepped(now.Add(3*time.Second), by), "a", 5); d != 2*time.Second {
			t.Errorf("a step by %v: 5 permits, of which 3 are there, come in %v", by, d)
		}
	}
}

func TestKeyedAllocates(t *testing.T) {
	k := newKeyed(t, 1e9, 1<<30, 1)
	slow := newKeyed(t, 1e-3, 1, 1)
	slow.Allow("a")
	now := time.Now()
	for name, f := range map[string]func(){
		"Allow":                 func() { k.Allow("a") },
		"Take":                  func() { _ = k.Take("a", 1) },
		"AllowAt refused":       func() { slow.AllowAt(now, "a", 1) },
		"AllowAt without place": func() { slow.AllowAt(now, "b", 1) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

func TestKeyedConfig(t *testing.T) {
	for _, c := range []struct {
		cfg  KeyedConfig
		want string // "" for none
	}{
		{KeyedConfig{Rate: math.NaN()}, "KeyedConfig.Rate is NaN"},
		{KeyedConfig{Rate: 1, Burst: -3}, "KeyedConfig.Burst is -3"},
		{KeyedConfig{Rate: 1, MaxKeys: -1}, "KeyedConfig.MaxKeys is -1"},
		{KeyedConfig{Rate: 1, MaxKeys: 1<<30 + 1}, "KeyedConfig.MaxKeys is 1073741825"},
		{KeyedConfig{Rate: 1e9, Burst: 1 << 61, MaxKeys: 1}, ""},
		{KeyedConfig{Rate: 1, MaxKeys: 1 << 30}, ""},
	} {
		k, err := NewKeyed(c.cfg)
		if c.want == "" {
			if err != nil || !k.Allow("") {
				t.Errorf("%+v: %v", c.cfg, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), c.want) || k != nil {
			t.Errorf("%+v: %v, want %q", c.cfg, err, c.want)
		}
	}
	keys := func(k *Keyed) (n int) {
		for i := range k.shards {
			n += k.shards[i].max
		}
		return n
	}
	k := newKeyed(t, 1.5, 0, 0)
	if k.burst != 2 || keys(k) != 100_000 || len(k.shards) != 8 {
		t.Errorf("the defaults are a burst of %d and %d keys in %d shards", k.burst, keys(k), len(k.shards))
	}
	if k := newKeyed(t, 1, 1, 54_321); keys(k) != 54_321 {
		t.Errorf("of 54321 keys the shards have %d", keys(k))
	}
	if k.seed == newKeyed(t, 1, 1, 1).seed {
		t.Error("two have the same seed")
	}
}

// FuzzKeyed looks for limits, keys and times with which a Keyed panics, or lets
// pass more than it should.
func FuzzKeyed(f *testing.F) {
	f.Add(1.0, 1, 1, "a", "b", int64(0), int64(1), 1)
	f.Add(1e9, 1<<61, 1<<14, "", "\xff", int64(math.MinInt64), int64(math.MaxInt64), 1<<61)
	f.Fuzz(func(t *testing.T, rate float64, burst, maxKeys int, a, b string, from, d int64, n int) {
		if maxKeys > 1<<20 {
			maxKeys = -maxKeys
		}
		k, err := NewKeyed(KeyedConfig{Rate: rate, Burst: burst, MaxKeys: maxKeys})
		if err != nil {
			if !strings.HasPrefix(err.Error(), "limiter: KeyedConfig.") {
				t.Fatal(err)
			}
			return
		}
		d &= math.MaxInt64
		start, end := time.Unix(0, from), time.Unix(0, from).Add(time.Duration(d))
		most := float64(k.burst) + float64(k.time.at(end)-k.time.at(start))/float64(k.interval)
		taken := map[string]float64{}
		for i := range 40 {
			for _, key := range []string{a, b, fmt.Sprint(i)} {
				for _, at := range []time.Time{start, end} {
					if k.AllowAt(at, key, n) && n > 0 {
						taken[key] += float64(n)
					}
				}
			}
			k.Trim()
		}
		for key, n := range taken {
			if n > most*(1+1e-9) {
				t.Fatalf("%v of %q taken, the most is %v", n, key, most)
			}
		}
	})
}
