package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/store"
)

// MetaStore is where metadata is kept: every store.Store is one.
type MetaStore interface {
	Meta(ctx context.Context, op store.MetaOp) ([]store.Record, error)
}

// PermitsConfig says what a Permits shares, and how much it keeps. The zero value is
// that of one process.
type PermitsConfig struct {
	// Meta is where metadata is kept, for all processes; who reads a key after a Put has
	// to get that, or what came later. It is not closed. nil: in the
	// memory of this Permits.
	Meta MetaStore

	// Store shares the permits of rate limiters and bulkheads with other processes.
	// Circuit breakers are each process's own: what one sees of a server need not hold
	// for another. It is not closed. nil: all are this process's own.
	Store *store.Syncer

	// Refresh is how old what is known of a key's metadata may be when the key is used.
	// Then it is read again, beside the use, and a change that another process has made
	// reaches what the key guards here. 0 means 1 s, at least 10 ms.
	Refresh time.Duration

	// MaxKeys bounds the keys in use. One more is refused with ErrTooMany unless there
	// is one that is idle: nothing of it is taken, waited for, or counted against it. 0
	// means 10,000.
	MaxKeys int

	// Allow is asked before each acquire, by the key with its permit type in lower case;
	// false refuses it. It is Confined's permissionProvider. nil: all may.
	Allow func(key string) bool

	// OnEvent hears what limiters decide, as limiter.SharedConfig says, and what breakers
	// do, as breaker.Config says: it should be quick, as an event.Bus's Emit is. The Name
	// of an event is the key. nil: nobody does.
	OnEvent func(event.Event)
}

// Permits guards resources by keys. What a key guards is made when it is first used,
// from the metadata that is stored under it, or from Confined's defaults where there is
// none.
//
// It may be used by any number of goroutines at once, and must be closed. An acquire of
// a key in use that has not to wait costs a few locks; the first one of a key reads its
// metadata.
type Permits struct {
	cfg   PermitsConfig
	meta  MetaStore
	own   *store.Memory // closed with it
	base  time.Time     // what since counts from
	ctx   context.Context
	close context.CancelFunc

	// mu guards the map and what follows. Nothing is made, called or waited for under
	// it, but the idle methods of guards.
	mu     sync.Mutex
	keys   map[string]*guarded
	making map[string]*making // keys whose first users are at it
	swept  time.Time          // when idle keys were last looked for
	closed bool
	reads  sync.WaitGroup // of goroutines that read metadata; added to unless closed
}

// guarded is a key in use.
type guarded struct {
	key     Key
	guard   guard
	users   atomic.Int64 // acquires that wait, and permits to be released; more of them only under Permits.mu
	used    atomic.Int64 // UnixNano of the last use
	reading atomic.Bool
	read    atomic.Int64 // UnixNano

	// mu is held while the guard is changed: changes come one after the other.
	mu      sync.Mutex
	version uint64 // of a record 2 times its own; 1 more when it was deleted
}

// NewPermits returns a Permits without keys. The error names the field that is out of
// range.
func NewPermits(cfg PermitsConfig) (*Permits, error) {
	cfg.Refresh = cmp.Or(cfg.Refresh, time.Second)
	cfg.MaxKeys = cmp.Or(cfg.MaxKeys, 10_000)
	switch {
	case cfg.Refresh < 10*time.Millisecond:
		return nil, invalidf("PermitsConfig.Refresh is %v, want 10ms or more", cfg.Refresh)
	case cfg.MaxKeys < 1:
		return nil, invalidf("PermitsConfig.MaxKeys is %d, want 0 or more", cfg.MaxKeys)
	}
	p := &Permits{cfg: cfg, meta: cfg.Meta, base: time.Now(), keys: make(map[string]*guarded), making: make(map[string]*making)}
	if p.meta == nil {
		own, err := store.NewMemory(store.MemoryConfig{})
		if err != nil {
			return nil, err
		}
		p.own, p.meta = own, own
	}
	p.ctx, p.close = context.WithCancel(context.Background())
	return p, nil
}

// Close ends everything: who waits for a permit gets an error that matches ErrClosed,
// or limiter.ErrClosed, and so does who comes later. Permits that are out may be
// released. It returns when nothing of the Permits runs any more. It may be called
// again.
func (p *Permits) Close() error {
	p.mu.Lock()
	p.closed = true
	keys := p.keys
	p.keys = nil
	p.mu.Unlock()
	p.close()
	p.reads.Wait()
	for _, g := range keys {
		g.guard.close()
	}
	if p.own != nil {
		return p.own.Close()
	}
	return nil
}

