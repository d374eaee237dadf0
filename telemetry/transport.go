package telemetry

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/flyball-go/flyball/httpx"
)

// Transport is an httpx.Transport with a span around each request. Make one with
// Telemetry.Transport.
type Transport struct {
	*httpx.Transport
	t     *Telemetry
	named string // of the governor of all hosts; "": each has its own
}

// Transport returns what httpx.NewTransport does, with a span around each request as Do
// has one: named after the governor, that is mostly the host; an event for each attempt
// and each wait. It ends when the answer's header is there, or an error; to read the body
// is not in it. An answer of status 400 or above makes it, and the attempt's event, one
// that failed. What sends the attempts, Config.Base, is within the span, and may have
// spans of its own.
func (t *Telemetry) Transport(cfg httpx.Config) *Transport {
	tr := &Transport{t: t}
	if cfg.Governor != nil {
		tr.named = cfg.Governor.Name()
	}
	users := cfg.Wrap
	cfg.Wrap = func(next http.RoundTripper) http.RoundTripper {
		if users != nil {
			next = users(next)
		}
		if next == nil {
			return nil // which httpx refuses
		}
		return attempter{next}
	}
	tr.Transport = httpx.NewTransport(cfg)
	return tr
}

// RoundTrip sends req as httpx.Transport does.
func (tr *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	name := tr.named
	if name == "" && req.URL != nil {
		name = req.URL.Host
	}
	ctx, r := tr.t.beginNamed(req.Context(), name)
	if r == nil {
		return tr.Transport.RoundTrip(req.WithContext(ctx))
	}
	defer r.span.End()
	resp, err := tr.Transport.RoundTrip(req.WithContext(context.WithValue(ctx, requestKey{}, r)))
	r.finish(failure(resp, err))
	return resp, err
}

// requestKey is the key of the request in the contexts of its attempts.
type requestKey struct{}

// attempter tells of the attempts of a request.
type attempter struct{ next http.RoundTripper }

func (a attempter) RoundTrip(req *http.Request) (*http.Response, error) {
	r, _ := req.Context().Value(requestKey{}).(*request)
	if r == nil {
		return a.next.RoundTrip(req)
	}
	n, failed := r.started(), errGone
	defer func() { r.ended(n, failed) }()
	resp, err := a.next.RoundTrip(req)
	failed = failure(resp, err)
	return resp, err
}

// failure is what an answer says of the attempt, or of the request.
func failure(resp *http.Response, err error) error {
	if err == nil && resp != nil && resp.StatusCode >= 400 {
		return status(resp.StatusCode)
	}
	return err
}

// status is an answer that says that something is wrong.
type status int

func (s status) Error() string { return fmt.Sprintf("status %d %s", int(s), http.StatusText(int(s))) }

// ErrorType is the error.type of an HTTP span, by OpenTelemetry's conventions.
func (s status) ErrorType() string { return strconv.Itoa(int(s)) }
