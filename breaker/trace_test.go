package breaker_test

import (
	"cmp"
	"encoding/json"
	"math"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/breaker"
)

// A trace is one run of a reference circuit breaker.
type trace struct {
	Name   string `json:"name"`
	Config struct {
		Window             string  `json:"window"`
		WindowSize         int     `json:"window_size"`
		MinimumCalls       int     `json:"minimum_calls"`
		FailureRate        float64 `json:"failure_rate_threshold"`
		SlowCallRate       float64 `json:"slow_call_rate_threshold"`
		SlowCallDurationMS int     `json:"slow_call_duration_ms"`
		HalfOpenCalls      int     `json:"half_open_calls"`
		WaitOpenMS         int     `json:"wait_open_ms"`
		WaitOpenMultiplier float64 `json:"wait_open_multiplier"`
		WaitOpenMaxMS      int     `json:"wait_open_max_ms"`
	} `json:"config"`
	Steps []step `json:"steps"`
}

type step struct {
	Op        string `json:"op"`
	MS        int    `json:"ms"`
	To        string `json:"to"`
	Permitted bool   `json:"permitted"`

	// After the step:
	State        string  `json:"state"`
	FailureRate  float64 `json:"failure_rate"`
	SlowCallRate float64 `json:"slow_call_rate"`
	Calls        int     `json:"calls"`
	Failed       int     `json:"failed"`
	Slow         int     `json:"slow"`
	Rejected     uint64  `json:"rejected"`
}

var traceStates = map[string]breaker.State{
	"closed": breaker.Closed, "open": breaker.Open, "half_open": breaker.HalfOpen,
	"disabled": breaker.Disabled, "forced_open": breaker.ForcedOpen, "metrics_only": breaker.MetricsOnly,
}

func (tr *trace) config(t *testing.T) breaker.Config {
	c := tr.Config
	cfg := breaker.Config{
		MinCalls:      c.MinimumCalls,
		FailureRate:   c.FailureRate / 100,
		SlowRate:      c.SlowCallRate / 100,
		SlowCall:      time.Duration(c.SlowCallDurationMS) * time.Millisecond,
		HalfOpenCalls: c.HalfOpenCalls,
		Lease:         1000 * time.Hour, // the reference has none
	}
	switch c.Window {
	case "count":
		cfg.Window = c.WindowSize
	case "time":
		cfg.WindowTime = time.Duration(c.WindowSize) * time.Second
	default:
		t.Fatalf("no window %q", c.Window)
	}
	wait := openWait(c.WaitOpenMS)
	cfg.OpenFor = backoff.Constant(wait)
	if c.WaitOpenMultiplier > 0 {
		longer := backoff.Exponential{Initial: wait, Multiplier: c.WaitOpenMultiplier}
		if c.WaitOpenMaxMS > 0 {
			longer.Max = openWait(c.WaitOpenMaxMS)
		}
		cfg.OpenFor = longer
	}
	return cfg
}

// openWait is how long the breaker is open for a reference that is open for ms: that
// counts whole milliseconds, and admits no trial call before the next one.
func openWait(ms int) time.Duration { return time.Duration(ms)*time.Millisecond + 1 }

// The breaker does what the reference did, step for step. FLYBALL_BREAKER_TRACES names
// another file of traces.
func TestReproducesTheTracesOfAReferenceBreaker(t *testing.T) {
	replay(t, cmp.Or(os.Getenv("FLYBALL_BREAKER_TRACES"), "testdata/breaker_traces.json"))
}

// Made up by the rule, for what random runs seldom meet.
func TestReproducesTracesAtTheEdges(t *testing.T) { replay(t, "testdata/breaker_edges.json") }

// replay runs the traces of a file. A bubble's clock begins at a whole second, as a
// trace does.
func replay(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var traces []trace
	if err := json.Unmarshal(text, &traces); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if len(traces) == 0 {
		t.Fatalf("%s: no traces", file)
	}
	for _, tr := range traces {
		t.Run(tr.Name, func(t *testing.T) { synctest.Test(t, tr.run) })
	}
}

func (tr *trace) run(t *testing.T) {
	b := newBreaker(t, tr.config(t))
	var permits []breaker.Permit // of the present state, not given back
	before := b.Stats()
	for i, s := range tr.Steps {
		took := time.Duration(s.MS) * time.Millisecond
		report := func(o breaker.Outcome) {
			if len(permits) == 0 {
				t.Fatalf("step %d: %s without a permit", i, s.Op)
			}
			p := permits[0]
			permits = permits[1:]
			b.Report(p, time.Now(), o, took)
		}
		switch s.Op {
		case "advance":
			time.Sleep(took)
		case "acquire":
			p, err := b.Acquire(time.Now())
			if (err == nil) != s.Permitted {
				t.Fatalf("step %d: acquire: %v, want permitted: %v", i, err, s.Permitted)
			}
			if err == nil {
				if b.Stats().Generation != before.Generation {
					permits = nil
				}
				permits = append(permits, p)
			}
		case "success":
			report(breaker.Success)
		case "failure":
			report(breaker.Failure)
		case "ignored", "release":
			report(breaker.Neutral)
		case "transition":
			to, ok := traceStates[s.To]
			if !ok {
				t.Fatalf("step %d: no state %q", i, s.To)
			}
			if err := b.Transition(to); err != nil {
				t.Fatal(err)
			}
		case "reset":
			b.Reset()
		default:
			t.Fatalf("step %d: no operation %q", i, s.Op)
		}
		got := b.Stats()
		if s.Op != "acquire" && got.Generation != before.Generation {
			permits = nil
		}
		before = got
		state, ok := traceStates[s.State]
		if !ok || got.State != state || !rate(got.FailureRate, s.FailureRate) || !rate(got.SlowRate, s.SlowCallRate) ||
			got.Calls != s.Calls || got.Failed != s.Failed || got.Slow != s.Slow || got.Rejected != s.Rejected {
			t.Fatalf("step %d, %s: got  %+v\nwant %+v", i, s.Op, got, s)
		}
	}
}

// rate reports whether a fraction is a percentage that was kept in 32 bits.
func rate(fraction, percent float64) bool {
	if percent == -1 {
		return fraction == -1
	}
	return math.Abs(fraction*100-percent) < 1e-4
}