// Permit is the right to use a resource once, or as often as it was acquired for.
type Permit struct {
	once    sync.Once
	release func(error) // nil: there is nothing to give back
}

// Release gives the permit back, with the error that the use of the resource ended
// with, or nil: a bulkhead lets the next one in, a circuit breaker counts it, for a
// rate limiter it does nothing. It is to be called when the use has ended, however it
// ended; only the first call counts.
func (m *Permit) Release(err error) {
	if m.release != nil {
		m.once.Do(func() { m.release(err) })
	}
}

// Acquire waits for n permits of a key, as long as its metadata allows: of a rate
// limiter, n permits; of a bulkhead, n of the calls that may run at once; of a circuit
// breaker, which does not wait and does not heed n, one call. n is 1 or more; of more
// than there can ever be none is given.
//
// The error is an *Error: RegistryNotFound for what is no key, or one of another
// permit type; FailedToInstantiateRegistry when there is no metadata to be had, or it
// makes no sense; InterruptedWhileAcquiringPermit when ctx has ended, or would have,
// before there was a permit; else FailedToAcquirePermit, which unwraps to what the
// limiter or the breaker said: errors.Is with limiter.ErrLimited or breaker.ErrOpen.
func (p *Permits) Acquire(ctx context.Context, key string, n int) (*Permit, error) {
	if ctx == nil {
		return nil, &Error{FailedToAcquirePermit, key, errNilContext}
	}
	g, err := p.guarded(ctx, key)
	if err != nil {
		return nil, err
	}
	held := false
	defer func() { // also when Allow panics
		if !held {
			g.users.Add(-1)
		}
	}()
	if n < 1 {
		return nil, &Error{FailedToAcquirePermit, key, invalidf("%d permits, want 1 or more", n)}
	}
	if p.cfg.Allow != nil && !p.cfg.Allow(g.key.String()) {
		return nil, &Error{FailedToAcquirePermit, key, errNotAllowed}
	}
	release, err := g.guard.acquire(ctx, n)
	if err != nil {
		return nil, &Error{codeOf(ctx, err), key, err}
	}
	if release == nil {
		return &Permit{}, nil
	}
	held = true
	return &Permit{release: func(err error) {
		release(err)
		g.users.Add(-1)
	}}, nil
}

var errNotAllowed = errors.New("PermitsConfig.Allow says no")

// Do calls fn with a permit of key, and releases that with what fn returns. An error of
// fn is an *Error of FailureWhileExecutingOperation, which unwraps to it; without a
// permit fn is not called, and the error is Acquire's. A panic in fn, and
// runtime.Goexit, count as failures and pass through.
func Do[R any](ctx context.Context, p *Permits, key string, fn func(context.Context) (R, error)) (result R, err error) {
	if ctx == nil || fn == nil {
		return result, invalidf("a nil context or function")
	}
	m, err := p.Acquire(ctx, key, 1)
	if err != nil {
		return result, err
	}
	failure := errNoReturn
	defer func() { m.Release(failure) }()
	result, failure = fn(ctx)
	if failure != nil {
		return result, &Error{FailureWhileExecutingOperation, key, failure}
	}
	return result, nil
}

var errNoReturn = errors.New("registry: the function did not return")

// guarded returns what a key guards, made if it is not in use, with one more user.
func (p *Permits) guarded(ctx context.Context, key string) (*guarded, error) {
	k, err := ParseKey(key)
	if err == nil && k.Type != RateLimiter && k.Type != Bulkhead && k.Type != CircuitBreaker {
		err = invalidf("%s guards nothing by itself, want %s, %s or %s", k.Type, RateLimiter, Bulkhead, CircuitBreaker)
	}
	if err != nil {
		return nil, &Error{RegistryNotFound, key, err}
	}
	for {
		now := time.Now()
		p.mu.Lock()
		g, closed := p.keys[k.String()], p.closed
		var changes uint64
		if g != nil {
			g.users.Add(1)
		} else if !closed {
			changes = p.makes(k)
		}
		p.mu.Unlock()
		switch {
		case closed:
			return nil, &Error{FailedToAcquirePermit, key, ErrClosed}
		case g != nil:
			g.used.Store(p.since(now))
			p.refresh(g, now)
			return g, nil
		}
		g, err := p.first(ctx, k, changes)
		if g != nil || err != nil {
			return g, err
		}
	}
}

