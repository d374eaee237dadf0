package policy

import (
	"sync"
	"time"
)

// Entry is a stored result.
type Entry[R any] struct {
	Value  R
	Stored time.Time // when the call ended whose result it is
	Fresh  time.Time // until when it is used in place of a call
	Keep   time.Time // until when it is used in place of an error; a Storage may forget it then
}

// Storage keeps the entries of a Cache. Its methods are called by many goroutines
// at once. It may forget any entry at any time. What panics in it passes through
// to the caller of the Cache. It must not call the Cache.
type Storage[K comparable, R any] interface {
	Get(key K) (Entry[R], bool)
	Set(key K, e Entry[R])
	Delete(key K)
}

// LRU is a Storage in memory that forgets the least recently used of its entries
// when it is full. It does not look at their times: old entries stay until they
// are replaced, or room is needed.
type LRU[K comparable, R any] struct {
	max int

	// mu is held for one operation on the map and the ring.
	mu   sync.Mutex
	node map[K]*node[K, R]
	ring node[K, R] // its next is the most recently used, its prev the least
}

type node[K comparable, R any] struct {
	prev, next *node[K, R]
	key        K
	entry      Entry[R]
}

// NewLRU returns an LRU for up to max entries; 0 means 1,000. The error says that
// max is less than 0.
func NewLRU[K comparable, R any](max int) (*LRU[K, R], error) {
	if err := inRange("NewLRU's max", max, 0); err != nil {
		return nil, err
	}
	return newLRU[K, R](max), nil
}

func newLRU[K comparable, R any](max int) *LRU[K, R] {
	if max == 0 {
		max = 1000
	}
	l := &LRU[K, R]{max: max, node: make(map[K]*node[K, R])}
	l.ring.prev, l.ring.next = &l.ring, &l.ring
	return l
}

// Get returns the entry of a key, which is then the most recently used.
func (l *LRU[K, R]) Get(key K) (Entry[R], bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.node[key]
	if n == nil {
		return Entry[R]{}, false
	}
	l.front(n)
	return n.entry, true
}

// Set stores an entry, which is then the most recently used.
func (l *LRU[K, R]) Set(key K, e Entry[R]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.node[key]
	if n == nil && len(l.node) >= l.max {
		n = l.ring.prev // its node is used again
		delete(l.node, n.key)
	}
	if n == nil {
		n = new(node[K, R])
	}
	l.node[key] = n
	n.key, n.entry = key, e
	l.front(n)
}

// Delete forgets the entry of a key.
func (l *LRU[K, R]) Delete(key K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.node[key]; n != nil {
		delete(l.node, key)
		n.prev.next, n.next.prev = n.next, n.prev
	}
}

// Len returns how many entries there are.
func (l *LRU[K, R]) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.node)
}

// front moves n, which may be new, to where the most recently used is.
func (l *LRU[K, R]) front(n *node[K, R]) {
	if n.prev != nil {
		n.prev.next, n.next.prev = n.next, n.prev
	}
	n.prev, n.next = &l.ring, l.ring.next
	n.prev.next, n.next.prev = n, n
}
