package registry

import (
	"errors"
	"fmt"
)

var (
	// ErrInvalid is matched by errors of what makes no sense: a key that is none,
	// JSON that cannot be read, a field out of range. The text names it and its value.
	ErrInvalid = errors.New("registry: invalid")

	// ErrExists is matched by errors of adding a name that is there already.
	ErrExists = errors.New("registry: exists already")

	// ErrNotFound is matched by errors of changing a name that is not there, or of
	// making an instance of a base that is not.
	ErrNotFound = errors.New("registry: not found")

	// ErrTooMany is matched by errors of adding a name when there are as many as may be.
	ErrTooMany = errors.New("registry: too many")

	// ErrNotLive is matched by errors of a change that cannot be made while an instance
	// runs, where a new one in its place would not know what the old one has let pass:
	// Remove it, and make another, if that does not matter.
	ErrNotLive = errors.New("registry: cannot be changed at run time")

	// ErrClosed is matched by errors of what is closed.
	ErrClosed = errors.New("registry: closed")
)

func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}

// FieldError says which field of a JSON text cannot be what it says. It matches
// ErrInvalid.
type FieldError struct {
	Path  string // from the outermost: "Limits[0].Quota.Per"; "" is the whole text
	Value string // as it was written, cut to 64 bytes
	Want  string // what would do
}

// Error says what the field is, and what would do.
func (e *FieldError) Error() string {
	path := e.Path
	if path == "" {
		path = "the text"
	}
	return fmt.Sprintf("registry: %s is %s, want %s", path, e.Value, e.Want)
}

// Is reports whether target is ErrInvalid.
func (e *FieldError) Is(target error) bool { return target == ErrInvalid }

// Code is what went wrong, in the words of Confined.
type Code string

// The codes.
const (
	FailedToAcquirePermit           Code = "FailedToAcquirePermit"           // there was none within the wait that the metadata allows, or the breaker is open
	InterruptedWhileAcquiringPermit Code = "InterruptedWhileAcquiringPermit" // the context ended before there was one
	FailedToInstantiateRegistry     Code = "FailedToInstantiateRegistry"     // what the key guards cannot be made: its metadata makes no sense or cannot be read
	FailureWhileExecutingOperation  Code = "FailureWhileExecutingOperation"  // the function, or the operation of a packet, failed
	RegistryNotFound                Code = "RegistryNotFound"                // there is nothing that the key, or the operation, could be for
)

// Error is what a Permits and Packets fail with. Test for its Code with errors.AsType,
// for its cause with errors.Is: it unwraps to Err.
type Error struct {
	Code Code
	Key  string // "" where there is none
	Err  error
}

// Error says what failed, for which key and why.
func (e *Error) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("registry: %s: %v", e.Code, e.Err)
	}
	return fmt.Sprintf("registry: %s: %s: %v", e.Code, e.Key, e.Err)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }
