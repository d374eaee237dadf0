package vendortest

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"time"
)

// Keyed is one Engine per key: a limit that is counted per customer, per
// endpoint, per token. All methods are safe for simultaneous use by multiple
// goroutines.
type Keyed struct {
	q    Quota
	max  int
	rest *Engine // all keys beyond max

	// mu guards byKey. Engines have their own locks and are called without it.
	mu    sync.Mutex
	byKey map[string]*Engine
}

// maxKeys is how many keys are counted apart by default.
const maxKeys = 100_000

// NewKeyed returns a limit that is counted per key, for at most so many keys;
// 0 means 100,000. Keys beyond that share one engine, so that a client that
// invents keys neither escapes the limit nor grows the server.
func NewKeyed(q Quota, keys int) (*Keyed, error) {
	if keys == 0 {
		keys = maxKeys
	}
	if keys < 0 {
		return nil, fmt.Errorf("vendortest: negative number of keys %d", keys)
	}
	rest, err := NewEngine(q)
	if err != nil {
		return nil, err
	}
	return &Keyed{q: q, max: keys, rest: rest, byKey: make(map[string]*Engine)}, nil
}

// Admit judges one call for key that arrives at now, as [Engine.Admit] does.
func (k *Keyed) Admit(key string, now time.Time) Verdict { return k.engine(key).Admit(now) }

// AdmitN judges one call for key that costs n units, as [Engine.AdmitN] does.
func (k *Keyed) AdmitN(key string, now time.Time, n int) Verdict { return k.engine(key).AdmitN(now, n) }

// Refuse refuses one call for key, as [Engine.Refuse] does.
func (k *Keyed) Refuse(key string, now time.Time) Verdict { return k.engine(key).Refuse(now) }

// Refund takes n units of key off again, as [Engine.Refund] does.
func (k *Keyed) Refund(key string, now time.Time, n int) { k.engine(key).Refund(now, n) }

// Usage returns what is used of key, as [Engine.Usage] does.
func (k *Keyed) Usage(key string, now time.Time) Usage { return k.engine(key).Usage(now) }

// Key returns the counts of one key; zeros for a key that was never seen.
func (k *Keyed) Key(key string) Totals {
	key = short(key)
	k.mu.Lock()
	e := k.byKey[key]
	k.mu.Unlock()
	if e == nil {
		return Totals{}
	}
	return e.Totals()
}

// Totals returns the sum over all keys, and the longest pause of any. While
// calls come in the sum is of nearly one moment, not of one.
func (k *Keyed) Totals() Totals {
	k.mu.Lock()
	engines := make([]*Engine, 0, len(k.byKey)+1)
	for _, e := range k.byKey {
		engines = append(engines, e)
	}
	k.mu.Unlock()
	var sum Totals
	for _, e := range append(engines, k.rest) {
		sum.add(e.Totals())
	}
	return sum
}

func (k *Keyed) engine(key string) *Engine {
	key = short(key)
	k.mu.Lock()
	defer k.mu.Unlock()
	if e, ok := k.byKey[key]; ok {
		return e
	}
	if len(k.byKey) >= k.max {
		return k.rest
	}
	e, err := NewEngine(k.q)
	if err != nil {
		panic("vendortest: bug: a quota that NewKeyed accepted is bad: " + err.Error())
	}
	k.byKey[key] = e
	return e
}

// short is key, or a hash of one that a client made too long to keep.
func short(key string) string {
	if len(key) <= 128 {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return string(sum[:])
}

func (t *Totals) add(u Totals) {
	t.Calls += u.Calls
	t.Accepted += u.Accepted
	t.Refused += u.Refused
	t.Used += u.Used
	t.InPause += u.InPause
	t.Late += u.Late
	t.Escalations += u.Escalations
	t.LongestPause = max(t.LongestPause, u.LongestPause)
}
