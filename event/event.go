package event

import (
	"fmt"
	"slices"
	"time"
)

// Kind says what happened.
type Kind uint8

// The kinds, by the part that emits them. "Attempt" is the number of the run of
// the closure, 1 for the first; fields that a kind does not mention are zero.
const (
	None Kind = iota // no event; never emitted

	Submitted    // a request was accepted (Request)
	Queued       // it had to wait
	Started      // an attempt began (Request, Attempt; Delay: how long it waited in the queue)
	AttemptEnded // an attempt returned (Request, Attempt; Delay: how long it ran; Err)
	Completed    // the request has its result (Request, Attempt; Err)
	Overflow     // a full queue refused or dropped a request (Request, Err)
	Cancelled    // a request ended in the queue, or before it, because its context did (Request, Err)
	Refused      // the governor refused a request, or ended one that waited, for another reason than those with a kind of their own (Request, Attempt: the last one made; Err: why)
	Requeued     // a rate-limited request went back to its place (Request, Attempt, Scope, Until)
	Retry        // a failed attempt is to be repeated, if the budget allows it then; told before the wait (Request, Attempt; Delay until then; Err)
	Again        // an attempt asked to be followed by another, and its request waits (Request, Attempt; Delay until then)
	Recovered    // a request succeeded after at least one retry (Request, Attempt)
	Ignored      // an error that the policy does not treat (Err)
	GaveUp       // attempts or time ran out, or a context ended the wait between two (Request, Attempt, Err)

	Learned   // a signal was received (Request, Attempt, Scope, Delay, Source; Err: the vendor's error)
	Cooling   // a scope began to cool (Scope, Until, Delay, Source)
	Extended  // its end moved later (Scope, Until, Delay, Source)
	Cleared   // it was ended by hand or by fresh evidence (Scope)
	Cooled    // it ended by itself (Scope)
	Probe     // the first request after a cooldown began (Request, Attempt)
	Ramp      // traffic may grow after a probe (Scope)
	Resumed   // a scope is back to normal (Scope)
	Clamped   // a vendor's or a user's value was changed to a permitted one (Scope, Delay: the result, Source)
	BadVendor // an adapter panicked; its answer counts as "not limited" (Err)

	BreakerState   // a breaker changed state by itself (Source: the new state, not the old one; Until: of an open one; Err: what opened it)
	BreakerSet     // it was put into a state by hand (Source: the state; Until: of an open one)
	BreakerReset   // it was reset by hand: closed, and all it had counted forgotten
	BreakerRefused // a breaker refused a request (Request, Until)
	BreakerSuccess // a call through a breaker succeeded (Delay: how long it ran)
	BreakerFailure // one failed (Delay, Err)
	BreakerRate    // failures or slow calls reached their threshold (Source: which, and how many)
	LimitRefused   // a limiter made a lane wait (Scope, Delay)

	WouldWait   // a governor that observes would have made a request wait (Request, Scope; Delay: for how long, 0 when not known; Source: for what)
	WouldRefuse // it would have refused a request, or cut it off (Request, Err: how)

	TimedOut       // a call took longer than it may (Delay: how long it may; Err)
	BulkheadFull   // too many calls ran for one more (Delay: how long it waited; Err)
	FellBack       // something took the place of a failed call (Err: its error; nil: its result would not do)
	FallbackFailed // what was to take its place failed, too (Err: how)
	Hedged         // a further attempt began beside or after others (Attempt; Delay since the call began)
	BudgetSpent    // an attempt was not repeated because too many are (Attempt: the one not made)
	CacheHit       // a stored result was used
	CacheMiss      // there was none, and the call was made (Delay: how long it took; Err)
	CacheStale     // an old result was used in place of an error (Delay: how old it is; Err)
	Collapsed      // several calls became one (Attempt: how many)
	Compensated    // a step was undone (Attempt: which; Delay: how long it took; Err)
	Injected       // chaos did something to a call (Source: what)

	PoolWait      // a request waits for a connection (Request, Source: the selector)
	PoolCreated   // a connection was opened (Source: the selector; Delay: how long it took)
	PoolFailed    // it could not be opened (Source, Err)
	PoolStolen    // an idle one of another selector was closed to make room (Source: its selector)
	PoolDiscarded // one was closed because it was bad, old or worn (Source, Err)

	Stuck     // a closure or a hold runs longer than it should (Request, Attempt, Delay)
	Idle      // nothing waits and nothing runs; told after the end of the last
	Depleted  // of a governor: everything that could run, runs; of a limiter.Shared: the last permit was taken, or those of a key were drained (Source: the key)
	Paused    // starts were suspended by hand
	Unpaused  // and allowed again
	Closing   // no request is accepted any more
	Closed    // nothing is left
	Abandoned // a request was completed while its closure still runs (Request)

	StoreLost // processes that share do not hear of each other: their store does not answer, or has forgotten what it knew (Source: what holds meanwhile; Err)
	StoreBack // it answers again
	Unguarded // a call passed that no store had granted, as configured (Scope)

	Changed // an instance in a registry was added, replaced, changed in place or removed (Name: the instance's; Source: which of these, and of what kind it is: "replaced breaker"), or a text that it follows came into force or was refused (Name: its key; Err: why)

	kinds // how many there are
)

