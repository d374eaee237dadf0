package httpx

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/flyball-go/flyball/governor"
)

// RoundTrip implements http.RoundTripper; see Transport.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := t.check(req); err != nil {
		closeBody(req)
		return nil, err
	}
	x := &exchange{Context: req.Context(), t: t, req: req}
	if err := x.prepare(); err != nil {
		closeBody(req)
		return nil, err
	}
	host := hostOf(req)
	g, err := t.governor(host)
	if err != nil {
		return x.ended(nil, err)
	}
	return x.ended(governor.Held(x, g, host, &x.lease, send))
}

// check says why req cannot be sent at all.
func (t *Transport) check(req *http.Request) error {
	switch {
	case t.invalid != nil:
		return t.invalid
	case req.URL == nil:
		return errors.New("httpx: nil Request.URL")
	case req.URL.Host == "":
		return errors.New("httpx: no Host in request URL")
	}
	return nil
}

// exchange is one request on its way, and all there is of it: the context of its
// attempts, by which they find it; the lease of the last one; and, as a
// body, what its caller reads.
type exchange struct {
	context.Context // the request's, or one that ends with Config.Timeout
	t               *Transport
	req             *http.Request
	retry           *Retry
	cancel          context.CancelFunc // of the timeout; nil: none
	lease           governor.Lease
	closing         atomic.Bool // the caller wants no more of the body
	heeded          atomic.Bool // somebody is told of the end of a context of x's

	attempt context.Context // of the last attempt, set by it
	unwatch func() bool     // of attempt's end, see watch; nil: it is not watched. Set before hasAnswer is

	// state is atomic, for when a governor is closed by force RoundTrip returns while
	// an attempt still runs. Then the body of an answer is nobody's, and of the two
	// the one that comes second to state, which sees the other's bit, closes it.
	state atomic.Uint64
	real  io.ReadCloser // what body reads, of the last attempt; set before hasAnswer is

	// mu guards what follows, which only attempts that fail have.
	mu     sync.Mutex
	failed int            // how many have, otherwise than by a limit
	last   *http.Response // of the attempt that failed last
}

// What an exchange's state says, and counts.
const (
	hasReturned = 1 << iota // RoundTrip
	hasAnswer               // an attempt, with a body that is to be read
	oneAttempt              // of those that have begun
)

// Done is asked by whoever makes a context of x's that ends, as a Base has it made that
// wants to hear of that.
func (x *exchange) Done() <-chan struct{} {
	x.heeded.Store(true)
	return x.Context.Done()
}

type exchangeKey struct{}

// Value makes x known to its attempts.
func (x *exchange) Value(key any) any {
	if key == (exchangeKey{}) {
		return x
	}
	return x.Context.Value(key)
}

// prepare asks what x's request wishes.
func (x *exchange) prepare() (err error) {
	t, ctx := x.t, x.Context
	w := wishesOf(ctx)
	if x.retry, err = t.retryOf(w); err != nil {
		return err
	}
	x.lease.Ask = t.ask(x.req, w)
	if t.cfg.Timeout > 0 {
		x.Context, x.cancel = context.WithTimeout(ctx, t.cfg.Timeout)
	}
	return nil
}

// send makes an attempt of the exchange that is in ctx.
func send(ctx context.Context) (*http.Response, error) {
	x := ctx.Value(exchangeKey{}).(*exchange)
	return x.send(ctx)
}

func (x *exchange) send(ctx context.Context) (*http.Response, error) {
	req, err := x.next(ctx)
	if err != nil {
		return nil, err
	}
	x.attempt = ctx
	resp, err := x.t.sends.RoundTrip(req)
	if err == nil && resp == nil {
		err = errors.New("httpx: Base returned neither a response nor an error")
	}
	if err != nil {
		return nil, x.broken(err)
	}
	if r := resp.Request; r == nil || r.URL == req.URL { // req, or a transport's copy of it
		resp.Request = x.req // whose context is the caller's
	}
	looked := false
	defer func() {
		if !looked { // a function of the configuration has panicked
			drop(resp)
		}
	}()
	good, err := x.read(ctx, resp)
	looked = true
	return good, err
}

