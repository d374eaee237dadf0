package vendortest

import (
	"net/http"
	"time"
)

// ServerConfig configures a [Server]. The zero config is an API that all callers
// share, with 10 calls at once and 10 per second that come back, a pause of 15 s for
// who wants more, and 429 with a Retry-After for a refusal.
type ServerConfig struct {
	// Quota is the limit, one for each key.
	Quota Quota

	// Key says by what a call is counted, and Cost how many units it takes. They, and
	// what follows, are called from many goroutines at once. nil: all together, and 1.
	Key  func(*http.Request) string
	Cost func(*http.Request) int

	// MaxKeys bounds the keys that are counted apart; 0: 100,000.
	MaxKeys int

	// Refuse answers a call that was refused, in the words of the vendor. nil: 429
	// with the verdict's Delay as Retry-After, in whole seconds; 413 for what is
	// TooLarge.
	Refuse func(w http.ResponseWriter, r *http.Request, v Verdict)

	// Answer answers the others. nil: status 200 and {}.
	Answer http.Handler
}

// Server is a stand-in for any API that this package has no other for: an [Engine] for
// each key, and a script for how the vendor answers.
//
// It is an http.Handler for httptest, safe for simultaneous use, and starts nothing.
// What it saw of a client's manners is in Totals.
type Server struct {
	cfg   ServerConfig
	calls *Keyed
}

// NewServer returns a Server. It returns an error for a quota that cannot be, and for
// a negative number of keys.
func NewServer(cfg ServerConfig) (*Server, error) {
	calls, err := NewKeyed(cfg.Quota, cfg.MaxKeys)
	if err != nil {
		return nil, err
	}
	return &Server{cfg, calls}, nil
}

// Totals returns what the server saw of all callers.
func (s *Server) Totals() Totals { return s.calls.Totals() }

// Key returns what it saw of one key; zeros for one that was never seen.
func (s *Server) Key(key string) Totals { return s.calls.Key(key) }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key, cost := "", 1
	if s.cfg.Key != nil {
		key = s.cfg.Key(r)
	}
	if s.cfg.Cost != nil {
		cost = s.cfg.Cost(r)
	}
	v := s.calls.AdmitN(key, time.Now(), cost)
	switch {
	case v.Accepted && s.cfg.Answer != nil:
		s.cfg.Answer.ServeHTTP(w, r)
	case v.Accepted:
		reply(w, http.StatusOK, struct{}{})
	case s.cfg.Refuse != nil:
		s.cfg.Refuse(w, r, v)
	case v.TooLarge:
		http.Error(w, http.StatusText(http.StatusRequestEntityTooLarge), http.StatusRequestEntityTooLarge)
	default:
		w.Header().Set("Retry-After", wholeSeconds(v.Delay))
		http.Error(w, http.StatusText(http.StatusTooManyRequests), http.StatusTooManyRequests)
	}
}
