package governor

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/throttle"
)

// Config says how a governor treats one external host. Only Name is required.
// It is copied by New; what it points to must not be changed afterwards.
type Config[S comparable, C any] struct {
	// Name appears in errors, events and statistics. Required.
	Name string

	// Vendor reads rate limits from errors. nil: no error is a rate limit.
	Vendor Vendor

	// Pool opens the connections that closures are handed. nil: closures get
	// the zero C.
	Pool *pool.Config[S, C]

	// Workers is how many closures may run at once, at most 1<<20-1. 0 means
	// 16. With a Pool it is cut to Pool.Max, which is 16 unless set.
	Workers int

	// MaxQueue is how many requests may wait. 0 means 10,000.
	MaxQueue int

	// Overflow is what a full queue does with a new request. The zero value is
	// Block.
	Overflow Overflow

	// MaxKeys bounds the selectors, the lanes and the cooling scopes, each. A
	// request that needs one more is refused with ErrTooManyKeys; a signal that
	// does pauses the host instead. 0 means 100,000.
	MaxKeys int

	// Ageing is how long a request has to wait for its priority to rise by one: it
	// is Ask.Priority plus the time waited divided by Ageing, the time since it was
	// submitted or, when it was attempted, since it came back. What has waited
	// longer than all that waits in the highest priority, by Ageing for every step
	// between the two, shares the starts with it one for one. 0 means 30 s;
	// negative: nothing ages, and a lower priority waits for as long as anything of
	// a higher one can start.
	Ageing time.Duration

	// Weight is a tenant's part in what tenants share: one of weight 4 gets four
	// times as much as one of weight 1, in costs, while both have requests that
	// wait. What Settle corrects counts from then on. Less than 1 counts as 1, more than 65,536 as that, a panic as 1. It is
	// called by Submit, Do and Stream, on their caller's goroutine and possibly on
	// several at once; for requests without tenant, bucket and priority once, by New.
	// A lane has the weight that was said of its latest request. nil: 1 for all.
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
	// the first call. A limit that is a Limiter stays this process's. It is not
	// closed by the governor. nil: nothing is shared.
	Store *store.Syncer

	// NoPace leaves out the Adaptive.
	NoPace bool

	// SpendEvenly spreads what the vendor says is left of a quota over the time
	// until it is renewed, for the host and for each selector, tenant and bucket
	// that Report or a Quoter tells of: a limiter.Spread for each level. Without it
	// calls go as fast as the limits let them, and wait for Reset when nothing is
	// left.
	SpendEvenly bool

	// Observe makes the governor tell what it would do without doing it: every
	// layer decides, learns and counts, but no request waits for a cooldown, a
	// limit or a breaker, none is refused by them, none is repeated, and no attempt
	// is cut off. Instead there are events WouldWait and WouldRefuse, and counters in
	// Stats. What there is no room for still waits, for a slot, a connection, a
	// place in the queue; and what callers ask for themselves, by their contexts,
	// Ask.StartBy, Pause and Close, holds. Set Workers and MaxQueue so that they do
	// not matter.
	//
	// Limits are overdrawn by the calls that they would have kept back, since
	// those are made: so the delay of a WouldWait is that of a queue.
	Observe bool

	// Restore is what Export returned before a restart. The cooldowns that are not
	// over go on, as if the vendor had just asked for what is left of them, at most
	// MaxCooldown; a limit that learns goes on with the rate of its level. What
	// there is no limit for is ignored. The error of New names the field that makes
	// no sense. The zero Learned is nothing.
	Restore Learned

	// Breaker refuses calls to a vendor that fails. What it does, a breaker.Breaker's
	// listeners hear, and this governor's (breaker.Breaker.OnChange). nil: none.
	Breaker breaker.Circuit

	// BreakerWait makes requests wait for an open breaker instead of failing.
	BreakerWait bool

	// Retry repeats attempts that failed otherwise than by a rate limit. Its
	// Budget counts those repetitions alone, beside the closures that run, and is
	// for one governor or for all that call a vendor. nil: none is.
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
	// 15 s, doubling. MaxGuess bounds it; 0 means 15 min.
	Guess    backoff.Schedule
	MaxGuess time.Duration

	// MinCooldown is the shortest pause: for a vendor that says "0" or next to
	// it, and for guesses. 0 means 100 ms.
	MinCooldown time.Duration

	// MaxCooldown bounds what a vendor can ask for; more is clamped, and an
	// event says so. 0 means 24 h.
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

	// Logger gets a record when a cooldown begins, is extended and ends, when a
	// request waits for a connection or one cannot be opened, when a request is
	// given up, a delay clamped, a closure stuck, and when an adapter panics. It
	// is called on a goroutine that nothing waits for. nil discards.
	Logger *slog.Logger
}

