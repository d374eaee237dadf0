package governor

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
)

// core is the governor without its type parameters. Its goroutine, the actor,
// runs loop and owns the fields that say so.
type core struct {
	settings
	gate gate
	door door
	bus  event.Bus
	pool connPool // nil: none

	wake chan struct{} // of one place: the actor has something to look at
	done chan struct{} // closed when the actor has ended and nothing is left

	// The actor's alone.
	sched    sched
	timers   heap[*request] // latest starts, backoffs, pauses of one request
	watches  watches
	fresh    []*request // added in this round; watched if they stay
	scopes   []*scope   // buffer for gate.news
	msgs     []message  // buffer for door.take
	noConn   laneList   // lanes that wait for the pool
	hostAt   int64      // nothing starts before; 0: no such time
	left     int        // requests that left the queue in this round
	backoffs int        // requests that wait in no lane
	minding  int        // waiting requests that have a latest start
	paused   bool
	stage    stage
	poolWait bool // a goroutine waits for the pool's end
	wasBusy  bool
	wasFull  bool

	nextStuck int64 // when the oldest running attempt may be stuck

	poolFreed atomic.Bool // the pool may have something again
	retime    atomic.Bool // a limit changed: lanes that wait for it must ask again

	// runMu guards the list of attempts from grant to release of the slot, in
	// order of grant. Nothing is called under it.
	runMu    sync.Mutex
	running  attempts
	stopping bool // Close has cancelled what ran; what is added later is cancelled at once

	life  lifecycle
	count counters
	waits histogram // from submission, or return to the queue, to start
	calls histogram // of closures
}

func (c *core) now() int64 { return int64(time.Since(c.gate.base)) }

// wakeUp makes the actor look. It never blocks.
func (c *core) wakeUp() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// loop is the actor.
func (c *core) loop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := c.now()
		c.receive(now)
		next := c.round(now)
		if c.ended() {
			return
		}
		timer.Stop()
		if next != forever {
			timer.Reset(time.Duration(max(0, next-c.now())))
		}
		select {
		case <-c.wake:
		case <-timer.C:
		}
	}
}

// receive handles what came through the door: submissions first, so that what
// anybody says after Submit (Cancel, Stats, SetMaxQueue) finds the request there.
func (c *core) receive(now int64) {
	r, msgs := c.door.take(c.msgs[:0])
	for r != nil {
		next := r.next
		r.next = nil
		c.arrive(r, now)
		r = next
	}
	for _, m := range msgs {
		switch m.kind {
		case msgBack:
			c.back(m.r, now)
		case msgCancel:
			if m.r.waiting {
				c.cancel(m.r)
			}
		case msgWatch:
			for m.w.head != nil {
				c.cancel(m.w.head)
			}
		case msgCommand:
			m.do()
		}
	}
	clear(msgs)
	if c.msgs = msgs[:0]; cap(msgs) > 1024 {
		c.msgs = nil
	}
}

// round does everything that can be done at now and returns when to look again.
func (c *core) round(now int64) int64 {
	if c.poolFreed.Swap(false) {
		c.sched.wakeAll(&c.noConn)
	}
	if c.retime.Swap(false) {
		c.sched.wakeTimed()
	}
	c.gate.tick(now, c.scopeEvent)
	c.tripped(now)
	c.news(now)
	c.expire(now)
	c.sched.tick(now)
	c.pump(now)
	due := c.news(now) // what has changed meanwhile
	for _, r := range c.fresh {
		if r.waiting && r.watch == nil {
			c.watches.add(r, c)
			c.emit(event.Event{Kind: event.Queued, Request: r.seq})
		}
	}
	clear(c.fresh)
	if c.fresh = c.fresh[:0]; cap(c.fresh) > 1024 {
		c.fresh = nil // a burst's buffer is not kept
	}
	c.door.left(c.left)
	c.left = 0
	c.moods()
	next := min(c.timers.next(), c.sched.timed.next(), due, c.stuck(now))
	if c.hostAt != 0 {
		next = min(next, c.hostAt)
	}
	return next
}

