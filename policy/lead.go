package policy

import (
	"context"
	"time"

	"github.com/flyball-go/flyball/event"
)

// lead makes the call of f. However that ends, f does.
func (x *Cache[K, R]) lead(ctx context.Context, key K, f *flight[R], call func() (R, error)) (R, error) {
	begun := time.Now()
	old, got, err := x.fly(ctx, key, f, call)
	switch {
	case got == hit:
		report(x.cfg.OnEvent, event.Event{Kind: event.CacheHit, Name: x.cfg.Name})
		return f.value, nil
	case got == stale:
		report(x.cfg.OnEvent, event.Event{Kind: event.CacheStale, Name: x.cfg.Name, Delay: time.Since(old.Stored), Err: err})
	}
	report(x.cfg.OnEvent, event.Event{Kind: event.CacheMiss, Name: x.cfg.Name, Delay: time.Since(begun), Err: err})
	if f.followers > 0 && !f.again { // nobody joins any more
		report(x.cfg.OnEvent, event.Event{Kind: event.Collapsed, Name: x.cfg.Name, Attempt: 1 + f.followers})
	}
	return f.value, f.err
}

// What came of a flight.
const (
	called = iota
	hit    // the flight before has stored a result meanwhile
	stale
)

// fly sets the outcome of f and ends it. err is the call's.
func (x *Cache[K, R]) fly(ctx context.Context, key K, f *flight[R], call func() (R, error)) (old Entry[R], got int, err error) {
	defer x.land(key, f)
	defer func() {
		if v := recover(); v != nil {
			f.err = caught(v)
			panic(v)
		}
	}()
	old, ok := x.cfg.Storage.Get(key)
	if ok && time.Now().Before(old.Fresh) {
		f.value, f.err = old.Value, nil
		return old, hit, nil
	}
	r, err := call()
	if err == nil {
		x.store(key, f, r)
	}
	f.value, f.err = r, err
	switch {
	case err == nil:
	case ctx.Err() != nil:
		f.again = true
	case x.cfg.StaleIfError > 0:
		// Asked for again, since it may have been invalidated.
		if old, ok = x.cfg.Storage.Get(key); ok && time.Now().Before(old.Keep) {
			f.value, f.err = old.Value, nil
			return old, stale, err
		}
	}
	return old, called, err
}

// land ends f.
func (x *Cache[K, R]) land(key K, f *flight[R]) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.flights[key] == f {
		delete(x.flights, key)
	}
	close(f.done)
}

func (x *Cache[K, R]) store(key K, f *flight[R], r R) {
	if x.cfg.If != nil && !x.cfg.If(r) {
		return
	}
	if !x.mayStore(f) {
		return
	}
	now := time.Now()
	fresh := now.Add(x.cfg.TTL)
	x.cfg.Storage.Set(key, Entry[R]{Value: r, Stored: now, Fresh: fresh, Keep: fresh.Add(x.cfg.StaleIfError)})
}
