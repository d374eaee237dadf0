package limiter

import "time"

// How long a Shared pauses after a refusal that does not say so, in seconds: the guess
// doubles from one episode to the next until the vendor has accepted some calls.
const (
	firstGuess = 1.0
	mostGuess  = 60.0
	trusted    = 10        // accepted calls after which a guess is the first again
	mostAsked  = 24 * 3600 // of what a refusal may ask for; more is clamped
)

// pause is what an Adaptive does in place of an owner that does not pause. It is the
// zero value for one that does.
type pause struct {
	until float64 // nothing passes
	began float64 // when the refusal was received that began the episode
	on    bool    // there was one
	guess float64 // the last one; 0: the next is the first
	good  int     // calls of the episode that were accepted
}

// pauseFor lets nothing pass for as long as a refusal asked for. One that did not ask,
// with less than 1, makes a model without a window wait for a guess: it is made for a
// pause, while one with a window is not. Calls that were on their way when the pause
// began tell no more than how long it is to be. It reports whether what was asked for is
// clamped.
func (a *Adaptive) pauseFor(now, sent time.Time, asked time.Duration) (clamped bool) {
	t, p := a.at(now), &a.pause
	if asked > 0 {
		p.until = max(p.until, t+min(asked.Seconds(), mostAsked))
	}
	clamped = asked > mostAsked*time.Second
	if p.on && a.seconds(sent) <= p.began {
		return clamped
	}
	p.on, p.began, p.good = true, t, 0
	if asked <= 0 && a.cfg.Window == 0 {
		p.guess = min(max(2*p.guess, firstGuess), mostGuess)
		p.until = max(p.until, t+p.guess)
	}
	return clamped
}

// accepted counts the calls of the episode.
func (p *pause) accepted(sent float64) {
	if !p.on || sent <= p.began {
		return
	}
	if p.good++; p.good >= trusted {
		p.guess = 0
	}
}

// pausing is an Adaptive.
type pausing interface {
	pauseFor(now, sent time.Time, asked time.Duration) (clamped bool)
}

// refused tells l that the vendor refused a call and asked for a pause, 0 if it did not
// say for how long, and reports whether that was clamped.
func refused(l Limiter, now, sent time.Time, key string, asked time.Duration) (clamped bool) {
	l.Refused(now, sent, key)
	p, ok := l.(pausing)
	return ok && p.pauseFor(now, sent, asked)
}
