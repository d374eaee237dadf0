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

	mu      sync.Mutex // guards what follows; Telemetry.mu may be taken under it
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
	var gone []func() // called when nothing is locked
	defer func() {
		for _, stop := range gone {
			stop()
		}
	}()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return nil
	}
	for h, w := range l.watches { // first, as another may have its name by now
		if !here[h] {
			delete(l.watches, h)
			gone = append(gone, l.t.remove(w))
		}
	}
	for h := range here {
		if l.watches[h] != nil {
			continue
		}
		w, err := l.t.begun(h)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		l.watches[h] = w
	}
	return errors.Join(errs...)
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
