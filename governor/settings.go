package governor

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/internal/isnil"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
)

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
	if cfg.Breaker != nil && isnil.Pointer(cfg.Breaker) {
		bad("Breaker", fmt.Sprintf("a nil %T", cfg.Breaker), "a breaker, or nil")
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
		case l.Limiter != nil && isnil.Pointer(l.Limiter):
			bad(fmt.Sprintf("Limits[%d].Limiter", i), fmt.Sprintf("a nil %T", l.Limiter), "a limiter")
			l.Limiter = nil
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
