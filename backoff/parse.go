package backoff

import (
	"strconv"
	"strings"
	"time"
)

const (
	maxText  = 1024 // bytes of a schedule's text
	maxDepth = 16   // schedules within each other
)

// Parse returns the schedule that text describes as the String methods do:
//
//	1s                                       Constant
//	linear 500ms +500ms up to 1m             Linear
//	exponential 500ms x2 up to 1m            Exponential
//	fibonacci 500ms up to 1m                 Fibonacci
//	decorrelated 500ms x3 up to 1m           Decorrelated
//	5 times                                  Times
//	full jitter(...)  equal jitter(...)      FullJitter, EqualJitter
//	jitter 50%(...)  jitter +50%(...)        FactorJitter, with Upward
//	max delay 1m(...)  max elapsed 1h(...)   MaxDelay, MaxElapsed
//	and(..., ...)  or(...)  then(...)        And, Or, Then
//
// The numbers of a curve may be left out, the first only with the second, and then
// have their defaults: "exponential" is the zero Exponential. So configurations can name
// a schedule; what needs a function of yours has no text. An error matches
// ErrInvalid, says where text goes wrong, and is also returned for a schedule that
// Validate finds wrong, for more than 1024 bytes, and for more than 16 schedules
// within each other.
func Parse(text string) (Schedule, error) {
	if len(text) > maxText {
		return nil, invalid("a schedule of %d bytes, want up to %d", len(text), maxText)
	}
	p := parser{text: text, rest: text}
	s, err := p.schedule(1)
	if err != nil {
		return nil, err
	}
	if p.space(); p.rest != "" {
		return nil, p.unexpected("the end")
	}
	if err := Validate(s); err != nil {
		return nil, err
	}
	return s, nil
}

// parser reads text from left to right; rest is what is left of it.
type parser struct{ text, rest string }

func (p *parser) unexpected(want string) error {
	return invalid("%.40q at byte %d of a schedule, want %s", p.rest, len(p.text)-len(p.rest), want)
}

func (p *parser) space() { p.rest = strings.TrimLeft(p.rest, " ") }

// word takes s from the beginning of what is left, where it ends as a word.
func (p *parser) word(s string) bool {
	p.space()
	rest, ok := strings.CutPrefix(p.rest, s)
	if ok && (rest == "" || strings.ContainsRune(" (),", rune(rest[0]))) {
		p.rest = rest
		return true
	}
	return false
}

// sign takes s from the beginning of what is left.
func (p *parser) sign(s string) (ok bool) {
	p.space()
	p.rest, ok = strings.CutPrefix(p.rest, s)
	return ok
}

// next returns what comes up to a space or a bracket, without taking it.
func (p *parser) next() string {
	p.space()
	if i := strings.IndexAny(p.rest, " (),"); i >= 0 {
		return p.rest[:i]
	}
	return p.rest
}

// duration takes a duration of least or more, if there is one.
func (p *parser) duration(least time.Duration) (time.Duration, bool) {
	text := p.next()
	d, err := time.ParseDuration(text)
	if err != nil || d < least {
		return 0, false
	}
	p.rest = p.rest[len(text):]
	return d, true
}

// schedule takes one schedule.
func (p *parser) schedule(depth int) (Schedule, error) {
	if depth > maxDepth {
		return nil, p.unexpected("no more than " + strconv.Itoa(maxDepth) + " schedules within each other")
	}
	if n, err := strconv.ParseUint(p.next(), 10, 31); err == nil {
		p.rest = p.rest[len(p.next()):]
		if !p.word("times") {
			return nil, p.unexpected(`"times"`)
		}
		return Times(n), nil
	}
	if d, ok := p.duration(0); ok {
		return Constant(d), nil
	}
	if s, err := p.curve(); s != nil || err != nil {
		return s, err
	}
	return p.around(depth)
}

// curve takes a schedule that has numbers alone; it returns nil when there is none.
func (p *parser) curve() (Schedule, error) {
	switch {
	case p.word("linear"):
		n, err := p.numbers('+')
		return Linear{Initial: n.initial, Increment: n.increment, Max: n.max}, err
	case p.word("exponential"):
		n, err := p.numbers('x')
		return Exponential{Initial: n.initial, Multiplier: n.multiplier, Max: n.max}, err
	case p.word("fibonacci"):
		n, err := p.numbers(0)
		return Fibonacci{Initial: n.initial, Max: n.max}, err
	case p.word("decorrelated"):
		n, err := p.numbers('x')
		return Decorrelated{Initial: n.initial, Multiplier: n.multiplier, Max: n.max}, err
	}
	return nil, nil
}

// numbers are those of a curve; one that is left out is 0.
type numbers struct {
	initial, increment, max time.Duration
	multiplier              float64
}

// numbers takes them; second is the sign of the second number, if there may be one.
// A 0 is refused: in a curve it would mean the default.
func (p *parser) numbers(second byte) (n numbers, err error) {
	const above = "a duration above 0"
	var ok bool
	if c := p.next(); c != "" && c[0] >= '0' && c[0] <= '9' {
		if n.initial, ok = p.duration(1); !ok {
			return n, p.unexpected(above)
		}
		switch {
		case second == '+' && p.sign("+"):
			if n.increment, ok = p.duration(1); !ok {
				return n, p.unexpected(above)
			}
		case second == 'x' && p.sign("x"):
			text := p.next()
			if n.multiplier, err = strconv.ParseFloat(text, 64); err != nil || !(n.multiplier >= 1) {
				return n, p.unexpected("a number of 1 or more")
			}
			p.rest = p.rest[len(text):]
		}
	}
	if p.word("up to") {
		if n.max, ok = p.duration(1); !ok {
			return n, p.unexpected(above)
		}
	}
	return n, nil
}

// around takes a schedule of others.
func (p *parser) around(depth int) (Schedule, error) {
	one := func(of func(Schedule) Schedule) (Schedule, error) {
		all, err := p.parts(depth)
		if err == nil && len(all) != 1 {
			err = p.unexpected("one schedule in brackets")
		}
		if err != nil {
			return nil, err
		}
		return of(all[0]), nil
	}
	several := func(of func(...Schedule) Schedule) (Schedule, error) {
		all, err := p.parts(depth)
		return of(all...), err
	}
	switch {
	case p.word("full jitter"):
		return one(func(s Schedule) Schedule { return FullJitter{Of: s} })
	case p.word("equal jitter"):
		return one(func(s Schedule) Schedule { return EqualJitter{Of: s} })
	case p.word("jitter"):
		up := p.sign("+")
		text := p.next()
		percent, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
		if err != nil || !strings.HasSuffix(text, "%") || !(percent > 0 && percent <= 100) {
			return nil, p.unexpected("more than 0% up to 100%")
		}
		p.rest = p.rest[len(text):]
		return one(func(s Schedule) Schedule { return FactorJitter{Of: s, Factor: percent / 100, Upward: up} })
	case p.word("max delay"), p.word("max elapsed"):
		delay := strings.HasSuffix(p.text[:len(p.text)-len(p.rest)], "delay")
		d, ok := p.duration(0)
		if !ok {
			return nil, p.unexpected("a duration")
		}
		if delay {
			return one(func(s Schedule) Schedule { return MaxDelay(s, d) })
		}
		return one(func(s Schedule) Schedule { return MaxElapsed(s, d) })
	case p.word("and"):
		return several(And)
	case p.word("or"):
		return several(Or)
	case p.word("then"):
		return several(Then)
	}
	return nil, p.unexpected("a schedule, such as \"exponential 1s x2 up to 1m\"")
}

// parts takes the schedules between brackets.
func (p *parser) parts(depth int) (all []Schedule, err error) {
	if !p.sign("(") {
		return nil, p.unexpected(`"("`)
	}
	for {
		s, err := p.schedule(depth + 1)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
		if p.sign(")") {
			return all, nil
		}
		if !p.sign(",") {
			return nil, p.unexpected(`"," or ")"`)
		}
	}
}
