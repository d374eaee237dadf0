package registry

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flyball-go/flyball/store"
)

// An action is what an actor can do: with data of these members.
type action struct {
	members []string
	do      func(ctx context.Context, s *Packets, domain string, a argument) (any, error)
}

// actors are by their domain, what they do by its name.
var actors = map[string]map[string]action{
	"metadata": {
		"get":    {[]string{"key"}, getMetadata},
		"put":    {[]string{"key", "value", "version"}, putMetadata},
		"delete": {[]string{"key", "version"}, deleteMetadata},
		"list":   {[]string{"prefix", "limit"}, listMetadata},
	},
	string(RateLimiter):    {"acquire": {[]string{"key", "permits"}, acquire}},
	string(Bulkhead):       {"acquire": {[]string{"key", "permits"}, acquire}, "release": {[]string{"permit"}, release}},
	string(CircuitBreaker): {"acquire": {[]string{"key"}, acquire}, "release": {[]string{"permit", "outcome"}, release}},
}

// argument is the data of a packet.
type argument struct {
	key, prefix, permit, outcome string
	value                        json.RawMessage
	version                      uint64
	limit, permits               int
}

// parseArgument reads data that has no other members than these.
func parseArgument(data []byte, allowed []string) (a argument, err error) {
	a.permits = 1
	if err := packetLimits.check(data); err != nil {
		return a, err
	}
	all, ok := members(data)
	if !ok {
		return a, &FieldError{"data", shown(data), "an object"}
	}
	into := map[string]any{
		"key": &a.key, "prefix": &a.prefix, "permit": &a.permit, "outcome": &a.outcome, "value": &a.value,
		"version": &a.version, "limit": &a.limit, "permits": &a.permits,
	}
	for _, m := range all {
		path := "data." + m.name
		if len(path) > 64 {
			path = path[:64]
		}
		if !slices.Contains(allowed, m.name) {
			return a, &FieldError{path, shown(m.value), "no such field"}
		}
		if isNull(m.value) || json.Unmarshal(m.value, into[m.name]) != nil {
			return a, &FieldError{path, shown(m.value), "what the operation takes"}
		}
	}
	return a, nil
}

// recordData is a record in a packet.
type recordData struct {
	Key     string          `json:"key"`
	Value   json.RawMessage `json:"value,omitempty"`
	Version uint64          `json:"version"`
}

func dataOf(r store.Record) recordData { return recordData(r) }

func getMetadata(ctx context.Context, s *Packets, _ string, a argument) (any, error) {
	r, err := s.cfg.Permits.Get(ctx, a.key)
	return dataOf(r), err
}

func putMetadata(ctx context.Context, s *Packets, _ string, a argument) (any, error) {
	r, err := s.cfg.Permits.Put(ctx, a.key, a.value, a.version)
	return dataOf(r), err
}

func deleteMetadata(ctx context.Context, s *Packets, _ string, a argument) (any, error) {
	return struct{}{}, s.cfg.Permits.Delete(ctx, a.key, a.version)
}

func listMetadata(ctx context.Context, s *Packets, _ string, a argument) (any, error) {
	found, err := s.cfg.Permits.List(ctx, a.prefix, a.limit)
	all := make([]recordData, 0, len(found))
	for _, r := range found {
		all = append(all, dataOf(r))
	}
	return map[string]any{"records": all}, err
}

// acquired is the reply to an acquire.
type acquired struct {
	Key    string `json:"key"`
	Permit string `json:"permit"`
}

func acquire(ctx context.Context, s *Packets, domain string, a argument) (any, error) {
	k, err := ParseKey(a.key)
	if err == nil && string(k.Type) != domain {
		err = invalidf("key is %q, want that of a %s", a.key, domain)
	}
	if err != nil {
		return nil, &Error{RegistryNotFound, a.key, err}
	}
	m, err := s.cfg.Permits.Acquire(ctx, a.key, a.permits)
	if err != nil {
		return nil, err
	}
	if k.Type == RateLimiter { // it holds nothing
		return acquired{Key: k.String()}, nil
	}
	name, err := s.lend(domain, m)
	if err != nil {
		m.Release(context.Canceled) // nobody has used it: neither good nor bad
		return nil, &Error{FailedToAcquirePermit, a.key, err}
	}
	return acquired{k.String(), name}, nil
}

// lend keeps a permit until it is released, or its lease is over.
func (s *Packets) lend(domain string, m *Permit) (name string, err error) {
	name = rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return "", ErrClosed
	case len(s.out) >= s.cfg.MaxPermits:
		return "", fmt.Errorf("%w permits: there are %d", ErrTooMany, s.cfg.MaxPermits)
	}
	l := &lent{permit: m, domain: domain}
	// It cannot run before l is in out: it takes mu.
	l.timer = time.AfterFunc(s.cfg.Lease, func() {
		if s.back(domain, name) != nil {
			m.Release(errLease)
		}
	})
	s.out[name] = l
	return name, nil
}

// back returns what is out under a name, and is no more.
func (s *Packets) back(domain, name string) *lent {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.out[name]
	if l == nil || l.domain != domain {
		return nil
	}
	delete(s.out, name)
	l.timer.Stop()
	return l
}

var errOutcome = errors.New("registry: the outcome was a failure")

func release(_ context.Context, s *Packets, domain string, a argument) (any, error) {
	var outcome error
	switch {
	case a.outcome == "failure":
		outcome = errOutcome
	case a.outcome == "ignored":
		outcome = context.Canceled // as of a caller who has left: neither good nor bad
	case a.outcome != "" && a.outcome != "success":
		return nil, &FieldError{"data.outcome", fmt.Sprintf("%.64q", a.outcome), `"success", "failure" or "ignored"`}
	}
	l := s.back(domain, a.permit)
	if l == nil {
		return nil, &Error{FailureWhileExecutingOperation, "", fmt.Errorf("permit %.64q: %w", a.permit, ErrNotFound)}
	}
	l.permit.Release(outcome)
	return struct{}{}, nil
}
