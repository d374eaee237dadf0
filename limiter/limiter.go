package limiter

import (
	"math"
	"time"

	"github.com/flyball-go/flyball/throttle"
)

// Never is the wait for permits that can never be had: more than the limit ever
// holds, or a limiter that is shut for good. A governor gives up who waits for
// them; a limiter that may open again answers with a long wait.
const Never time.Duration = math.MaxInt64

// Unsure is the wait that a Notifier returns which does not know yet when there will be
// permits. It says so, by OnChange, when it does; an owner need not give up before.
const Unsure = Never / 2

// Limiter decides when permits may be taken. It is a pure core: it takes now as
// an argument, never blocks, never sleeps and starts nothing.
//
// One owner calls it, one call at a time: a governor under its gate's mutex, or
// you under yours. Implementations need no lock of their own unless they say
// otherwise; those that several owners may have are Claimers. The owner of several
// limits asks all of them to Wait and, when all answer 0, Takes from all: all or none,
// without refunds.
//
// now must not go back between calls; a smaller now is treated as the largest
// seen. n is 1 or more.
type Limiter interface {
	// Wait returns how long from now it is until n permits for key can be
	// taken, if nobody takes any meanwhile: 0 when they can be taken now, for which
	// less than 0 is taken too, and Never when they never can. It changes nothing that
	// a caller could notice.
	Wait(now time.Time, key string, n int) time.Duration

	// Take takes n permits for key. The caller has just been told 0 by Wait with
	// the same arguments; without that, the limit is overdrawn.
	Take(now time.Time, key string, n int)

	// Settle corrects the cost of permits taken before: n were taken, used was
	// the true cost. More than n may put the limit into debt, less gives back
	// what can be given back without ever exceeding the limit.
	Settle(now time.Time, key string, n, used int)

	// Accepted reports that the vendor accepted a call that was sent at sent.
	Accepted(now, sent time.Time, key string)

	// Refused reports that the vendor refused, for exceeding this limit, a call
	// that was sent at sent.
	Refused(now, sent time.Time, key string)
}

// Notifier is implemented by limiters whose answers can change without a call
// of their owner: a store's credits, a limit changed at run time. Until a change
// the owner may go by the last answer, so that one for a time that is not known
// is Unsure, or long, not Never.
type Notifier interface {
	// OnChange makes the limiter call fn, from any goroutine and under no lock,
	// after each such change. It is called once, before first use.
	OnChange(fn func())
}

// Rater is implemented by limiters that can say how fast they let permits
// through. A governor uses it to let traffic grow after a cooldown.
type Rater interface {
	// Rate returns permits per second for key in the long run; 0 when there is
	// no such number now.
	Rate(now time.Time, key string) float64
}

// Lax is implemented by limiters that let everything pass at times, so that a
// governor need not ask them then, which would cost more than the rest of a call.
type Lax interface {
	Limiter

	// Lax reports whether every Wait returns 0 until another method that changes
	// something is called. Meanwhile the owner may leave out Wait, Take and Accepted
	// for calls that it tells of later by Passed.
	Lax() bool

	// Passed tells of n calls that were made since the limiter became lax, of one
	// permit each; some of them may have begun when it was so no more.
	Passed(now time.Time, key string, n int)
}

// Dated is implemented by limiters that correct a take better when they are told
// when it was made: SlidingLog, SlidingCounter, FixedWindow, Calendar and Adaptive, a
// ByKey of those, and store.Share. Settle has to suppose the worst take. An owner that
// knows calls SettleAt instead.
type Dated interface {
	Limiter

	// SettleAt is Settle for a take that was made at taken, the now of its Take.
	SettleAt(now, taken time.Time, key string, n, used int)
}

// settleAt is SettleAt for a Dated l, and Settle for others.
func settleAt(l Limiter, now, taken time.Time, key string, n, used int) {
	if d, ok := l.(Dated); ok {
		d.SettleAt(now, taken, key, n, used)
	} else {
		l.Settle(now, key, n, used)
	}
}

// Counter is implemented by limiters whose permits can be counted: Bucket,
// FixedWindow, SlidingLog, SlidingCounter, Approx and Calendar.
type Counter interface {
	Limiter

	// Available returns how many permits of key can be taken now. Less than 0 is
	// debt, or borrowed from coming windows.
	Available(now time.Time, key string) int

	// Drain takes all permits of key that there are now. They come back as if
	// they had been taken, and cannot be given back.
	Drain(now time.Time, key string)

	// SetRemaining believes what the answer to a call that was sent at sent says
	// about the vendor's own count for key: that no more than left permits are
	// left. It only ever lowers what there is, and only in the window in which
	// the call was sent: later, the answer is about a count that has begun anew.
	// The window of a Bucket is the time in which an empty one gets full.
	SetRemaining(now, sent time.Time, key string, left int)

	// SetLimit changes the limit of all keys, to 1 up to 1<<40, or returns an
	// error that says what is wrong with it and changes nothing. The type says
	// when it counts.
	SetLimit(now time.Time, limit int) error
}

// Learner is implemented by limiters that a vendor's word about its quota can be
// told: Adaptive and Spread.
type Learner interface {
	Limiter

	// Told takes what the vendor's answer to a call that was sent at sent, good or
	// bad, said about the quota of q.Scope.Key. Fields of q that are negative, and
	// a zero Reset, were not said.
	Told(now, sent time.Time, q throttle.Quota)

	// Forget drops what was told about key's present window: it is known to be
	// wrong.
	Forget(now time.Time, key string)
}

// Claimer is implemented by limiters that several owners have, each under a lock of its
// own: what Wait has just offered to one of them another may take. An owner calls Claim
// where it would call Take, and of several limits the Claimers first. When it is late at
// one of them, what those before it gave goes back by a Settle to 0. What embeds a
// Claimer and changes its Take has to change its Claim.
type Claimer interface {
	Limiter

	// Claim is Wait and, if that is 0, Take, as one step.
	Claim(now time.Time, key string, n int) (wait time.Duration)
}

// Releaser is implemented by limiters whose permits are held while a call runs.
// The owner calls Release exactly once for each Take, when the call has ended,
// however it ended, with what it took or settled it to. It asks such a limiter
// again after each Release, for every key, since nobody knows beforehand when calls
// end: what Wait returns is when to ask again at the latest. A Shared asks one that is
// a Notifier, too, for the key of the Release alone; see SharedConfig.Limiters.
type Releaser interface {
	Limiter

	// Release gives n permits of key back.
	Release(now time.Time, key string, n int)
}
