package breaker

import (
	"errors"
	"fmt"
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
// (Consecutive). Rates are fractions: 0.5 is 50 %.
//
// The functions are called by many goroutines at once and never under a lock of
// the breaker, but for a Schedule's.
type Config struct {
	// Name is the Name of its events.
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
	// had, since Window or HalfOpenCalls is less, it is that many. 0 means 100.
	MinCalls int

	// FailureRate is the fraction of failures, more than 0 and at most 1, at or
	// above which the breaker opens. 0 means 0.5.
	FailureRate float64

	// SlowRate is the same for slow calls, failed or not. 0 means 1: all of them.
	SlowRate float64

	// SlowCall is how long a call takes at most without being slow. 0 means 1 min;
	// less than 0, that none is slow, which saves Do a reading of the clock.
	SlowCall time.Duration

	// HalfOpenCalls is how many trial calls a half-open breaker admits, at most
	// 1<<16. They are judged by the same rates, all of them or the first MinCalls
	// if that is less, and close or open the breaker. 0 means 10.
	HalfOpenCalls int

	// HalfOpenWait is how long a breaker remains half-open at most: then it opens
	// again. 0 means no limit.
	HalfOpenWait time.Duration

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

	// MaxRetryAfter bounds what errors ask for. An error that opens the breaker
	// and has, itself or in its tree, a method RetryAfter() time.Duration that
	// returns more than 0 sets how long it is open, instead of OpenFor; more than
	// this is clamped, and an event says so. 0 means 24 h.
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

	// FailureOnResult says which calls without an error are failures, by their
	// result; see policy.OnResult. It is for chains; DoJudged does the same for
	// one call. nil: none.
	FailureOnResult policy.Predicate

	// OnError, in a chain, replaces the error that leaves the layer, the
	// breaker's own or one from further in; nil as a replacement is success. nil:
	// errors stay as they are.
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
// out of range, Transition for what is no State, and Do for a nil function.
var ErrInvalid = errors.New("breaker: invalid")

const (
	defaultOpen  = time.Minute
	defaultLease = time.Minute
	never        = time.Duration(math.MaxInt64)
)

// withDefaults returns cfg with its defaults filled in, or what is wrong with it.
func (cfg Config) withDefaults() (Config, error) {
	if err := cfg.validate(); err != nil {
		return cfg, err
	}
	if cfg.Window == 0 {
		cfg.Window = 100
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

func (cfg Config) validate() error {
	for _, n := range []struct {
		field       string
		value, most int
	}{
		{"Window", cfg.Window, 1 << 20},
		{"Consecutive", cfg.Consecutive, math.MaxInt32},
		{"MinCalls", cfg.MinCalls, math.MaxInt32},
		{"HalfOpenCalls", cfg.HalfOpenCalls, 1 << 16},
	} {
		if n.value < 0 || n.value > n.most {
			return invalid("Config.%s is %d, want 0 to %d", n.field, n.value, n.most)
		}
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"HalfOpenWait", cfg.HalfOpenWait}, {"Lease", cfg.Lease}, {"MaxRetryAfter", cfg.MaxRetryAfter}} {
		if d.value < 0 {
			return invalid("Config.%s is %v, want 0 or more", d.field, d.value)
		}
	}
	for _, r := range []struct {
		field string
		value float64
	}{{"FailureRate", cfg.FailureRate}, {"SlowRate", cfg.SlowRate}} {
		if !(r.value >= 0 && r.value <= 1) { // nor NaN
			return invalid("Config.%s is %v, want more than 0 up to 1, or 0 for the default", r.field, r.value)
		}
	}
	if w := cfg.WindowTime; w < 0 || w > 24*time.Hour || w%time.Second != 0 {
		return invalid("Config.WindowTime is %v, want whole seconds up to 24h", w)
	}
	if cfg.WindowTime > 0 && cfg.Window > 0 {
		return invalid("Config.WindowTime is %v beside a Window of %d, want one of them", cfg.WindowTime, cfg.Window)
	}
	if cfg.Consecutive > 0 {
		for _, f := range []struct {
			field string
			value any
			set   bool
		}{
			{"Window", cfg.Window, cfg.Window != 0},
			{"WindowTime", cfg.WindowTime, cfg.WindowTime != 0},
			{"MinCalls", cfg.MinCalls, cfg.MinCalls != 0},
			{"FailureRate", cfg.FailureRate, cfg.FailureRate != 0},
			{"SlowRate", cfg.SlowRate, cfg.SlowRate != 0},
			{"SlowCall", cfg.SlowCall, cfg.SlowCall > 0},
		} {
			if f.set {
				return invalid("Config.%s is %v beside Consecutive, which is without rates; want 0", f.field, f.value)
			}
		}
	}
	if !cfg.Initial.valid() {
		return invalid("Config.Initial is %d, want a State", cfg.Initial)
	}
	if cfg.OpenFor != nil {
		if err := backoff.Validate(cfg.OpenFor); err != nil {
			return fmt.Errorf("%w: Config.OpenFor: %w", ErrInvalid, err)
		}
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}
