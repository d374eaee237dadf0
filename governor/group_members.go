package governor

import (
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// member is a host of a Group, guarded by its mutex: one with a governor, one whose
// governor is being made, or one of whose governor something is remembered.
type member[S comparable, C any] struct {
	host   string
	gov    *Governor[S, C]
	asked  *asked[S, C] // nil without gov
	making *making[S, C]
	kept   []inherited

	restored bool      // Config.Restore had cooldowns, which are not to come back when it is made anew
	given    time.Time // Learned.When of that
	exported time.Time // the same, if it was not in the future

	gets  uint64    // how often it was asked for
	seen  uint64    // gets and starts at the last sweep
	busy  bool      // at the last sweep
	since time.Time // of the last sweep that found any of it changed, or it busy

	prev, next *member[S, C] // in Group.recent
}

// making is a governor that is being made. gov or err is set when done is closed.
type making[S comparable, C any] struct {
	soon bool // that is; before, GroupConfig.Config takes as long as it likes. Guarded by Group.mu
	done chan struct{}
	gov  *Governor[S, C]
	err  error
}

// asked is the governor of a member for those who need no mutex to find it.
type asked[S comparable, C any] struct {
	host  string
	gov   *Governor[S, C]
	again atomic.Bool // it was asked for since the last sweep; set once, so that nobody's writes are in the way
}

// members is a list in the order in which they were asked for last.
type members[S comparable, C any] struct {
	oldest, newest *member[S, C]
	latest         atomic.Pointer[asked[S, C]] // newest's; nil: none, or ask the list
}

func (l *members[S, C]) push(m *member[S, C]) {
	m.prev, m.next = l.newest, nil
	if l.newest == nil {
		l.oldest = m
	} else {
		l.newest.next = m
	}
	l.newest = m
	l.latest.Store(m.asked)
}

func (l *members[S, C]) remove(m *member[S, C]) {
	if m.prev == nil {
		l.oldest = m.next
	} else {
		m.prev.next = m.next
	}
	if m.next == nil {
		l.newest = m.prev
		l.latest.Store(nil)
	} else {
		m.next.prev = m.prev
	}
	m.prev, m.next = nil, nil
}

// All returns the hosts that have a governor now, and it, in no particular order.
func (g *Group[S, C]) All() iter.Seq2[string, *Governor[S, C]] {
	return func(yield func(string, *Governor[S, C]) bool) {
		for _, gov := range g.governors() {
			if !yield(gov.group.of.(*membership[S, C]).host, gov) {
				return
			}
		}
	}
}

// Handles returns the governors of the hosts that have one now, by name. As with All,
// asking is no use of a host, so what is idle is evicted all the same.
func (g *Group[S, C]) Handles() []Handle {
	govs := g.governors()
	all := make([]Handle, len(govs))
	for i, gov := range govs {
		all[i] = gov
	}
	slices.SortFunc(all, func(a, b Handle) int { return strings.Compare(a.Name(), b.Name()) })
	return all
}

func (g *Group[S, C]) governors() []*Governor[S, C] {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]*Governor[S, C], 0, len(g.hosts))
	for _, m := range g.hosts {
		if m.gov != nil && !m.gov.evicted() {
			all = append(all, m.gov)
		}
	}
	return all
}

// drop takes m out. The caller holds mu.
func (g *Group[S, C]) drop(m *member[S, C]) {
	if g.hosts[m.host] == m {
		delete(g.hosts, m.host)
		g.recent.remove(m)
	}
}

// forget takes gov, which is over, from m, and leaves what is to be remembered. The
// caller holds mu.
func (g *Group[S, C]) forget(m *member[S, C], gov *Governor[S, C]) {
	if m.gov != gov {
		return
	}
	if g.recent.latest.Load() == m.asked {
		g.recent.latest.Store(nil)
	}
	m.gov, m.asked = nil, nil
	g.tidy(4)
	g.ending[gov.core] = struct{}{}
	if gov.evicted() {
		m.kept = gov.group.kept
	} else {
		m.restored = false // it was closed by hand, perhaps while the cooldown lasted
	}
	if !m.remembers() {
		g.drop(m)
	}
}

// remembers reports whether m is of use without a governor.
func (m *member[S, C]) remembers() bool { return m.kept != nil || m.restored }

// tidy looks at n of the governors that end, and forgets those that have ended. The
// caller holds mu.
func (g *Group[S, C]) tidy(n int) {
	for c := range g.ending {
		if n--; n < 0 {
			return
		}
		select {
		case <-c.done:
			delete(g.ending, c)
		default:
		}
	}
}

// crowded reports whether too many evicted governors have not ended yet. The caller
// holds mu.
func (g *Group[S, C]) crowded() bool {
	most := max(g.cfg.MaxHosts, minEnding)
	if len(g.ending) >= most {
		g.tidy(len(g.ending))
	}
	return len(g.ending) >= most
}

// minEnding is how many evicted governors may be about to end in any case: each takes
// a moment.
const minEnding = 100

// makeRoom makes room for one more host, and reports whether the caller may look
// again. It holds mu, but not all the time.
func (g *Group[S, C]) makeRoom() bool {
	for range 8 {
		m := g.recent.oldest
		switch gov := m.gov; {
		case m.making != nil:
		case gov == nil: // what it had learned costs less to learn again
			g.drop(m)
			return true
		default:
			g.mu.Unlock()
			ok := gov.retire()
			g.mu.Lock()
			if ok {
				g.forget(m, gov)
				if m.gov == nil && m.making == nil {
					g.drop(m)
				}
			}
			if len(g.hosts) < g.cfg.MaxHosts || g.closed {
				return true
			}
		}
		if g.hosts[m.host] == m { // it is in use, or will be: try others next time
			g.recent.remove(m)
			g.recent.push(m)
		}
	}
	return false
}

// period is how often the timer looks for idle governors.
func (g *Group[S, C]) period() time.Duration { return max(time.Millisecond, g.cfg.IdleTimeout/4) }

// sweep evicts what is idle. The timer calls it.
func (g *Group[S, C]) sweep() {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return
	}
	ended := make(chan struct{})
	g.sweeping = ended
	now := time.Now()
	var idle []*member[S, C]
	var govs []*Governor[S, C]
	for _, m := range g.hosts {
		if m.gov == nil {
			continue
		}
		if m.asked.again.Swap(false) {
			m.gets++
		}
		seen, busy := m.gets+m.gov.begun(), m.gov.busy()
		if seen != m.seen || busy || m.busy { // if it was busy then, it may have been until now
			m.seen, m.busy, m.since = seen, busy, now
		} else if now.Sub(m.since) >= g.cfg.IdleTimeout {
			idle, govs = append(idle, m), append(govs, m.gov)
		}
	}
	g.mu.Unlock()
	for i, gov := range govs {
		if gov.retire() {
			g.mu.Lock()
			g.forget(idle[i], gov)
			g.mu.Unlock()
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sweeping = nil
	close(ended)
	g.tidy(len(g.ending))
	switch {
	case g.closed:
	case len(g.hosts) == 0 && len(g.ending) == 0:
		g.timer = nil
	default:
		g.timer.Reset(g.period())
	}
}
