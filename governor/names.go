package governor

import (
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
)

type refs = atomic.Int64

// names knows the selectors in use, so that a request carries a pointer instead
// of a boxed S, and scopes have a text for it.
type names[S comparable] struct {
	// mu guards m. refs rise under it, or while the entry is hot, which nothing
	// becomes otherwise. So an entry without any, that is not hot, can be removed
	// under it. Nothing of the user's runs under it but the comparison
	// of selectors, which may panic: hence lookup's defer.
	mu     sync.RWMutex
	m      map[S]*named[S]
	most   int
	sweep  int // size at which entries without refs are removed
	missed int // new selectors since; a full map is swept after an eighth of its size in them

	hot atomic.Pointer[named[S]] // the one looked up last, if it is in m
}

// named is a selector with its value.
type named[S comparable] struct {
	key S
	selector
}

// get returns the selector of sel, with a reference for the caller.
func (n *names[S]) get(sel S, c *core) (*selector, error) {
	if m := n.hot.Load(); m != nil && m.key == sel {
		// Who sweeps forgets the hot one before he reads refs: if it is still hot he
		// sees this one.
		if m.refs.Add(1); n.hot.Load() == m {
			return &m.selector, nil
		}
		m.refs.Add(-1)
	}
	if s, err := n.lookup(sel); s != nil || err != nil {
		return s, err
	}
	fresh := &named[S]{sel, selector{core: c, value: sel, name: text(sel)}} // may call a String method: no lock
	fresh.plain = newLane(laneKey{sel: &fresh.selector}, 0)
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.m[sel]; s != nil {
		s.refs.Add(1)
		return &s.selector, nil
	}
	if n.missed++; len(n.m) >= n.sweep || len(n.m) >= n.most && n.missed > n.most/8 {
		n.hot.Store(nil)
		for k, s := range n.m {
			if s.refs.Load() == 0 {
				delete(n.m, k)
			}
		}
		n.sweep, n.missed = max(64, 2*len(n.m)), 0
	}
	if len(n.m) >= n.most {
		return nil, ErrTooManyKeys
	}
	fresh.refs.Add(1)
	n.m[sel] = fresh
	return &fresh.selector, nil
}

// lookup returns the selector with a reference, nil if there is none yet. A
// selector that is not equal to itself, or whose dynamic type has no equality,
// could never be found again.
func (n *names[S]) lookup(sel S) (s *selector, err error) {
	defer func() {
		if recover() != nil {
			s, err = nil, ErrSelector
		}
	}()
	if again := sel; sel != again { // NaN alone
		return nil, ErrSelector
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	if m := n.m[sel]; m != nil {
		s = &m.selector
		s.refs.Add(1) // under mu, so it was not swept
		if n.hot.Load() != m {
			n.hot.Store(m)
		}
	}
	return s, nil
}

// peek returns the selector without a reference, nil if there is none yet. If it
// is swept meanwhile there may be two of the same value for a time, with a lane
// each, which does no harm.
func (n *names[S]) peek(sel S) *selector {
	// What is in the map can be compared with anything without a panic.
	if m := n.hot.Load(); m != nil && m.key == sel {
		return &m.selector
	}
	return n.find(sel)
}

func (n *names[S]) find(sel S) *selector {
	defer func() { _ = recover() }() // of a selector that cannot be compared
	n.mu.RLock()
	defer n.mu.RUnlock()
	m := n.m[sel]
	if m == nil {
		return nil
	}
	n.hot.Store(m) // under mu, so it was not swept
	return &m.selector
}

func text(sel any) string {
	if v := reflect.ValueOf(sel); v.Kind() == reflect.String {
		return v.String()
	}
	return fmt.Sprint(sel)
}

// exact reports whether no two selectors of type t have the same text.
func exact(t reflect.Type) bool {
	switch k := t.Kind(); {
	case k == reflect.String: // the value itself
		return true
	case reflect.Bool <= k && k <= reflect.Uintptr:
		return t.NumMethod() == 0 // none of which says something else
	}
	return false
}
