package telemetry

import (
	"slices"

	"go.opentelemetry.io/otel/attribute"

	"github.com/flyball-go/flyball/breaker"
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
	updown              // can be added up over governors
	gauge               // cannot
)

// emit takes a value, with the attribute that it has beside the governor's, or, of
// ownLabel, those that are given.
type emit func(v float64, l label, own ...attribute.KeyValue)

// label is an attribute whose values are known beforehand. Sets with them are made
// once for each governor, not whenever it is collected.
type label int

const (
	noLabel label = iota
	succeeded
	failed
	dropped
	refused
	waited
	idle
	used
	opening
	closing
	median
	p90
	p99
	longest
	closed // the first of breaker.State
	_
	_
	_
	_
	metricsOnly
	ownLabel // that is not known before
)

var labels = [ownLabel]attribute.KeyValue{
	succeeded: keyOutcome.String("succeeded"), failed: keyOutcome.String("failed"),
	dropped: keyOutcome.String("dropped"), refused: keyOutcome.String("refused"), waited: keyOutcome.String("waited"),
	idle: keyState.String("idle"), used: keyState.String("used"), opening: keyState.String("opening"), closing: keyState.String("closing"),
	median: keyQuantile.String("0.5"), p90: keyQuantile.String("0.9"), p99: keyQuantile.String("0.99"), longest: keyQuantile.String("1"),
}

// breakerLabel is that of a breaker's state.
func breakerLabel(s breaker.State) label { return closed + label(s) }

func init() {
	for s := breaker.Closed; s <= breaker.MetricsOnly; s++ {
		labels[breakerLabel(s)] = keyState.String(s.String())
	}
}

// one reads a number without attributes.
func one[N uint64 | int](of func(*governor.Stats) N) func(*governor.Stats, emit) {
	return func(s *governor.Stats, e emit) { e(float64(of(s)), noLabel) }
}

