package vendors

import (
	"net/http"
	"time"

	"github.com/flyball-go/flyball/throttle"
)

// Dialect is one vendor's way of speaking about limits. Both methods are called
// from many goroutines at once, must be quick, and see any bytes a server may
// send. Response.At is set.
type Dialect interface {
	// Read returns what an answer asks for; none when it is no rate limit. Delays
	// count from Response.At. It is asked about failures and about the successes
	// that a client took for failures.
	Read(Response) []throttle.Signal

	// Learn returns what an answer, good or bad, says about quota; none when it
	// says nothing.
	Learn(Response) []throttle.Quota
}

// Adapter makes a Dialect a governor's vendor. It is a value; build one for a
// dialect of your own as Adapter{Dialect: d}. The zero Adapter limits nothing.
//
// It is safe for simultaneous use by multiple goroutines.
type Adapter struct {
	Dialect
}

// DelayError reports whether an error means that the vendor wants to be called
// less, and for how long: the longest of what it asked for, or throttle.Unknown
// when it gave no time at all. err is limited when a [ResponseError] anywhere in
// its tree is.
//
// It has no place for scopes: use it when a limit of any kind should pause
// everything. A governor prefers Signals.
func (a Adapter) DelayError(err error) (delay time.Duration, limited bool) {
	now := time.Now()
	sigs := a.Signals(err, now)
	delay = throttle.Unknown
	for _, s := range sigs {
		if !s.Until.IsZero() {
			s.Delay = max(0, ceilMilli(s.Until.Sub(now)))
		}
		delay = max(delay, s.Delay) // Unknown is the smallest
	}
	return delay, len(sigs) > 0
}

// Signals returns what err asks for: for each scope the signal that asks for the
// longest pause, when a delay is given, and the latest absolute end. at is the moment of receipt, and stands in
// for the At of answers that have none; delays count from there.
func (a Adapter) Signals(err error, at time.Time) []throttle.Signal {
	if a.Dialect == nil || err == nil {
		return nil
	}
	var all signals
	for _, e := range responses(err) {
		r := e.at(at)
		r.once = e.Once
		for _, s := range a.Read(r) {
			s.NoRetry = s.NoRetry || e.Once && e.executed(s)
			all.add(s)
		}
	}
	return all
}

// Quotas returns what err says about quotas, as the Learn of a [Dialect] reads them
// from each [ResponseError] in its tree. at stands in for the At of answers that have
// none. A governor asks for it; what a success says, its closure reports.
func (a Adapter) Quotas(err error, at time.Time) (all []throttle.Quota) {
	if a.Dialect == nil || err == nil {
		return nil
	}
	for _, e := range responses(err) {
		all = append(all, a.Dialect.Learn(e.at(at).canonical())...)
	}
	return all
}

// Read reads one answer, as [Dialect] has it. A zero At counts as now.
func (a Adapter) Read(r Response) []throttle.Signal {
	if a.Dialect == nil {
		return nil
	}
	return a.Dialect.Read(r.at(time.Now()).canonical())
}

// Learn learns from one answer, as [Dialect] has it. A zero At counts as now.
func (a Adapter) Learn(r Response) []throttle.Quota {
	if a.Dialect == nil {
		return nil
	}
	if d, ok := a.Dialect.(interface {
		silent(http.Header, []byte) bool
	}); ok && d.silent(r.Header, r.Body) {
		return nil // at the price of no reading of the clock
	}
	return a.Dialect.Learn(r.at(time.Now()))
}

// signals collects the longest signal per scope.
type signals []throttle.Signal

// once forbids to repeat the call: a part of it may have been done.
func (all signals) once() {
	for i := range all {
		all[i].NoRetry = true
	}
}

// add keeps the longer of s and what is there for its scope. A stated time is
// longer than an unknown one; an absolute end is compared only with another.
func (all *signals) add(s throttle.Signal) {
	for i, old := range *all {
		if old.Scope != s.Scope || old.Until.IsZero() != s.Until.IsZero() {
			continue
		}
		longer := s
		if old.Delay > s.Delay || old.Until.After(s.Until) {
			longer = old
		}
		longer.NoRetry = old.NoRetry || s.NoRetry
		(*all)[i] = longer
		return
	}
	*all = append(*all, s)
}
