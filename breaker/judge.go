package breaker

import (
	"fmt"
	"math"
)

// verdict is what a window says.
type verdict uint8

const (
	tooEarly verdict = iota
	good
	tooBad
)

// judge returns what the window says, and of too bad a one what it is that has
// reached its threshold.
func (c *core) judge() (v verdict, why string) {
	w := &c.window
	if limit := c.cfg.Consecutive; limit > 0 {
		half := stateOf(c.id) == HalfOpen
		switch {
		case half && w.failed > 0, w.failed >= limit:
			return tooBad, c.say("failures in a row: %d", w.failed)
		case half && w.calls < c.cfg.HalfOpenCalls:
			return tooEarly, ""
		}
		return good, ""
	}
	failed, slow := c.rates()
	switch limit := c.cfg.Failures; {
	case limit > 0 && (w.failed >= limit || w.failed > 0 && stateOf(c.id) == HalfOpen):
		return tooBad, c.say("failures: %d", w.failed)
	case failed < 0:
		return tooEarly, ""
	case limit == 0 && failed >= c.cfg.FailureRate:
		return tooBad, c.say("failure rate: %.3g", failed)
	case slow >= c.cfg.SlowRate:
		return tooBad, c.say("slow rate: %.3g", slow)
	}
	return good, ""
}

func (c *core) say(format string, x any) string {
	if c.cfg.OnEvent == nil && !c.heard {
		return ""
	}
	return fmt.Sprintf(format, x)
}

// rates returns the fractions of failed and slow calls; -1 below the minimum.
func (c *core) rates() (failed, slow float64) {
	w := &c.window
	minimum := c.cfg.MinCalls
	switch {
	case c.cfg.Consecutive > 0:
		minimum = math.MaxInt
	case w.marks != nil:
		minimum = min(minimum, len(w.marks))
	}
	if w.calls < minimum {
		return -1, -1
	}
	n := float64(w.calls)
	return float64(w.failed) / n, float64(w.slow) / n
}
