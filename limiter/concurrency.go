package limiter

import "time"

// ConcurrencyConfig says what a Concurrency admits.
type ConcurrencyConfig struct {
	// Limit is how many permits of a key may be held at once: 1 up to 1<<40.
	Limit int

	// AskAgain is what Wait returns while too many are held: when an owner that
	// hears of no Release should ask again, 1 ns up to a century. 0 means 100 ms.
	AskAgain time.Duration

	// MaxKeys bounds the keys that hold permits. A further key has to wait until
	// one of them holds none. At most 1<<30. 0 means 100,000.
	MaxKeys int
}

// Concurrency bounds how many permits of a key are held at once: a permit is
// taken when a call starts and comes back with Release when it has ended. It
// knows no time, and so is the limit of vendors that allow so many calls at once.
//
// The envelope: the permits taken and not released are never more than Limit.
//
// Its owner calls Release when a call has ended, as a governor and a Shared do. What a
// governor runs at once in all is bounded by its Workers; this is for a key of its own.
//
// A Concurrency belongs to one owner and has no lock. Its methods cost one or two
// map accesses; those on a key that holds permits allocate nothing. A key that
// holds none needs no memory.
type Concurrency struct {
	limit int64
	again time.Duration
	max   int
	held  map[string]int64
}

// NewConcurrency returns a Concurrency in which nothing is held. The error names
// the field that is out of range.
func NewConcurrency(cfg ConcurrencyConfig) (*Concurrency, error) {
	if cfg.AskAgain == 0 {
		cfg.AskAgain = 100 * time.Millisecond
	}
	err := first(
		checkLimit("ConcurrencyConfig.Limit", cfg.Limit),
		checkTime("ConcurrencyConfig.AskAgain", cfg.AskAgain, 1),
		checkKeys("ConcurrencyConfig", cfg.MaxKeys),
	)
	if err != nil {
		return nil, err
	}
	return &Concurrency{int64(cfg.Limit), cfg.AskAgain, maxKeys(cfg.MaxKeys), make(map[string]int64)}, nil
}

// Wait returns 0 when n permits of key can be taken, Never when n is more than
// the limit, and AskAgain when some have to be released first.
func (c *Concurrency) Wait(now time.Time, key string, n int) time.Duration {
	held := c.held[key]
	switch {
	case n < 1:
		return 0
	case int64(n) > c.limit:
		return Never
	case int64(n) > c.limit-held, held == 0 && len(c.held) >= c.max:
		return c.again
	}
	return 0
}

// Take takes n permits of key. Of a key for which Wait has found no room nothing
// is kept.
func (c *Concurrency) Take(now time.Time, key string, n int) {
	held := c.held[key]
	if n < 1 || held == 0 && len(c.held) >= c.max {
		return
	}
	c.held[key] = min(held+permits(n), most)
}

// Release gives n permits of key back, at most those that are held.
func (c *Concurrency) Release(now time.Time, key string, n int) {
	held := c.held[key] - permits(max(0, n))
	if held > 0 {
		c.held[key] = held
	} else {
		delete(c.held, key)
	}
}

// Settle corrects the permits that a call holds from n to used: less are released
// now, more are taken now, even beyond the limit. The call releases used.
func (c *Concurrency) Settle(now time.Time, key string, n, used int) {
	n, used = max(0, n), max(0, used)
	c.Release(now, key, n-min(n, used))
	c.Take(now, key, used-min(n, used))
}

// Accepted does nothing: the limit is the configured one.
func (c *Concurrency) Accepted(now, sent time.Time, key string) {}

// Refused does nothing: the limit is the configured one.
func (c *Concurrency) Refused(now, sent time.Time, key string) {}

// Available returns how many permits of key can be taken now; less than 0 after
// the limit was lowered.
func (c *Concurrency) Available(now time.Time, key string) int {
	return int(c.limit - c.held[key])
}

// SetLimit changes the limit of all keys, to 1 up to 1<<40, or returns an error
// that says what is wrong with it and changes nothing. It counts at once; what is
// held stays held.
func (c *Concurrency) SetLimit(now time.Time, limit int) error {
	if err := checkLimit("SetLimit", limit); err != nil {
		return err
	}
	c.limit = int64(limit)
	return nil
}