var names = [kinds]string{
	None: "none", Submitted: "submitted", Queued: "queued", Started: "started", AttemptEnded: "attempt ended",
	Completed: "completed", Overflow: "overflow", Cancelled: "cancelled", Refused: "refused", Requeued: "requeued", Retry: "retry", Again: "again",
	Recovered: "recovered", Ignored: "ignored", GaveUp: "gave up", Learned: "learned", Cooling: "cooling", Extended: "extended",
	Cleared: "cleared", Cooled: "cooled", Probe: "probe", Ramp: "ramp", Resumed: "resumed", Clamped: "clamped",
	BadVendor: "bad vendor", BreakerState: "breaker state", BreakerSet: "breaker set", BreakerReset: "breaker reset",
	BreakerRefused: "breaker refused", BreakerSuccess: "breaker success", BreakerFailure: "breaker failure", BreakerRate: "breaker rate",
	LimitRefused: "limit refused", WouldWait: "would wait", WouldRefuse: "would refuse", TimedOut: "timed out", BulkheadFull: "bulkhead full", FellBack: "fell back", FallbackFailed: "fallback failed", Hedged: "hedged",
	BudgetSpent: "budget spent", CacheHit: "cache hit", CacheMiss: "cache miss", CacheStale: "cache stale", Collapsed: "collapsed",
	Compensated: "compensated", Injected: "injected", PoolWait: "pool wait", PoolCreated: "pool created", PoolFailed: "pool failed",
	PoolStolen:    "pool stolen",
	PoolDiscarded: "pool discarded", Stuck: "stuck", Idle: "idle", Depleted: "depleted", Paused: "paused",
	Unpaused: "unpaused", Closing: "closing", Closed: "closed", Abandoned: "abandoned",
	StoreLost: "store lost", StoreBack: "store back", Unguarded: "unguarded",
	Changed: "changed",
}

// String returns the kind's name in lower case words.
func (k Kind) String() string {
	if k < kinds {
		return names[k]
	}
	return "invalid"
}

// MarshalText makes a Kind a word in JSON.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText takes what MarshalText gives, and returns an error for another
// text.
func (k *Kind) UnmarshalText(text []byte) error {
	i := slices.Index(names[:], string(text))
	if i < 0 {
		return fmt.Errorf("event: %q is no Kind", text)
	}
	*k = Kind(i)
	return nil
}

// Event is one thing that happened. It is flat and passed by value; which
// fields are set is said beside each Kind.
type Event struct {
	Time    time.Time     `json:"time"`
	Kind    Kind          `json:"kind"`
	Name    string        `json:"name,omitempty"`    // of the governor or policy
	Request uint64        `json:"request,omitempty"` // number of the request within its governor, from 1
	Attempt int           `json:"attempt,omitempty"`
	Scope   string        `json:"scope,omitempty"` // as throttle.Scope prints it
	Delay   time.Duration `json:"delay,omitempty"`
	Until   time.Time     `json:"until,omitzero"`
	Err     error         `json:"-"` // not in JSON: an error has no agreed form
	Source  string        `json:"source,omitempty"`
}
