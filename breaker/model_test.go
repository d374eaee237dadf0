package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/internal/effort"
)

// model is a breaker that is slow and plain: it keeps every outcome and counts
// anew each time. It has no defaults.
type model struct {
	cfg      breaker.Config
	state    breaker.State
	gen      int
	log      []outcome
	rejected uint64
	until    time.Time // Open and HalfOpen
	opens    int
	cause    string
	first    time.Time
	delay    time.Duration
	trials   []*modelCall
	before   *model // HalfOpen that was Open
}

type outcome struct {
	at           time.Time
	failed, slow bool
}

type modelCall struct {
	gen   int
	began time.Time
	lease time.Time
}

// counted is the part of the log that is in the window.
func (m *model) counted(now time.Time) (log []outcome) {
	switch {
	case m.cfg.Consecutive > 0 && (m.state == breaker.Closed || m.state == breaker.MetricsOnly || m.state == breaker.Open && !m.judgedAsTrial()):
		for _, o := range m.log {
			if o.failed {
				log = append(log, o)
			} else {
				log = nil
			}
		}
		return log
	case m.judgedAsTrial():
		return m.log
	case m.cfg.WindowTime > 0:
		for _, o := range m.log {
			if now.Unix()-o.at.Unix() < int64(m.cfg.WindowTime/time.Second) {
				log = append(log, o)
			}
		}
		return log
	}
	return m.log[max(0, len(m.log)-m.cfg.Window):]
}

// judgedAsTrial reports whether the log is that of trial calls.
func (m *model) judgedAsTrial() bool { return m.before != nil || m.state == breaker.HalfOpen }

func (m *model) rates(now time.Time) (failed, slow float64, calls, nFailed, nSlow int) {
	log := m.counted(now)
	for _, o := range log {
		if o.failed {
			nFailed++
		}
		if o.slow {
			nSlow++
		}
	}
	minimum := m.cfg.MinCalls
	switch {
	case m.judgedAsTrial():
		minimum = min(minimum, m.cfg.HalfOpenCalls)
	case m.cfg.WindowTime == 0:
		minimum = min(minimum, m.cfg.Window)
	}
	n := len(log)
	if m.cfg.Consecutive > 0 || n < minimum {
		return -1, -1, n, nFailed, nSlow
	}
	return float64(nFailed) / float64(n), float64(nSlow) / float64(n), n, nFailed, nSlow
}

func (m *model) enter(now time.Time, s breaker.State) {
	m.gen++
	m.state, m.log, m.rejected, m.until, m.trials, m.before = s, nil, 0, time.Time{}, nil, nil
	switch s {
	case breaker.HalfOpen:
		if m.cfg.HalfOpenWait > 0 {
			m.until = now.Add(m.cfg.HalfOpenWait)
		}
	case breaker.ForcedOpen:
		if m.opens++; m.opens == 1 {
			m.first = now
		}
	default:
		m.opens, m.delay, m.cause = 0, 0, ""
	}
}

// open keeps log and before, by which the log is told for one of trial calls.
func (m *model) open(now time.Time, hint time.Duration, err error) {
	if m.state == breaker.HalfOpen && m.before == nil {
		m.before = &model{}
	}
	if m.opens++; err != nil {
		m.cause = err.Error()
	}
	if m.opens == 1 {
		m.first = now
	}
	d, again := m.cfg.OpenFor.Next(backoff.Step{Attempt: m.opens, Prev: m.delay, Elapsed: now.Sub(m.first), Err: err})
	if !again {
		if d = m.delay; d == 0 {
			d = time.Minute
		}
	}
	m.delay = d
	if hint > 0 {
		d = min(hint, m.cfg.MaxRetryAfter)
	}
	m.gen++
	m.state, m.trials, m.until = breaker.Open, nil, now.Add(d)
}

func (m *model) advance(now time.Time) {
	if m.state == breaker.HalfOpen && !m.until.IsZero() && !now.Before(m.until) {
		if m.cfg.HalfOpenClose {
			m.enter(now, breaker.Closed)
		} else {
			m.open(m.until, 0, nil)
		}
	}
}

func (m *model) live(now time.Time) (n int) {
	for _, c := range m.trials {
		if now.Before(c.lease) {
			n++
		}
	}
	return n
}

func (m *model) ready(now time.Time) bool {
	m.advance(now)
	switch m.state {
	case breaker.Open:
		return !now.Before(m.until)
	case breaker.HalfOpen:
		return len(m.log)+m.live(now) < m.cfg.HalfOpenCalls
	}
	return m.state != breaker.ForcedOpen
}

