package httpx

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/vendors"
)

// Transport is an http.RoundTripper that governs what it sends. Make one with
// NewTransport. It is safe for simultaneous use by any number of goroutines and
// clients.
//
// # Answers
//
// A request is sent when its host's governor lets it, waits while that is cooling
// down, and is sent again when it was refused because of a limit, or failed and Retry
// says so. After a 5xx that says no more than when it ends, a request may have been
// executed: it is sent again only if that does no harm, as Retry has it. A host that refuses for ever is waited for as long as the request's context
// lasts, or a Timeout: give it a deadline. A single pause that is longer than the
// MaxWait of the host's Config, 15 min, is not waited for.
//
// The answer is that of the last attempt, whatever its status, with its whole body; of
// one that is followed by another attempt nothing is left open. Up to 64 KiB of the
// body of an answer with status 400 or above are read beforehand, and of a better one
// only if the Vendor finds errors in those. All of it is the caller's to read. Only
// where a request went on waiting to be sent again, and then could not be, for meanwhile
// the pause grew too long or the breaker opened, there is no more of its last answer
// than that, since what waits holds no connection: reading on ends with ErrBodyCut.
//
// The slot and the context of the last attempt, and the permits of one that went well,
// are held until its body has been read to its end, or has failed, or is closed; where
// it failed with less than 64 KiB, nothing is. They go back as well when the request's
// context, AttemptTimeout or Timeout ends, with which transports drop the connection.
// (Not for a Base that never asks for the Done of its request's context, nor after 101.)
// As with any client, whoever lets none of that happen runs out of connections, and here
// of slots.
//
// # Errors
//
// When there is no answer, RoundTrip returns what Base did at the last attempt, or the
// governor's refusal, of which errors.Is and errors.As find a *governor.CooldownError,
// breaker.ErrOpen, and so on; governor.IsRefused says that nothing was sent. A request
// whose context has ended gets an error that matches that of the context. The
// request's body is closed in any case.
type Transport struct {
	cfg     Config
	base    http.RoundTripper
	sends   http.RoundTripper // base, as Config.Wrap has it
	own     *http.Transport   // base if it is ours
	vendor  governor.Vendor
	dialect dialect // nil: vendor is none
	peeker  peeker
	placer  placer
	hosts   *governor.Group[string, struct{}] // nil: cfg.Governor
	invalid error
}

// NewTransport returns a Transport. With a cfg that makes no sense every request
// fails with the error that cfg.Validate returns: so a client is one expression, and
// what is wrong is neither hidden nor the end of the program. New says it at once.
func NewTransport(cfg Config) *Transport {
	t := &Transport{cfg: cfg, vendor: cfg.defaultVendor(), invalid: cfg.Validate()}
	if t.invalid != nil {
		return t
	}
	t.base, t.own = cfg.transport()
	if t.sends = t.base; cfg.Wrap != nil {
		if t.sends = cfg.Wrap(t.base); t.sends == nil {
			t.invalid = errors.New("httpx: Config.Wrap returned nil, want a RoundTripper")
			return t
		}
	}
	t.dialect, _ = t.vendor.(dialect)
	var parts any = t.vendor
	if a, ok := t.vendor.(vendors.Adapter); ok {
		parts = a.Dialect // which need not have what the Adapter asks it for
	}
	t.peeker, _ = parts.(peeker)
	t.placer, _ = parts.(placer)
	if cfg.Governor == nil {
		t.hosts, t.invalid = governor.NewGroup(governor.GroupConfig[string, struct{}]{
			Config: t.host, MaxHosts: cfg.MaxHosts, IdleTimeout: cfg.HostIdle,
		})
	}
	return t
}

// New is NewTransport for a configuration that is not known beforehand: it returns
// the error that names the field of cfg that is wrong and its value.
func New(cfg Config) (*Transport, error) {
	t := NewTransport(cfg)
	if t.invalid != nil {
		return nil, t.invalid
	}
	return t, nil
}

