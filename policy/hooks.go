package policy

import (
	"fmt"
	"strings"

	"github.com/flyball-go/flyball/event"
)

// mapped puts onError, when there is one, around what leaves h. By then h has
// given back what it took, whatever onError does.
func mapped(h Handler, onError func(error) error) Handler {
	if onError == nil {
		return h
	}
	return func(c *Call) error { return mapError(h(c), onError) }
}

func mapError(err error, onError func(error) error) error {
	if err == nil || onError == nil {
		return err
	}
	return onError(err)
}

// report hands e to fn, when there is one. No caller holds a lock.
func report(fn func(event.Event), e event.Event) {
	if fn != nil {
		event.Tell(fn, e)
	}
}

// describe is what the String methods of the policies return.
func describe(kind, name string, settings ...string) string {
	if name != "" {
		kind += " " + name
	}
	return kind + "(" + strings.Join(settings, ", ") + ")"
}

// outOfRange says which field of a configuration has a value it must not have.
func outOfRange(field string, value any, want string) error {
	return fmt.Errorf("%w: %s is %v, want %s", ErrInvalid, field, value, want)
}
