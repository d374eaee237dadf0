package limiter

import (
	"time"

	"github.com/flyball-go/flyball/internal/isnil"
)

// The checks of configurations name the field and its value.

func checkLimit(field string, limit int) error {
	if limit < 1 || int64(limit) > 1<<40 {
		return invalidf("%s is %d, want 1 up to 1<<40", field, limit)
	}
	return nil
}

func checkRate(field string, rate float64) error {
	if !(rate*century.Seconds() >= 1 && rate <= 1e9) { // nor NaN
		return invalidf("%s is %v, want one per century up to 1e9 per second", field, rate)
	}
	return nil
}

// checkTime checks a length of time. least is 0 or 1.
func checkTime(field string, d, least time.Duration) error {
	if d < least || d > century {
		return invalidf("%s is %v, want %v up to a century", field, d, least)
	}
	return nil
}

// checkLimiter checks a limiter of somebody's making.
func checkLimiter(field string, l Limiter) error {
	switch {
	case l == nil:
		return invalidf("%s is nil", field)
	case isnil.Pointer(l):
		return invalidf("%s is a nil %T", field, l)
	}
	return nil
}

// checkKeys checks MaxKeys of the named configuration.
func checkKeys(config string, keys int) error {
	if keys < 0 || keys > 1<<30 {
		return invalidf("%s.MaxKeys is %d, want 0 up to 1<<30", config, keys)
	}
	return nil
}

// maxKeys returns how many keys a checked MaxKeys stands for.
func maxKeys(keys int) int {
	if keys == 0 {
		return 100_000
	}
	return keys
}

// first returns the first error that is one.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
