package breaker

import (
	"errors"
	"math"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/policy"
)

// Config says when a Breaker opens, for how long, and what counts as a failure.
// The zero value is ready: see each field's default. New copies it.
//
// What a breaker judges by is one of three: the last calls (Window, which is the
// default), the calls of the last seconds (WindowTime), or failures in a row
// (Consecutive). Of the first two it judges the rates or, with Failures, the number
// of failures. Rates are fractions: 0.5 is 50 %.
//
// The functions are called by many goroutines at once and never under a lock of
// the breaker, but for a Schedule's and OpenDelay.
type Config struct {
	// Name appears in events and errors.
	Name string

	// Window is how many of the last calls are judged, at most 1<<20. 0 means 100.
	Window int

	// WindowTime judges the calls of so many whole seconds instead, at most a
	// day: the present second, counted from its beginning, and those before it.
	// Seconds are those of the wall clock when the breaker was made; they go on
	// evenly when that clock is set. 0: Window.
	WindowTime time.Duration

	// Consecutive opens the breaker after so many failures in a row instead, with
	// no success between them. It goes with neither window, minimum, rates nor
	// slow calls. Half-open, the first failure opens the breaker again, and
	// HalfOpenCalls successes close it. 0: Window.
	Consecutive int

	// MinCalls is how many calls a rate is judged by at least; where fewer can be
	// had, since Window or HalfOpenCalls is less, it is that many. At most
	// math.MaxInt32, as Consecutive and Failures. 0 means 100.
	MinCalls int

	// FailureRate is the fraction of failures, more than 0 and at most 1, at or
	// above which the breaker opens. 0 means 0.5.
	FailureRate float64

	// Failures opens the breaker when so many calls of the window have failed, out
	// of however many, and is at most Window. It goes with neither Consecutive nor
	// FailureRate; SlowRate is judged as ever. Half-open, the first failure opens
	// the breaker again, and HalfOpenCalls successes, or MinCalls if that is less,
	// close it. 0: FailureRate.
	Failures int

	// SlowRate is as FailureRate, for slow calls, failed or not. 0 means 1: all of them.
	SlowRate float64

	// SlowCall is how long a call takes at most without being slow. 0 means 1 min;
	// less than 0, that none is slow, which saves Do a reading of the clock.
	SlowCall time.Duration

	// HalfOpenCalls is how many trial calls a half-open breaker admits, at most
	// 1<<16. They are judged by the same rates, all of them or the first MinCalls
	// if that is less, and close or open the breaker. 0 means 10.
	HalfOpenCalls int

	// HalfOpenWait is how long a breaker remains half-open at most: then it opens
	// again or, with HalfOpenClose, closes. 0 means no limit.
	HalfOpenWait time.Duration

	// HalfOpenClose makes a breaker that has been half-open for HalfOpenWait, with
	// too few trial calls to decide, close in place of opening again. It needs
	// HalfOpenWait.
	HalfOpenClose bool

	// Lease is how long a trial call holds its place when nothing is heard of it.
	// Then another call may be tried in its stead; its own outcome counts
	// nevertheless if it comes before the decision. Choose more than calls take:
	// those whose lease has ended are tried beyond HalfOpenCalls. 0 means 1 min,
	// or SlowCall if that is longer.
	Lease time.Duration

	// OpenFor is how long the breaker stays open: its Attempt is the number of
	// times it opened since it was last closed, Prev the schedule's last delay,
	// Elapsed the time since it opened first, Err the error that opens it, if one
	// is known. A schedule that ends keeps to its last delay, or to the default
	// if that was 0 or none. It is asked under the breaker's lock and must not
	// use the breaker. nil means 1 min each time.
	OpenFor backoff.Schedule

	// OpenDelay is how long the breaker stays open by what was counted as well: the
	// Stats are those of the moment before it opens, so that their State says what
	// it was, and Opens how often it had opened. The Step is that of OpenFor, which
	// it takes the place of. A delay of less than 0 counts as 0. It is asked under
	// the breaker's lock and must not use the breaker. nil: OpenFor.
	OpenDelay func(Stats, backoff.Step) time.Duration

	// MaxRetryAfter bounds what errors ask for. An error that opens the breaker
	// and has, itself or in its tree, methods RetryAfter() time.Duration that
	// return more than 0 sets how long it is open, instead of OpenFor: the longest
	// of them. More than this is clamped, and an event says so. 0 means 24 h.
	MaxRetryAfter time.Duration

	// Initial is the state to begin in. The zero value is Closed.
	Initial State

	// Ignore says which errors are neither success nor failure, and are not
	// counted. It comes before the other two. nil: none.
	Ignore func(error) bool

	// Failure says which errors are failures; the others are successes. nil: all.
	Failure func(error) bool

	// OpenOn says which errors open a closed or half-open breaker at once, as
	// failures, whatever was counted. nil: none.
	OpenOn func(error) bool

	// IgnoreOnResult says which calls without an error are neither success nor
	// failure, by their result, and comes before FailureOnResult. As that it is for
	// chains. nil: none.
	IgnoreOnResult policy.Predicate

	// FailureOnResult says which calls without an error are failures, by their
	// result; see policy.OnResult. It is for chains; DoJudged does the same for
	// one call. nil: none.
	FailureOnResult policy.Predicate

	// OnError replaces the error that leaves Do, or the layer in a chain: the
	// breaker's own or one from further in; nil as a replacement is success. What
	// panics in it passes through to the caller. nil: errors stay as they are.
	OnError func(error) error

	// OnEvent hears of calls refused (BreakerRefused), succeeded, failed and
	// ignored (BreakerSuccess, BreakerFailure, Ignored), of states entered by
	// itself or by hand (BreakerState, BreakerSet, BreakerReset), of rates that
	// reached their threshold (BreakerRate) and of a delay clamped (Clamped). It
	// is called on the goroutine of the call that caused the event, when that has
	// had its effect and no lock is held: it may use the breaker, and whoever
	// made the call waits for it. So it should be quick, as a Bus's Emit is.
	// Events of several goroutines may come out of order. A panic is dropped and
	// counted. nil: nobody does.
	OnEvent func(event.Event)
}