// The instruments. Their order is that of the documentation.
func instruments(scopes int) []instrument {
	return []instrument{
		{"flyball.requests.submitted", "{request}", "Requests that were accepted.", counter,
			one(func(s *governor.Stats) uint64 { return s.Submitted })},
		{"flyball.requests.ended", "{request}", "Requests that have ended, by outcome: refused ones were never accepted, dropped ones ended in the queue.", counter, outcomes},
		{"flyball.requests.gave_up", "{request}", "Requests whose attempts, or time, ran out.", counter,
			one(func(s *governor.Stats) uint64 { return s.GaveUp })},
		{"flyball.requests.overflowed", "{request}", "Requests that a full queue refused or dropped.", counter,
			one(func(s *governor.Stats) uint64 { return s.Overflow })},
		{"flyball.attempts.started", "{attempt}", "Runs of closures.", counter,
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
			one(func(s *governor.Stats) uint64 { return s.HookPanics + s.BadVendor })},
		{"flyball.events.dropped", "{event}", "Events that slow listeners lost.", counter,
			one(func(s *governor.Stats) uint64 { return s.EventsDropped })},
		{"flyball.cooldowns", "{cooldown}", "Cooldowns that began.", counter,
			one(func(s *governor.Stats) uint64 { return s.Episodes })},
		{"flyball.delays.clamped", "{delay}", "Delays a vendor asked for that were changed to permitted ones.", counter,
			one(func(s *governor.Stats) uint64 { return s.Clamped })},
		{"flyball.requests.observed", "{request}", "Under Observe: requests that would have waited, or been refused.", counter, observed},

		{"flyball.cooldown.remaining", "s", "How long a scope cools yet; 0 while its traffic returns.", gauge, remaining(scopes)},
		{"flyball.cooling", "{scope}", "Scopes that cool, or on their way back.", updown,
			one(func(s *governor.Stats) int { return s.CooldownCount })},
		{"flyball.queue.length", "{request}", "Requests that wait.", updown,
			one(func(s *governor.Stats) int { return s.Queued })},
		{"flyball.queue.limit", "{request}", "How many may wait.", updown,
			one(func(s *governor.Stats) int { return s.MaxQueue })},
		{"flyball.queue.lanes", "{lane}", "Lanes that they wait in.", updown,
			one(func(s *governor.Stats) int { return s.LaneCount })},
		{"flyball.queue.tenants", "{tenant}", "Tenants of whom requests wait.", updown,
			one(func(s *governor.Stats) int { return s.TenantCount })},
		{"flyball.slots.usage", "{slot}", "Closures that run, holds, and opening connections.", updown,
			one(func(s *governor.Stats) int { return s.InFlight })},
		{"flyball.slots.limit", "{slot}", "How many may.", updown,
			one(func(s *governor.Stats) int { return s.Workers })},
		{"flyball.paused", "{governor}", "1 while starts are suspended by hand.", updown,
			func(s *governor.Stats, e emit) { e(bit(s.Paused), noLabel) }},
		{"flyball.limit.rate", "{permit}/s", "The rate that a limit keeps at present.", gauge, rates},
		{"flyball.limit.remaining", "{permit}", "What is left of a limit of the host, where that is known.", gauge, left},
		{"flyball.breaker.refusing", "{breaker}", "1 while the breaker refuses calls.", updown,
			func(s *governor.Stats, e emit) {
				if s.Breaker != nil {
					e(bit(s.Breaker.Refusing), noLabel)
				}
			}},
		{"flyball.breaker.state", "{breaker}", "1 for the state that the breaker is in, 0 for the others.", updown, states},
		{"flyball.breaker.remaining", "s", "How long an open breaker refuses calls yet, where that is known.", gauge,
			func(s *governor.Stats, e emit) {
				if b := s.Breaker; b != nil && b.Refusing && !b.Until.IsZero() {
					e(max(0, b.Until.Sub(s.Time)).Seconds(), noLabel)
				}
			}},
		{"flyball.wait.quantile", "s", "How long attempts waited in the queue: quantiles of the last minutes.", gauge,
			func(s *governor.Stats, e emit) { quantiles(s.RecentWait, e) }},
		{"flyball.call.quantile", "s", "How long closures ran: quantiles of the last minutes.", gauge,
			func(s *governor.Stats, e emit) { quantiles(s.RecentCall, e) }},

		{"flyball.pool.connections", "{connection}", "Connections, by state.", updown, pooled(func(s *governor.Stats, e emit) {
			e(float64(s.Pool.Idle), idle)
			e(float64(s.Pool.InUse), used)
			e(float64(s.Pool.Opening), opening)
			e(float64(s.Pool.Closing), closing)
		})},
		{"flyball.pool.limit", "{connection}", "How many there may be.", updown,
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
	e(float64(s.Succeeded), succeeded)
	e(float64(s.Failed), failed)
	e(float64(s.Dropped), dropped)
	e(float64(s.Refused), refused)
}

func observed(s *governor.Stats, e emit) {
	if s.Observe {
		e(float64(s.WouldWait), waited)
		e(float64(s.WouldRefuse), refused)
	}
}

// remaining tells of the scopes that cool longest.
func remaining(most int) func(*governor.Stats, emit) {
	return func(s *governor.Stats, e emit) {
		if most <= 0 {
			return
		}
		all := slices.Clone(s.Cooldowns)
		slices.SortStableFunc(all, func(a, b governor.CooldownStats) int { return b.Until.Compare(a.Until) })
		for _, c := range all[:min(len(all), most)] {
			left := max(0, c.Until.Sub(s.Time))
			e(left.Seconds(), ownLabel, keyScope.String(text(c.Scope.String(), maxName)), keyLevel.String(c.Scope.Level.String()), keyPhase.String(c.Phase))
		}
	}
}

func rates(s *governor.Stats, e emit) {
	for i, l := range s.Limits {
		if l.Rate > 0 {
			e(l.Rate, ownLabel, keyLimit.Int(i), keyLevel.String(l.Per.String()))
		}
	}
}

func left(s *governor.Stats, e emit) {
	for i, l := range s.Limits {
		if l.Quota != nil && l.Quota.Remaining >= 0 {
			e(float64(l.Quota.Remaining), ownLabel, keyLimit.Int(i), keyLevel.String(l.Per.String()))
		}
	}
}

func states(s *governor.Stats, e emit) {
	if s.Breaker != nil {
		for st := breaker.Closed; st <= breaker.MetricsOnly; st++ {
			e(bit(s.Breaker.State == st), breakerLabel(st))
		}
	}
}

func quantiles(l governor.Latency, e emit) {
	if l.Count == 0 {
		return
	}
	e(l.P50.Seconds(), median)
	e(l.P90.Seconds(), p90)
	e(l.P99.Seconds(), p99)
	e(l.Max.Seconds(), longest)
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
