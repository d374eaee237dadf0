package governor

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flyball-go/flyball/throttle"
)

// State says where a request is.
type State uint8

const (
	Queued  State = iota // waiting in its lane, for a slot, a cooldown or a limit
	Waiting              // waiting out a backoff, or its own pause
	Running              // its closure runs, or its connection is being opened
	Done                 // it has its result
)

// String returns the state's name in lower case.
func (s State) String() string {
	return [...]string{"queued", "waiting", "running", "done"}[min(s, Done)]
}

// Request is a submitted closure and its future result. It may be used by any
// number of goroutines; dropping it loses the result and nothing else.
type Request[R any] struct {
	request
	val R // as request.hist.result, but for one that was abandoned: that has none
}

// result is what a request has come to that is done.
func (r *Request[R]) result() (v R, err error) {
	if err = r.failure(); !r.status.has(abandoned) {
		v = r.val
	}
	return v, err
}

// clear forgets the value of an attempt whose outcome was not final.
func (r *Request[R]) clear() {
	var none R
	r.val = none
}

// request is the plain core of every Request. It is linked into what it waits
// in, so that waiting costs no further memory. A million may wait: what only
// some of them need is in hist, and the order of the fields is for their size.
type request struct {
	task task
	ctx  context.Context

	// class says what was asked for; nil when refused before that was known. The
	// actor replaces it by the lane's own, so that all of a lane share one.
	class atomic.Pointer[class]

	// The actor's alone, from the moment the request is in the inbox until it
	// is granted, and then of the goroutine that runs the attempt, until that
	// hands it back through the door.
	watch        *watch   // of ctx, nil when it cannot end
	wprev, wnext *request // in the watch
	prev, next   *request // in the lane; next also links the inbox
	seq          uint64   // order of submission
	enqueued     int64    // when it was submitted, or came back
	hist         *history // nil until it is needed
	small        uint16   // what it costs, or large
	flags        flags
	place        place

	status status // written under mu, once others know of the request
	mu     sync.Mutex
	done   chan struct{} // nil until somebody asks for it; see listen, too. Guarded by mu
}

// large says that a cost is hist.cost.
const large = math.MaxUint16

// price is what r costs.
func (r *request) price() int {
	if r.small == large {
		return int(r.hist.cost)
	}
	return int(r.small)
}

// status is a request's State, in the lowest byte, and its marks. It is read without
// request.mu, too. Nothing is called under that.
//
// Done is set by who has the request and has written what it has come to, which is not
// written any more: who sees Done finds it there. Close alone sets it for others, with the
// mark abandoned, and then nobody reads what they write.
type status struct{ v atomic.Uint32 }

func (s *status) state() State           { return State(s.v.Load()) }
func (s *status) has(m marks) bool       { return s.v.Load()&uint32(m) != 0 }
func (s *status) mark(m marks)           { s.v.Store(s.v.Load() | uint32(m)) }
func (s *status) unmark(m marks)         { s.v.Store(s.v.Load() &^ uint32(m)) }
func (s *status) move(to State, m marks) { s.v.Store(s.v.Load()&^0xff | uint32(to) | uint32(m)) }

// flags are what a request was submitted with.
type flags uint8

const (
	noRetry flags = 1 << iota
	keepConn
	stream
	dated       // it has a latest start: hist.startBy, or
	ctxDeadline // its context's deadline
	paid        // of one that was launched: the limits were charged
	toldLimit   // that a limit keeps it back; the actor's, until it is granted
	toldPool    // that it waits for a connection; likewise
)

// first reports whether f was not set, and sets it.
func (r *request) first(f flags) bool {
	was := r.flags&f != 0
	r.flags |= f
	return !was
}

// place is where the actor keeps a request, and whether it came as a guest.
type place uint8

const (
	nowhere place = iota // in the inbox, with an attempt, or done
	inLane
	inTimers // alone: it waits out a backoff, or its own pause

	// Beside one of these:
	asGuest place = 1 << 7 // until it starts; see door.enter
	beyond  place = 1 << 6 // the door is to be told when it is done; see door.over
)

