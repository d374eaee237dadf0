package retry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/internal/isnil"
	"github.com/flyball-go/flyball/policy"
)

// Config says which failures are repeated, how often and when. The zero value is
// ready; see each field's default.
//
// Next goes by Attempts, Backoff, MaxElapsed, MaxRetryAfter and RetryIf, a governor
// by these and Budget; the rest is for a Retry, and for Do.
type Config struct {
	// Name appears in events and errors.
	Name string

	// Attempts is how many attempts are made at most, counting the first. 0 means
	// 3; 1 means that nothing is repeated; less than 0 means no limit.
	Attempts int

	// Backoff is the wait before each further attempt; it may also end them. nil
	// means exponential: 500 ms, doubling up to 1 min, without jitter.
	Backoff backoff.Schedule

	// MaxElapsed is the time within which the last attempt must begin, counted
	// from the beginning of the first. A repetition whose wait would end later is
	// not made, and not waited for. 0 means no limit.
	MaxElapsed time.Duration

	// MaxRetryAfter bounds what errors ask for by their RetryAfter; a longer wait
	// is clamped, and an event says so. 0 means 24 h.
	MaxRetryAfter time.Duration

	// RetryIf says which errors are repeated; it is not asked about those that
	// never are: permanent ones (IsPermanent), context.Canceled, and
	// policy.ErrGoexit, of a function that ended its goroutine. nil means all
	// others but context.DeadlineExceeded. To repeat an attempt that ran into a
	// timeout of its own, have a RetryIf that says so.
	RetryIf func(error) bool

	// RetryOnResult says which calls without an error are repeated for their
	// result; see policy.OnResult. nil means none.
	RetryOnResult policy.Predicate

	// FailOnResult makes a call whose last result is still one to be repeated
	// fail with an *ExhaustedError around ErrResult, or with one of its context
	// when that has no time for another attempt. Otherwise it succeeds, with that
	// result, unless its context has ended.
	FailOnResult bool

	// Budget bounds repetitions by the traffic. It is looked at before the wait, and
	// taken when that is over: a call that only waits holds nothing of it (a governor's
	// request does). nil means no bound.
	Budget *policy.Budget

	// BeforeRetry is called before each repetition, with the result that it will
	// replace: to close it, to count. It may read FromContext. nil: nothing is.
	BeforeRetry func(c *policy.Call)

	// Wait waits for d, or until ctx ends, and then returns the cause. A function
	// of your own may wait in another way, or not at all. nil means a timer.
	Wait func(ctx context.Context, d time.Duration) error

	// OnError replaces the error that leaves the policy, its own or one that is
	// not repeated; nil as a replacement is success. A panic in it passes through.
	// nil: errors stay as they are.
	OnError func(error) error

	// OnEvent hears of Retry, before the wait, Recovered, GaveUp, also when the
	// context ends a call between two attempts, Ignored, BudgetSpent and Clamped, on
	// the goroutine of the call. A panic in it is dropped. nil: nobody does.
	OnEvent func(event.Event)
}

const defaultAttempts = 3

// defaultBackoff is a constant in all but name.
var defaultBackoff backoff.Schedule = backoff.Exponential{Initial: 500 * time.Millisecond, Multiplier: 2, Max: time.Minute}

// ErrInvalid is matched, with errors.Is, by what Config.Validate returns, and by
// the errors for a nil context or function. They are permanent: a retry around does
// not repeat them.
var ErrInvalid = Permanent(errors.New("retry: invalid"))

// Validate returns an error that names a field that is out of range and its
// value, or nil. What is wrong with Backoff matches backoff.ErrInvalid too.
func (c Config) Validate() error { return c.invalid() }

// invalid is in two parts so that the first, which is all for most, is inlined.
func (c *Config) invalid() error {
	if c.Backoff == nil && c.MaxElapsed >= 0 && c.MaxRetryAfter >= 0 {
		return nil
	}
	return c.whatIsInvalid()
}

func (c *Config) whatIsInvalid() error {
	if c.MaxElapsed < 0 {
		return fmt.Errorf("%w: MaxElapsed is %v, less than 0", ErrInvalid, c.MaxElapsed)
	}
	if c.MaxRetryAfter < 0 {
		return fmt.Errorf("%w: MaxRetryAfter is %v, less than 0", ErrInvalid, c.MaxRetryAfter)
	}
	if c.Backoff == nil {
		return nil
	}
	if err := backoff.Validate(c.Backoff); err != nil {
		return fmt.Errorf("%w: Backoff: %w", ErrInvalid, err)
	}
	return nil
}

// Reason says why an attempt is repeated or is not.
type Reason uint8

const (
	Again         Reason = iota // it is repeated; the only one that comes with again
	Succeeded                   // there was no error
	Ignored                     // the error is none that is repeated; it says nothing about the limits
	OutOfAttempts               // Attempts have been made
	OutOfSchedule               // Backoff ended them
	OutOfTime                   // the wait would have passed MaxElapsed
	OutOfBudget                 // Budget does not allow it; never said by Next
)

var reasons = [...]string{"again", "succeeded", "ignored", "out of attempts", "out of schedule", "out of time", "out of budget"}

// String returns the reason in lower case words.
func (r Reason) String() string {
	if int(r) < len(reasons) {
		return reasons[r]
	}
	return "invalid"
}

// Next decides about the attempt that s describes: whether it is repeated, after
// which wait, and why. It is a pure function, but for a random Backoff: it does
// not wait, reads no clock and allocates nothing. It takes the time to walk the
// tree of the error a few times.
//
// The wait is 0 or more: what Backoff says, or what the error's RetryAfter asks
// for, up to MaxRetryAfter, whichever is longer. Of the reasons against, the first
// that applies is given, in the order in which they are declared.
//
// An invalid Config does no harm: a negative MaxElapsed or MaxRetryAfter counts as
// 0, and whatever is wrong with Backoff is treated as that package says.
func (c Config) Next(s backoff.Step) (wait time.Duration, again bool, why Reason) {
	if s.Err == nil {
		return 0, false, Succeeded
	}
	if !c.retries(s.Err) {
		return 0, false, Ignored
	}
	attempts := c.Attempts
	if attempts == 0 {
		attempts = defaultAttempts
	}
	if attempts > 0 && max(s.Attempt, 1) >= attempts {
		return 0, false, OutOfAttempts
	}
	schedule := c.Backoff
	if schedule == nil {
		schedule = defaultBackoff
	}
	if again = !isnil.Pointer(schedule); again {
		wait, again = schedule.Next(s)
	}
	if !again {
		return 0, false, OutOfSchedule
	}
	wait = max(wait, 0)
	if hint, ok := RetryAfter(s.Err); ok {
		wait = max(wait, min(hint, c.maxRetryAfter()))
	}
	// Subtracted, not added, since the sum may be more than a Duration holds.
	if elapsed := max(s.Elapsed, 0); c.MaxElapsed > 0 && wait > c.MaxElapsed-elapsed {
		return 0, false, OutOfTime
	}
	return wait, true, Again
}

func (c *Config) maxRetryAfter() time.Duration {
	if c.MaxRetryAfter <= 0 {
		return 24 * time.Hour
	}
	return c.MaxRetryAfter
}

// retries reports whether err is one that is repeated.
func (c Config) retries(err error) bool {
	if err == ErrResult {
		return true // RetryOnResult has said so
	}
	if IsPermanent(err) || errors.Is(err, context.Canceled) || errors.Is(err, policy.ErrGoexit) {
		return false
	}
	if c.RetryIf != nil {
		return c.RetryIf(err)
	}
	return !errors.Is(err, context.DeadlineExceeded)
}
