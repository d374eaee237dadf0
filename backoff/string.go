package backoff

import (
	"fmt"
	"strings"
	"time"
)

// What schedules say of themselves, with their defaults, for descriptions of a
// program's policies and for error messages.

// String returns "1s".
func (c Constant) String() string { return time.Duration(c).String() }

// String returns "linear 500ms +500ms up to 1m0s".
func (l Linear) String() string {
	initial := positive(l.Initial, defaultInitial)
	return fmt.Sprintf("linear %v +%v", initial, positive(l.Increment, initial)) + upTo(l.Max)
}

// String returns "exponential 500ms x2 up to 1m0s".
func (e Exponential) String() string {
	return fmt.Sprintf("exponential %v x%v", positive(e.Initial, defaultInitial), multiplier(e.Multiplier, 2)) + upTo(e.Max)
}

// String returns "fibonacci 500ms up to 1m0s".
func (f Fibonacci) String() string {
	return fmt.Sprintf("fibonacci %v", positive(f.Initial, defaultInitial)) + upTo(f.Max)
}

// String returns "decorrelated 500ms x3 up to 1m0s".
func (j Decorrelated) String() string {
	return fmt.Sprintf("decorrelated %v x%v", positive(j.Initial, defaultInitial), multiplier(j.Multiplier, 3)) + upTo(j.Max)
}

func upTo(limit time.Duration) string {
	if limit <= 0 {
		return ""
	}
	return " up to " + limit.String()
}

// String returns "5 times".
func (t Times) String() string { return fmt.Sprintf("%d times", int(t)) }

// String returns "func".
func (f Func) String() string { return "func" }

// String returns "full jitter(1s)".
func (j FullJitter) String() string { return around("full jitter", j.Of) }

// String returns "equal jitter(1s)".
func (j EqualJitter) String() string { return around("equal jitter", j.Of) }

// String returns "jitter 50%(1s)", or "jitter +50%(1s)" with Upward.
func (j FactorJitter) String() string {
	sign := ""
	if j.Upward {
		sign = "+"
	}
	return around(fmt.Sprintf("jitter %s%.4g%%", sign, 100*j.factor()), j.Of)
}

func (m maxDelay) String() string   { return around("max delay "+m.limit.String(), m.of) }
func (m maxElapsed) String() string { return around("max elapsed "+m.limit.String(), m.of) }
func (m mapped) String() string     { return around("map", m.of) }
func (a and) String() string        { return around("and", a...) }
func (o or) String() string         { return around("or", o...) }
func (t then) String() string       { return around("then", t...) }

func (w while) String() string {
	if w.want {
		return around("while", w.of)
	}
	return around("until", w.of)
}

// around names a schedule and the ones within it. Of one of another package that
// does not describe itself it gives the type.
func around(name string, parts ...Schedule) string {
	texts := make([]string, len(parts))
	for i, p := range parts {
		switch p := p.(type) {
		case nil:
			texts[i] = "nil"
		case fmt.Stringer:
			texts[i] = p.String()
		default:
			texts[i] = fmt.Sprintf("%T", p)
		}
	}
	return name + "(" + strings.Join(texts, ", ") + ")"
}