func (m *model) acquire(now time.Time) *modelCall {
	if !m.ready(now) {
		m.rejected++
		return nil
	}
	if m.state == breaker.Open {
		was := *m
		m.enter(now, breaker.HalfOpen)
		m.before = &was
		m.opens, m.delay, m.first = was.opens, was.delay, was.first
	}
	c := &modelCall{gen: m.gen, began: now}
	if m.state == breaker.HalfOpen {
		c.lease = now.Add(m.cfg.Lease)
		m.trials = append(m.trials, c)
		if len(m.trials) > 100+m.cfg.HalfOpenCalls {
			m.trials = m.trials[1:]
		}
	}
	return c
}

func (m *model) report(now time.Time, c *modelCall, k kind) {
	m.advance(now)
	if c.gen != m.gen || m.state == breaker.Disabled {
		return
	}
	if m.state == breaker.HalfOpen {
		i := slices.Index(m.trials, c)
		if i < 0 {
			return
		}
		m.trials = slices.Delete(m.trials, i, i+1)
	}
	switch k {
	case ignored:
		return
	case cancelled:
		if m.state == breaker.HalfOpen && m.before != nil && len(m.trials) == 0 && len(m.log) == 0 {
			was := m.before
			m.state, m.log, m.rejected, m.until, m.before = breaker.Open, was.log, was.rejected, was.until, was.before
			m.gen++
		}
		return
	}
	slow := now.Sub(c.began) > m.cfg.SlowCall
	m.log = append(m.log, outcome{now, k != ok, slow && m.cfg.Consecutive == 0})
	bad := m.bad(now)
	switch {
	case m.state == breaker.MetricsOnly:
	case bad || k == tripping:
		m.open(now, k.hint(), k.err())
	case m.state == breaker.HalfOpen && m.done(now):
		m.enter(now, breaker.Closed)
	}
}

func (m *model) bad(now time.Time) bool {
	f, s, _, failed, _ := m.rates(now)
	if m.cfg.Consecutive > 0 {
		return failed >= m.cfg.Consecutive || m.state == breaker.HalfOpen && failed > 0
	}
	if m.cfg.Failures > 0 {
		return failed >= m.cfg.Failures || m.state == breaker.HalfOpen && failed > 0 || s >= m.cfg.SlowRate
	}
	return f >= m.cfg.FailureRate || s >= m.cfg.SlowRate
}

func (m *model) done(now time.Time) bool {
	if m.cfg.Consecutive > 0 {
		return len(m.log) == m.cfg.HalfOpenCalls
	}
	return len(m.log) >= min(m.cfg.MinCalls, m.cfg.HalfOpenCalls)
}

// kind is how a call ends.
type kind int

const (
	ok kind = iota
	failed
	hinted
	tripping
	ignored
	cancelled
)

type hint struct{ d time.Duration }

func (h hint) Error() string             { return fmt.Sprintf("again in %v", h.d) }
func (h hint) RetryAfter() time.Duration { return h.d }

var (
	errDown   = errors.New("down")
	errTrip   = errors.New("gone")
	errIgnore = errors.New("your fault")
)

func (k kind) err() error {
	switch k {
	case failed:
		return errDown
	case hinted:
		return fmt.Errorf("busy: %w", hint{k.hint()})
	case tripping:
		return errTrip
	case ignored:
		return errIgnore
	case cancelled:
		return fmt.Errorf("query: %w", context.Canceled)
	}
	return nil
}

func (k kind) hint() time.Duration {
	if k == hinted {
		return 7 * time.Second
	}
	return 0
}

func randomConfig(r *rand.Rand) breaker.Config {
	cfg := breaker.Config{
		HalfOpenCalls: 1 + r.IntN(4),
		HalfOpenWait:  time.Duration(r.IntN(2)*r.IntN(8)) * time.Second,
		Lease:         time.Duration(1+r.IntN(5)) * time.Second,
		MaxRetryAfter: time.Duration(4+r.IntN(6)) * time.Second,
		Ignore:        func(err error) bool { return errors.Is(err, errIgnore) },
		OpenOn:        func(err error) bool { return errors.Is(err, errTrip) },
	}
	cfg.HalfOpenClose = cfg.HalfOpenWait > 0 && r.IntN(3) == 0
	switch r.IntN(3) {
	case 0:
		cfg.OpenFor = backoff.Constant(time.Duration(r.IntN(4)) * time.Second)
	case 1:
		cfg.OpenFor = backoff.Exponential{Initial: time.Second, Multiplier: 1.5, Max: 6 * time.Second}
	case 2:
		cfg.OpenFor = backoff.And(backoff.Times(2), backoff.Linear{Initial: time.Second})
	}
	mode := r.IntN(4)
	if mode == 0 {
		cfg.Consecutive = 1 + r.IntN(3)
		return cfg
	}
	cfg.MinCalls = 1 + r.IntN(8)
	cfg.FailureRate = float64(1+r.IntN(10)) / 10
	cfg.SlowRate = float64(1+r.IntN(10)) / 10
	cfg.SlowCall = time.Duration(1+r.IntN(3)) * 700 * time.Millisecond
	if mode == 1 {
		cfg.WindowTime = time.Duration(1+r.IntN(6)) * time.Second
	} else {
		cfg.Window = 1 + r.IntN(8)
	}
	if r.IntN(3) == 0 {
		cfg.FailureRate, cfg.Failures = 0, 1+r.IntN(max(cfg.Window, 4))
		if cfg.Window > 0 {
			cfg.Failures = min(cfg.Failures, cfg.Window)
		}
	}
	return cfg
}