// transport returns what sends the requests, and whether it is a transport of ours.
func (c *Config) transport() (http.RoundTripper, *http.Transport) {
	standard := c.Base
	if standard == nil {
		standard = http.DefaultTransport
	} else if c.ConnectTimeout+c.HeaderTimeout == 0 {
		return standard, nil
	}
	from, ok := standard.(*http.Transport)
	if !ok { // http.DefaultTransport was replaced
		return standard, nil
	}
	own := from.Clone()
	if _, speaks := from.TLSNextProto["h2"]; speaks { // as Clone has found out; a dialer of ours would end that
		own.ForceAttemptHTTP2 = true
	}
	if c.Base == nil {
		own.MaxIdleConnsPerHost = 64
	}
	if d := c.ConnectTimeout; d > 0 {
		own.TLSHandshakeTimeout = d
		//lint:ignore SA1019 a Base may have one, and is to keep it
		old := own.Dial
		switch {
		case c.Base == nil || own.DialContext == nil && old == nil:
			own.DialContext = within(d, (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext)
		case own.DialContext != nil: // before a Dial
			own.DialContext = within(d, own.DialContext)
		}
		if own.DialTLSContext != nil {
			own.DialTLSContext = within(d, own.DialTLSContext)
		}
	}
	if c.HeaderTimeout > 0 {
		own.ResponseHeaderTimeout = c.HeaderTimeout
	}
	return own, own
}

type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// within is dial in at most d.
func within(d time.Duration, dial dialer) dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		return dial(ctx, network, addr)
	}
}

// governor returns that of a host.
func (t *Transport) governor(host string) (*governor.Plain, error) {
	if t.hosts == nil {
		return t.cfg.Governor, nil
	}
	return t.hosts.Get(host)
}

// Host returns the governor of a host, as Config.Host names it, and makes it if there
// is none: to look at its Stats, to Clear a pause, to Learn of one. The error is that
// of the configuration, or of governor.Group's Get.
func (t *Transport) Host(host string) (*governor.Plain, error) {
	if t.invalid != nil {
		return nil, t.invalid
	}
	return t.governor(host)
}

// Hosts returns the statistics of all hosts' governors, by name.
func (t *Transport) Hosts() []governor.Stats {
	switch {
	case t.invalid != nil:
		return nil
	case t.hosts == nil:
		return []governor.Stats{t.cfg.Governor.Stats()}
	}
	return t.hosts.Stats()
}

// Governors returns the governors that there are now, by name: for pages and metrics of
// all of them, of which it is the list (dashboard.Config.Governors,
// telemetry.Telemetry.WatchAll). Asking is no use of a host, so what is idle is
// forgotten all the same.
func (t *Transport) Governors() []governor.Handle {
	switch {
	case t.invalid != nil:
		return nil
	case t.hosts == nil:
		return []governor.Handle{t.cfg.Governor}
	}
	return t.hosts.Handles()
}

// Listen calls fn for each event of each host's governor, as governor.Group's Listen.
func (t *Transport) Listen(fn func(event.Event), kinds ...event.Kind) (stop func()) {
	switch {
	case t.invalid != nil:
		return func() {}
	case t.hosts == nil:
		return t.cfg.Governor.Listen(fn, kinds...)
	}
	return t.hosts.Listen(fn, kinds...)
}

// CloseIdleConnections closes those of Base, which http.Client's method of that name
// asks for.
func (t *Transport) CloseIdleConnections() {
	if b, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		b.CloseIdleConnections()
	}
}

// Close ends the governors that are the Transport's, as governor.Group's Close, which
// ends what runs and the bodies that are being read, and closes its idle connections.
// A Transport that serves a program to its end need not be closed.
func (t *Transport) Close() error {
	var err error
	if t.hosts != nil {
		err = t.hosts.Close()
	}
	if t.own != nil {
		t.own.CloseIdleConnections()
	}
	return err
}

// hostOf is the name of the host that req goes to: in lower case, without the port
// that its scheme has anyway.
func hostOf(req *http.Request) string {
	host := req.URL.Host
	switch req.URL.Scheme {
	case "https":
		host = strings.TrimSuffix(host, ":443")
	case "http":
		host = strings.TrimSuffix(host, ":80")
	}
	return strings.ToLower(host) // which costs nothing where there is nothing to do
}
