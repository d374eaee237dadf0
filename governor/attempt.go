package governor

import (
	"context"
	"runtime/debug"
	"sync"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/internal/current"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
)

// attempt is one run of a closure, from the grant to the release of its slot.
// It is the context that the closure is given, which is how Hold, and whoever
// asks later, finds it.
//
// It belongs to the goroutine that runs the closure, but for what mu guards and
// for the links, which its list's mutex guards.
//
// Every call that is not inline makes one, so it has no field for what only some
// attempts need: see trouble. Its size is tested.
type attempt struct {
	life lifetime
	out  outcome

	core    *core
	r       *request
	key     *lane
	class   class   // that of key, and the way from the request to its attempt
	passes  *passes // nil: none
	lease   lease
	permit  breaker.Permit
	trouble *trouble // nil: none
	last    *error   // of the attempt before; nil: there is none

	cost    int32
	waited  int32  // see debt
	n       int    // number of the attempt within the request, from 1
	seq     uint64 // of its start; 0: it has not started
	granted int64
	began   int64 // start of the closure: the gate's last look
	over    int64 // its end
	taken   int64 // when the limits were charged

	prev, next *attempt // in core.attempts

	prompt    bool // granted just now, on this goroutine
	opening   bool // its cost counts in gate.opening; under gate.mu once granted
	charged   bool // the limits were, and are to be settled; under gate.mu once granted
	lax       bool // the limits were not asked, and are to be told
	probe     bool
	permitted bool // permit is held
	bad       bool // the connection is broken, says the pool
	body      bool // a stream's loop body runs
	final     bool // the vendor wants no retry
	back      bool // the request went on waiting
	read      bool // the adapter has found something in its error
	reported  bool // as stuck; guarded by its list's mutex

	// mu guards what follows.
	ended   bool // the closure returned
	metered bool // used is known
	mu      sync.Mutex
	used    int32  // what it truly cost
	holds   int32  // outstanding holds
	held    *error // what the first release that had an error was told; nil: none had
}

// trouble is what an attempt has that did not go well.
type trouble struct {
	midway  error            // why its context ended while the closure ran
	gone    bool             // because the request was cancelled
	stalled bool             // a stream's loop took too long for an item
	asked   time.Duration    // of that, what the closure did by Again
	pause   time.Duration    // that the vendor, or the closure by Again, asked of this request alone
	signal  *throttle.Signal // by which the vendor did; nil: it did not
	keeper  Keeper           // what the closure returned, of a call of Held, whose lease follows; else nil
	lease   *Lease
}

// ill returns a's trouble, made when it has none.
func (a *attempt) ill() *trouble {
	if a.trouble == nil {
		a.trouble = new(trouble)
	}
	return a.trouble
}

// ails is what ill says, for who only reads it.
func (a *attempt) ails() *trouble {
	if a.trouble == nil {
		return &noTrouble
	}
	return a.trouble
}

var noTrouble trouble // never written

// token finds the attempt in a context.
type token struct{}

// AttemptInfo is for retry.FromContext. What it reads is not written after the
// closure began.
func (a *attempt) AttemptInfo() retry.Info {
	info := retry.Info{Attempt: a.n, Started: a.core.gate.time(a.began)}
	if a.last != nil {
		info.Last = *a.last
	}
	return info
}

// attemptOf returns c's attempt whose closure was given ctx or an ancestor of
// it and has not returned, or holds something still; nil if there is none.
func attemptOf(ctx context.Context, c *core) *attempt {
	for ctx != nil {
		var a *attempt
		switch v := ctx.Value(token{}).(type) {
		case *attempt:
			a = v
		case *opening: // a call that Pool.Open makes waits with what its attempt has
			a = v.of
		case *inlineCall: // over
			ctx = v.Context // an inlineCall's
			continue
		default:
			return nil
		}
		if a.core == c && a.runs() {
			return a
		}
		ctx = a.r.ctx // over, or of another governor: look further out
	}
	return nil
}

// runs reports whether the closure has not returned, or has its slot still.
func (a *attempt) runs() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.isOver()
}

// attempt makes the attempt that r is about to be granted.
func (c *core) attempt(r *request, l *lane, ls lease) *attempt {
	a := r.task.room()
	if a == nil {
		a = new(attempt)
	}
	a.core, a.r, a.key, a.lease, a.cost, a.n = c, r, l, ls, int32(r.price()), 1
	if r.hist != nil {
		a.n = r.hist.attempts + 1
		if k := r.hist.kept; k != nil {
			a.lease = k.lease
		}
	}
	return a
}

// start hands a to the goroutine that runs it: a worker of the first crew, unless
// somebody waits for it.
func (c *core) start(a *attempt, now int64) {
	c.wasBusy = true // it may be over before the moods are looked at
	a.granted = now
	a.class = class{a.key, a}
	a.r.class.Store(&a.class)
	resident := a.r.resident()
	if c.track(a, resident); resident {
		if a.r.hist != nil {
			a.r.hist.kept = nil
		}
		a.r.send(granted)
	}
}