// Limit is a limit and the key it is counted under.
type Limit struct {
	// Per says whose requests share the limit: the whole Host, or those of one
	// Selector, Tenant or Bucket. The limiter's key is the selector's text, the
	// tenant or the bucket; for Host it is "".
	Per throttle.Level

	// Unit is what the limit counts, in the plural as a throttle.Quota has it:
	// "tokens", "points". Such a limit takes Ask.Cost of each attempt, and is what
	// Settle, and a Report in its unit, correct. As soon as one limit of a Config has
	// a Unit, those without count calls, which is 1 of each attempt whatever it
	// costs; a Config without any Unit takes Ask.Cost of all. An attempt has one
	// cost: two limits of different Units, or of the same, take the same of it.
	Unit string

	// Limiter belongs to the governor from New on. nil means what
	// limiter.NewQuota makes of Quota.
	Limiter limiter.Limiter

	// Quota is the limit as the vendor documents it, so many calls per minute,
	// say. It is taken for one over a sliding window, which no other reading of
	// the words refuses; a vendor that is known to count otherwise has a Limiter
	// for that. A MaxKeys of 0 means the governor's.
	Quota limiter.QuotaConfig
}

// limit is a Limit that was looked through.
type limit struct {
	Per      throttle.Level
	calls    bool // takes 1 of each attempt: others have a unit
	exact    bool // wants every take settled
	releases bool // is a limiter.Releaser
	Limiter  limiter.Limiter
	unit     string
}

// of returns how much of a cost the limit takes.
func (l *limit) of(cost int) int {
	if l.calls {
		return 1
	}
	return cost
}

// counted reports whether limits count what a vendor counts in unit.
func counted(limits []limit, unit string) bool {
	units := false
	for i := range limits {
		if limits[i].unit == unit && !limits[i].calls {
			return true
		}
		units = units || limits[i].unit != ""
	}
	return unit == "" && !units
}

// Overflow is what a full queue does with a new request.
type Overflow uint8

