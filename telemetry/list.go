package telemetry

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/flyball-go/flyball/governor"
)

// WatchAll measures governors that come and go, until stop is called: those of a
// governor.Group (its Handles), of an httpx.Transport (its Governors), or of any other
// list. governors is called at once, and at each collection, by one goroutine at a time;
// it should be quick. What it returns is watched as by Watch, what it returns no more is
// forgotten. So one that comes and goes between two collections is not seen, and with
// Config.Histograms the attempts before the first collection that sees it are not.
//
// A governor of a name that is watched already is left out, and so is a nil. That, and
// a panic of governors, is an error of the collection, which the provider's reader
// reports; the others are measured all the same. stop may be called again.
func (t *Telemetry) WatchAll(governors func() []governor.Handle) (stop func(), err error) {
	if governors == nil {
		return nil, errors.New("telemetry: WatchAll: the function is nil")
	}
	l := &list{t: t, governors: governors, watches: make(map[governor.Handle]*watch)}
	t.mu.Lock()
	if t.isClosed.Load() {
		t.mu.Unlock()
		return nil, errors.New("telemetry: WatchAll: closed")
	}
	t.lists[l] = struct{}{}
	t.mu.Unlock()
	_ = l.update() // what is wrong, the next collection tells
	return l.stop, nil
}

// list is what WatchAll was given.
type list struct {
	t         *Telemetry
	governors func() []governor.Handle
	busy      atomic.Bool // update runs: another collection takes what is known

	mu      sync.Mutex // guards what follows; nothing is called under it
	watches map[governor.Handle]*watch
	stopped bool
}

// update watches what there is now.
func (l *list) update() (err error) {
	if !l.busy.CompareAndSwap(false, true) {
		return nil
	}
	defer l.busy.Store(false)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("telemetry: the function of WatchAll panicked: %v", p)
		}
	}()
	all := l.governors()
	here := make(map[governor.Handle]bool, len(all))
	var errs []error
	for _, h := range all {
		if h == nil || !reflect.ValueOf(h).Comparable() { // a wrapper of the user's may be none
			errs = append(errs, fmt.Errorf("telemetry: WatchAll: a governor is a %T, want one that can be told from others", h))
			continue
		}
		here[h] = true
	}
	for _, w := range l.gone(here) { // first, as another may have its name by now
		l.t.remove(w)()
	}
	for h := range here { // those that are left are new
		w, err := l.t.begun(h)
		if err != nil {
			errs = append(errs, err)
		} else if !l.add(h, w) {
			l.t.remove(w)()
		}
	}
	return errors.Join(errs...)
}

// gone takes out what is watched and not here any more, and returns it. What is watched
// it takes out of here.
func (l *list) gone(here map[governor.Handle]bool) (all []*watch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for h, w := range l.watches {
		if here[h] {
			delete(here, h)
		} else {
			delete(l.watches, h)
			all = append(all, w)
		}
	}
	return all
}

// add notes what is watched, unless that has been stopped.
func (l *list) add(h governor.Handle, w *watch) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stopped {
		l.watches[h] = w
	}
	return !l.stopped
}

// stop forgets all.
func (l *list) stop() {
	l.t.mu.Lock()
	delete(l.t.lists, l)
	l.t.mu.Unlock()
	l.mu.Lock()
	l.stopped = true
	watches := slices.Collect(maps.Values(l.watches))
	clear(l.watches)
	l.mu.Unlock()
	for _, w := range watches {
		l.t.remove(w)()
	}
}

// listed returns the lists.
func (t *Telemetry) listed() []*list {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.lists))
}
