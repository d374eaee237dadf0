package governor

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor/internal/sched"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/throttle"
)

// Governor governs the calls to one external host. S is the type of connection
// selectors, C that of connections. Make one with New; its other methods are
// those of Handle.
//
// A Governor may be used by any number of goroutines at once, and must be
// closed.
type Governor[S comparable, C any] struct {
	*core
	ask   Ask
	names *names[S]
	conns *pool.Pool[S, C] // nil: none; core.pool is the same
}

// Plain is a governor without connections of its own: its closures are made
// with Func, and its selectors are names or "".
type Plain = Governor[string, struct{}]

// PlainConfig is the Config of a Plain governor.
type PlainConfig = Config[string, struct{}]

// New returns a running governor, or an error that names the field of cfg that
// is wrong and its value.
func New[S comparable, C any](cfg Config[S, C]) (*Governor[S, C], error) {
	return newGovernor(cfg, func(*core) {})
}

// newGovernor is New; join is called before the actor begins.
func newGovernor[S comparable, C any](cfg Config[S, C], join func(*core)) (*Governor[S, C], error) {
	s, err := cfg.settings()
	if err != nil {
		return nil, err
	}
	c := &core{settings: s, done: make(chan struct{})}
	c.unnamed = c.weigh("")
	c.dry.exact = exact(reflect.TypeFor[S]())
	if c.queue.Ageing = float64(max(0, cfg.Ageing)); cfg.Ageing == 0 {
		c.queue.Ageing = float64(30 * time.Second)
	}
	var conns *pool.Pool[S, C]
	if cfg.Pool != nil {
		pc := *cfg.Pool
		pc.OnEvent = c.poolEvents(pc.OnEvent)
		p, err := pool.New(pc)
		if err != nil {
			s.shared.end()
			return nil, fmt.Errorf("governor: Config.Pool: %w", err)
		}
		conns, c.pool = p, pooled[S, C]{p}
		c.slots = min(c.slots, p.Max())
	}
	join(c)
	c.open()
	return &Governor[S, C]{core: c, names: &names[S]{m: make(map[S]*named[S]), most: s.maxKeys, sweep: 64}, conns: conns}, nil
}

// open starts the actor.
func (c *core) open() {
	c.wake = make(chan struct{}, 1)
	c.nextStuck = forever
	c.watches = make(watches)
	c.queue.Count = c.gate.word.recount
	if c.overflow >= DropOldest {
		c.queue.Elders = sched.NewElders()
	}
	c.crews = crews()
	c.attempts = make(attempts, len(c.crews))
	g := &c.gate
	g.base = time.Now()
	g.slots, g.maxKeys, g.patient = c.slots, c.maxKeys, c.probePatience
	g.guess, g.minG, g.maxG, g.limits = c.guess, c.minCooldown, c.maxGuess, c.limits
	g.observe = c.observe
	g.table = make(map[throttle.Scope]*scope)
	g.opening = make(map[throttle.Scope]underway)
	g.seq.Store(1) // 0 is no start
	g.cells = &c.cells
	c.cells.open()
	g.relaxed = allLax(c.limits)
	if len(c.limits) == 1 && c.limits[0].Per == throttle.Host && !c.limits[0].releases {
		g.alone, _ = c.limits[0].Limiter.(*limiter.Bucket) // not what embeds one, and has its TryTake whatever else it changes
	}
	g.relax()
	c.actorOnly = actorOnly
	c.door.most.Store(int64(c.maxQueue))
	c.door.slots, c.door.overflow, c.door.word = c.slots, c.overflow, &g.word
	for _, l := range c.limits {
		if n, ok := l.Limiter.(limiter.Notifier); ok {
			n.OnChange(func() { c.retime.Store(true); c.wakeUp() })
		}
	}
	if c.pool != nil {
		c.pool.onFree(c.freed)
	}
	c.bus.Keep(256, kept...)
	if c.logger != nil {
		c.bus.Listen((&logbook{logger: c.logger, name: c.name}).write, logged...)
	}
	if b, ok := c.breaker.(interface {
		OnChange(fn func(event.Event)) (stop func())
	}); ok {
		c.unwatch = b.OnChange(func(e event.Event) {
			c.emit(e)
			c.wakeUp() // it may have been changed by hand, or by another's calls
		})
	}
	if c.restore != nil {
		c.resume(c.restore)
		c.restore = nil
	}
	if c.shared != nil {
		c.shared.leave = c.shared.store.Join(sharer{c})
	}
	go c.loop()
}

