package limiter

import (
	"reflect"
	"time"
)

// roomy is implemented by limiters with keys of which one stands in the way of another
// only when there is no room for both.
type roomy interface {
	Limiter

	// room returns how long from now it is until there is room for one more key. What
	// is told of one key changes Wait's answer for another only where it changes that.
	room(now time.Time) time.Duration

	// has reports whether key has a place. One that has none needs room.
	has(key string) bool
}

var _ = []roomy{(*Bucket)(nil), (*Leaky)(nil), (*FixedWindow)(nil), (*SlidingLog)(nil), (*Concurrency)(nil)}

func (b *Bucket) room(now time.Time) time.Duration      { return wait(b.keys.room(b.at(now))) }
func (l *Leaky) room(now time.Time) time.Duration       { return wait(l.keys.room(l.at(now))) }
func (w *FixedWindow) room(now time.Time) time.Duration { return wait(w.keys.room(w.at(now))) }
func (w *window[S]) room(now time.Time) time.Duration   { return wait(w.keys.room(w.at(now))) }

func (c *Concurrency) room(time.Time) time.Duration {
	if len(c.held) < c.max {
		return 0
	}
	return c.again
}

func (b *Bucket) has(key string) bool      { return b.keys.index[key] != nil }
func (l *Leaky) has(key string) bool       { return l.keys.index[key] != nil }
func (w *FixedWindow) has(key string) bool { return w.keys.index[key] != nil }
func (w *window[S]) has(key string) bool   { return w.keys.index[key] != nil }
func (c *Concurrency) has(key string) bool { return c.held[key] > 0 }

// reach says calls of which other keys may go when a limiter has been told of one.
type reach uint8

const (
	anyKey  reach = iota // of any: nothing more is known
	newKeys              // of those that there was no room for: it is roomy
	noOther              // of none, or it says so itself
)

// reachOf says it of l, which is no ByKey. What embeds one of ours is somebody else's: it
// has the methods that make a limiter roomy, or a Notifier, from there, and they do not
// know of what it adds.
func reachOf(l Limiter) reach {
	_, notifies := l.(Notifier)
	if !isOurs(l) {
		if notifies && !embedsNotifier(l) {
			return noOther
		}
		return anyKey
	}
	if _, ok := l.(roomy); ok {
		return newKeys
	}
	if _, releases := l.(Releaser); ignoresKeys(l) || releases && !notifies {
		return anyKey
	}
	return noOther
}

// structOf returns the type of what l is, or points to.
func structOf(l Limiter) reflect.Type {
	t := reflect.TypeOf(l)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// isOurs reports whether l's type is declared in this package.
func isOurs(l Limiter) bool { return structOf(l).PkgPath() == reflect.TypeFor[Shared]().PkgPath() }

// embedsNotifier reports whether l may have its OnChange from what it embeds.
func embedsNotifier(l Limiter) bool {
	t, notifier := structOf(l), reflect.TypeFor[Notifier]()
	if t.Kind() != reflect.Struct {
		return false
	}
	for i := range t.NumField() {
		if f := t.Field(i); f.Anonymous && (f.Type.Implements(notifier) || reflect.PointerTo(f.Type).Implements(notifier)) {
			return true
		}
	}
	return false
}
