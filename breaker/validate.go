package breaker

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/flyball-go/flyball/backoff"
)

func (cfg Config) validate() error {
	for _, n := range []struct {
		field       string
		value, most int
	}{
		{"Window", cfg.Window, 1 << 20},
		{"Consecutive", cfg.Consecutive, math.MaxInt32},
		{"Failures", cfg.Failures, math.MaxInt32},
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
			{"Failures", cfg.Failures, cfg.Failures != 0},
			{"SlowRate", cfg.SlowRate, cfg.SlowRate != 0},
			{"SlowCall", cfg.SlowCall, cfg.SlowCall > 0},
		} {
			if f.set {
				return invalid("Config.%s is %v beside Consecutive, which is without rates; want 0", f.field, f.value)
			}
		}
	}
	if cfg.Failures > 0 && cfg.FailureRate > 0 {
		return invalid("Config.Failures is %d beside a FailureRate of %v, want one of them", cfg.Failures, cfg.FailureRate)
	}
	if most := cmp.Or(cfg.Window, defaultWindow); cfg.WindowTime == 0 && cfg.Failures > most {
		return invalid("Config.Failures is %d, want at most Window, which is %d", cfg.Failures, most)
	}
	if cfg.HalfOpenClose && cfg.HalfOpenWait == 0 {
		return invalid("Config.HalfOpenClose is true without a HalfOpenWait")
	}
	if !cfg.Initial.valid() {
		return invalid("Config.Initial is %d, want a State", cfg.Initial)
	}
	if cfg.OpenFor != nil && cfg.OpenDelay != nil {
		return invalid("Config.OpenDelay is set beside OpenFor, want one of them")
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
