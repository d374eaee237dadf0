package governor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// GroupConfig says how a Group treats its hosts. Only Config is required.
type GroupConfig[S comparable, C any] struct {
	// Config returns the Config of a host's governor; an empty Name becomes the
	// host. It is called when the governor is made, also again after an eviction,
	// and then once at a time for one host. Limiters and breakers belong to one
	// governor: make new ones in each call. As long as a host is remembered, the cooldowns
	// of a Restore count once, and again if they were exported later; its rates, if none
	// are remembered. It must not call the Group. Who finds no governor calls it on his
	// own goroutine, and so waits for it; others wait for that, a request through an evicted
	// governor as long as its context lasts. Required.
	Config func(host string) (Config[S, C], error)

	// MaxHosts bounds the governors, and the evicted ones of which something is
	// remembered; and apart from those, but no tighter than 100, the evicted ones
	// whose connections are still being closed. 0 means 1,000.
	MaxHosts int

	// IdleTimeout is how long a governor has to do nothing before it is evicted;
	// up to a quarter of it, or 1 ms, later, it is. 0 means 5 min; negative: never,
	// but for another when there are MaxHosts.
	IdleTimeout time.Duration

	// MaxQueue is how many requests may wait at all governors together; a further
	// one fails with ErrQueueFull whatever Config.Overflow says, unless the queue of its
	// own governor is full, so that its submitter waits: it counts when there is room in
	// that. 0: no bound but MaxHosts times Config.MaxQueue.
	MaxQueue int
}

// maxHost is the longest name of a host, in bytes.
const maxHost = 1024

// Group makes a governor for each host when it is asked for, and closes those that
// have nothing to do. All have one type of selector and of connection. Make one with
// NewGroup; it may be used by any number of goroutines, and must be closed.
//
// A governor is evicted only when nobody can notice. Nothing waits, runs or is held;
// no scope is cooling down or on its way back from that; it is not paused; its breaker is
// willing; and every limit says that all its permits are back (limiter.Idler;
// limiter.Adaptive). What an Adaptive knows the host's next governor goes on with (if it is
// configured otherwise, with what Export gives), but for the calls that it has seen while
// everything passed, and for that of the host that was asked for longest ago when there are
// MaxHosts; what a Config.Store shares its Syncer keeps. One with a limit that cannot say
// whether its permits are back is not evicted. Never are there two governors of a host that
// call it. What was changed by hand is forgotten: SetMaxQueue, a limit of a limiter; and the
// evicted governor's statistics are.
//
// A *Governor that Get returned is good for as long as the Group is: what is submitted
// through it after an eviction, or told to its Learn, Clear, Pause, Resume and
// SetMaxQueue, or asked of its Export, goes to the governor that the host has then,
// which is made if need be. Where MaxHosts are in use, so that there can be none, what is
// submitted fails with ErrTooManyHosts, and what is told is lost.
// For the rest it is a closed governor: its listeners have heard Closed, its Stats are
// those of its end. One that was closed by hand is replaced when it has ended.
//
// A Group has no goroutine of its own: a timer looks after the idle ones.
type Group[S comparable, C any] struct {
	cfg    GroupConfig[S, C]
	common *common

	// mu guards what follows. No function of the user's is called under it, and no
	// actor is waited for.
	mu        sync.Mutex
	hosts     map[string]*member[S, C]
	recent    members[S, C]
	ending    map[*core]struct{} // evicted, and their connections not yet closed
	listeners []*groupListener
	closed    bool
	shutting  chan struct{} // closed when closed is set
	timer     *time.Timer   // nil until there is a governor
	sweeping  chan struct{} // closed when the sweep that runs has ended; nil: none runs
}

// NewGroup returns a Group without governors, or an error that names the field of
// cfg that is wrong and its value.
func NewGroup[S comparable, C any](cfg GroupConfig[S, C]) (*Group[S, C], error) {
	switch {
	case cfg.Config == nil:
		return nil, errors.New("governor: GroupConfig.Config is nil, want a function")
	case cfg.MaxHosts < 0:
		return nil, fmt.Errorf("governor: GroupConfig.MaxHosts is %d, want 0 or more", cfg.MaxHosts)
	case cfg.MaxQueue < 0:
		return nil, fmt.Errorf("governor: GroupConfig.MaxQueue is %d, want 0 or more", cfg.MaxQueue)
	}
	if cfg.MaxHosts == 0 {
		cfg.MaxHosts = 1000
	}
	if cfg.IdleTimeout == 0 {
		cfg.IdleTimeout = 5 * time.Minute
	}
	g := &Group[S, C]{cfg: cfg, hosts: make(map[string]*member[S, C]), ending: make(map[*core]struct{}), shutting: make(chan struct{})}
	if cfg.MaxQueue > 0 {
		g.common = &common{most: int64(cfg.MaxQueue)}
	}
	return g, nil
}

// Get returns the governor of host, and makes it when there is none: one, however
// many goroutines ask at once. A host is any text of 1 byte to 1 KiB, taken as it is.
//
// It returns the error of GroupConfig.Config or of New, and asks again next time;
// ErrTooManyHosts when MaxHosts are in use (the eight that were asked for longest ago
// are looked at for an idle one) or too many are being closed; ErrClosed after Close or
// Shutdown, or when one of them was called meanwhile. With a governor there it costs a
// mutex and a map access, and less for the host that was asked for last.
func (g *Group[S, C]) Get(host string) (*Governor[S, C], error) {
	return g.get(context.Background(), host)
}