// is reports whether r is at p, and moves puts it there.
func (r *request) is(p place) bool { return r.place&^(asGuest|beyond) == p }
func (r *request) moves(p place)   { r.place = r.place&(asGuest|beyond) | p }

// waiting reports whether the request is in the actor's queue.
func (r *request) waiting() bool { return !r.is(nowhere) }

// marks are what happened to a request.
type marks uint32

const (
	cancelAsked marks = 1 << (8 + iota) // by Cancel
	hasError                            // its error is hist.result
	abandoned                           // its error is ErrAbandoned; hist may still be in use
	chimed                              // done is a chime
	granted                             // and class has the attempt; news for who waits for grants
	ended                               // news, too: no grant comes any more
	launching                           // it has a slot, and its worker has not begun
)

// history is what a request remembers that has a latest start of its own, was
// attempted more than once, or failed.
type history struct {
	r         *request
	startBy   int64
	idx       int32 // in core.timers
	slot      int32 // in lane.returned or lane.begun
	attempts  int
	limited   int // by a rate limit, but for probes
	probes    int // refused as the probe
	failed    int // otherwise
	opens     int
	first     int64         // start of the first attempt
	running   time.Duration // how long attempts ran
	submitted int64
	prev      time.Duration // last backoff
	repeats   atomic.Bool   // a repetition is taken from the retry budget
	err       error         // how the last attempt ended
	last      int           // the last attempt's number
	heard     bool          // the adapter has found something in how that ended, or it was a poll

	guesses int              // of how long it is to pause, since an attempt was not refused
	sent    bool             // an attempt ended otherwise than by a rate limit
	polls   int              // attempts that asked by Again for the next; the rest counts from the last of them
	kept    *attempt         // under KeepConn: whose slot and connection it holds
	until   int64            // end of a backoff or a pause of its own
	signal  *throttle.Signal // by which the vendor asked for that; nil: it did not
	cost    int32            // of the request, if it is large
	result  error            // of the request; written before that is done, and read after

	// bell is that of the worker of the last attempt, which waits under KeepConn.
	bell chan struct{}

	polled bool   // it waits for what its last attempt asked for by Again
	aside  bool   // it is to be put behind the others of its lane
	yields bool   // behind the first of those that have not been begun, or of all if there is none
	order  uint64 // its place there, as if it had been submitted then; 0: when it was
}

// begun reports whether an attempt was made.
func (h *history) begun() bool { return h.attempts > 0 || h.polls > 0 }

// When and Index are for lane.returned and lane.begun.
func (h *history) When() int64   { return int64(h.r.order()) }
func (h *history) Index() *int32 { return &h.slot }

// task is the typed half of a request.
type task interface {
	open(ctx context.Context, l lease) error
	run(a *attempt) error
	clear()     // forgets the value
	completed() // the request is done; called under no lock, on any goroutine

	awaited() bool // somebody waits for grants on a goroutine of its own

	room() *attempt // for the next attempt, zero; nil: there is none
}

// flight is the task of a request that was launched.
type flight interface {
	land(c *core)      // puts it where others find it, before its worker has it
	begin(c *core)     // runs it on a worker
	call() *inlineCall // that it is
}

func (r *request) completed() {}

func (r *request) awaited() bool { return false }

func (r *request) room() *attempt { return nil }

// State returns where the request is now.
func (r *request) State() State {
	return r.status.state()
}

