package httpx

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/vendors"
)

// Config says how a Transport governs what it sends. The zero Config is ready: hosts
// that answer as HTTP says, their limits learned, nothing repeated but what was
// refused because of one.
type Config struct {
	// Vendor reads what the hosts answer. One of package vendors knows a body's
	// errors, the quotas that good answers tell of, and whose limit a request is
	// counted under; any other governor.Vendor is asked about answers of status 400
	// and above, as a *vendors.ResponseError. nil: vendors.HTTP, or that of Governor.
	Vendor governor.Vendor

	// Base sends the requests. nil: a transport of its own, as http.DefaultTransport
	// but with up to 64 idle connections for each host.
	Base http.RoundTripper

	// Wrap returns what sends each attempt: next, which is Base or the transport of its
	// own, with what belongs to an attempt and not to the request, as a signature that
	// soon ends, or a trace (telemetry.Telemetry.Transport). It is called once, and must
	// not return nil. Answers are read and governed as if next had given them. nil: next.
	Wrap func(next http.RoundTripper) http.RoundTripper

	// Host returns how a host, such as "api.example.com" or "localhost:8080", is
	// governed: its Workers, Limits, and so on. Name, Vendor and Breaker, where they
	// are empty, are filled in; Retry must be. It is called anew when a host has been
	// forgotten because nothing was sent to it for long. nil: the zero Config, with
	// 64 Workers.
	Host func(host string) (governor.PlainConfig, error)

	// MaxHosts and HostIdle are those of a governor.GroupConfig: how many hosts there
	// may be at once, and when one is forgotten. 0 means 1,000 and 5 min.
	MaxHosts int
	HostIdle time.Duration

	// Governor governs all requests in place of one for each host; their hosts are its
	// selectors. It excludes Vendor, Host, MaxHosts, HostIdle and Breaker, and what a
	// Retry says of Attempts and Backoff needs a Retry in its own Config, too.
	// The Transport does not close it. nil: one for each host.
	Governor *governor.Plain

	// Ask says what a request wishes. nil: what AskFrom says of its context. A Tenant
	// and a Bucket that it leaves empty are those that Vendor finds in the URL.
	Ask func(*http.Request) governor.Ask

	// Retry repeats requests that failed otherwise than by a rate limit, or a pause that
	// the server asked for. nil: none is.
	Retry *Retry

	// Breaker refuses requests to a host that fails: one for each host. Its OpenFor,
	// where it is nil, is 30 s, doubling up to 10 min. nil: none.
	Breaker *breaker.Config

	// RecordFailure says what is a failure to the breaker: resp or err is nil. It is
	// not asked about rate limits and requests that were cancelled, which never are.
	// It must not read the body. nil: status 5xx but 501, and errors.
	RecordFailure func(resp *http.Response, err error) bool

	// ConnectTimeout bounds the time for a connection, and once more for its TLS
	// handshake; HeaderTimeout that from the end of a request to the header of its
	// answer. They need a Base that is nil or an *http.Transport, of which a copy is
	// used then. A DialTLSContext of Base's makes both in the one time; the deprecated
	// Dial and DialTLS, which have no context, are not bounded.
	// 0 means 30 s and 10 s for the handshake, and no limit.
	ConnectTimeout, HeaderTimeout time.Duration

	// AttemptTimeout bounds each attempt, with its body, and Timeout all of them with
	// what is waited between, and the body of the last. 0: no limit.
	AttemptTimeout, Timeout time.Duration
}

// Validate returns an error that names a field of c that is wrong and its value, or
// nil.
func (c *Config) Validate() error {
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"ConnectTimeout", c.ConnectTimeout}, {"HeaderTimeout", c.HeaderTimeout}, {"AttemptTimeout", c.AttemptTimeout}, {"Timeout", c.Timeout}} {
		if d.value < 0 {
			return fmt.Errorf("httpx: Config.%s is %v, want 0 or more", d.field, d.value)
		}
	}
	if _, ok := c.Base.(*http.Transport); c.Base != nil && !ok && c.ConnectTimeout+c.HeaderTimeout > 0 {
		return fmt.Errorf("httpx: Config.Base is a %T, want an *http.Transport or nil for ConnectTimeout and HeaderTimeout", c.Base)
	}
	if c.MaxHosts < 0 {
		return fmt.Errorf("httpx: Config.MaxHosts is %d, want 0 or more", c.MaxHosts)
	}
	if c.Governor != nil && (c.Vendor != nil || c.Host != nil || c.MaxHosts != 0 || c.HostIdle != 0 || c.Breaker != nil || c.AttemptTimeout != 0) {
		return errors.New("httpx: Config.Governor excludes Vendor, Host, MaxHosts, HostIdle, Breaker and AttemptTimeout, which its own Config has")
	}
	if c.Breaker != nil {
		if _, err := breaker.New(*c.Breaker); err != nil {
			return fmt.Errorf("httpx: Config.Breaker: %w", err)
		}
	}
	if err := c.Retry.validate(); err != nil {
		return fmt.Errorf("httpx: Config.Retry: %w", err)
	}
	return nil
}

// host makes the configuration of a host's governor.
func (t *Transport) host(name string) (cfg governor.PlainConfig, err error) {
	c := &t.cfg
	if c.Host == nil {
		cfg.Workers = 64
	} else if cfg, err = c.Host(name); err != nil {
		return cfg, err
	}
	if cfg.Retry != nil {
		return cfg, fmt.Errorf("httpx: Retry of the Config of %s is set, want that of httpx.Config", name)
	}
	if cfg.Vendor == nil {
		cfg.Vendor = t.vendor
	}
	if cfg.AttemptTimeout == 0 {
		cfg.AttemptTimeout = c.AttemptTimeout
	}
	cfg.Retry = c.Retry.config()
	switch {
	case cfg.Breaker != nil:
		cfg.Breaker = judged(cfg.Breaker)
	case c.Breaker != nil:
		b, err := newBreaker(*c.Breaker, name)
		if err != nil {
			return cfg, err
		}
		cfg.Breaker = judged(b)
	}
	return cfg, nil
}

// defaultVendor is for hosts of which nothing is known.
func (c *Config) defaultVendor() governor.Vendor {
	switch {
	case c.Governor != nil:
		return c.Governor.Vendor()
	case c.Vendor != nil:
		return c.Vendor
	}
	return vendors.HTTP()
}