// Whatever happens, in whatever order, the breaker is where the model is.
func TestAgreesWithAModel(t *testing.T) {
	for seed := range uint64(effort.Times(75)) {
		synctest.Test(t, func(t *testing.T) { agree(t, seed) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func agree(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	cfg := randomConfig(r)
	b := newBreaker(t, cfg)
	m := &model{cfg: cfg, gen: 1}
	type call struct {
		*modelCall
		kinds []kind // how it can end
		end   func(kind)
	}
	var out []call
	bias := r.IntN(10) // of 10 calls, how many end well
	var trail []string
	for range 200 {
		now := time.Now()
		what := ""
		switch n := r.IntN(40); {
		case n < 12: // through Allow
			what = "allow"
			done, err := b.Allow()
			c := m.acquire(now)
			if (err == nil) != (c != nil) {
				t.Fatalf("%+v\n%v\nallow: %v, want admitted: %v", cfg, trail, err, c != nil)
			}
			if c != nil {
				out = append(out, call{c, []kind{failed, hinted, tripping, ignored, cancelled}, func(k kind) { done(k.err()) }})
			}
		case n < 14: // as a governor does
			what = "acquire"
			p, err := b.Acquire(now)
			c := m.acquire(now)
			if (err == nil) != (c != nil) {
				t.Fatalf("%+v\n%v\nacquire: %v, want admitted: %v", cfg, trail, err, c != nil)
			}
			if c != nil {
				out = append(out, call{c, []kind{failed, hinted, tripping, ignored}, func(k kind) {
					o := map[kind]breaker.Outcome{ok: breaker.Success, failed: breaker.Failure, hinted: breaker.Failure, tripping: breaker.Failure}[k]
					b.ReportError(p, time.Now(), o, time.Since(c.began), k.err())
				}})
			}
		case n < 27:
			if len(out) == 0 {
				continue
			}
			i := r.IntN(len(out))
			c := out[i]
			k := ok
			if r.IntN(10) >= bias {
				k = c.kinds[r.IntN(len(c.kinds))]
			}
			what = fmt.Sprintf("end %d", k)
			c.end(k)
			m.report(now, c.modelCall, k)
			if r.IntN(8) > 0 {
				out = slices.Delete(out, i, i+1)
			} else if c.gen == m.gen && m.state != breaker.HalfOpen {
				out = slices.Delete(out, i, i+1) // a second report of it would count
			} // else it is ended once more, sometime, in vain
		case n < 28 && len(out) > 0:
			what = "lost"
			out = out[1:]
		case n < 29:
			to := breaker.State(r.IntN(6))
			what = "to " + to.String()
			var hint time.Duration
			if to == breaker.Open && r.IntN(2) == 0 {
				hint = time.Duration(r.IntN(12)-2) * time.Second
				b.OpenUntil(now.Add(hint))
			} else if err := b.Transition(to); err != nil {
				t.Fatal(err)
			}
			m.advance(now)
			if to == breaker.Open {
				m.open(now, hint, nil)
				m.cause = ""
			} else {
				opens, delay := m.opens, m.delay
				m.enter(now, to)
				if to == breaker.HalfOpen {
					m.opens, m.delay = opens, delay
				}
			}
		case n < 30:
			if r.IntN(4) > 0 {
				continue
			}
			what = "reset"
			b.Reset()
			m.enter(now, breaker.Closed)
		case n < 32:
			what = "ready"
			if err := b.Ready(now); (err == nil) != m.ready(now) {
				t.Fatalf("%+v\n%v\nready: %v, want %v", cfg, trail, err, m.ready(now))
			}
		case n < 34 && m.until.After(now):
			what = "until"
			time.Sleep(m.until.Sub(now))
		default:
			d := time.Duration(r.IntN(1500)) * time.Millisecond
			what = d.String()
			time.Sleep(d)
		}
		trail = append(trail, what)
		now = time.Now()
		m.advance(now)
		s := b.Stats()
		f, sl, calls, nf, ns := m.rates(now)
		want := breaker.Stats{State: m.state, Generation: s.Generation, Until: m.until, Opens: m.opens, Cause: m.cause, FailureRate: f, SlowRate: sl,
			Calls: calls, Failed: nf, Slow: ns, Rejected: m.rejected, Trials: m.live(now)}
		if s != want {
			t.Fatalf("%+v\n%v\ngot  %+v\nwant %+v", cfg, trail, s, want)
		}
	}
}
