package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"
)

// MemoryConfig says how much a Memory keeps.
type MemoryConfig struct {
	// TTL is how long a silent node keeps its slots and its probe. 0 means 10 s.
	TTL time.Duration

	// MaxKeys bounds the keys that are not idle, MaxNodes the nodes under one. An item
	// that needs one more is refused with ErrTooMany. 0 means 100,000 and 1024.
	MaxKeys, MaxNodes int
}

// Memory is an engine in this process's memory: for governors of one process that
// share a quota, for tests, and as the model of what other engines have to do.
//
// Nobody can have been granted anything before it was made, so keys begin unused:
// what an earlier process used the vendor may still count.
type Memory struct {
	ttl               time.Duration
	maxKeys, maxNodes int
	base              time.Time // of the clock: a bubble's is not the one outside

	// mu guards what follows. Nothing is called under it.
	mu       sync.Mutex
	closed   bool
	epoch    int
	keys     map[string]*resource
	gen      uint64 // the largest of the keys that are idle and gone: who comes back may know it
	meta     map[string]Record
	metaLast uint64

	// hinting is held while a hint is called, so that there is one at a time. It
	// is never taken while mu is held.
	hinting  sync.Mutex
	watchers map[int]func(Hint) // guarded by mu
	watches  int
	hints    int       // exchanges of which hints are to be given; guarded by mu
	heard    time.Time // then: when the first of them began
}

var _ Attentive = (*Memory)(nil)

// NewMemory returns an empty Memory. The error names the field that is out of range.
func NewMemory(cfg MemoryConfig) (*Memory, error) {
	if cfg.TTL < 0 || cfg.MaxKeys < 0 || cfg.MaxNodes < 0 {
		return nil, fmt.Errorf("store: MemoryConfig has TTL %v, MaxKeys %d, MaxNodes %d, want none below 0", cfg.TTL, cfg.MaxKeys, cfg.MaxNodes)
	}
	return &Memory{
		ttl:     cmp.Or(cfg.TTL, 10*time.Second),
		maxKeys: cmp.Or(cfg.MaxKeys, 100_000), maxNodes: cmp.Or(cfg.MaxNodes, 1024),
		base: time.Now(), epoch: 1,
		keys: make(map[string]*resource), meta: make(map[string]Record), watchers: make(map[int]func(Hint)),
	}, nil
}

// TTL returns MemoryConfig.TTL.
func (m *Memory) TTL() time.Duration { return m.ttl }

// now is the nanoseconds since 1970 by a clock that only goes forward.
func (m *Memory) now() int64 { return m.base.UnixNano() + int64(time.Since(m.base)) }

// Exchange executes items one after the other, under one lock.
func (m *Memory) Exchange(ctx context.Context, node Node, items []Item) ([]Answer, error) {
	if err := CheckExchange(node, items); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotExecuted, err)
	}
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil, ErrClosed
	}
	begun := time.Now()
	now := m.now()
	fresh := 0
	for i := range items {
		if m.keys[items[i].Key] == nil {
			fresh++
		}
	}
	m.collect(now, fresh)
	answers := make([]Answer, len(items))
	var news []Hint
	refused, full := 0, error(nil)
	for i := range items {
		it := &items[i]
		r, err := m.resource(now, node, it.Key)
		if err != nil {
			refused, full = refused+1, err
			answers[i] = Answer{Node: node, Key: it.Key, Seq: it.Seq, Err: err}
			continue
		}
		a, tell, words := r.exchange(now, terms{m.ttl, m.name()}, node, it)
		a.Epoch = m.name()
		answers[i] = a
		if tell {
			news = append(news, Hint{Key: it.Key})
		}
		if len(words) > 0 {
			news = append(news, Hint{it.Key, a.Epoch, words})
		}
	}
	if refused > 0 && refused == len(items) {
		m.mu.Unlock()
		return nil, full
	}
	if len(news) == 0 {
		m.mu.Unlock()
		return answers, nil
	}
	if m.hints++; m.hints == 1 {
		m.heard = begun
	}
	m.mu.Unlock()
	m.hint(news)
	m.mu.Lock()
	m.hints--
	m.mu.Unlock()
	return answers, nil
}

// resource returns that of key, a new one if there is none. The error says that there is no
// room for it, or under it for node.
func (m *Memory) resource(now int64, node Node, key string) (*resource, error) {
	r := m.keys[key]
	switch {
	case r == nil && len(m.keys) >= m.maxKeys:
		return nil, fmt.Errorf("%w: %d keys", ErrTooMany, len(m.keys))
	case r == nil:
		r = newResource(now, m.epoch > 1, m.ttl)
		r.gen = m.gen
		m.keys[key] = r
	case r.nodes[node] == nil && len(r.nodes) >= m.maxNodes:
		if r.expire(now); len(r.nodes) >= m.maxNodes {
			return nil, fmt.Errorf("%w: %d nodes under %s", ErrTooMany, len(r.nodes), key)
		}
	}
	return r, nil
}

// collect removes idle keys: all, if there might be no room for more otherwise, else
// two for each that comes.
func (m *Memory) collect(now int64, fresh int) {
	look := 2 * fresh
	if len(m.keys)+fresh > m.maxKeys {
		look = len(m.keys)
	}
	for key, r := range m.keys { // begins anywhere
		if look--; look < 0 {
			return
		}
		if r.idle(now) {
			m.gen = max(m.gen, r.gen)
			delete(m.keys, key)
		}
	}
}

// Lose forgets everything but metadata, as a restart of an engine that keeps nothing
// does: for tests.
func (m *Memory) Lose() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.epoch, m.gen = m.epoch+1, 0
	clear(m.keys)
}

// Watch calls hint on the goroutine of the Exchange that has the news, which waits
// for it: it must neither block nor call the Memory.
func (m *Memory) Watch(ctx context.Context, hint func(Hint)) (stop func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	m.watches++
	id := m.watches
	m.watchers[id] = hint
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.watchers, id)
	}, nil
}

// HeardUntil returns now, or when the first of the exchanges began whose hints are
// being given.
func (m *Memory) HeardUntil() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.hints > 0 {
		return m.heard
	}
	return time.Now()
}

func (m *Memory) hint(news []Hint) {
	m.hinting.Lock()
	defer m.hinting.Unlock()
	m.mu.Lock()
	watchers := maps.Clone(m.watchers)
	m.mu.Unlock()
	for _, w := range watchers {
		for _, h := range news {
			w(h)
		}
	}
}

// Close makes everything else return ErrClosed. It never fails.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	clear(m.watchers)
	return nil
}

// name is that of the present epoch.
func (m *Memory) name() string { return strconv.Itoa(m.epoch) }