// news wakes the lanes parked on scopes that changed, and fails requests that a
// new end makes wait too long.
func (c *core) news(now int64) (next int64) {
	var later bool
	c.scopes, later, next = c.gate.news(c.scopes[:0], c.scopeEvent)
	for _, st := range c.scopes {
		c.sched.wakeAll(&st.parked)
	}
	if later {
		c.sweep(now)
	}
	clear(c.scopes)
	return next
}

// arrive takes a submitted request into its lane.
func (c *core) arrive(r *request, now int64) {
	if c.stage == closing || c.stage == draining && c.shutdownDrop {
		c.turnAway(r, ErrClosed) // it was in before the door closed
		return
	}
	ask := r.ask
	r.ask = nil
	c.count.submitted.Add(1)
	c.emit(event.Event{Kind: event.Submitted, Request: r.seq})
	key := laneKey{sel: r.sel, tenant: ask.Tenant, bucket: ask.Bucket, priority: int32(ask.Priority)}
	r.waiting = true
	l := c.sched.lane(key, c.maxKeys)
	if l == nil {
		c.turnAway(r, ErrTooManyKeys)
		return
	}
	c.join(l, r, true)
	sc := l.scopes()
	if err := c.hopeless(r, &sc, now); err != nil {
		c.drop(r, err)
		return
	}
	if c.overflow >= DropOldest && c.sched.n+c.backoffs > c.door.limit() {
		if c.pump(now); r.waiting && c.sched.n+c.backoffs > c.door.limit() { // what could start does not wait
			c.makeRoom(r)
		}
	}
}

// join puts r into lane l, as waiting.
func (c *core) join(l *lane, r *request, counted bool) {
	r.waiting, r.laned = true, true
	c.sched.add(l, r, counted)
	c.mind(r)
	c.fresh = append(c.fresh, r)
}

// hopeless returns why r need not wait: it would for too long, or could not
// start in time, or costs more than is ever to be had.
func (c *core) hopeless(r *request, sc *scopes, now int64) error {
	if r.cost > 1 {
		if _, wait := c.gate.limited(now, sc, int(r.cost), false); wait == limiter.Never {
			return ErrNeverAdmissible
		}
	}
	if c.breaker != nil && !c.breakerWait {
		if err := c.breaker.Ready(c.gate.time(now)); err != nil {
			return err
		}
	}
	return c.tooLong(r, c.gate.cooldown(sc), now)
}

// tooLong returns why r cannot wait for cd.
func (c *core) tooLong(r *request, cd cooldown, now int64) error {
	if cd.until == 0 {
		return nil
	}
	var last error
	if r.hist != nil {
		last = r.hist.err
	}
	switch {
	case c.maxWait >= 0 && cd.until-now > int64(c.maxWait):
		return &CooldownError{Scope: cd.scope, Until: c.gate.time(cd.until), Signal: cd.signal, Err: last}
	case cd.until >= r.startBy:
		return &LateError{By: c.gate.time(r.startBy), Could: c.gate.time(cd.until), Err: last}
	}
	return nil
}

// sweep fails the requests that a new cooldown makes wait too long. It looks at
// every lane, and into those in which anybody could mind.
func (c *core) sweep(now int64) {
	if !c.gate.word.held() {
		return
	}
	for _, l := range c.sched.lanes {
		sc := l.scopes()
		cd := c.gate.cooldown(&sc)
		if cd.until == 0 || c.minding == 0 && (c.maxWait < 0 || cd.until-now <= int64(c.maxWait)) {
			continue
		}
		for r := l.head; r != nil; {
			next := r.next
			if err := c.tooLong(r, cd, now); err != nil {
				c.drop(r, err)
			}
			r = next
		}
	}
}

// expire deals with requests whose time has come: a latest start, the end of a
// backoff.
func (c *core) expire(now int64) {
	for {
		r, ok := c.timers.due(now)
		if !ok {
			return
		}
		if r.hist != nil && !r.laned && r.hist.until <= now { // waited out
			c.rejoin(r, now)
			continue
		}
		c.drop(r, c.lateError(r))
	}
}

