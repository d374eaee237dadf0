package limiter

import "math"

// search asks whether a vendor accepts more than the quota: with a few calls above
// it, one after the other and each alone, so that nothing is behind the one that is
// refused.
//
// In a full window there is no room for one more call before an old one has left
// it, and where calls are spread evenly that is always soon. So a search begins
// with a gap, in which nothing is sent. The window is filled again, a little
// faster than usual, and one window after the gap nothing leaves it for a while,
// the length of the gap. Then, when what runs has been answered, the calls above
// the quota are sent, each as long after the one before it as a refusal takes.
type search struct {
	on   bool
	at   float64 // when the next one begins
	rest float64 // in windows, or pauses if they are longer

	stood float64 // rest before the quota fell
	vain  int     // searches in a row that told nothing

	began, gap  float64
	first, last float64 // of the calls above the quota
	tried       float64 // permits in the window with the last one
	found       float64 // that many were accepted
}

const (
	spareCalls   = 4.5  // for which a gap is longer than seems necessary
	longestGap   = 0.25 // of the window
	searchPace   = 1.1  // of the quota, between the gaps
	inconclusive = 2.0  // windows until the next search, after one that told nothing
	mostVain     = 3    // of these in a row
)

// enough is how many permits in a window prove that there are more than the last
// refusal revealed.
func (w *windowed) enough() float64 { return math.Floor(w.ceiling*(1+margin)) + 1 }

func (s *search) later(w *windowed, t float64) {
	s.on, s.at = false, t+s.rest*max(w.window, w.pause)
	if w.quota >= w.most {
		s.at = math.Inf(1)
	}
}

// begins starts a search when it is time, and somebody wants more.
func (s *search) begins(w *windowed, t float64) {
	if s.on || w.growth > 0 || t < s.at || w.paused || !w.limits.often() {
		return
	}
	calls := w.enough() - w.quota + spareCalls
	gap := w.answer.accepted + calls*s.spacing(w)
	if gap > longestGap*w.window || s.vain >= mostVain {
		s.grow(w, t) // with what follows, since alone would not do
		return
	}
	s.on, s.began, s.gap = true, t, gap
	s.first, s.last = math.Inf(1), math.Inf(1)
	s.tried, s.found = 0, 0
}

// grow raises the quota: fast to where it stood before it fell, else slowly.
func (s *search) grow(w *windowed, t float64) {
	s.vain = 0
	doublings := growingOn
	if w.fallen > w.quota {
		doublings = growingBack
	}
	w.startGrowth(t, doublings)
}

func (s *search) spacing(w *windowed) float64 { return trainTime * w.refusalTime() }

// pace is the rate at which the window is filled after the gap.
func (s *search) pace(w *windowed) float64 { return searchPace * w.quota / (w.window - s.gap) }

// wait returns how long a search keeps n permits; mine is false when it does not
// mind them.
func (s *search) wait(w *windowed, t, n float64) (d float64, mine bool) {
	over := s.began + s.gap
	if t < over-tick {
		return over - t, true
	}
	quiet := s.began + w.window + 2*w.tally.segment // nothing leaves the window now
	last := over + w.window - s.spacing(w)          // a later call would see some leave it before it arrives
	switch {
	case t >= over+w.window && (s.last > t || s.found == s.tried || t > s.last+2*w.answer.accepted):
		s.end(w, t)
	case t >= quiet && t < last && w.full(n):
		return max(s.next(w)-t, w.train.next-t), true
	}
	return 0, false
}

// next is when the next call above the quota may be sent.
func (s *search) next(w *windowed) float64 {
	if math.IsInf(s.last, 1) {
		return 0
	}
	return s.last + s.spacing(w)
}

// sent notes a call above the quota.
func (s *search) sent(w *windowed, t float64) {
	s.first, s.last = min(s.first, t), t
	s.tried = w.tally.sum
	w.train = train{next: t}
}

// end draws the conclusion when nothing was refused.
func (s *search) end(w *windowed, t float64) {
	s.on = false
	if s.found < w.enough() {
		s.vain++
		s.at = t + inconclusive*w.window
		return
	}
	w.quota = min(s.found, w.most)
	s.grow(w, t)
}

// failed makes searches rarer after one that was refused.
func (s *search) failed(w *windowed) {
	s.vain = 0
	if w.fallen > 0 {
		s.rest = min(s.rest*restSlower, restMost)
	} else {
		s.rest = min(s.rest*restMore, restMost)
	}
}
