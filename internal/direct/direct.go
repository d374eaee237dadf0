// Package direct is the short way through a chain of policies, for calls that
// nothing is in the way of and that succeed: each layer is entered and left by a
// call of its own instead of being around the next one, so that nothing has to know
// the whole call, and nothing of it is on the heap. Where that does not do, the
// handlers of the layers take the call over, and are told how far it came.
package direct

import "time"

// Policy is what a policy.Policy may have beside Wrap. A chain in which all have it
// is gone through directly.
type Policy interface {
	// Direct returns the short way through the layer of the policy of, by a clock
	// of the given base. ok is false when its settings do not allow one, and when
	// of is another: who embeds a policy, and has a Wrap of his own, has inherited
	// its Direct, which is not his.
	Direct(of any, base time.Time) (r Route, ok bool)
}

// Route is a layer's short way.
type Route struct {
	Way   Way  // nil: there is nothing to do for a call that succeeds
	Clock bool // when a call begins matters to Way, or to the handler later
	Done  bool // Way has nothing to do for a call that leaves: Leave need not be called
}

// Way is how calls go through a layer directly. Its methods are called by many
// goroutines at once. A call that has entered ends with one Leave or Abort, unless
// the layer's handler goes on with it.
type Way interface {
	// Enter lets a call in whose context has not ended, at at, since the base, if
	// nothing is in the way. Otherwise it does nothing and reports false, and the
	// handler decides. It must not call what is the user's.
	Enter(at time.Duration) (Pass, bool)

	// Leave is for a call that has succeeded.
	Leave(Pass)

	// Abort is for a call that panicked or called runtime.Goexit.
	Abort(Pass)
}

// Pass is what a layer wants to know of a call that has entered it. A handler that
// goes on with the call gets it by policy.Call's Entered.
type Pass struct{ A, B int64 }