// next returns the request of the next attempt.
func (x *exchange) next(ctx context.Context) (*http.Request, error) {
	state := x.state.Add(oneAttempt)
	if state&hasReturned != 0 {
		return nil, &failure{err: governor.ErrAbandoned, final: true}
	}
	n := int(state / oneAttempt)
	if n == 1 {
		return x.req.WithContext(ctx), nil
	}
	if last := x.keep(nil); last != nil {
		last.Body.Close()
	}
	req := x.req.Clone(ctx)
	if x.req.Body != nil && x.req.Body != http.NoBody {
		body, err := x.req.GetBody() // there is one; see Transport.ask
		if err != nil {
			return nil, &failure{err: err, final: true}
		}
		req.Body = body
	}
	if x.retry != nil && x.retry.Modify != nil {
		x.modify(n, req)
	}
	return req, nil
}

// modify calls Retry.Modify; a request that it panics with is never sent.
func (x *exchange) modify(n int, req *http.Request) {
	done := false
	defer func() {
		if !done {
			closeBody(req)
		}
	}()
	x.retry.Modify(n, req)
	done = true
}

// broken is the failure of an attempt without an answer.
func (x *exchange) broken(err error) *failure {
	f := &failure{err: err, final: true, blamed: true}
	if record := x.t.cfg.RecordFailure; record != nil {
		f.blamed = record(nil, err)
	}
	r := x.retry
	switch {
	case r == nil, x.Err() != nil, errors.Is(err, context.Canceled):
	case r.OnError == nil && !lasts(err), r.OnError != nil && r.OnError(x.req, err):
		x.failing(f)
	}
	return f
}

// failing counts f, and lets it be repeated if the request may be.
func (x *exchange) failing(f *failure) {
	x.mu.Lock()
	x.failed++
	n := x.failed
	x.mu.Unlock()
	if f.final = !x.retry.may(x.req, n); !f.final {
		f.backoff = x.retry.Backoff
	}
}

// keep makes resp what the caller gets when there is no further attempt, and returns
// what it was before.
func (x *exchange) keep(resp *http.Response) (before *http.Response) {
	x.mu.Lock()
	defer x.mu.Unlock()
	before, x.last = x.last, resp
	return before
}

// ended makes of what the governor returns what RoundTrip does.
func (x *exchange) ended(resp *http.Response, err error) (*http.Response, error) {
	state := x.state.Or(hasReturned)
	if state < oneAttempt {
		closeBody(x.req)
	}
	if err != nil {
		resp, err = outcome(err, x.keep(nil))
	}
	if state&hasAnswer != 0 {
		if err == nil {
			return resp, nil
		}
		x.unwatched()
		x.real.Close() // the error says more, as when the governor was closed by force just then
	}
	x.done(nil) // there is nothing to be read, or it has been
	return resp, err
}

// watch gives everything back when the attempt's context ends while a body is with the
// caller, who may leave it alone: a Base that is told of that end drops its connection
// then, and the slot is not to outlast it. One that never asked for it, which only those
// do that are in memory, is not told and costs no watch.
func (x *exchange) watch() {
	if ctx := x.attempt; x.heeded.Load() {
		x.unwatch = context.AfterFunc(ctx, func() { x.done(context.Cause(ctx)) })
	}
}

// unwatched ends the watch, if there is one, before done, with which the context ends.
func (x *exchange) unwatched() {
	if x.unwatch != nil {
		x.unwatch()
	}
}

// done gives everything back. Only the first call counts.
func (x *exchange) done(err error) {
	x.lease.Release(err)
	if x.cancel != nil {
		x.cancel()
	}
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}
