package telemetry

import (
	"cmp"
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/flyball-go/flyball/governor"
)

// The attributes.
const (
	keyGovernor = attribute.Key("flyball.governor") // Config.Name of the governor
	keyName     = attribute.Key("flyball.name")     // Config.Name of a policy used alone
	keyKind     = attribute.Key("flyball.event")    // event.Kind
	keyOutcome  = attribute.Key("flyball.outcome")
	keyState    = attribute.Key("flyball.state")
	keyScope    = attribute.Key("flyball.scope")
	keyLevel    = attribute.Key("flyball.level")
	keyPhase    = attribute.Key("flyball.phase")
	keyQuantile = attribute.Key("flyball.quantile")
	keyLimit    = attribute.Key("flyball.limit") // its place in governor.Config.Limits
)

// instrument is a metric that is read from a governor's Stats.
type instrument struct {
	name, unit, help string
	kind             kind
	read             func(*governor.Stats, emit)
}

type kind uint8

const (
	counter kind = iota // only grows while a governor lives
	gauge
)

// emit takes a value with the attributes that it has beside the governor's.
type emit func(v float64, with ...attribute.KeyValue)

// one reads a number without attributes.
func one[N uint64 | int](of func(*governor.Stats) N) func(*governor.Stats, emit) {
	return func(s *governor.Stats, e emit) { e(float64(of(s))) }
}

// The instruments. Their order is that of the documentation.
func instruments(scopes int) []instrument {
	return []instrument{
		{"flyball.requests.submitted", "{request}", "Requests that were accepted.", counter,
			one(func(s *governor.Stats) uint64 { return s.Submitted })},
		{"flyball.requests", "{request}", "Requests that have ended, by outcome: refused ones were never accepted, dropped ones ended in the queue.", counter, outcomes},
		{"flyball.requests.gave_up", "{request}", "Requests whose attempts, or time, ran out.", counter,
			one(func(s *governor.Stats) uint64 { return s.GaveUp })},
		{"flyball.requests.overflowed", "{request}", "Requests that a full queue refused or dropped.", counter,
			one(func(s *governor.Stats) uint64 { return s.Overflow })},
		{"flyball.attempts", "{attempt}", "Runs of closures.", counter,
			one(func(s *governor.Stats) uint64 { return s.Started })},
		{"flyball.attempts.limited", "{attempt}", "Attempts that the vendor refused for the rate of calls.", counter,
			one(func(s *governor.Stats) uint64 { return s.Limited })},
		{"flyball.attempts.retried", "{attempt}", "Attempts that were repeated after another error.", counter,
			one(func(s *governor.Stats) uint64 { return s.Retried })},
		{"flyball.attempts.again", "{attempt}", "Attempts that asked to be followed by another.", counter,
			one(func(s *governor.Stats) uint64 { return s.Again })},
		{"flyball.attempts.stuck", "{attempt}", "Closures and holds that ran longer than they should.", counter,
			one(func(s *governor.Stats) uint64 { return s.Stuck })},
		{"flyball.panics", "{panic}", "Closures that panicked.", counter,
			one(func(s *governor.Stats) uint64 { return s.Panics })},
		{"flyball.hook.panics", "{panic}", "Listeners, hooks and adapters that panicked.", counter,
			one(func(s *governor.Stats) uint64 { return s.Hooks + s.BadVendor })},
		{"flyball.events.dropped", "{event}", "Events that slow listeners lost.", counter,
			one(func(s *governor.Stats) uint64 { return s.Events })},
		{"flyball.cooldowns", "{cooldown}", "Cooldowns that began.", counter,
			one(func(s *governor.Stats) uint64 { return s.Episodes })},
		{"flyball.delays.clamped", "{delay}", "Delays a vendor asked for that were changed to permitted ones.", counter,
			one(func(s *governor.Stats) uint64 { return s.Clamped })},
		{"flyball.observed", "{request}", "Under Observe: requests that would have waited, or been refused.", counter, observed},

		{"flyball.cooldown.remaining", "s", "How long a scope cools yet; 0 while its traffic returns.", gauge, remaining(scopes)},
		{"flyball.cooling", "{scope}", "Scopes that cool, or on their way back.", gauge,
			one(func(s *governor.Stats) int { return len(s.Cooldowns) })},
		{"flyball.queue.length", "{request}", "Requests that wait.", gauge,
			one(func(s *governor.Stats) int { return s.Queued })},
		{"flyball.queue.limit", "{request}", "How many may wait.", gauge,
			one(func(s *governor.Stats) int { return s.MaxQueue })},
		{"flyball.queue.lanes", "{lane}", "Lanes that they wait in.", gauge,
			one(func(s *governor.Stats) int { return s.LaneCount })},
		{"flyball.slots.used", "{slot}", "Closures that run, holds, and opening connections.", gauge,
			one(func(s *governor.Stats) int { return s.InFlight })},
		{"flyball.slots.limit", "{slot}", "How many may.", gauge,
			one(func(s *governor.Stats) int { return s.Workers })},
		{"flyball.paused", "1", "1 while starts are suspended by hand.", gauge,
			func(s *governor.Stats, e emit) { e(bit(s.Paused)) }},
		{"flyball.limit.rate", "{permit}/s", "The rate that a limit keeps at present.", gauge, rates},
		{"flyball.breaker.refusing", "1", "1 while the breaker refuses calls.", gauge,
			func(s *governor.Stats, e emit) {
				if s.Breaker != "" {
					e(bit(s.Breaker != "ready"))
				}
			}},
		{"flyball.wait.quantile", "s", "How long attempts waited in the queue: quantiles since the governor was made.", gauge,
			func(s *governor.Stats, e emit) { quantiles(s.Wait, e) }},
		{"flyball.call.quantile", "s", "How long closures ran: quantiles since the governor was made.", gauge,
			func(s *governor.Stats, e emit) { quantiles(s.Call, e) }},

		{"flyball.pool.connections", "{connection}", "Connections, by state.", gauge, pooled(func(s *governor.Stats, e emit) {
			e(float64(s.Pool.Idle), keyState.String("idle"))
			e(float64(s.Pool.InUse), keyState.String("used"))
			e(float64(s.Pool.Opening), keyState.String("opening"))
			e(float64(s.Pool.Closing), keyState.String("closing"))
		})},
		{"flyball.pool.limit", "{connection}", "How many there may be.", gauge,
			pooled(one(func(s *governor.Stats) int { return s.Pool.Max }))},
		{"flyball.pool.created", "{connection}", "Connections that were opened.", counter,
			pooled(one(func(s *governor.Stats) uint64 { return s.Pool.Created }))},
		{"flyball.pool.failed", "{connection}", "Connections that could not be opened.", counter,
			pooled(one(func(s *governor.Stats) uint64 { return s.Pool.Failed }))},
		{"flyball.pool.reused", "{connection}", "Loans of an idle connection.", counter,
			pooled(one(func(s *governor.Stats) uint64 { return s.Pool.Reused }))},
		{"flyball.pool.stolen", "{connection}", "Idle connections that made room for another selector's.", counter,
			pooled(one(func(s *governor.Stats) uint64 { return s.Pool.Stolen }))},
		{"flyball.pool.discarded", "{connection}", "Connections that were closed as bad, old or worn.", counter,
			pooled(one(func(s *governor.Stats) uint64 { return s.Pool.Discarded }))},
	}
}

