package adsclient

import (
	"errors"
	"sync"
	"time"

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
	DuringPause int64         // begun although a refusal received before had announced a pause that was not over
	Escalations int64         // pauses that grew while they ran
	Longest     time.Duration // the longest pause announced
	Since       time.Time     // the first attempt's beginning; zero before it
}

// Meter measures how a client behaves, from what the client itself can know. It
// sits around the call itself, so that it measures any way of deciding when to
// call in the same way.
//
// All methods are safe for simultaneous use by multiple goroutines.
type Meter struct {
	max     int64
	adapter vendors.Adapter

	mu      sync.Mutex // guards everything below; nothing is called while it is held
	counts  Counts
	host    pause
	tenants map[string]*pause
}

// pause is what a limit has announced.
type pause struct {
	since time.Time // the receipt of the refusal that announced it first
	until time.Time
	delay time.Duration
}

// sameMoment is how close together a receipt and a beginning, on two goroutines,
// count as simultaneous. The Meter sees a refusal a few microseconds before
// whoever made the call does, and a beginning as long after it was decided.
const sameMoment = time.Millisecond

// known reports whether an attempt that begins now does so although the pause
// was announced.
func (p *pause) known(now time.Time) bool {
	return now.Before(p.until) && now.Sub(p.since) > sameMoment
}

// NewMeter returns a Meter that allows max calls; 0: any number.
func NewMeter(max int64) *Meter {
	return &Meter{max: max, adapter: vendors.GoogleAds(), tenants: map[string]*pause{}}
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

// begin counts an attempt for a tenant that begins now.
func (m *Meter) begin(tenant string) error {
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
	if own := m.tenants[tenant]; m.host.known(now) || own != nil && own.known(now) {
		m.counts.DuringPause++
	}
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
		p.since, p.delay, p.until = at, delay, end
	case end.After(p.until):
		if delay >= p.delay && end.Sub(p.until) > max(5*time.Millisecond, p.delay/100) {
			m.counts.Escalations++
		}
		p.delay, p.until = max(p.delay, delay), end
	}
}
