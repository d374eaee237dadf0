package dashboard

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/flyball-go/flyball/governor"
)

const (
	every = time.Second            // between two points of a chart
	soon  = 200 * time.Millisecond // from a decision to the update that shows it
)

// run asks the governors once a second, and those that decided something soon after
// that. It is the only one to change d.entries,
// d.all and d.sampled, once New has taken the first sample.
func (d *Dashboard) run() {
	defer close(d.done)
	defer d.leave()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if d.cfg.OnDemand && !d.watched() {
				continue
			}
			d.list()
			d.sample(true)
		case <-d.poke:
			if !d.watched() {
				continue
			}
			wait := time.NewTimer(soon) // for what else is decided now
			select {
			case <-wait.C:
				d.sample(false)
			case <-d.ctx.Done():
				wait.Stop()
				return
			}
		case asked := <-d.fresh:
			if d.now().Sub(d.sampled) >= every {
				d.list()
				d.sample(true)
			}
			close(asked)
		case <-d.ctx.Done():
			return
		}
	}
}

// freshen returns when no governor was asked longer ago than a second.
func (d *Dashboard) freshen() {
	asked := make(chan struct{})
	select {
	case d.fresh <- asked:
		<-asked // run has it, and ends in no other place meanwhile
	case <-d.done:
	}
}

// list takes in new governors and lets go of those that are not listed any more.
func (d *Dashboard) list() {
	var all []governor.Handle
	if !d.survives("Config.Governors", func() { all = d.cfg.Governors() }) || slices.Equal(all, d.all) {
		return
	}
	d.all = slices.Clone(all)
	had := map[governor.Handle]*entry{}
	taken := map[string]bool{}
	d.mu.Lock()
	for _, e := range d.entries {
		had[e.handle] = e
		taken[e.id] = true
	}
	d.mu.Unlock()
	var now []*entry
	listed := map[governor.Handle]bool{}
	for _, h := range all {
		if h == nil || listed[h] {
			continue
		}
		listed[h] = true
		e := had[h]
		delete(had, h)
		if e == nil {
			e = d.newEntry(h, unique(d.texts.clean(h.Name()), taken))
		}
		now = append(now, e)
	}
	d.mu.Lock()
	d.entries = now
	d.mu.Unlock()
	for _, gone := range had {
		gone.stop()
	}
}

// survives calls fn, which may panic without harm to others, and reports whether it
// returned.
func (d *Dashboard) survives(what string, fn func()) (returned bool) {
	defer func() {
		if p := recover(); p != nil {
			d.cfg.Logger.Error("dashboard: "+what+" panicked", "panic", d.texts.clean(fmt.Sprint(p)))
		}
	}()
	fn()
	return true
}

// unique returns name, or that with a number.
func unique(name string, taken map[string]bool) string {
	id := name
	for n := 2; taken[id]; n++ {
		id = name + "~" + strconv.Itoa(n)
	}
	taken[id] = true
	return id
}

// leave stops listening.
func (d *Dashboard) leave() {
	d.mu.Lock()
	all := d.entries
	d.mu.Unlock()
	for _, e := range all {
		e.stop()
	}
}

// sample asks all governors and adds a point to their charts, or else asks those that
// have decided something; then tells who looks.
func (d *Dashboard) sample(point bool) {
	d.mu.Lock()
	tick, all := d.tick+1, d.entries
	watched := len(d.clients) > 0
	d.mu.Unlock()
	if point {
		d.sampled = d.now()
	}
	for _, e := range all {
		if point || e.dirty.Swap(false) {
			e.dirty.Store(false)
			var s governor.Stats
			if d.survives("Stats of "+e.id, func() { s = e.handle.Stats() }) { // a breaker is the user's
				e.sampled(s, tick, point)
			}
		}
	}
	if point && watched {
		for _, p := range d.peers {
			p.ask(d)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tick = tick
	for c := range d.clients {
		c.wake()
	}
}

func (d *Dashboard) watched() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.clients) > 0
}

// changed makes e be asked soon.
func (d *Dashboard) changed(e *entry) {
	e.dirty.Store(true)
	select {
	case d.poke <- struct{}{}:
	default:
	}
}

// find returns the governor of an ID, nil if there is none.
func (d *Dashboard) find(id string) *entry {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.entries {
		if e.id == id {
			return e
		}
	}
	return nil
}

// ticked is the number of the last sample.
func (d *Dashboard) ticked() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tick
}
