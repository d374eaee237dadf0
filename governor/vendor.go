package governor

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/throttle"
)

// Vendor knows how one API says "slow down". It is all that a new API needs.
//
// DelayError reads an error that a closure returned. limited says whether it
// means that the API wants to be called less; delay is how long it asked for,
// counted from now: 0 when it said that the next call may come at once,
// throttle.Unknown when it gave no time. Any other negative delay counts as
// unknown. The pause is the whole host's, and events name no kind and no source:
// implement Signaler to say more.
//
// How other calls of a governor have ended that the closure made is left out of err: in the place
// of a *CooldownError, *LateError, *CanceledError or *GaveUpError there is what the vendor said
// to that call, if the adapter of its governor has found nothing in it, or nothing. What wraps
// such an error is found by errors.As, without it and without a text.
//
// It is called from many goroutines at once, with the slot of the attempt still
// taken: it must be quick. When it panics the error counts as not limited.
type Vendor interface {
	DelayError(err error) (delay time.Duration, limited bool)
}

// Signaler is a Vendor that can say more: what kind of limit it is and whom it
// concerns, several at once. A governor prefers it to DelayError.
type Signaler interface {
	Vendor

	// Signals returns what err asks for; none means that err is no rate limit.
	// at is the moment of receipt, from which delays count. At most 16 signals
	// are obeyed, each for its scope and its time. Only one without a time gives
	// way to a narrower one that has one: of {the host, Unknown} and {this tenant,
	// 30 s}, unless they are of different kinds, the tenant is paused and nothing is
	// guessed.
	Signals(err error, at time.Time) []throttle.Signal
}

// Quoter is a Vendor that also reads from errors what they say about quotas: the
// headers of a refusal, or of any other failure. What an answer that is no error
// says is for the closure to Report, which see for what becomes of it. The quotas
// of a refusal only inform limits and give its cost: whom to pause for how long
// is for Signals to say.
type Quoter interface {
	Vendor

	// Quotas returns what err says; none when it says nothing. at is the moment of
	// receipt. At most 16 are heard.
	Quotas(err error, at time.Time) []throttle.Quota
}

// Judge is a Breaker that says itself what a closure's error means to it. It is not
// asked about rate limits, also of calls inside the closure, and about calls that were
// cancelled, which are neutral, and is called from many goroutines at once. Without it
// all other errors are failures.
type Judge interface {
	breaker.Circuit
	Judge(err error) breaker.Outcome
}

// ErrorReporter is a Breaker that is told of a failed attempt by ReportError in place
// of Report, so that it can say what has opened it. A breaker.Breaker is one.
type ErrorReporter interface {
	breaker.Circuit
	ReportError(p breaker.Permit, now time.Time, o breaker.Outcome, took time.Duration, err error)
}

// maxSignals bounds what one error can do to the table of scopes.
const maxSignals = 16

// readSignals asks the adapter about err. A panic in the adapter is returned as
// bad, and err counts as not limited.
func readSignals(v Vendor, err error, at time.Time) (sigs []throttle.Signal, bad error) {
	defer func() {
		if p := recover(); p != nil {
			sigs, bad = nil, fmt.Errorf("governor: adapter panicked: %v\n\n%s", p, debug.Stack())
		}
	}()
	if err, _ = ofThisCall(err); err == nil {
		return nil, nil
	}
	if s, ok := v.(Signaler); ok {
		sigs = s.Signals(err, at)
		return sigs[:min(len(sigs), maxSignals)], nil
	}
	if d, limited := v.DelayError(err); limited {
		return []throttle.Signal{{Delay: d}}, nil
	}
	return nil, nil
}

// readQuotas asks v about err. A panic is returned as bad.
func readQuotas(v Quoter, err error, at time.Time) (qs []throttle.Quota, bad error) {
	defer func() {
		if p := recover(); p != nil {
			qs, bad = nil, fmt.Errorf("governor: adapter panicked: %v\n\n%s", p, debug.Stack())
		}
	}()
	if err, _ = ofThisCall(err); err == nil {
		return nil, nil
	}
	return v.Quotas(err, at), nil
}

// own fills in the refused request's own key where a signal names only a level.
func own(sc throttle.Scope, l *laneKey) throttle.Scope {
	switch sc.Level {
	case throttle.Selector:
		if sc.Key == "" {
			sc.Key = l.sel.name
		}
	case throttle.Tenant:
		if sc.Key == "" {
			sc.Key = l.tenant
		}
	case throttle.Bucket:
		if sc.Key == "" {
			sc.Key = l.bucket
		}
	case throttle.Host, throttle.Request:
		sc.Key = ""
	default: // a level from the future: the safe side is the widest
		sc = throttle.Scope{}
	}
	return sc
}
