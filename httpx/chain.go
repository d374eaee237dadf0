package httpx

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/flyball-go/flyball/policy"
	"github.com/flyball-go/flyball/retry"
)

// RoundTripper returns base behind the layers of p, which see answers as results of
// type *http.Response: a retry's RetryOnResult is policy.OnResult(httpx.IsFailure). A
// nil base is http.DefaultTransport.
//
// Each attempt that the layers make sends a copy of the request, with its body from
// the beginning. What cannot be had again is not sent again: the outcome of the
// attempt before stands. Of several answers one is returned, and the others are
// closed, also those of a hedge that come later.
//
// For the layers a call is over when there is an answer. The context of its attempt,
// which a timeout or a hedge ends then, goes on until the body has been read or
// closed, or the request's own context ends.
func RoundTripper(base http.RoundTripper, p *policy.Pipeline) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return &layered{base, p}
}

type layered struct {
	base     http.RoundTripper
	pipeline *policy.Pipeline
}

// RoundTrip implements http.RoundTripper.
func (l *layered) RoundTrip(req *http.Request) (*http.Response, error) {
	c := &call{base: l.base, req: req}
	resp, err := policy.Do(req.Context(), l.pipeline, c.attempt)
	return c.ended(resp, err)
}

// CloseIdleConnections closes those of base.
func (l *layered) CloseIdleConnections() {
	if b, ok := l.base.(interface{ CloseIdleConnections() }); ok {
		b.CloseIdleConnections()
	}
}

// call is one request and what its attempts have come to.
type call struct {
	base http.RoundTripper
	req  *http.Request

	// mu guards what follows: attempts may run at the same time.
	mu       sync.Mutex
	attempts int
	over     bool
	answers  []*http.Response
	err      error // of the attempt that failed last without one
}

// errSpent ends a chain whose request cannot be sent again.
var errSpent = retry.Permanent(errors.New("httpx: request body cannot be sent again"))

var errNothing = errors.New("httpx: neither a response nor an error")

// attempt sends a copy of the request.
func (c *call) attempt(ctx context.Context) (*http.Response, error) {
	c.mu.Lock()
	c.attempts++
	n, over := c.attempts, c.over
	c.mu.Unlock()
	if over {
		return nil, context.Canceled
	}
	body := c.req.Body
	if n > 1 && body != nil && body != http.NoBody {
		if c.req.GetBody == nil {
			return nil, errSpent
		}
		var err error
		if body, err = c.req.GetBody(); err != nil {
			return nil, retry.Permanent(err)
		}
	}
	resp, err := c.send(ctx, body)
	if err != nil {
		c.mu.Lock()
		c.err = err
		c.mu.Unlock()
		return nil, err
	}
	return resp, c.got(resp)
}

// send sends a copy of the request, in a context that ends with ctx until there is an
// answer, and then with the answer's body.
func (c *call) send(ctx context.Context, body io.ReadCloser) (*http.Response, error) {
	own, cancel := context.WithCancelCause(c.req.Context())
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	goesOn := false
	defer func() {
		if !goesOn { // also when base panics
			stop()
			cancel(nil)
		}
	}()
	req := c.req.Clone(outlasting{own, ctx})
	req.Body = body
	resp, err := c.base.RoundTrip(req)
	switch {
	case err != nil:
	case resp == nil:
		err = errNothing
	case !stop(): // it ended first: what there is of the body cannot be read
		drop(resp)
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	if r := resp.Request; r == nil || r.URL == req.URL { // as in exchange.send
		resp.Request = c.req
	}
	if resp.Body != nil && resp.StatusCode >= http.StatusBadRequest {
		if p := peek(resp, maxPeek); p.rest == nil { // it need not keep a connection from other attempts
			return resp, nil
		}
	}
	goesOn = true
	last(resp, cancel)
	return resp, nil
}

// got notes an answer. One that nobody waits for any more is closed.
func (c *call) got(resp *http.Response) error {
	c.mu.Lock()
	c.answers = append(c.answers, resp)
	over := c.over
	c.mu.Unlock()
	if over {
		drop(resp)
		return context.Canceled
	}
	return nil
}

// ended closes what is not returned.
func (c *call) ended(resp *http.Response, err error) (*http.Response, error) {
	c.mu.Lock()
	c.over = true
	answers, attempts, before := c.answers, c.attempts, c.err
	c.mu.Unlock()
	if attempts == 0 {
		closeBody(c.req)
	}
	switch {
	case !errors.Is(err, errSpent):
	case len(answers) > 0:
		resp, err = answers[len(answers)-1], nil
	case before != nil:
		err = before
	}
	if err != nil {
		resp = nil
	}
	for _, r := range answers {
		if r != resp {
			drop(r)
		}
	}
	if resp == nil && err == nil {
		err = errNothing
	}
	if err != nil {
		return nil, timed(err)
	}
	return resp, nil
}

func drop(resp *http.Response) {
	if resp.Body != nil {
		resp.Body.Close()
	}
}

// outlasting is a context with the values of another one, which ends before.
type outlasting struct {
	context.Context
	values context.Context
}

// Value returns that of values. Package context, whose keys are pointers to numbers,
// finds in the context itself who ends it.
func (o outlasting) Value(key any) any {
	if _, ok := key.(*int); ok {
		if v := o.Context.Value(key); v != nil {
			return v
		}
	}
	return o.values.Value(key)
}

// last makes resp's body cancel the context that it came with when it ends.
func last(resp *http.Response, cancel context.CancelCauseFunc) {
	if resp.Body == nil || resp.Body == http.NoBody {
		cancel(nil)
		return
	}
	b := &lasting{resp.Body, cancel}
	resp.Body = b
	if w, ok := b.ReadCloser.(io.Writer); ok && resp.StatusCode == http.StatusSwitchingProtocols {
		resp.Body = &writable{b, w}
	}
}

type lasting struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

// Read implements io.Reader.
func (b *lasting) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.cancel(nil)
	}
	return n, err
}

// Close implements io.Closer.
func (b *lasting) Close() error {
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}

// writable is the body of an answer with status 101.
type writable struct {
	io.ReadCloser
	io.Writer
}