const (
	Block      Overflow = iota // Submit waits for room until its context ends; tenants get it in turn
	Reject                     // the new request fails with ErrQueueFull
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

// settings is Config without its type parameters and with defaults filled in.
type settings struct {
	name            string
	vendor          Vendor
	slots           int
	maxQueue        int
	overflow        Overflow // with its small neighbours in one word, for there may be 10,000 of these
	breakerWait     bool
	shutdownDrop    bool
	unnamed         int32 // weight of requests without a tenant
	maxKeys         int
	weight          func(tenant string) int
	limits          []limit
	shared          *shared // nil: nothing is
	breaker         breaker.Circuit
	retry           *retry.Config
	limitedAttempts int
	openAttempts    int
	attemptTimeout  time.Duration
	guess           backoff.Schedule
	maxGuess        time.Duration
	minCooldown     time.Duration
	maxCooldown     time.Duration
	maxWait         time.Duration
	probePatience   time.Duration
	stuckAfter      time.Duration
	streamIdle      time.Duration
	closeGrace      time.Duration
	observe         bool
	restore         *Learned
	logger          *slog.Logger
}

const maxSlots = 1<<usedBits - 1

func (cfg *Config[S, C]) settings() (s settings, err error) {
	bad := func(field string, value any, want string) {
		if err == nil {
			err = fmt.Errorf("governor: Config.%s is %v, want %s", field, value, want)
		}
	}
	num := func(field string, v, def, top int) int {
		if v < 0 || v > top {
			bad(field, v, fmt.Sprintf("0 to %d", top))
		}
		if v == 0 {
			v = def
		}
		return v
	}
	count := func(v, def int) int { // negative: no bound
		if v < 0 {
			return int(^uint(0) >> 1)
		}
		if v == 0 {
			v = def
		}
		return v
	}
	dur := func(field string, v, def time.Duration) time.Duration {
		if v < 0 {
			bad(field, v, "0 or more")
		}
		if v == 0 {
			v = def
		}
		return v
	}
	if cfg.Name == "" {
		bad("Name", `""`, "a name")
	}
	s = settings{
		name: cfg.Name, vendor: cfg.Vendor, breaker: cfg.Breaker, breakerWait: cfg.BreakerWait,
		slots:           num("Workers", cfg.Workers, 16, maxSlots),
		maxQueue:        num("MaxQueue", cfg.MaxQueue, 10_000, 1<<31-1),
		maxKeys:         num("MaxKeys", cfg.MaxKeys, 100_000, 1<<31-1),
		overflow:        cfg.Overflow,
		weight:          cfg.Weight,
		retry:           cfg.Retry,
		limitedAttempts: count(cfg.LimitedAttempts, 5),
		openAttempts:    count(cfg.OpenAttempts, 3),
		attemptTimeout:  dur("AttemptTimeout", cfg.AttemptTimeout, 0),
		guess:           cfg.Guess,
		maxGuess:        dur("MaxGuess", cfg.MaxGuess, 15*time.Minute),
		minCooldown:     dur("MinCooldown", cfg.MinCooldown, 100*time.Millisecond),
		maxCooldown:     dur("MaxCooldown", cfg.MaxCooldown, 24*time.Hour),
		maxWait:         cfg.MaxWait,
		probePatience:   dur("ProbePatience", cfg.ProbePatience, 5*time.Second),
		stuckAfter:      cfg.StuckAfter,
		streamIdle:      dur("StreamIdle", cfg.StreamIdle, 0),
		closeGrace:      max(0, cfg.CloseGrace),
		shutdownDrop:    cfg.ShutdownDrop,
		observe:         cfg.Observe,
		logger:          cfg.Logger,
	}
	if cfg.Overflow > DropLower {
		bad("Overflow", uint8(cfg.Overflow), "Block, Reject, DropOldest or DropLower")
	}
	if s.maxWait == 0 {
		s.maxWait = 15 * time.Minute
	}
	if s.stuckAfter == 0 {
		s.stuckAfter = time.Minute
	}
	if cfg.CloseGrace == 0 {
		s.closeGrace = 30 * time.Second
	}
	if s.minCooldown > s.maxCooldown {
		bad("MinCooldown", s.minCooldown, fmt.Sprintf("at most MaxCooldown, %v", s.maxCooldown))
	}
	if cfg.Guess != nil {
		if e := backoff.Validate(cfg.Guess); e != nil && err == nil {
			err = fmt.Errorf("governor: Config.Guess: %w", e)
		}
	} else {
		s.guess = backoff.Exponential{Initial: 15 * time.Second, Multiplier: 2, Max: s.maxGuess}
	}
	if cfg.Retry != nil {
		if e := cfg.Retry.Validate(); e != nil && err == nil {
			err = fmt.Errorf("governor: Config.Retry: %w", e)
		}
	}
	host := false
	for i, l := range cfg.Limits {
		switch {
		case l.Limiter != nil && l.Quota != (limiter.QuotaConfig{}):
			bad(fmt.Sprintf("Limits[%d].Quota", i), l.Quota, "none beside a Limiter")
		case l.Limiter != nil:
		case l.Quota == limiter.QuotaConfig{}:
			bad(fmt.Sprintf("Limits[%d].Limiter", i), "nil", "a limiter, or a Quota")
		case cfg.Store != nil: // see share
		default:
			if l.Quota.MaxKeys == 0 {
				l.Quota.MaxKeys = s.maxKeys
			}
			q, e := limiter.NewQuota(l.Quota)
			if e != nil && err == nil {
				err = fmt.Errorf("governor: Config.Limits[%d].Quota: %w", i, e)
			}
			l.Limiter = q
		}
		if l.Per > throttle.Bucket {
			bad(fmt.Sprintf("Limits[%d].Per", i), l.Per, "Host, Selector, Tenant or Bucket")
		}
		host = host || l.Per == throttle.Host
		if l.Limiter != nil {
			own := newLimit(l.Per, l.Limiter)
			own.unit = l.Unit
			s.limits = append(s.limits, own)
		}
	}
	if !host && !cfg.NoPace {
		pace, e := limiter.NewAdaptive(limiter.AdaptiveConfig{})
		if e != nil && err == nil {
			err = fmt.Errorf("governor: %w", e)
		}
		s.limits = append(s.limits, newLimit(throttle.Host, pace))
	}
	for l := throttle.Host; cfg.SpendEvenly && l <= throttle.Bucket; l++ {
		even, e := limiter.NewSpread(limiter.SpreadConfig{MaxKeys: min(s.maxKeys, 1<<30)})
		if e != nil && err == nil {
			err = fmt.Errorf("governor: %w", e)
		}
		s.limits = append(s.limits, newLimit(l, even))
	}
	if err == nil {
		err = s.remember(cfg.Restore, time.Now())
	}
	if err == nil && cfg.Store != nil {
		err = s.share(cfg.Store, cfg.Limits)
	}
	if slices.ContainsFunc(s.limits, func(l limit) bool { return l.unit != "" }) {
		for i := range s.limits {
			s.limits[i].calls = s.limits[i].unit == ""
		}
	}
	return s, err
}