// Cancel cancels the request as the end of its context would: a waiting one
// leaves the queue and completes with a *CanceledError that matches
// context.Canceled; a running one has its context cancelled and completes when
// its closure returns. A request that is done stays as it is. Cancel returns at
// once and may be called again.
func (r *request) Cancel() {
	r.mu.Lock()
	if r.status.state() == Done || r.status.has(cancelAsked) {
		r.mu.Unlock()
		return
	}
	r.status.mark(cancelAsked)
	if r.status.has(launching) { // begin sees the mark
		r.mu.Unlock()
		return
	}
	running := r.status.state() == Running
	r.mu.Unlock()
	c := r.core()
	switch a := r.class.Load().att; {
	case running && a != nil:
		a.cancel(context.Canceled)
		return
	case running:
		if t, ok := r.task.(flight); ok {
			t.call().cancel(context.Canceled)
		}
		return // else it is just coming back, and back sees the mark
	}
	c.door.post(message{kind: msgCancel, r: r})
	c.wakeUp()
}

// complete gives the request its result. own says that err is the governor's,
// so that no value of an earlier attempt goes with it. It reports false when
// the request was complete already. Only ErrAbandoned may come from a goroutine
// that the request does not belong to. count, if any, is raised before anybody can have
// the result.
func (r *request) complete(err error, own bool, count *atomic.Uint64) bool {
	r.mu.Lock()
	if r.status.state() == Done {
		r.mu.Unlock()
		return false
	}
	if count != nil {
		count.Add(1)
	}
	how := marks(0)
	switch {
	case own && err == ErrAbandoned: // not an inner governor's
		how = abandoned
	case err != nil:
		how = hasError
		r.history().result = err
	}
	done, task, chime := r.done, r.task, r.status.has(chimed)
	if own && task != nil && how != abandoned {
		task.clear()
	}
	if chime {
		r.status.unmark(chimed)
		r.done = nil
	}
	r.status.move(Done, how)
	r.mu.Unlock()
	switch {
	case chime:
		done <- struct{}{} // has room
	case done != nil && (task == nil || !task.awaited()): // else it is a bell
		close(done)
	}
	if task != nil {
		task.completed()
	}
	return true
}

// failure is the error that a request has come to that is done.
func (r *request) failure() error {
	switch p := r.status.v.Load(); {
	case p&uint32(abandoned) != 0:
		return ErrAbandoned
	case p&uint32(hasError) != 0:
		return r.hist.result
	}
	return nil
}

func (r *request) setState(s State) {
	r.mu.Lock()
	if r.status.state() != Done {
		r.status.move(s, 0)
	}
	r.mu.Unlock()
}

// history returns r's, made when it has none.
func (r *request) history() *history {
	if r.hist == nil {
		r.hist = &history{r: r, submitted: r.enqueued}
	}
	return r.hist
}

// last returns how the last attempt ended, nil when there was none.
func (r *request) last() error {
	if r.hist == nil {
		return nil
	}
	return r.hist.err
}

// read reports whether the adapter has found anything in that.
func (r *request) read() bool { return r.hist != nil && r.hist.heard }

// cause returns why the request is cancelled, nil when it is not.
func (r *request) cause() error {
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	if r.status.has(cancelAsked) {
		return context.Canceled
	}
	return nil
}

// order is the request's place in its lane: twice its number, so that there is room
// for those that did not come through the door.
func (r *request) order() uint64 {
	if r.hist != nil && r.hist.order != 0 {
		return r.hist.order
	}
	return 2 * r.seq
}

func (r *request) sel() *selector { return r.class.Load().sel }
func (r *request) core() *core    { return r.class.Load().sel.core }
func (r *request) lane() *lane    { return r.class.Load().lane } // the one asked for, until it is in one

// startBy is the latest start, forever when there is none.
func (r *request) startBy() int64 {
	switch {
	case r.flags&ctxDeadline != 0:
		if d, ok := r.ctx.Deadline(); ok {
			return r.core().gate.ns(d)
		}
	case r.flags&dated != 0:
		return r.hist.startBy
	}
	return forever
}

// lateAt reports whether r may not start at that time: it may at the very moment of
// its latest start, unless its context ends then.
func (r *request) lateAt(at int64) bool {
	by := r.startBy()
	return at > by || at == by && r.flags&ctxDeadline != 0
}