// allLax returns the limits as Lax ones, nil if one of them is not.
func allLax(limits []limit) (lax []limiter.Lax) {
	for _, l := range limits {
		x, ok := l.Limiter.(limiter.Lax)
		if !ok {
			return nil
		}
		lax = append(lax, x)
	}
	return lax
}

// With returns a view of g whose requests have the given Ask. It is the same
// governor: closing the view closes g. It costs one small allocation.
func (g *Governor[S, C]) With(ask Ask) *Governor[S, C] {
	return &Governor[S, C]{core: g.core, ask: ask, names: g.names, conns: g.conns}
}

// Vendor returns Config.Vendor.
func (g *Governor[S, C]) Vendor() Vendor { return g.vendor }

// reentrant reports whether a call that would wait for a slot to use sel, or for a
// limit, could wait for itself; see spent and runsInto.
func (g *Governor[S, C]) reentrant(ctx context.Context, sel S) bool {
	if ctx == nil {
		return false
	}
	if g.evicted() {
		g, _ = g.successor(ctx) // where it will be submitted to
	}
	if attemptOf(ctx, g.core) == nil {
		return false
	}
	s, err := g.names.get(sel, g.core)
	if err != nil {
		return g.core.spent(nil)
	}
	defer s.refs.Add(-1)
	return g.core.spent(s) || g.core.runsInto(ctx, s.lane(&g.ask, 0), int(g.ask.cost()))
}

// spent reports whether no slot, or no connection for sel, is spare. A call that
// waits inside a closure is refused then: so of all closures that wait like this
// the last to begin is refused, and some closure always goes on.
func (c *core) spent(sel *selector) bool {
	return c.filled() || c.pool != nil && sel != nil && c.pool.full(sel.value)
}

// filled reports whether all slots are in use. A slot that the actor just takes out of
// an idle cell is in none, and still counted: so it is the actor that says yes.
func (c *core) filled() (yes bool) {
	if c.taken() < c.slots {
		return false
	}
	c.ask(func() { yes = c.taken() >= c.slots })
	return yes
}

// runsInto reports whether a call that asks for l and costs n, inside a closure that ctx
// is of, would have to wait for permits that come back when a call ends, of a limit that
// the closure holds some of: for its own, or for those of who waits before it.
func (c *core) runsInto(ctx context.Context, l *lane, n int) bool {
	if c.observe {
		return false
	}
	sc, held := l.scopes(), uint8(0)
	for a := attemptOf(ctx, c); a != nil; a = attemptOf(a.r.ctx, c) {
		theirs := a.scopes()
		levels, short := c.gate.shared(c.now(), &sc, &theirs, n)
		if short {
			return true
		}
		held |= levels
	}
	return held != 0 && c.waitedFor(&sc, held)
}

// waitedFor reports whether somebody who would start before a call of sc waits for
// permits of a limit of the given levels that come back when a call ends.
func (c *core) waitedFor(sc *scopes, levels uint8) (yes bool) {
	c.settled() // who has come a moment ago may wait, too
	c.ask(func() {
		for i := range sc {
			if levels&(1<<i) == 0 {
				continue
			}
			if l := c.ahead(sc[i]); l != nil {
				theirs := l.scopes()
				yes = yes || c.gate.keeps(c.now(), &theirs, l.first().price(), throttle.Level(i))
			}
		}
	})
	return yes
}

// ahead returns the lane that is the next of those that wait for sc, nil if none does.
func (c *core) ahead(sc throttle.Scope) *lane {
	if sc.Level > throttle.Host {
		return c.queue.ahead(sc)
	}
	if c.hostAt != 0 {
		return c.queue.next(false)
	}
	return nil
}