// get is Get for who waits for another's call of Config no longer than ctx lasts.
func (g *Group[S, C]) get(ctx context.Context, host string) (*Governor[S, C], error) {
	if len(host) > maxHost {
		return nil, fmt.Errorf("governor: host of %d bytes, want at most %d", len(host), maxHost)
	}
	if l := g.recent.latest.Load(); l != nil && l.host == host && !l.gov.over() {
		if !l.again.Load() {
			l.again.Store(true)
		}
		return l.gov, nil
	}
	g.mu.Lock()
	for {
		m := g.hosts[host]
		switch {
		case g.closed:
			g.mu.Unlock()
			return nil, ErrClosed
		case m == nil && g.crowded():
			g.mu.Unlock()
			return nil, ErrTooManyHosts
		case m == nil && len(g.hosts) >= g.cfg.MaxHosts:
			if !g.makeRoom() {
				g.mu.Unlock()
				return nil, ErrTooManyHosts
			}
		case m == nil:
			m = &member[S, C]{host: strings.Clone(host)}
			g.hosts[m.host] = m
			g.recent.push(m)
		case m.making != nil:
			making := m.making
			g.mu.Unlock()
			if err := g.await(ctx, making); err != nil {
				return nil, err
			}
			return making.gov, making.err
		case m.gov == nil:
			m.making = &making[S, C]{done: make(chan struct{})}
			g.mu.Unlock()
			return g.make(m)
		case m.gov.over():
			g.forget(m, m.gov)
		default:
			gov := m.gov
			m.gets++
			g.recent.remove(m)
			g.recent.push(m)
			g.mu.Unlock()
			return gov, nil
		}
	}
}

// there returns the governor that host has, nil when it has none.
func (g *Group[S, C]) there(host string) *Governor[S, C] {
	g.mu.Lock()
	defer g.mu.Unlock()
	for {
		switch m := g.hosts[host]; {
		case m == nil || m.making == nil && (m.gov == nil || m.gov.over()):
			return nil
		case m.making == nil:
			return m.gov
		default:
			making := m.making
			g.mu.Unlock()
			err := g.await(context.Background(), making)
			if g.mu.Lock(); err != nil {
				return nil
			}
		}
	}
}

// await waits until m is made, and otherwise says why it does not: ctx has ended, or the
// Group is closed, when nobody waits for a Config any more.
func (g *Group[S, C]) await(ctx context.Context, m *making[S, C]) error {
	select {
	case <-m.done:
		return nil
	case <-ctx.Done():
		return &CanceledError{Cause: context.Cause(ctx), ctx: ctx.Err()}
	case <-g.shutting:
	}
	g.mu.Lock()
	soon := m.soon
	g.mu.Unlock()
	if !soon {
		return ErrClosed
	}
	<-m.done
	return nil
}

// over reports whether g was evicted, or closed by hand and has ended.
func (g *Governor[S, C]) over() bool {
	select {
	case <-g.done:
		return true
	default:
		return g.evicted()
	}
}

// make makes m's governor. m.making is the caller's.
func (g *Group[S, C]) make(m *member[S, C]) (gov *Governor[S, C], err error) {
	var cfg Config[S, C]
	making := m.making
	making.err = errors.New("governor: GroupConfig.Config did not return") // unless it does
	defer func() {
		g.mu.Lock()
		defer close(making.done)
		defer g.mu.Unlock()
		m.making = nil
		if gov == nil {
			if !m.remembers() {
				g.drop(m)
			}
			return
		}
		making.gov, making.err = gov, nil
		m.gov, m.kept, m.since = gov, nil, time.Now()
		if len(cfg.Restore.Cooldowns) > 0 {
			m.restored, m.given, m.exported = true, cfg.Restore.When, time.Now()
			if m.given.Before(m.exported) {
				m.exported = m.given
			}
		}
		m.asked = &asked[S, C]{host: m.host, gov: gov}
		for _, l := range g.listeners {
			if l.stops[gov.core] == nil { // it came since
				l.listen(gov.core)
			}
		}
		if g.timer == nil && !g.closed && g.cfg.IdleTimeout > 0 {
			g.timer = time.AfterFunc(g.period(), g.sweep)
		}
	}()
	cfg, err = g.cfg.Config(m.host)
	if err != nil {
		making.err = err
		return nil, err
	}
	if cfg.Name == "" {
		cfg.Name = m.host
	}
	g.mu.Lock()
	closed := g.closed
	making.soon = !closed
	g.mu.Unlock()
	if closed {
		making.err = ErrClosed
		return nil, ErrClosed
	}
	if when := cfg.Restore.When; m.restored && (when.Equal(m.given) || !when.After(m.exported)) {
		cfg.Restore.Cooldowns = nil // what the vendor, or Clear, has said since they were restored counts more
	}
	if m.kept != nil {
		cfg.Restore.Rates = nil // as does what was learned since
	}
	gov, err = newGovernor(cfg, func(c *core) {
		c.group, c.door.common = &inGroup{of: &membership[S, C]{g, m.host}}, g.common
		c.remember(m.kept)
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, l := range g.listeners { // before anything is told, as of what is restored
			l.listen(c)
		}
	})
	if err != nil {
		making.err = err
	}
	return gov, err
}

// Stats returns a snapshot of each governor, by name. Each is taken between two
// decisions of its governor.
func (g *Group[S, C]) Stats() []Stats {
	var all []Stats
	for _, gov := range g.All() {
		all = append(all, gov.Stats())
	}
	slices.SortFunc(all, func(a, b Stats) int { return strings.Compare(a.Name, b.Name) })
	return all
}
