package httpx

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/throttle"
	"github.com/flyball-go/flyball/vendors"
)

// The parts of an adapter of package vendors.
type (
	dialect interface {
		Read(vendors.Response) []throttle.Signal
		Learn(vendors.Response) []throttle.Quota
	}
	peeker interface{ Peek(*http.Response) int }
	placer interface {
		Place(*http.Request) (tenant, bucket string)
	}
)

// read looks at an answer before anybody else does. It returns the answer when that
// went well, and else a failure.
func (x *exchange) read(ctx context.Context, resp *http.Response) (*http.Response, error) {
	r := vendors.Response{Status: resp.StatusCode, Header: resp.Header}
	bad := resp.StatusCode >= http.StatusBadRequest
	n := x.worth(resp, bad)
	var p *peeked
	if n > 0 && resp.Body != nil && resp.Body != http.NoBody {
		r.At = time.Now()
		if bad {
			defer x.impatient(r)()
		}
		p = peek(resp, n)
		r.Body = plain(resp, p.head)
	}
	if bad || n > 0 {
		if f := x.refusal(resp, p, r); f != nil {
			return nil, f
		}
	}
	if f := x.fault(resp, p, r); f != nil {
		return nil, f
	}
	x.learn(ctx, r)
	return x.good(resp, p)
}

// worth is how many bytes of resp's body are to be read beforehand.
func (x *exchange) worth(resp *http.Response, bad bool) int {
	switch {
	case bad:
		return maxPeek
	case x.t.peeker == nil || resp.StatusCode < http.StatusOK:
		return 0
	}
	defer func() { _ = recover() }() // an adapter that panics wants nothing
	return max(0, min(x.t.peeker.Peek(resp), maxPeek))
}

// kept is what others may look at when the caller has the answer, and does with its
// header what he likes.
func kept(r vendors.Response) vendors.Response {
	r.Header = r.Header.Clone()
	return r
}

// patience is how long the body of a refusal may take before its header has to do.
const patience = time.Second

// impatient sees to it that a refusal whose body trickles is learned by its header,
// for calls are being made meanwhile. stop ends that.
func (x *exchange) impatient(r vendors.Response) (stop func()) {
	r = kept(r)
	timer := time.AfterFunc(patience, func() { x.pause(x.signals(r)) })
	return func() { timer.Stop() }
}

// pause raises what an answer asks for while its attempt goes on.
func (x *exchange) pause(signals []throttle.Signal) {
	g, err := x.t.governor(hostOf(x.req))
	if err != nil {
		return
	}
	for _, s := range signals {
		if s.Scope.Level == throttle.Request {
			continue
		}
		if s.Scope.Key == "" {
			s.Scope.Key = x.key(s.Scope.Level)
		}
		g.Learn(s)
	}
}

// key is the request's own.
func (x *exchange) key(l throttle.Level) string {
	switch l {
	case throttle.Selector:
		return hostOf(x.req)
	case throttle.Tenant:
		return x.lease.Ask.Tenant
	case throttle.Bucket:
		return x.lease.Ask.Bucket
	}
	return ""
}

// signals asks the adapter; one that panics says nothing.
func (x *exchange) signals(r vendors.Response) (s []throttle.Signal) {
	defer func() {
		if recover() != nil {
			s = nil
		}
	}()
	if x.t.dialect != nil {
		return x.t.dialect.Read(r)
	}
	err := &vendors.ResponseError{Response: r}
	switch v := x.t.vendor.(type) {
	case nil:
	case governor.Signaler:
		return v.Signals(err, time.Now())
	default:
		if d, limited := v.DelayError(err); limited {
			return []throttle.Signal{{Delay: d}}
		}
	}
	return nil
}

// refusal is the failure of an answer by which the vendor asks to be called less.
func (x *exchange) refusal(resp *http.Response, p *peeked, r vendors.Response) *failure {
	if len(x.signals(r)) == 0 {
		return nil
	}
	return x.failure(&failure{final: true}, resp, p, r)
}

// fault is the failure of an answer by which the server failed, as Retry and
// RecordFailure see it.
func (x *exchange) fault(resp *http.Response, p *peeked, r vendors.Response) *failure {
	failed := IsFailure(resp)
	blamed := failed
	if record := x.t.cfg.RecordFailure; record != nil {
		blamed = record(resp, nil)
	}
	if x.retry != nil && x.retry.OnCall != nil {
		failed = x.retry.OnCall(x.req, resp)
	}
	if !failed && !blamed {
		return nil
	}
	f := &failure{final: true, blamed: blamed}
	if failed && !r.NoRetry() {
		x.failing(f)
	}
	if f.final && !blamed {
		return nil
	}
	if p == nil && resp.Body != nil && resp.Body != http.NoBody {
		p = peek(resp, maxPeek)
	}
	return x.failure(f, resp, p, r)
}

// failure makes f that of resp, which the caller gets when there is no further attempt.
func (x *exchange) failure(f *failure, resp *http.Response, p *peeked, r vendors.Response) *failure {
	f.resp, f.err = resp, &vendors.ResponseError{Response: kept(r), Once: !x.retry.harmless(x.req)}
	if p != nil && p.rest != nil {
		f.x, f.rest = x, p
	}
	if resp.Body == nil {
		resp.Body = http.NoBody
	}
	x.keep(resp)
	return f
}

// learn reports what an answer that is no refusal says of quotas.
func (x *exchange) learn(ctx context.Context, r vendors.Response) {
	if x.t.dialect == nil {
		return
	}
	defer func() { _ = recover() }() // an adapter that panics has learned nothing
	if quotas := x.t.dialect.Learn(r); len(quotas) > 0 {
		_ = governor.Report(ctx, quotas...)
	}
}

// good hands resp out, with a body that ends the attempt.
func (x *exchange) good(resp *http.Response, p *peeked) (*http.Response, error) {
	if resp.Body == nil || resp.Body == http.NoBody || p != nil && p.rest == nil {
		return resp, nil
	}
	if !x.handOut(resp) {
		return nil, &failure{err: governor.ErrAbandoned, final: true}
	}
	if w, ok := x.real.(io.Writer); ok && resp.StatusCode == http.StatusSwitchingProtocols {
		resp.Body = &writable{(*body)(x), w}
	}
	return resp, nil
}

// handOut makes resp's body one that ends the attempt, if there is somebody to get it.
func (x *exchange) handOut(resp *http.Response) bool {
	x.real = resp.Body
	if resp.StatusCode != http.StatusSwitchingProtocols { // whose connection goes on
		x.watch()
	}
	if x.state.Or(hasAnswer)&hasReturned != 0 { // by force; nobody is there to close it
		x.unwatched()
		x.real.Close()
		return false
	}
	resp.Body = (*body)(x)
	return true
}
