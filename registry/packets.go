package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"
)

// PacketsConfig says what a Packets operates on.
type PacketsConfig struct {
	// Permits is required. It is not closed.
	Permits *Permits

	// Lease is how long a permit that was acquired by a packet is held when nobody
	// releases it, from 1 s: then it goes back, and counts as a failure to a breaker. 0
	// means 1 min.
	Lease time.Duration

	// MaxPermits is how many permits may be out that way. 0 means 10,000.
	MaxPermits int
}

// Packets does what packets ask for:
//
//	metadata:get            {"key"}                                    the record
//	metadata:put            {"key", "value", "version"}                the record; version: the one to be replaced, 0 or left out: there is none
//	metadata:delete         {"key", "version"}                         {}
//	metadata:list           {"prefix", "limit"}                        {"records"}
//	ratelimiter:acquire     {"key", "permits"}                         {"key", "permit"}
//	bulkhead:acquire        {"key", "permits"}                         {"key", "permit"}
//	circuitbreaker:acquire  {"key"}                                    {"key", "permit"}
//	bulkhead:release        {"permit"}                                 {}
//	circuitbreaker:release  {"permit", "outcome"}                             {}
//
// A record is {"key", "value", "version"}; of a key without metadata, with version 0
// and no value. permits is 1 where it is left out, outcome "success"; it may be
// "failure", and "ignored" for what says nothing of the resource. A permit is a name that nobody can
// guess; a rate limiter's is "", and there is nothing to release. Members of data that
// an operation does not have are refused.
//
// It may be used by any number of goroutines at once, and must be closed.
type Packets struct {
	cfg PacketsConfig

	mu     sync.Mutex // guards what follows; no permit is released under it
	out    map[string]*lent
	closed bool
}

// lent is a permit that a packet has acquired.
type lent struct {
	permit *Permit
	domain string
	timer  *time.Timer
}

// NewPackets returns a Packets. The error names the field that is out of range.
func NewPackets(cfg PacketsConfig) (*Packets, error) {
	cfg.Lease = cmp.Or(cfg.Lease, time.Minute)
	cfg.MaxPermits = cmp.Or(cfg.MaxPermits, 10_000)
	switch {
	case cfg.Permits == nil:
		return nil, invalidf("PacketsConfig.Permits is nil, want one")
	case cfg.Lease < time.Second:
		return nil, invalidf("PacketsConfig.Lease is %v, want 1s or more", cfg.Lease)
	case cfg.MaxPermits < 1:
		return nil, invalidf("PacketsConfig.MaxPermits is %d, want 0 or more", cfg.MaxPermits)
	}
	return &Packets{cfg: cfg, out: make(map[string]*lent)}, nil
}

// Close gives back the permits that are out, as failures. What comes later fails. It
// may be called again.
func (s *Packets) Close() error {
	s.mu.Lock()
	out := s.out
	s.out, s.closed = nil, true
	s.mu.Unlock()
	for _, l := range out {
		l.timer.Stop()
		l.permit.Release(errLease)
	}
	return nil
}

// open returns the error of an action when s is closed. One that is under way meanwhile
// goes on, but lends nothing.
func (s *Packets) open(action string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.closed:
		return nil
	case action == "acquire": // as of Permits that are closed
		return &Error{FailedToAcquirePermit, "", ErrClosed}
	}
	return &Error{FailureWhileExecutingOperation, "", ErrClosed}
}

var errLease = errors.New("registry: the permit was not released")

// Handle reads a packet, does what it asks for and returns the reply: always a packet,
// whose errorDetail says what was wrong, with data, too.
func (s *Packets) Handle(ctx context.Context, data []byte) []byte {
	p, err := ParsePacket(data)
	var r Packet
	if err != nil {
		r = Packet{}.reply(nil, err)
	} else {
		r = s.Do(ctx, p)
	}
	text, err := json.Marshal(r)
	if err != nil { // headers that are no JSON, of a Packet that was not parsed
		text, _ = json.Marshal(Packet{}.reply(nil, err))
	}
	return text
}

// Do does what a packet asks for and returns the reply. Its headers are those of the
// packet. An operation of a domain that there is not fails with RegistryNotFound; of an
// action, and what is no packet, with FailureWhileExecutingOperation; else the code is
// that of the Permits, and of a closed Packets that of closed ones.
func (s *Packets) Do(ctx context.Context, p Packet) Packet {
	domain, action, err := p.operation()
	if err != nil {
		return p.reply(nil, err)
	}
	actions := actors[domain]
	if actions == nil {
		return p.reply(nil, &Error{RegistryNotFound, "", invalidf("domain of operation %q", p.Operation)})
	}
	act, ok := actions[action]
	if !ok {
		return p.reply(nil, &Error{FailureWhileExecutingOperation, "", invalidf("action of operation %q", p.Operation)})
	}
	if err := s.open(action); err != nil {
		return p.reply(nil, err)
	}
	arg, err := parseArgument(p.Data, act.members)
	if err != nil {
		return p.reply(nil, err)
	}
	return p.reply(act.do(ctx, s, domain, arg))
}
