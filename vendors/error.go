package vendors

import (
	"net/http"
	"strconv"

	"github.com/flyball-go/flyball/throttle"
)

// ResponseError is a client's error together with the answer it came from. It
// is what adapters look for in an error's tree.
type ResponseError struct {
	Response
	Err error // the client's own error; may be nil

	// Once says that the call does harm when it is executed twice, as a POST without an
	// idempotency key. After a 5xx that only says when it ends it may have been executed,
	// and of a good answer of LinkedIn's it was: Signals then has NoRetry. What a vendor
	// calls throttling in its own words, and 529, come before that, and forbid nothing.
	Once bool
}

// statusOverloaded is what servers answer that take no more calls.
const statusOverloaded = 529

// executed reports whether a call of which s was said may have been.
func (e *ResponseError) executed(s throttle.Signal) bool {
	return e.Status >= 500 && e.Status != statusOverloaded && s.Kind == throttle.KindOverload
}

// Error names the status and adds the client's own text, cut to a line of at
// most 200 bytes. It adds nothing of headers, body or trailers, where secrets
// and megabytes are.
func (e *ResponseError) Error() string {
	s := "vendors: gRPC " + e.Code.String()
	if e.Status != 0 {
		s = "vendors: HTTP " + strconv.Itoa(e.Status)
		if text := http.StatusText(e.Status); text != "" {
			s += " " + text
		}
	}
	if e.Err != nil {
		s += ": " + line(e.Err.Error(), 200)
	}
	return s
}

// Unwrap returns the client's own error.
func (e *ResponseError) Unwrap() error { return e.Err }

// maxTree bounds how many errors of one tree are looked at. A tree of an honest
// program has a handful; a cyclic one has no end.
const maxTree = 256

// responses returns every ResponseError in err's tree, outermost first. It does
// not look inside one: what it wraps is the same answer once more.
func responses(err error) (found []*ResponseError) {
	todo := []error{err}
	for n := 0; len(todo) > 0 && n < maxTree; n++ {
		err := todo[0]
		todo = todo[1:]
		switch e := err.(type) {
		case nil:
		case *ResponseError:
			if e != nil {
				found = append(found, e)
			}
		case interface{ Unwrap() error }:
			todo = append(todo, e.Unwrap())
		case interface{ Unwrap() []error }:
			all := e.Unwrap()
			todo = append(todo, all[:min(len(all), maxTree)]...)
		case interface{ As(any) bool }: // it stands for one that wraps what is not to be seen
			var re *ResponseError
			if e.As(&re) && re != nil {
				found = append(found, re)
			}
		}
	}
	return found
}

// line returns s as one printable line of at most n bytes.
func line(s string, n int) string {
	cut := len(s) > n
	if cut {
		s = s[:n]
	}
	out := make([]rune, 0, len(s))
	for i, r := range s {
		switch {
		case r == '\uFFFD' && cut && i > len(s)-4: // the half of a character at the cut
		case r < ' ' || r == 0x7f || r == '\uFFFD':
			out = append(out, ' ')
		default:
			out = append(out, r)
		}
	}
	if cut {
		return string(out) + "..."
	}
	return string(out)
}
