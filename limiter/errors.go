package limiter

import (
	"errors"
	"fmt"
	"time"
)

// ErrLimited is matched by every error with which a limiter turns a call away.
var ErrLimited = errors.New("limiter: limited")

// LimitedError is the answer of a limiter that lets a call neither pass nor wait.
// It matches ErrLimited.
type LimitedError struct {
	// After is how long it was, when the limiter answered, until the permits
	// could have been had, if nobody else wanted any; Never when they never can
	// be, for they are more than the limit holds.
	After time.Duration

	// Key is whose limit it was; "" for a limiter without keys.
	Key string
}

// Error says whose limit it was and how long to wait.
func (e *LimitedError) Error() string {
	whose := ""
	if e.Key != "" {
		whose = fmt.Sprintf(" for %q", e.Key)
	}
	if e.After == Never {
		return "limiter: more permits than the limit ever holds" + whose
	}
	return fmt.Sprintf("limiter: limited%s, retry after %v", whose, e.After)
}

// Is reports whether target is ErrLimited.
func (e *LimitedError) Is(target error) bool { return target == ErrLimited }

// Refused reports true: the call was not made.
func (e *LimitedError) Refused() bool { return true }

// RetryAfter returns After.
func (e *LimitedError) RetryAfter() time.Duration { return e.After }