func (c *core) lateError(r *request) error {
	var last error
	if r.hist != nil {
		last = r.hist.err
	}
	return &LateError{By: c.gate.time(r.startBy), Err: last}
}

// pump starts what can be started. Every turn of the loop starts a request,
// ends one, or takes a lane out of turn.
func (c *core) pump(now int64) {
	c.hostAt = 0
	if c.paused || c.stage == closing {
		return
	}
	for l := c.sched.kept.head; l != nil && c.hostAt == 0; l = c.sched.kept.head {
		c.serve(l, now)
	}
	for c.hostAt == 0 {
		l := c.sched.ready.head
		if l == nil || c.gate.word.full(c.slots) {
			return
		}
		c.serve(l, now)
	}
}

// serve lets the head of l through the gate, or finds what stands in its way.
func (c *core) serve(l *lane, now int64) {
	r, sc := l.head, l.scopes()
	if err := r.cause(); err != nil {
		c.cancel(r)
		return
	}
	if st, until := c.gate.look(now, &sc); st != nil {
		c.hold(l, st, until)
		return
	}
	if c.breaker != nil {
		if err := c.breaker.Ready(c.gate.time(now)); err != nil {
			c.broken(r, err, now)
			return
		}
	}
	var ls lease
	pooled := c.pool != nil && !l.kept
	opening := pooled && !c.pool.idle(l.sel.value)
	if !c.affordable(l, &sc, r, now, opening) { // before the pool: reserving may steal
		return
	}
	if pooled {
		var ok bool
		if ls, ok = c.pool.reserve(l.sel.value); !ok {
			if err := c.pool.refusal(l.sel.value); err != nil {
				c.drop(r, err)
				return
			}
			c.emit(event.Event{Kind: event.PoolWait, Request: r.seq, Source: l.sel.name})
			if at := c.pool.notBefore(l.sel.value); !at.IsZero() && int64(at.Sub(c.gate.base)) > now {
				c.sched.parkUntil(l, &c.noConn, int64(at.Sub(c.gate.base)))
			} else {
				c.sched.park(l, &c.noConn)
			}
			return
		}
		opening = !ls.Ready()
	}
	a := c.attempt(r, l, sc, ls)
	if !c.gate.enter(now, &sc, a, opening) {
		// A signal came in between, or the idle connection went: look again.
		if ls != nil {
			ls.Release()
		}
		return
	}
	if l.kept {
		c.gate.word.queue(-1)
	} else {
		c.gate.word.grant(c.slots) // only the actor grants, and it saw a free slot
	}
	c.sched.turn(l)
	c.sched.remove(r, true)
	c.leave(r)
	c.start(a, now)
}

// affordable reports whether the limits admit r, and if not takes its lane, or
// everything, out of turn until they may.
func (c *core) affordable(l *lane, sc *scopes, r *request, now int64, opening bool) bool {
	per, wait := c.gate.limited(now, sc, int(r.cost), opening)
	switch {
	case wait == 0:
		return true
	case wait == limiter.Never:
		c.drop(r, ErrNeverAdmissible)
	case wait == untilOpened:
		c.sched.park(l, &c.noConn) // until one of those that open has started
	case per == throttle.Host:
		c.hostAt = add(now, wait)
		c.emit(event.Event{Kind: event.LimitRefused, Delay: wait})
	default:
		c.sched.until(l, add(now, wait))
		c.emit(event.Event{Kind: event.LimitRefused, Scope: sc[per].String(), Delay: wait})
	}
	return false
}

// hold takes l, or everything, out of turn until st changes or until.
func (c *core) hold(l *lane, st *scope, until int64) {
	switch {
	case st.key.Level == throttle.Host:
		c.hostAt = until // never park on the host: 100,000 lanes would have to be woken
	case until == forever:
		c.sched.park(l, &st.parked)
	default:
		c.sched.parkUntil(l, &st.parked, until)
	}
}

