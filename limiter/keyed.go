package limiter

import (
	"hash/maphash"
	"math/bits"
	"time"
)

// KeyedConfig says what a Keyed admits.
type KeyedConfig struct {
	// Rate is how many permits per second come back, for each key: at least one
	// per century, at most 1e9. The time between two permits is rounded up to
	// the next nanosecond, as in RateConfig.
	Rate float64

	// Burst is how many permits a full bucket holds. 0 means one second's worth,
	// rounded up: max(1, ceil(Rate)). Burst/Rate is at most a century.
	Burst int

	// MaxKeys bounds the keys whose buckets are not full, and so the memory:
	// some 20 to 24 bytes a key. A further key has to wait until a bucket is
	// full. Up to 16,383 keys that is exact. Of more, each of the shards that
	// keys are spread over by chance holds its part; so a key may have to wait
	// when others have room, from some 97 % of MaxKeys on.
	// At most 1<<30. 0 means 100,000.
	MaxKeys int
}

// Keyed is a token bucket for each of up to millions of keys, for any number of
// goroutines: Burst permits for each key, of which Rate per second come back.
//
// In any window of length d at most Burst + Rate*d permits of a key are taken,
// each counted at its own now, in whatever order goroutines come with theirs. All
// nows are to be of one clock; with those of time.Now a step of the wall clock
// changes nothing.
//
// Memory follows the keys in use, not those ever seen: a key whose bucket is full
// again is like one that was never used, and its place is free for another. None
// is forgotten before. Nothing runs in the background; what is idle is overwritten
// when a place is needed, and Trim gives its memory back.
//
// A key is known by a 64-bit hash with a seed of the Keyed's own, not by itself:
// no key is kept, and no one can choose keys that meet. Two keys that have the
// same hash share a bucket. Among a million keys in use the chance that any two do
// is 1 in 37 million.
//
// A take from a key in use takes no lock. The first take from a key takes the lock
// of its shard, and now and then makes room for more keys, which takes up to a
// millisecond and holds up the keys of that shard only. Takes allocate nothing
// besides such room.
type Keyed struct {
	time instants
	gcra
	seed   maphash.Seed
	shards []shard // a power of two
}

// NewKeyed returns a Keyed in which all buckets are full. The error names the
// field that is out of range.
func NewKeyed(cfg KeyedConfig) (*Keyed, error) {
	g, err := newGCRA("KeyedConfig", cfg.Rate, cfg.Burst)
	if err != nil {
		return nil, err
	}
	if err := checkKeys("KeyedConfig", cfg.MaxKeys); err != nil {
		return nil, err
	}
	keys := maxKeys(cfg.MaxKeys)
	// Shards of at least 8,192 keys. More of them would hold up fewer keys while
	// one grows, but the keys would be spread less evenly.
	shards := 1 << (bits.Len(uint(keys)/8192|1) - 1)
	k := &Keyed{time: instants{time.Now()}, gcra: g, seed: maphash.MakeSeed(), shards: make([]shard, shards)}
	empty := make(cells, 1)
	for i := range k.shards {
		k.shards[i].table.Store(&empty)
		k.shards[i].max = keys / shards // and the rest goes to the first ones
		if i < keys%shards {
			k.shards[i].max++
		}
	}
	return k, nil
}

// Allow takes a permit of key if there is one now, and reports whether it did.
func (k *Keyed) Allow(key string) bool { return k.try(k.time.now(), key, 1) == 0 }

// AllowAt takes n permits of key if they are there at now, and reports whether it
// did: all or none. n below 1 takes nothing and is allowed; more than Burst never
// are. now is the caller's reading of the clock, which is thereby saved.
func (k *Keyed) AllowAt(now time.Time, key string, n int) bool {
	return k.try(k.time.at(now), key, n) == 0
}

// Try takes n permits of key if they are there at now and returns 0. Otherwise it
// takes nothing and returns how long from now it is until they are, if nobody else
// takes any; Never when n is more than Burst. For a key that finds MaxKeys others
// in use, it is how long until it is worth asking again: until the first of their
// buckets was to be full when they were last looked through, or may be looked
// through again. That takes time, and is not done before another 8 us for each of
// them have passed.
func (k *Keyed) Try(now time.Time, key string, n int) time.Duration {
	return time.Duration(k.try(k.time.at(now), key, n))
}

// Take takes n permits of key if they are there now. Otherwise it takes nothing
// and returns a *LimitedError with the wait that Try returns.
func (k *Keyed) Take(key string, n int) error {
	if wait := k.try(k.time.now(), key, n); wait > 0 {
		return refuse(NoPermits, time.Duration(wait), key)
	}
	return nil
}

func (k *Keyed) try(now int64, key string, n int) int64 {
	if n < 1 {
		return 0
	}
	if int64(n) > k.burst {
		return int64(Never)
	}
	hash := max(1, maphash.String(k.seed, key)) // 0 is the hash of an empty cell
	return k.shards[hash&uint64(len(k.shards)-1)].take(&k.gcra, hash, now, n)
}

// Len returns how many keys have a place: those whose buckets are not full, and
// those with full ones that have not been overwritten yet.
func (k *Keyed) Len() int {
	n := 0
	for i := range k.shards {
		n += k.shards[i].len()
	}
	return n
}

// Trim gives back the memory of keys whose buckets are full. It goes through all
// keys, shard by shard. Without it their places are kept for other keys.
func (k *Keyed) Trim() {
	now := k.time.now()
	for i := range k.shards {
		k.shards[i].trim(now)
	}
}
