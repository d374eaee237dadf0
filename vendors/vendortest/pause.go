package vendortest

import "time"

// pause is the time in which a vendor wants no calls. It has been announced in the
// answers to refused calls; who calls later than a grace after that has known.
type pause struct {
	until time.Time // its end; zero before the first
	known time.Time // the end that everybody knows
	told  []told    // announcements of the last grace, oldest first; each ends later
}

type told struct{ at, until time.Time }

// maxTold bounds the announcements that are remembered one by one.
const maxTold = 64

// begin begins a pause that takes the place of any other.
func (p *pause) begin(now, until time.Time) {
	p.until, p.known, p.told = until, time.Time{}, append(p.told[:0], told{now, until})
}

// extend makes the pause last until then, if that is longer, and reports whether
// it is.
func (p *pause) extend(now, until time.Time, grace time.Duration) bool {
	p.learn(now, grace)
	if !now.Before(p.until) {
		p.begin(now, until)
		return true
	}
	if !until.After(p.until) {
		return false
	}
	p.until = until
	if k := len(p.told) - 1; k+1 >= maxTold {
		p.told[k] = told{now, until} // the safe side: known later
		return true
	}
	p.told = append(p.told, told{now, until})
	return true
}

// late reports whether a call that arrives at now, during the pause, was begun
// when its client could have known of it.
func (p *pause) late(now time.Time, grace time.Duration) bool {
	p.learn(now, grace)
	return now.Before(p.known)
}

// learn moves what was announced longer than a grace ago to what is known.
func (p *pause) learn(now time.Time, grace time.Duration) {
	gone := 0
	for gone < len(p.told) && (grace < 0 || now.Sub(p.told[gone].at) > grace) {
		p.known = p.told[gone].until
		gone++
	}
	p.told = append(p.told[:0], p.told[gone:]...)
}
