package adsclient

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
	"github.com/flyball-go/flyball/vendors"
)

// ErrMaxCalls refuses a call beyond the number that a Meter allows. It was not
// sent.
var ErrMaxCalls = errors.New("the number of calls allowed by -max-calls is used up")

// Counts are what a Meter measured.
type Counts struct {
	Calls       int64         // attempts begun
	Refused     int64         // of them refused for their rate
	Escalations int64         // pauses that grew while they ran
	Longest     time.Duration // the longest pause announced
	Since       time.Time     // the first attempt's beginning; zero before it
}

// Meter measures how a client behaves, from what the client itself can know. It
// sits around the call itself, so that it measures any way of deciding when to
// call in the same way. When the client knew of a pause, though, only whoever
// decides can say: see Received.
//
// All methods are safe for simultaneous use by multiple goroutines.
type Meter struct {
	max     int64
	adapter vendors.Adapter

	mu      sync.Mutex // guards everything below; nothing is called while it is held
	counts  Counts
	host    pause
	tenants map[string]*pause
	begun   []begun
	known   map[string][]Span
}

// pause is what a limit has announced.
type pause struct {
	until time.Time
	delay time.Duration
}

// begun is the beginning of an attempt.
type begun struct {
	at     time.Time
	tenant string
}

func (b begun) in(s Span) bool { return b.at.After(s.From) && b.at.Before(s.To) }

// Span is a time in which the client knew that it was to pause.
type Span struct{ From, To time.Time }

// NewMeter returns a Meter that allows max calls; 0: any number.
func NewMeter(max int64) *Meter {
	return &Meter{max: max, adapter: vendors.GoogleAds(), tenants: map[string]*pause{}, known: map[string][]Span{}}
}

// Received notes that from now at on the client knew that scope was to be left
// alone until until. It may say so late.
func (m *Meter) Received(scope string, at, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known[scope] = append(m.known[scope], Span{at, until})
}

// Heard notes what err announced, the end of one of tenant's calls: the caller
// knows it now. It is for callers without a governor.
func (m *Meter) Heard(tenant string, err error) {
	now := time.Now()
	for _, s := range m.adapter.Signals(err, now) {
		if s.Scope.Level == throttle.Tenant && s.Scope.Key == "" {
			s.Scope.Key = tenant
		}
		m.Received(s.Scope.String(), now, now.Add(max(0, s.Delay)))
	}
}

// DuringPause counts the attempts begun in a pause that the client knew of: after
// the receipt of a refusal that announced it, and before its end.
func (m *Meter) DuringPause() (n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	host := throttle.Scope{}.String()
	for _, b := range m.begun {
		own := throttle.Scope{Level: throttle.Tenant, Key: b.tenant}.String()
		if slices.ContainsFunc(m.known[host], b.in) || slices.ContainsFunc(m.known[own], b.in) {
			n++
		}
	}
	return n
}

// Pauses returns the pauses of the whole host that the client knew of, as it was
// told of them: they may overlap.
func (m *Meter) Pauses() []Span {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.known[throttle.Scope{}.String()])
}

// Counts returns the counts so far, all of one moment.
func (m *Meter) Counts() Counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts
}

// Paused returns how long the pause of the whole host has still to run.
func (m *Meter) Paused() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(0, time.Until(m.host.until))
}

// begin counts an attempt for a tenant. It begins when whoever decided says so,
// by the context, that it did; otherwise now.
func (m *Meter) begin(ctx context.Context, tenant string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.max > 0 && m.counts.Calls >= m.max {
		return ErrMaxCalls
	}
	now := time.Now()
	if m.counts.Since.IsZero() {
		m.counts.Since = now
	}
	m.counts.Calls++
	b := begun{now, tenant}
	if info, ok := retry.FromContext(ctx); ok {
		b.at = info.Started
	}
	m.begun = append(m.begun, b)
	return nil
}

// end learns from how an attempt of a tenant ended.
func (m *Meter) end(tenant string, err error) {
	if err == nil {
		return
	}
	at := time.Now()
	signals := m.adapter.Signals(err, at)
	if len(signals) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts.Refused++
	for _, s := range signals {
		p := &m.host
		switch s.Scope.Level {
		case throttle.Host:
		case throttle.Tenant:
			if s.Scope.Key != "" {
				tenant = s.Scope.Key
			}
			if p = m.tenants[tenant]; p == nil {
				p = &pause{}
				m.tenants[tenant] = p
			}
		default:
			continue
		}
		if s.Delay > 0 {
			m.learn(p, at, s.Delay)
		}
	}
}

// learn merges an announcement. An escalation is one that is as long as the
// running pause was from its beginning, and ends later by more than the journeys
// of two answers differ: the pause began again.
func (m *Meter) learn(p *pause, at time.Time, delay time.Duration) {
	m.counts.Longest = max(m.counts.Longest, delay)
	end := at.Add(delay)
	switch {
	case !at.Before(p.until):
		p.delay, p.until = delay, end
	case end.After(p.until):
		if delay >= p.delay && end.Sub(p.until) > max(5*time.Millisecond, p.delay/100) {
			m.counts.Escalations++
		}
		p.delay, p.until = max(p.delay, delay), end
	}
}
