package httpx

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/policy"
	"github.com/flyball-go/flyball/retry"
)

// Retry says which requests are sent again when they have failed: those that can be,
// with a body that can be had again (none, or with GetBody, as http.NewRequest sets
// it for a bytes.Reader, bytes.Buffer and strings.Reader), and that do no harm when
// the server gets them twice. Answers that say that a limit was reached are another
// matter: the request was not executed, and is sent again whenever the body can be had.
// That is not said by a 5xx with nothing but a time, such as 503 with Retry-After, which
// pauses the host, and after which only what does no harm twice is sent again, with or
// without a Retry.
type Retry struct {
	// Attempts is how many are made at most, counting the first, besides those that
	// were refused because of a limit. 0 means 3; less than 0: no bound.
	Attempts int

	// Backoff is the wait before each further attempt. nil means exponential: 500 ms,
	// doubling up to 1 min.
	Backoff backoff.Schedule

	// AnyMethod repeats requests of all methods. Otherwise only GET, HEAD, OPTIONS,
	// TRACE, PUT and DELETE do no harm twice, and those with a header Idempotency-Key
	// or X-Idempotency-Key.
	AnyMethod bool

	// OnCall says which answers are failures that are worth another attempt. It must
	// not read the body. nil: those of status 5xx but 501. None is that has a header
	// X-Should-Retry: false or Stripe-Should-Retry: false.
	OnCall func(req *http.Request, resp *http.Response) bool

	// OnError says which errors are; those of a context that the caller has cancelled
	// never are. nil: all others, timeouts included, but those that will be the same
	// next time: of a certificate, and of a scheme that is not supported.
	OnError func(req *http.Request, err error) bool

	// Modify changes a request that is about to be sent again, which is a copy. n is
	// the number of the attempt, from 2. nil: nothing does.
	Modify func(n int, req *http.Request)

	// MaxElapsed, MaxRetryAfter and Budget are those of a retry.Config. They hold for
	// the whole Transport: a WithRetry leaves them empty, or has those of Config.Retry.
	MaxElapsed, MaxRetryAfter time.Duration
	Budget                    *policy.Budget
}

func (r *Retry) validate() error {
	if r == nil {
		return nil
	}
	return retry.Config{Backoff: r.Backoff, MaxElapsed: r.MaxElapsed, MaxRetryAfter: r.MaxRetryAfter}.Validate()
}

// WithRetry returns a context whose requests are repeated by r and not by
// Config.Retry; nil: not at all, but for what a limit refuses (see governor.Ask's
// NoRetry for that). An r that makes no sense fails them, as does one with a MaxElapsed,
// MaxRetryAfter or Budget that is not that of Config.Retry, which all requests share.
func WithRetry(ctx context.Context, r *Retry) context.Context {
	w := *wishesOf(ctx)
	w.retry, w.retries = r, true
	return context.WithValue(ctx, wishesKey{}, &w)
}

// retryOf is what holds for requests whose context says w.
func (t *Transport) retryOf(w *wishes) (*Retry, error) {
	if !w.retries {
		return t.cfg.Retry, nil
	}
	if err := w.retry.validate(); err != nil {
		return nil, fmt.Errorf("httpx: WithRetry: %w", err)
	}
	if err := w.retry.within(t.cfg.Retry); err != nil {
		return nil, err
	}
	return w.retry, nil
}

// within reports what r, which is a request's, asks for that only all, the retry of the
// Transport, can have.
func (r *Retry) within(all *Retry) error {
	if r == nil {
		return nil
	}
	if all == nil {
		all = &Retry{}
	}
	const want = "httpx: WithRetry: %s is %v, want none, or that of Config.Retry, which all requests share"
	switch {
	case r.MaxElapsed != 0 && r.MaxElapsed != all.MaxElapsed:
		return fmt.Errorf(want, "MaxElapsed", r.MaxElapsed)
	case r.MaxRetryAfter != 0 && r.MaxRetryAfter != all.MaxRetryAfter:
		return fmt.Errorf(want, "MaxRetryAfter", r.MaxRetryAfter)
	case r.Budget != nil && r.Budget != all.Budget:
		return fmt.Errorf(want, "Budget", "another one")
	}
	return nil
}

// config is what a governor repeats by: whatever a failure does not forbid, by its
// request's schedule. The number of attempts is for the failure to mind.
func (r *Retry) config() *retry.Config {
	cfg := &retry.Config{Attempts: -1, Backoff: schedule{}, RetryIf: func(error) bool { return true }}
	if r != nil {
		cfg.MaxElapsed, cfg.MaxRetryAfter, cfg.Budget = r.MaxElapsed, r.MaxRetryAfter, r.Budget
	}
	return cfg
}

var defaultBackoff backoff.Schedule = backoff.Exponential{Initial: 500 * time.Millisecond, Multiplier: 2, Max: time.Minute}

// schedule is that of the request that has failed.
type schedule struct{}

// Next implements backoff.Schedule.
func (schedule) Next(s backoff.Step) (time.Duration, bool) {
	by := defaultBackoff
	if f, ok := asFailure(s.Err); ok && f.backoff != nil {
		by = f.backoff
	}
	return by.Next(s)
}

// may reports whether req may be sent again after the n-th attempt has failed.
func (r *Retry) may(req *http.Request, n int) bool {
	if r == nil || !rewindable(req) || !r.harmless(req) {
		return false
	}
	most := r.Attempts
	if most == 0 {
		most = 3
	}
	return most < 0 || n < most
}

// harmless reports whether a server may get req twice; r may be nil.
func (r *Retry) harmless(req *http.Request) bool {
	return idempotent(req) || r != nil && r.AnyMethod
}

// lasts reports whether err will be the same next time.
func lasts(err error) bool {
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	return certificate || strings.Contains(err.Error(), "unsupported protocol scheme")
}

// rewindable reports whether req's body can be had once more.
func rewindable(req *http.Request) bool {
	return req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
}

// idempotent reports whether it does no harm when a server gets req twice.
func idempotent(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return len(req.Header["Idempotency-Key"]) > 0 || len(req.Header["X-Idempotency-Key"]) > 0
}

// IsFailure reports whether resp is a server's failure: of status 5xx but 501. It is
// for predicates of a policy chain, as policy.OnResult(httpx.IsFailure).
func IsFailure(resp *http.Response) bool {
	return resp != nil && resp.StatusCode >= 500 && resp.StatusCode != http.StatusNotImplemented
}
