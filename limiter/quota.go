package limiter

import (
	"time"
)

// QuotaConfig is a quota as a vendor documents it: Limit calls, or units, per Per.
type QuotaConfig struct {
	// Limit is how many permits of a key any Per may hold: 1 up to 1<<40.
	Limit int

	// Per is the length of the vendor's window, up to a century.
	Per time.Duration

	// Margin is what a permit stays away beyond Per, up to a century. The vendor
	// counts when calls arrive, by its own clock: of two calls that leave here one
	// Per apart, the second arrives too early when the first took longer on its
	// way. So Margin should be the difference between the slowest way there and
	// the fastest, with all that may come in between a Take and the arrival (a
	// connection that has to be opened, a slow upload), and with the unit of the
	// vendor's clock, if it counts in whole seconds, say. It costs
	// Margin/(Per+Margin) of the quota; too little of it costs a refusal, and the
	// pause that follows.
	//
	// 0 means 0.5 % of Per, but no more than 250 ms: for a quota per minute or
	// more, a connection to the other side of the world. For one per second that is
	// 5 ms, which suits a vendor nearby; set what you have measured. Less than 0
	// means none.
	Margin time.Duration

	// MaxKeys bounds the keys that have permits in their window. A further key has
	// to wait until one of them has none. At most 1<<30. 0 means 100,000.
	MaxKeys int
}

// NewQuota returns the limiter for a documented quota of a vendor that counts over
// a sliding window, or does not say how it counts: what this one lets pass, a fixed
// window of Limit and Per, and a bucket of Limit permits, do not refuse either. It
// is a SlidingLog; for a Limit of more than 4096, of which a log would take up to
// 64 kB a key, a SlidingCounter of 500 segments and 4 kB.
//
// The envelope: any half-open span of time of length Per+Margin holds no more
// permits of a key than the highest limit in force in it. An owner that comes back
// when Wait says so gets Limit in every Per+Margin, of a SlidingCounter 99.8 % of
// that: with the default Margin, more than 99 % of the quota.
//
// The error names the field that is out of range.
func NewQuota(cfg QuotaConfig) (Counter, error) {
	err := first(
		checkLimit("QuotaConfig.Limit", cfg.Limit),
		checkTime("QuotaConfig.Per", cfg.Per, 1),
		checkKeys("QuotaConfig", cfg.MaxKeys),
	)
	if err == nil && cfg.Margin > century {
		err = invalidf("QuotaConfig.Margin is %v, want no more than a century", cfg.Margin)
	}
	if err != nil {
		return nil, err
	}
	margin := max(0, cfg.Margin)
	if cfg.Margin == 0 {
		margin = min(cfg.Per/200, 250*time.Millisecond)
	}
	if cfg.Limit <= 4096 {
		return newSlidingLog(cfg.Limit, cfg.Per, margin, cfg.MaxKeys), nil
	}
	return newSlidingCounter(cfg.Limit, cfg.Per+margin, 500, cfg.MaxKeys), nil
}
