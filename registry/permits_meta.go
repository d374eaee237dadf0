package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/flyball-go/flyball/store"
)

// Get returns the metadata of a key, with its version; without any, a Record without a
// Value and with Version 0.
func (p *Permits) Get(ctx context.Context, key string) (store.Record, error) {
	k, err := ParseKey(key)
	if err != nil {
		return store.Record{}, &Error{RegistryNotFound, key, err}
	}
	r, err := p.get(ctx, k)
	if err != nil {
		return store.Record{}, &Error{FailureWhileExecutingOperation, key, err}
	}
	if r.Version == 0 {
		r.Value = nil
	}
	return r, nil
}

// Put stores the metadata of a key, as it is, if version is that of what is stored
// now, 0 when nothing is, and returns it with its new version. What the key guards
// changes with it, here at once and in other processes within PermitsConfig.Refresh of
// its use: a limit that is lowered counts at once, one that is raised when a
// limitRefreshPeriod is over; the room of a bulkhead counts at once, and what is taken
// stays so; a circuit breaker stays open if it is, and begins to count anew. Waits that
// have begun stay as long as they may.
//
// The error is an *Error that matches store.ErrConflict when there is another version,
// and ErrInvalid for what ParseMetadata does not take.
func (p *Permits) Put(ctx context.Context, key string, data json.RawMessage, version uint64) (store.Record, error) {
	k, err := ParseKey(key)
	if err != nil {
		return store.Record{}, &Error{RegistryNotFound, key, err}
	}
	m, err := ParseMetadata(data)
	if err == nil && p.cfg.Store != nil && k.Type == RateLimiter {
		err = m.pace().shared().Check()
	}
	if err != nil {
		return store.Record{}, &Error{FailureWhileExecutingOperation, key, err}
	}
	found, err := p.do(ctx, store.MetaOp{Do: store.Put, Key: k.String(), Value: data, Version: version})
	if err == nil && len(found) != 1 {
		err = errors.New("the store returned no record")
	}
	if err == nil {
		err = p.changed(k, found[0].Value, 2*found[0].Version)
	}
	if err != nil {
		return store.Record{}, &Error{FailureWhileExecutingOperation, key, err}
	}
	return found[0], nil
}

// Delete removes the metadata of a key, if version is that of what is stored, and what
// the key guards goes by the defaults again. Where it is shared, processes that begin
// later go by what the others do.
func (p *Permits) Delete(ctx context.Context, key string, version uint64) error {
	k, err := ParseKey(key)
	if err != nil {
		return &Error{RegistryNotFound, key, err}
	}
	_, err = p.do(ctx, store.MetaOp{Do: store.Delete, Key: k.String(), Version: version})
	if err == nil {
		err = p.changed(k, []byte("{}"), 2*version+1)
	}
	if err != nil {
		return &Error{FailureWhileExecutingOperation, key, err}
	}
	return nil
}

// List returns the metadata of up to limit keys, 0 means 100, that begin with prefix, in
// their order.
func (p *Permits) List(ctx context.Context, prefix string, limit int) ([]store.Record, error) {
	found, err := p.do(ctx, store.MetaOp{Do: store.List, Key: prefix, Limit: limit})
	if err != nil {
		return nil, &Error{FailureWhileExecutingOperation, prefix, err}
	}
	return found, nil
}

// do does one operation on metadata.
func (p *Permits) do(ctx context.Context, op store.MetaOp) (found []store.Record, err error) {
	if ctx == nil {
		return nil, errNilContext
	}
	return meta(ctx, p.meta, op)
}

var errNilContext = invalidf("a nil context")

// changed brings what a key guards, if it is in use, to what was stored or deleted.
func (p *Permits) changed(k Key, value []byte, version uint64) error {
	p.mu.Lock()
	if m := p.making[k.String()]; m != nil {
		m.changes++
	}
	g := p.keys[k.String()]
	p.mu.Unlock()
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.apply(value, version)
}

// apply changes the guard, unless it knows of what came later: a record that follows a
// deleted one has a larger Version than that had. The caller holds mu.
func (g *guarded) apply(value []byte, version uint64) error {
	if version <= g.version {
		return nil
	}
	m, err := ParseMetadata(value)
	if err == nil {
		err = g.guard.change(m, version)
	}
	if err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	g.version = version
	return nil
}

// refresh has the metadata of a key in use read again when it is time, by a goroutine
// that ends with the read. There is one at a time for a key.
func (p *Permits) refresh(g *guarded, now time.Time) {
	if p.since(now)-g.read.Load() < int64(p.cfg.Refresh) || !g.reading.CompareAndSwap(false, true) {
		return
	}
	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.reads.Add(1) // under mu: Close has not begun to wait
	}
	p.mu.Unlock()
	if closed {
		return
	}
	go func() {
		defer p.reads.Done()
		defer g.reading.Store(false)
		ctx, cancel := context.WithTimeout(p.ctx, 2*time.Second)
		defer cancel()
		g.mu.Lock()
		before := g.version
		g.mu.Unlock()
		r, err := p.get(ctx, g.key)
		g.mu.Lock()
		defer g.mu.Unlock()
		// What cannot be read, or makes no sense, changes nothing: the guard goes on by
		// what it knows, until the next read. So does one that was changed meanwhile: that
		// there was no record may be older than the record that it has now.
		if err == nil && g.version == before {
			version := 2 * r.Version
			if r.Version == 0 && before > 0 { // it was deleted
				version = before | 1
			}
			_ = g.apply(r.Value, version)
		}
		g.read.Store(p.since(time.Now()))
	}()
}
