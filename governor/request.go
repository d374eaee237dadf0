package governor

import (
	"context"
	"sync"
	"time"
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
	val R // guarded by request.mu
}

// Result waits until the request is complete and returns its result. When ctx
// ends first it returns the cause, and the request goes on: leaving cancels
// nothing. A result that is there is returned whatever ctx's state. Called
// again it returns the same.
//
// Inside a closure of the same governor, for a request that has not started
// while no slot is spare, it returns ErrReentrant instead of waiting for itself.
func (r *Request[R]) Result(ctx context.Context) (R, error) {
	if err := r.wait(ctx); err != nil {
		var none R
		return none, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.val, r.err
}

// clear forgets the value of an attempt whose outcome was not final.
func (r *Request[R]) clear() {
	var none R
	r.val = none
}

// request is the plain core of every Request. It is linked into what it waits
// in, so that waiting costs no further memory. Its fields are in this order for
// its size's sake.
type request struct {
	task task
	ctx  context.Context
	sel  *selector // nil when refused before it had one

	// The actor's alone, from the moment the request is in the inbox until it
	// is granted, and then of the goroutine that runs the attempt, until that
	// hands it back through the door.
	ask          *Ask // nil once the request is in its lane
	lane         *lane
	prev, next   *request // in the lane; next also links the inbox
	watch        *watch   // of ctx, nil when it cannot end
	wprev, wnext *request // in the watch
	seq          uint64   // order of submission
	enqueued     int64    // when it was submitted, or came back
	startBy      int64    // latest start; forever when there is none
	hist         *history
	idx          int32 // in core.timers
	cost         int32
	flags        flags
	waiting      bool // in a lane, or in core.timers for its own sake: it counts towards MaxQueue
	laned        bool

	// mu guards what follows, and Request.val. Nothing is called under it.
	state     State
	cancelled bool
	mu        sync.Mutex
	att       *attempt // while one runs
	done      chan struct{}
	err       error
}

type flags uint8

const (
	noRetry flags = 1 << iota
	keepConn
	stream
	ctxDeadline // startBy is the context's deadline
)

// history is what a request that was attempted more than once, or failed to
// connect, remembers. A request that goes through at once has none, but that of
// a stream.
type history struct {
	attempts  int
	limited   int // by a rate limit, but for probes
	failed    int // otherwise
	opens     int
	first     int64         // start of the first attempt
	running   time.Duration // how long attempts ran
	submitted int64
	prev      time.Duration // last backoff
	err       error         // how the last attempt ended
	sent      bool          // an attempt ended otherwise than by a rate limit
	kept      *attempt      // under KeepConn: whose slot and connection it holds
	until     int64         // end of a backoff or a pause of its own

	// grant is for who waits on a goroutine of its own: a stream's caller, or
	// under KeepConn that of the last attempt.
	grant chan *attempt
}

// task is the typed half of a request.
type task interface {
	open(ctx context.Context, l lease) error
	run(a *attempt) error
	clear() // called under request.mu
}

// Done returns a channel that is closed when the request is complete.
func (r *request) Done() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done == nil {
		r.done = make(chan struct{})
		if r.state == Done {
			close(r.done)
		}
	}
	return r.done
}

// State returns where the request is now.
func (r *request) State() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// Cancel cancels the request as the end of its context would: a waiting one
// leaves the queue and completes with a *CanceledError that matches
// context.Canceled; a running one has its context cancelled and completes when
// its closure returns. A request that is done stays as it is. Cancel returns at
// once and may be called again.
func (r *request) Cancel() {
	r.mu.Lock()
	if r.state == Done || r.cancelled {
		r.mu.Unlock()
		return
	}
	r.cancelled = true
	a := r.att
	r.mu.Unlock()
	if a != nil {
		a.cancel(context.Canceled)
		return
	}
	c := r.sel.core
	c.door.post(message{kind: msgCancel, r: r})
	c.wakeUp()
}

// complete gives the request its result. own says that err is the governor's,
// so that no value of an earlier attempt goes with it. It reports false when
// the request was complete already.
func (r *request) complete(err error, own bool) bool {
	r.mu.Lock()
	if r.state == Done {
		r.mu.Unlock()
		return false
	}
	r.state, r.err, r.att = Done, err, nil
	if own && r.task != nil {
		r.task.clear()
	}
	done := r.done
	r.mu.Unlock()
	if done != nil {
		close(done)
	}
	return true
}

func (r *request) setState(s State) {
	r.mu.Lock()
	if r.state != Done {
		r.state = s
	}
	r.mu.Unlock()
}

// wait blocks until the request is done or ctx is.
func (r *request) wait(ctx context.Context) error {
	if ctx == nil {
		return ErrNilContext
	}
	r.mu.Lock()
	state := r.state
	r.mu.Unlock()
	if state == Done {
		return nil
	}
	c := r.sel.core
	if a := attemptOf(ctx, c); a != nil && (a.r == r || state != Running && c.spent(r.sel)) {
		return ErrReentrant
	}
	done := r.Done()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-done: // both: the result wins
		return nil
	default:
		return context.Cause(ctx)
	}
}

// resident reports whether somebody waits at hist.grant.
func (r *request) resident() bool {
	return r.flags&stream != 0 || r.hist != nil && r.hist.kept != nil
}

// history returns r's, made when it has none.
func (r *request) history() *history {
	if r.hist == nil {
		r.hist = &history{submitted: r.enqueued}
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

// cause returns why the request is cancelled, nil when it is not.
func (r *request) cause() error {
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cancelled {
		return context.Canceled
	}
	return nil
}

// when is the end of a backoff for a request that is in no lane, and otherwise
// the latest start, unless that is its context's deadline: then its watch tells.
func (r *request) when() int64 {
	at := r.startBy
	if r.flags&ctxDeadline != 0 {
		at = forever
	}
	if !r.laned && r.hist != nil {
		at = min(at, r.hist.until)
	}
	return at
}

func (r *request) place() *int32 { return &r.idx }