// first makes what a key guards that makes has been told of; nil when begin says so.
func (p *Permits) first(ctx context.Context, k Key, changes uint64) (*guarded, error) {
	defer p.made(k)
	r, err := p.get(ctx, k)
	if err != nil {
		code := FailedToInstantiateRegistry
		if ctx.Err() != nil {
			code = InterruptedWhileAcquiringPermit
		}
		return nil, &Error{code, k.String(), err}
	}
	g, err := p.begin(k, r, changes)
	if err != nil {
		return nil, &Error{FailedToInstantiateRegistry, k.String(), err}
	}
	return g, nil
}

// making is a key that n users at once are about to use first, whose metadata was changed
// here so often meanwhile.
type making struct {
	n       int
	changes uint64
}

// makes says that somebody is about to make what k guards, and returns how often its
// metadata was changed since the first did. The caller holds mu.
func (p *Permits) makes(k Key) (changes uint64) {
	m := p.making[k.String()]
	if m == nil {
		m = new(making)
		p.making[k.String()] = m
	}
	m.n++
	return m.changes
}

// made ends makes.
func (p *Permits) made(k Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := p.making[k.String()]; m.n > 1 {
		m.n--
	} else {
		delete(p.making, k.String())
	}
}

// get reads the record of a key; without one, that of Version 0.
func (p *Permits) get(ctx context.Context, k Key) (store.Record, error) {
	found, err := p.do(ctx, store.MetaOp{Do: store.Get, Key: k.String()})
	if err != nil || len(found) == 0 {
		return store.Record{Key: k.String(), Value: []byte("{}")}, err
	}
	return found[0], nil
}

// begin makes what a key guards; nil when somebody was faster, or may have changed what
// r says: a change that comes after this finds the key, one before has counted up
// changes.
func (p *Permits) begin(k Key, r store.Record, changes uint64) (*guarded, error) {
	m, err := ParseMetadata(r.Value)
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	g := &guarded{key: k, version: 2 * r.Version}
	now := time.Now()
	g.users.Store(1)
	g.used.Store(p.since(now))
	g.read.Store(p.since(now))
	if err := p.room(k, now); err != nil { // before anything is made
		return nil, err
	}
	if g.guard, err = p.make(k, m, g.version); err != nil {
		return nil, err
	}
	p.mu.Lock()
	late := p.keys[k.String()] != nil || p.making[k.String()].changes != changes || p.closed
	full := len(p.keys) >= p.cfg.MaxKeys
	if !late && !full {
		p.keys[k.String()] = g
		p.mu.Unlock()
		return g, nil
	}
	p.mu.Unlock()
	g.guard.close()
	if late {
		return nil, nil
	}
	return nil, fmt.Errorf("%w keys: there are %d", ErrTooMany, p.cfg.MaxKeys)
}

func (p *Permits) make(k Key, m Metadata, version uint64) (guard, error) {
	switch name := k.String(); k.Type {
	case RateLimiter:
		return newRateLimiter(name, p.cfg, m, version)
	case Bulkhead:
		return newSlots(name, p.cfg, m)
	default:
		return newCircuit(name, p.cfg, m)
	}
}

// since is a time in nanoseconds of the monotonic clock: the wall clock may be set.
func (p *Permits) since(t time.Time) int64 { return int64(t.Sub(p.base)) }

// room makes room for a key where there is none, if something is idle. It looks once a
// second at most, so that a flood of keys does not look at all of them each time.
func (p *Permits) room(k Key, now time.Time) error {
	var idle []*guarded
	p.mu.Lock()
	full := p.keys[k.String()] == nil && len(p.keys) >= p.cfg.MaxKeys
	if full && now.Sub(p.swept) >= time.Second {
		p.swept = now
		for name, g := range p.keys {
			if p.isIdle(g, now) {
				delete(p.keys, name)
				idle = append(idle, g)
			}
		}
		full = len(p.keys) >= p.cfg.MaxKeys
	}
	p.mu.Unlock()
	for _, g := range idle {
		g.guard.close()
	}
	if full {
		return fmt.Errorf("%w keys: there are %d", ErrTooMany, p.cfg.MaxKeys)
	}
	return nil
}

// isIdle reports whether a key can be forgotten. One that was just used may be used
// again; and what is shared the store forgets by itself. The caller holds mu, so that
// nobody begins to use it.
func (p *Permits) isIdle(g *guarded, now time.Time) bool {
	return g.users.Load() == 0 && p.since(now)-g.used.Load() >= int64(time.Second) && g.guard.idle()
}
