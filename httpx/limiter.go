package httpx

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/limiter"
)

// LimiterConfig says whom a server lets in. The zero value lets each address make 1000
// calls per minute and rejects what is beyond that at once.
type LimiterConfig struct {
	// Name appears in events.
	Name string

	// Limits admit calls, all or none. nil: a limiter.FixedWindow of 1000 per minute,
	// with the name "default".
	Limits []Limit

	// MaxQueue is how many calls may wait for permits, and MaxWait for how long;
	// Newest serves those that came last first. They are those of a
	// limiter.SharedConfig: 0 means that none waits, and 10 s.
	MaxQueue int
	MaxWait  time.Duration
	Newest   bool

	// Key says whose call it is. nil: RemoteKey.
	Key func(*http.Request) string

	// Cost says how many permits a call takes; less than 1 takes none. nil: 1.
	Cost func(*http.Request) int

	// Exclude is true for calls that are let in without permits. nil: none are.
	Exclude func(*http.Request) bool

	// OnRejected answers a call that is not let in, when the headers are set, those
	// of NoHeaders and Retry-After; err is the limiter's. nil: the status of
	// StatusOf, and its text.
	OnRejected func(w http.ResponseWriter, r *http.Request, key string, err error)

	// OnAdmitted hears of one that is, on its goroutine. nil: nobody does.
	OnAdmitted func(r *http.Request, key string)

	// NoHeaders leaves out RateLimit and RateLimit-Policy, and X-RateLimit-Limit,
	// -Remaining and -Reset, by which callers learn of the limits.
	NoHeaders bool

	// OnEvent is that of a limiter.SharedConfig; keys are in it. nil: nobody hears.
	OnEvent func(event.Event)
}

// Limit is one limit of a server.
type Limit struct {
	// Name is the limit's in headers: letters, digits, "-", "_" and ".", at most 64.
	// Limits of handlers within each other need different ones. "" means "default".
	Name string

	// Limiter is the limit, and the Limiter's from NewLimiter on. It is in the
	// headers if it is a limiter.Counter.
	Limiter limiter.Limiter

	// Limit and Window are how many calls it lets pass in which time, for headers. 0:
	// they do not say.
	Limit  int
	Window time.Duration

	// Whole makes it a limit on all keys together.
	Whole bool
}

// Limiter is middleware that limits the calls of a server's callers. What is rejected
// gets 429, with a Retry-After in whole seconds, rounded up, where it is known when
// there are permits again. Handler may be used for a server as a whole and again for
// some of its routes, each by a Limiter of its own: a call passes all of them.
//
// Permits of limits that count calls while they run, as limiter.Concurrency, go back
// when the handler returns. A Limiter needs no goroutine; its keys are bounded by its
// limits.
type Limiter struct {
	cfg    LimiterConfig
	shared *limiter.Shared
}

// NewLimiter returns a Limiter, or an error that names the field of cfg that is wrong
// and its value.
func NewLimiter(cfg LimiterConfig) (*Limiter, error) {
	if len(cfg.Limits) == 0 {
		w, err := limiter.NewFixedWindow(limiter.FixedWindowConfig{Limit: 1000, Period: time.Minute})
		if err != nil {
			return nil, err
		}
		cfg.Limits = []Limit{{Limiter: w, Limit: 1000, Window: time.Minute}}
	}
	shared := limiter.SharedConfig{Name: cfg.Name, MaxQueue: cfg.MaxQueue, MaxWait: cfg.MaxWait, Newest: cfg.Newest, OnEvent: cfg.OnEvent}
	limits := make([]Limit, len(cfg.Limits))
	for i, l := range cfg.Limits {
		if l.Name == "" {
			l.Name = "default"
		}
		switch {
		case l.Limiter == nil:
			return nil, fmt.Errorf("httpx: LimiterConfig.Limits[%d].Limiter is nil, want a limiter", i)
		case !isToken(l.Name):
			return nil, fmt.Errorf("httpx: LimiterConfig.Limits[%d].Name is %.80q, want letters, digits, -, _ and ., at most 64", i, l.Name)
		case l.Limit < 0 || l.Window < 0:
			return nil, fmt.Errorf("httpx: LimiterConfig.Limits[%d] is %d per %v, want 0 or more", i, l.Limit, l.Window)
		}
		limits[i] = l
		if l.Whole {
			shared.Whole = append(shared.Whole, l.Limiter)
		} else {
			shared.Limiters = append(shared.Limiters, l.Limiter)
		}
	}
	cfg.Limits = limits
	if cfg.Key == nil {
		cfg.Key = RemoteKey
	}
	if cfg.OnRejected == nil {
		cfg.OnRejected = reject
	}
	s, err := limiter.NewShared(shared)
	if err != nil {
		return nil, fmt.Errorf("httpx: LimiterConfig: %w", err)
	}
	return &Limiter{cfg, s}, nil
}

// Shared returns the limits, to change them or to ask how many calls wait.
func (l *Limiter) Shared() *limiter.Shared { return l.shared }

// Close rejects what waits and all that comes later.
func (l *Limiter) Close() error { return l.shared.Close() }

// Handler returns next behind the limits. It has the form that routers want.
func (l *Limiter) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.cfg.Exclude != nil && l.cfg.Exclude(r) {
			next.ServeHTTP(w, r)
			return
		}
		key, n := l.cfg.Key(r), 1
		if l.cfg.Cost != nil {
			n = l.cfg.Cost(r)
		}
		err := l.shared.Wait(r.Context(), key, n)
		if err == nil && n > 0 {
			defer l.shared.Release(key, n)
		}
		if !l.cfg.NoHeaders {
			l.tell(w.Header(), key)
		}
		if err != nil {
			retryAfter(w.Header(), err)
			l.cfg.OnRejected(w, r, key, err)
			return
		}
		if l.cfg.OnAdmitted != nil {
			l.cfg.OnAdmitted(r, key)
		}
		next.ServeHTTP(w, r)
	})
}

// StatusOf is the status that says why a call was not let in: 429 for a limit, 503
// otherwise.
func StatusOf(err error) int {
	if errors.Is(err, limiter.ErrLimited) && !errors.Is(err, context.Canceled) {
		return http.StatusTooManyRequests
	}
	return http.StatusServiceUnavailable
}

func reject(w http.ResponseWriter, _ *http.Request, _ string, err error) {
	status := StatusOf(err)
	http.Error(w, http.StatusText(status), status) // whose limit it is, is the server's affair
}

// RemoteKey is the address that r came from, without its port; of an IPv6 address the
// first 64 bits, since any caller has all of the rest. Behind a proxy that is the
// proxy: there a Key has to read what the proxy says, and only what it says.
func RemoteKey(r *http.Request) string {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	ip := at.Addr().Unmap().WithZone("")
	if ip.Is6() {
		p, _ := ip.Prefix(64)
		return p.String()
	}
	return ip.String()
}

func isToken(s string) bool {
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return s != "" && len(s) <= 64
}
