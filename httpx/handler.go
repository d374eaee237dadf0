package httpx

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/flyball-go/flyball/policy"
	"github.com/flyball-go/flyball/retry"
)

// Middleware returns handlers behind the layers of p: a breaker, a bulkhead, a rate, a
// timeout, which ends the request's context. To the layers a handler fails with a
// *StatusError when it answers with a status of 5xx but 501, and with the end of its
// context when it answers nothing after that. It is called once at most: to a layer
// that would repeat it, or hedge it, that is a permanent error.
//
// When the layers did not let a call come to its handler, or ended before that had
// answered anything, the answer is 429 for a limiter's error, 504 for a timeout's, and
// 503 for others, with a Retry-After where it is known, rounded up. A panic of the
// handler passes through.
func Middleware(p *policy.Pipeline) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s := &served{ResponseWriter: w}
			var begun atomic.Bool
			ended := make(chan struct{})
			err := policy.Run(r.Context(), p, func(ctx context.Context) error {
				if begun.Swap(true) {
					return errServed
				}
				defer close(ended)
				next.ServeHTTP(s, r.WithContext(ctx))
				switch {
				case s.status == 0:
					return ctx.Err() // what it gave up for, if it did
				case s.status >= 500 && s.status != http.StatusNotImplemented:
					return &StatusError{s.status}
				}
				return nil
			})
			if begun.Swap(true) {
				<-ended // a layer may have left it behind, but w is no one's when this returns
			}
			if err != nil && s.status == 0 {
				retryAfter(w.Header(), err)
				status := statusOf(err)
				http.Error(w, http.StatusText(status), status)
			}
		})
	}
}

var errServed = retry.Permanent(errors.New("httpx: a handler is called once"))

// StatusError is what a handler's answer is to the layers around it.
type StatusError struct {
	Status int // 500 and above
}

// Error says which status it was.
func (e *StatusError) Error() string {
	return fmt.Sprintf("httpx: handler answered %d %s", e.Status, http.StatusText(e.Status))
}

func statusOf(err error) int {
	if _, ok := errors.AsType[*policy.TimeoutError](err); ok {
		return http.StatusGatewayTimeout
	}
	return StatusOf(err)
}

// served is a ResponseWriter that knows what was answered. What else the real one can
// do is had by an http.ResponseController.
type served struct {
	http.ResponseWriter
	status int // 0: nothing yet
}

// WriteHeader implements http.ResponseWriter.
func (s *served) WriteHeader(status int) {
	if s.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		s.status = status
	}
	s.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (s *served) Write(p []byte) (int, error) {
	if s.status == 0 {
		s.status = http.StatusOK
	}
	return s.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (s *served) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Hijack implements http.Hijacker, which many libraries look for.
func (s *served) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(s.ResponseWriter).Hijack()
	if err == nil && s.status == 0 {
		s.status = http.StatusSwitchingProtocols
	}
	return conn, rw, err
}

// Flush implements http.Flusher, which many handlers look for.
func (s *served) Flush() {
	if s.status == 0 {
		s.status = http.StatusOK
	}
	_ = http.NewResponseController(s.ResponseWriter).Flush()
}