func outcomes(s *governor.Stats, e emit) {
	e(float64(s.Succeeded), keyOutcome.String("succeeded"))
	e(float64(s.Failed), keyOutcome.String("failed"))
	e(float64(s.Dropped), keyOutcome.String("dropped"))
	e(float64(s.Refused), keyOutcome.String("refused"))
}

func observed(s *governor.Stats, e emit) {
	if s.Observe {
		e(float64(s.WouldWait), keyOutcome.String("waited"))
		e(float64(s.WouldRefuse), keyOutcome.String("refused"))
	}
}

// remaining tells of the scopes that cool longest.
func remaining(most int) func(*governor.Stats, emit) {
	return func(s *governor.Stats, e emit) {
		longest := slices.Clone(s.Cooldowns)
		slices.SortStableFunc(longest, func(a, b governor.CooldownStats) int { return b.Until.Compare(a.Until) })
		for _, c := range longest[:min(len(longest), max(most, 0))] {
			left := max(0, c.Until.Sub(s.Time))
			e(left.Seconds(), keyScope.String(c.Scope.String()), keyLevel.String(c.Scope.Level.String()), keyPhase.String(c.Phase))
		}
	}
}

func rates(s *governor.Stats, e emit) {
	for i, l := range s.Limits {
		if l.Rate > 0 {
			e(l.Rate, keyLimit.Int(i), keyLevel.String(l.Per.String()))
		}
	}
}

func quantiles(l governor.Latency, e emit) {
	if l.Count == 0 {
		return
	}
	for _, q := range []struct {
		name string
		d    time.Duration
	}{{"0.5", l.P50}, {"0.9", l.P90}, {"0.99", l.P99}, {"1", l.Max}} {
		e(q.d.Seconds(), keyQuantile.String(q.name))
	}
}

// pooled is for governors with a pool only.
func pooled(read func(*governor.Stats, emit)) func(*governor.Stats, emit) {
	return func(s *governor.Stats, e emit) {
		if s.Pool.Max > 0 {
			read(s, e)
		}
	}
}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// made is an instrument of a Telemetry.
type made struct {
	instrument
	metric.Float64Observable
}

// observe tells all that Stats say of the watched governors.
func (t *Telemetry) observe(_ context.Context, o metric.Observer) error {
	for _, w := range t.watched() {
		s := w.handle.Stats()
		for _, m := range t.made {
			m.read(&s, func(v float64, with ...attribute.KeyValue) {
				o.ObserveFloat64(m.Float64Observable, v, w.attrs, metric.WithAttributes(with...))
			})
		}
	}
	return nil
}

// byName sorts so that governors are told of in one order.
func byName(a, b *watch) int {
	return cmp.Or(cmp.Compare(a.handle.Name(), b.handle.Name()), cmp.Compare(a.number, b.number))
}