// ErrInvalid is matched, with errors.Is, by what New returns for a Config that is
// out of range, Transition for what is no State, and Do for a nil context or
// function.
var ErrInvalid = errors.New("breaker: invalid")

const (
	defaultWindow = 100
	defaultOpen   = time.Minute
	defaultLease  = time.Minute
	never         = time.Duration(math.MaxInt64)
)

// withDefaults returns cfg with its defaults filled in, or what is wrong with it.
func (cfg Config) withDefaults() (Config, error) {
	if err := cfg.validate(); err != nil {
		return cfg, err
	}
	if cfg.Window == 0 {
		cfg.Window = defaultWindow
	}
	if cfg.MinCalls == 0 {
		cfg.MinCalls = 100
	}
	if cfg.FailureRate == 0 {
		cfg.FailureRate = 0.5
	}
	if cfg.SlowRate == 0 {
		cfg.SlowRate = 1
	}
	switch {
	case cfg.SlowCall < 0, cfg.Consecutive > 0:
		cfg.SlowCall = never
	case cfg.SlowCall == 0:
		cfg.SlowCall = time.Minute
	}
	if cfg.HalfOpenCalls == 0 {
		cfg.HalfOpenCalls = 10
	}
	if cfg.Lease == 0 {
		cfg.Lease = defaultLease
		if cfg.SlowCall != never {
			cfg.Lease = max(cfg.Lease, cfg.SlowCall)
		}
	}
	if cfg.OpenFor == nil {
		cfg.OpenFor = backoff.Constant(defaultOpen)
	}
	if cfg.MaxRetryAfter == 0 {
		cfg.MaxRetryAfter = 24 * time.Hour
	}
	return cfg, nil
}