// tripped fails everything that waits when the breaker has opened.
func (c *core) tripped(now int64) {
	if c.breaker == nil || c.breakerWait || c.sched.n+c.backoffs == 0 {
		return
	}
	if err := c.breaker.Ready(c.gate.time(now)); err != nil {
		c.dropAll(err)
	}
}

// broken treats r before an open breaker.
func (c *core) broken(r *request, err error, now int64) {
	if !c.breakerWait {
		c.drop(r, err)
		return
	}
	after, _ := retry.RetryAfter(err)
	c.hostAt = add(now, max(time.Millisecond, min(time.Second, after)))
}

// cancel ends a waiting request whose context ended, or that was cancelled.
func (c *core) cancel(r *request) { c.drop(r, c.cancelError(r)) }

// drop takes a waiting request out of the queue and completes it with err, or
// because of it when an attempt was made before.
func (c *core) drop(r *request, err error) {
	err = c.because(r, err)
	if r.laned {
		c.sched.remove(r, false)
	} else {
		c.backoffs--
	}
	c.leave(r)
	c.end(r, err)
}

// turnAway completes a request from the inbox that gets no lane.
func (c *core) turnAway(r *request, err error) {
	c.sched.count(-1)
	c.left++
	c.end(r, err)
}

// end completes a request that is in the actor's hands.
func (c *core) end(r *request, err error) {
	resident := r.resident()
	c.finish(r, 0, err, true)
	if resident {
		r.hist.grant <- nil // has room: who waits there has been sent nothing else
	}
}

// leave undoes what waiting did to r, but for its lane.
func (c *core) leave(r *request) {
	r.waiting, r.laned = false, false
	if r.startBy != forever {
		c.minding--
	}
	c.timers.remove(r)
	c.watches.remove(r)
	c.left++
}

// freed says that the pool may have something for lanes that wait for it.
func (c *core) freed() {
	c.poolFreed.Store(true)
	c.wakeUp()
}

// back takes a request that has come back from an attempt.
func (c *core) back(r *request, now int64) {
	c.left-- // it waits again
	c.backoffs++
	r.waiting = true
	c.mind(r)
	h := r.hist
	if h != nil && h.attempts > 0 {
		r.enqueued = now
	}
	switch {
	case c.stage == closing, c.stage == draining && c.shutdownDrop:
		c.drop(r, c.stopError(r, ErrClosed))
	case r.cause() != nil: // said while the attempt was being settled
		c.cancel(r)
	case h == nil || h.until <= now:
		c.rejoin(r, now)
	case c.maxWait >= 0 && h.until-now > int64(c.maxWait):
		c.drop(r, &CooldownError{Scope: throttle.Scope{Level: throttle.Request}, Until: c.gate.time(h.until), Err: h.err})
	case h.until >= r.startBy:
		c.drop(r, &LateError{By: c.gate.time(r.startBy), Could: c.gate.time(h.until), Err: h.err})
	default:
		c.timers.fix(r)
		c.fresh = append(c.fresh, r)
	}
}

// mind counts a request that has a latest start, and sees to it that the actor
// wakes for it.
func (c *core) mind(r *request) {
	if r.startBy != forever {
		c.minding++
		if r.flags&ctxDeadline == 0 {
			c.timers.fix(r)
		}
	}
}

// rejoin puts a request that waited by itself back into its lane, at its place.
// It was accepted, so neither MaxKeys nor MaxQueue can refuse it now.
func (c *core) rejoin(r *request, now int64) {
	c.backoffs--
	if r.startBy != forever {
		c.minding-- // join minds it again
	}
	r.setState(Queued)
	key := r.lane.laneKey
	key.kept = r.hist != nil && r.hist.kept != nil
	l := c.sched.lane(key, forever)
	c.join(l, r, false)
	sc := l.scopes()
	if err := c.hopeless(r, &sc, now); err != nil {
		c.drop(r, err)
	}
}
