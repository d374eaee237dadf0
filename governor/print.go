package governor

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/flyball-go/flyball/breaker"
)

// String returns "governor" and its name. It asks nothing of the governor, so that one
// may be printed wherever it is at hand; Stats has what there is to know.
func (c *core) String() string { return "governor " + c.name }

// LogValue makes a governor its name in a log.
func (c *core) LogValue() slog.Value { return slog.StringValue(c.name) }

// String returns "request" and its state.
func (r *request) String() string { return "request " + r.State().String() }

// mostTold bounds the scopes that Stats.String lists.
const mostTold = 3

// String returns the most important of a snapshot as a line for people, such as
//
//	acme: 3 queued, 2 of 16 in flight, host cooling for 59.9s; submitted 104, succeeded 101, limited 1; wait p50 32µs p99 1.04s, call p50 8µs p99 48µs
//
// Counters that are 0 are left out. The whole of it is in the fields, and in JSON.
func (s Stats) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d queued, %d of %d in flight", s.Name, s.Queued, s.InFlight, s.Workers)
	switch {
	case s.Closed:
		b.WriteString(", closed")
	case s.Paused:
		b.WriteString(", paused")
	}
	for i, c := range s.Cooldowns {
		if i == mostTold {
			fmt.Fprintf(&b, ", %d more cooling", s.CooldownCount-i)
			break
		}
		fmt.Fprintf(&b, ", %s %s", c.Scope, c.Phase)
		if left := c.Until.Sub(s.Time); left > 0 {
			fmt.Fprintf(&b, " for %s", left.Round(100*time.Millisecond))
		}
	}
	if s.Breaker != nil && (s.Breaker.State != breaker.Closed || s.Breaker.Refusing) {
		fmt.Fprintf(&b, ", breaker %s", s.Breaker.State)
	}
	if s.Pool.Max > 0 {
		fmt.Fprintf(&b, ", %d of %d connections", s.Pool.Open, s.Pool.Max)
	}
	fmt.Fprintf(&b, "; submitted %d, succeeded %d", s.Submitted, s.Succeeded)
	for _, n := range []struct {
		name  string
		count uint64
	}{
		{"failed", s.Failed}, {"refused", s.Refused}, {"dropped", s.Dropped}, {"limited", s.Limited}, {"retried", s.Retried},
		{"again", s.Again}, {"gave up", s.GaveUp}, {"panics", s.Panics}, {"stuck", s.Stuck},
		{"would wait", s.WouldWait}, {"would refuse", s.WouldRefuse}, {"events dropped", s.EventsDropped}, {"hook panics", s.HookPanics},
	} {
		if n.count > 0 {
			fmt.Fprintf(&b, ", %s %d", n.name, n.count)
		}
	}
	if s.Started > 0 {
		fmt.Fprintf(&b, "; wait p50 %s p99 %s, call p50 %s p99 %s", s.Wait.P50, s.Wait.P99, s.Call.P50, s.Call.P99)
	}
	return b.String()
}
