package governor

import (
	"log/slog"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/store"
)

// Config says how a governor treats one external host. Only Name is required.
// It is copied by New; what it points to must not be changed afterwards.
type Config[S comparable, C any] struct {
	// Name appears in errors, events and statistics. Required.
	Name string

	// Vendor reads rate limits from errors. nil: no error is a rate limit.
	Vendor Vendor

	// Pool opens the connections that closures are handed. nil: closures get
	// the zero C. Where more lanes wait than there are connections, S should be a
	// string or an integer type without methods: of other types each connection that
	// comes back is offered to all lanes that wait for one, of whatever selector. With
	// more connections than Workers fewer calls have to open one where selectors are many.
	Pool *pool.Config[S, C]

	// Workers is how many closures may run at once, at most 1<<20-1. 0 means
	// 16. With a Pool it is cut to Pool.Max, which is 16 unless set.
	Workers int

	// MaxQueue is how many requests may wait. 0 means 10,000. What is paused, or waits
	// for a limit of its own, keeps nobody else out when it fills the queue: what could
	// start, or waits for nothing but a slot with fewer others than there are slots, is
	// let in. And what has been attempted, and comes back, is neither refused nor dropped.
	// So it may be exceeded: by what was let in and has started, until it is done, up to a
	// quarter, or four times Workers if that is more. Of these places no lane has more
	// than it leaves: however many of one come back to ask again, there are some for
	// another. And by what starts and comes back in a single turn of the scheduler, which
	// makes room for others when it ends: a few, and never more than may wait.
	MaxQueue int

	// Overflow is what a full queue does with a new request. The zero value is
	// Block: Submit waits for room, or until its request has started or is done, which
	// is in the queue meanwhile, beyond MaxQueue, and is served as all others are. If there
	// is no place for one that starts, since it may come back, its Submit goes on waiting.
	// Do and Stream wait for the result anyway, and need none. Those who wait for room get it
	// tenant by tenant in turn, and those of a tenant in their order, whatever their
	// priority, weight and cost. Under the rules that drop some 1,024 requests more than
	// MaxQueue may be there, just submitted; who is further ahead of the scheduler waits
	// until it has dropped what is too much.
	Overflow Overflow

	// MaxKeys bounds the selectors, the lanes and the cooling scopes, each; with those that
	// are on their way back there are at most twice as many scopes. A request that needs
	// one more is refused with ErrTooManyKeys; a signal that does pauses the host instead.
	// 0 means 100,000. Lanes it bounds where MaxQueue is more: there are no more of them
	// than requests that wait.
	MaxKeys int

	// Ageing is how long a request has to wait for its priority to rise by one: it
	// is Ask.Priority plus the time waited divided by Ageing, the time since it was
	// submitted or, when it was attempted, since it came back: with a backoff, but
	// without the time of an Again. What has waited
	// longer than what is next in the highest priority, by Ageing for every step
	// between the two, has its priority share the starts with that one for one
	// until it has started. Of several lower ones that do the one of what has waited
	// longest goes, and they take turns where that is not what is next in its
	// priority. 0 means 30 s; negative: nothing ages, and a lower priority waits for
	// as long as anything of a higher one can start.
	Ageing time.Duration

	// Weight is a tenant's part in what tenants share: one of weight 4 gets four
	// times as much as one of weight 1, in costs, while both have requests that
	// wait. What Settle corrects counts from then on. Less than 1 counts as 1, more
	// than 65,536 as that, a panic as 1. It is called by Submit, Do and Stream, on
	// their caller's goroutine, or on that which looks at the error of a call of Do, and
	// possibly on several at once; for requests without tenant, bucket and priority
	// once, by New. A lane has the weight that was said of its latest request. nil: 1
	// for all.
	Weight func(tenant string) int

	// Limits are charged for every attempt, all or none. Without one for the
	// Host a limiter.Adaptive is used, which lets everything pass until the vendor
	// refuses a call and then learns how much it accepts. Where the vendor tells the
	// length of its window, or the order of magnitude is known, an Adaptive of your
	// own that is told so learns the rest with fewer refusals.
	//
	// Every other limit, a Quota too, is kept as configured, whatever the vendor
	// refuses: when it lowers its quota each window ends in some refusals and a
	// cooldown. Where that may happen give the Host an Adaptive with the quota's
	// Window and, as its Max, the quota's rate instead: it keeps to that until it is
	// refused, and then to what it learns, at the cost of a few percent of it.
	Limits []Limit

	// Store shares with other processes what is of the vendor: Limits that are a
	// Quota, by the governor's Name, and cooldowns, after which one process makes
	// the first call. A limit that is a Limiter stays this process's, as do Breaker,
	// SpendEvenly and the Adaptive; and what Report says is left of a quota does not
	// reach a limit that is shared. It is not closed by the governor. nil: nothing is
	// shared.
	Store *store.Syncer

	// NoPace leaves out the Adaptive.
	NoPace bool

	// SpendEvenly spreads what the vendor says is left of a quota over the time
	// until it is renewed, for the host and for each selector, tenant and bucket
	// that Report or a Quoter tells of: a limiter.Spread for each level. Without it
	// calls go as fast as the limits let them, and wait for Reset when nothing is
	// left. It is this process's own, with a Store too: of several processes that use
	// one quota each plans to spend all that is left, until the next answer tells it
	// what the others have used.
	SpendEvenly bool

	// Observe makes the governor tell what it would do without doing it: every
	// layer decides, learns and counts, but no request waits for a cooldown, a
	// limit or a breaker, none is refused by them, none is repeated, and no attempt
	// is cut off. Instead there are events WouldWait and WouldRefuse, and counters in
	// Stats. What there is no room for still waits, for a slot, a connection, a
	// place in the queue; and what callers ask for themselves, by their contexts,
	// Ask.StartBy, Again, Pause and Close, holds. Set Workers and MaxQueue so that they
	// do not matter.
	//
	// Limits are overdrawn by the calls that they would have kept back, since
	// those are made: so the delay of a WouldWait is that of a queue.
	Observe bool

	// Restore is what Export returned before a restart. The cooldowns that are not
	// over go on, as if the vendor had just asked for what is left of them, at most
	// MaxCooldown, and no more than was left at Learned.When if that is known; a limit
	// that learns goes on with the rate of its level, or of its key in a limiter.ByKey.
	// With a Store the cooldowns are this governor's alone: what holds for all the store
	// knows. (To Clear a cooldown of the same scope in another process ends them, too.)
	// What there is no limit for is ignored. The error of New names the field that makes no
	// sense. The zero Learned is nothing.
	Restore Learned

	// Breaker refuses calls to a vendor that fails. What it does, a breaker.Breaker's
	// listeners hear, and this governor's (breaker.Breaker.OnChange). Those of the
	// breaker's own may be called between two decisions and must not wait for the
	// governor, as Stats and Pause do; this governor's may. nil: none.
	Breaker breaker.Circuit

	// BreakerWait makes requests wait for an open breaker instead of failing.
	BreakerWait bool

	// Retry repeats attempts that failed otherwise than by a rate limit. Its
	// Budget counts those repetitions alone, beside the closures that run, and is
	// for one governor or for all that call a vendor; a request takes its repetition
	// when it is requeued, and has it while it waits. nil: none is.
	Retry *retry.Config

	// LimitedAttempts is how often a request may be refused by a rate limit
	// before it fails with a *GaveUpError. 0 means 5; negative: no bound. An
	// attempt that was the probe after a cooldown does not count: a request that
	// is alone at its host probes each time, and only MaxWait, its StartBy and
	// its context bound how often. One that was refused as the probe five times
	// goes behind the others of its lane, without what KeepConn keeps: if they get
	// through, the vendor means it alone, and then its refusals count.
	LimitedAttempts int

	// OpenAttempts is how often a connection may fail to open for one request
	// before it fails with the *pool.OpenError. 0 means 3; negative: no bound.
	OpenAttempts int

	// AttemptTimeout ends the context of an attempt that runs longer. The
	// attempt ends when its closure returns. 0: none.
	AttemptTimeout time.Duration

	// Guess is the schedule of cooldowns for signals without a delay, one step
	// an episode, back to the first after a success. nil means exponential from
	// 15 s, doubling.
	Guess backoff.Schedule

	// MaxGuess is the longest of them. 0 means 15 min.
	MaxGuess time.Duration

	// MinCooldown is the shortest pause: for a vendor that says "0" or next to
	// it, and for guesses. 0 means 100 ms.
	MinCooldown time.Duration

	// MaxCooldown bounds what a vendor can ask for; more is clamped, and an
	// event says so. 0 means 24 h. A pause of the host that another process shares is as
	// long as that one's MaxCooldown allows.
	MaxCooldown time.Duration

	// MaxWait is the longest known cooldown, or pause of its own, that a request
	// waits for; facing a longer one it fails at once with a *CooldownError. 0
	// means 15 min; negative: no limit.
	MaxWait time.Duration

	// ProbePatience is how long the probe after a cooldown, or a round of the
	// growth after it, may take before more follow, the opening of a connection
	// included. 0 means 5 s.
	ProbePatience time.Duration

	// StuckAfter is how long a closure or a hold may last before an event
	// reports it, once. Nothing is done to it. 0 means 1 min; negative: never.
	StuckAfter time.Duration

	// StreamIdle is how long the loop over a Stream may take for one item. After
	// that the stream's context ends, its connection is closed when the loop
	// comes back, and the loop gets ErrStreamStalled. 0: as long as it likes.
	StreamIdle time.Duration

	// CloseGrace is how long Close waits for running closures after it
	// cancelled their contexts. 0 means 30 s; negative: it does not wait.
	CloseGrace time.Duration

	// ShutdownDrop makes Shutdown refuse what waits and drain only what runs.
	ShutdownDrop bool

	// Logger gets a record when a cooldown begins, is extended by a tenth or more, and
	// ends, when a request waits for a connection or one cannot be opened, when a
	// request has run out of attempts, a delay is clamped, a closure stuck, and when an adapter
	// panics. It is called on a goroutine that nothing waits for. nil discards.
	Logger *slog.Logger
}

// Overflow is what a full queue does with a new request.
type Overflow uint8

const (
	Block      Overflow = iota // Submit waits for room until its request starts or is done; tenants get it in turn
	Reject                     // the new request fails with ErrQueueFull, unless it could start; see Config.MaxQueue
	DropOldest                 // the oldest of the lowest priority, which may be the new one, fails with ErrDropped
	DropLower                  // the oldest of the lowest priority below the new one's; if there is none, the new one, with ErrQueueFull
)

// String returns the rule in lower case words.
func (o Overflow) String() string {
	if o > DropLower {
		return "invalid"
	}
	return [...]string{"block", "reject", "drop oldest", "drop lower"}[o]
}