// try runs one attempt. Under KeepConn it waits for the grant of the next one,
// and returns that.
func (c *core) try(a *attempt) (next *attempt) {
	defer func() { next = c.settle(a) }() // also when the closure ends the goroutine
	c.run(a)
	return nil
}

// run brings a to its closure, and calls it if nothing speaks against that.
func (c *core) run(a *attempt) {
	a.out = c.prepare(a)
	if a.out.kind == ran {
		a.out.kind = exited // until it returns
		a.call()
	}
}

// outcome is how an attempt ended.
type outcome struct {
	kind outcomeKind
	err  error
}

// said is what a closure that polls has returned.
func (o outcome) said() error { return o.err.(*pending).err }

type outcomeKind uint8

const (
	exited    outcomeKind = iota // the goroutine is ending: Goexit
	ran                          // the closure returned err
	polled                       // the closure asked to be called again after trouble.pause; err is for who gives up
	panicked                     // the closure panicked; err is a *PanicError
	undone                       // it did not start: the gate closed meanwhile
	unopened                     // it did not start: err says why there is no connection
	cancelled                    // it did not start: the request was cancelled
	broken                       // it did not start: the breaker is open, says err
	late                         // it did not start: its latest start has passed
)

// prepare brings a to the start of its closure: connection, limits, breaker, and
// last the commit. The kind of its outcome is ran when the closure must be
// called.
func (c *core) prepare(a *attempt) outcome {
	r := a.r
	if r.status.state() != Running { // else who granted it has said so
		r.mu.Lock()
		gone := r.status.has(cancelAsked) || r.status.state() == Done
		if !gone {
			r.status.move(Running, 0) // from here on Cancel cancels a
		}
		r.mu.Unlock()
		if gone {
			return outcome{kind: cancelled}
		}
	}
	if a.lease != nil {
		if err := c.connect(a); err != nil {
			switch {
			case a.Err() != nil:
				return outcome{kind: cancelled}
			case c.now() >= r.startBy():
				return outcome{kind: late}
			}
			return outcome{unopened, err}
		}
	}
	if a.opening {
		ok := c.gate.charge(c.now(), a)
		c.freed() // lanes may have waited for this opening to become a start
		if !ok {
			return outcome{kind: undone}
		}
	}
	if c.breaker != nil {
		p, err := c.breaker.Acquire(time.Now())
		switch {
		case err == nil:
			a.permit, a.permitted = p, true
		case c.observe:
			c.foreseeBroken(r, err)
		default:
			return outcome{broken, err}
		}
	}
	if a.Err() != nil {
		return outcome{kind: cancelled}
	}
	if a.prompt && c.breaker == nil && r.flags&dated == 0 {
		a.began = a.granted
	} else if a.began = c.now(); a.began > r.startBy() {
		return outcome{kind: late}
	}
	if limit := c.cutOff(); limit > 0 {
		a.expire(add(a.began, limit))
	}
	if !c.gate.commit(a) {
		a.seq = 0
		return outcome{kind: undone}
	}
	return outcome{kind: ran}
}

// connect makes the connection ready, until the latest start.
func (c *core) connect(a *attempt) error {
	ctx := context.Context(a)
	if !a.lease.Ready() {
		ctx = &opening{a, a}
		if by := a.r.startBy(); by != forever {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, c.gate.shown(by))
			defer cancel()
		}
	}
	return a.r.task.open(ctx, a.lease)
}

// opening is the context of Pool.Open: no closure runs yet that could Report, Settle or
// Hold, or whose attempt retry.FromContext could tell.
type opening struct {
	context.Context
	of *attempt
}

func (o *opening) Value(key any) any {
	switch key {
	case token{}:
		return o
	case current.Key{}:
		return nil
	}
	return o.Context.Value(key)
}

// call runs the closure.
func (a *attempt) call() {
	c := a.core
	if err := a.r.last(); err != nil {
		last := err // so that only an error costs an allocation
		a.last = &last
	}
	c.count.started.Add(1)
	if c.retry != nil {
		c.retry.Budget.Begin()
	}
	c.waits.add(a.began - a.r.enqueued)
	c.emitFor(a.r, event.Started, a.n, time.Duration(a.began-a.r.enqueued), nil)
	if a.probe {
		c.emitFor(a.r, event.Probe, a.n, 0, nil)
	}
	defer func() {
		if a.out.kind != exited || a.body {
			return // it returned, or it is a loop's body, on its own goroutine, that ends: not ours to stop
		}
		if v := recover(); v != nil {
			a.out = outcome{panicked, &PanicError{v, debug.Stack()}}
		}
	}()
	err := a.r.task.run(a)
	a.out = a.answer(err)
}
