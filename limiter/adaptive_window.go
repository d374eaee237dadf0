package limiter

import "math"

// How an Adaptive learns when it knows the vendor's window.
//
// The vendor accepts so many calls in any window of a known length. A refusal then
// reveals how many: those that it accepted in the window before. That is right to
// a call or two, which the jitter of the network moves into the window or out of
// it, so a hundredth less is used from then on.
//
// Until the first refusal the quota grows. Afterwards it stands, and whether there
// is more is asked by a search, rarely. When a call is refused though the quota
// has stood, it has fallen, nobody knows how far: half of it is used, and what
// stood before is searched for more often than something that never was there.
//
// What is behind a refused call, on its way already, is refused as well, and makes
// a pause longer. How many these are depends on how fast a refusal comes back. So
// calls go in trains, a train in the time that a refusal takes: of the one that is
// refused only the rest is behind it, half of what evenly spaced calls would be. In a
// full window a train waits until there is room for all of it; else it would fall
// apart into calls that go when those of a window ago leave it.
//
// The vendors and networks for which the figures below are right or good enough
// are those of the tests. None is critical but for the balance of rest and
// restFallen: each search that finds nothing costs a refusal and a pause, and with
// fewer of them more time passes until more is found.
const (
	margin      = 0.01 // of the quota that a refusal revealed
	growing     = 0.67 // doublings in a window until the first refusal
	growingOn   = 0.33 // the same when a search has found more than ever stood
	growingBack = 2.0  // the same towards what stood before it fell
	overPace    = 1.02 // trains go as much faster than the quota, so that the count is what limits
	late        = 0.02 // of a window: how late an owner may come without losing permits

	// A quota that is refused before it has stood for so many windows was never
	// right: the vendor's windows follow one another, or others use the quota, too.
	mustStand = 4.0
	tooMuch   = 0.15 // by which it is lowered then

	rest       = 20.0 // from a refusal to the next search, in windows or pauses
	restFallen = 7.0  // the same while the quota has fallen
	restMore   = 1.5  // times as much after each search that found nothing
	restSlower = 1.1  // the same while the quota has fallen
	restMost   = 100.0

	answerShare = 0.25   // of the time a call takes, for a refusal, until one was seen
	trainTime   = 1.4    // of the time a refusal takes
	trainShare  = 0.01   // of the quota, at most
	growShare   = 0.0125 // the same while it grows from the start, for a refusal is certain to come
)

type windowed struct {
	window      float64 // seconds
	least, most float64 // permits per window
	configured  float64 // the most that most may be

	tally   tally
	quota   float64 // permits per window at present
	ceiling float64 // what the last refusal revealed
	fallen  float64 // from this; 0: it has not
	growth  float64 // doublings per window; 0: the quota stands
	grown   float64 // when the present window of growth began
	stands  float64 // when the quota was last changed, or a pause ended
	proven  bool    // a call of this window of growth was accepted

	limits limited
	train  train
	search search
	answer answer

	cut    float64 // when the last refusal that counted was received
	paused bool    // nothing has been taken since
	pause  float64
}

func newWindowed(window, start, least, most float64) *windowed {
	w := &windowed{
		window: window, least: max(1, least*window), most: max(1, most*window),
		configured: max(1, most*window), tally: newTally(window), growth: growing,
		cut: math.Inf(-1),
	}
	w.quota = min(max(10, w.least), w.most)
	if start > 0 {
		w.quota = max(1, start*window)
	}
	w.ceiling = w.quota
	w.search.rest = rest
	w.limits.share = 0.5
	if w.quota >= w.most { // there is nothing to find out
		w.growth, w.search.at = 0, math.Inf(1)
	}
	return w
}

// lax is never so: a window has a quota from the beginning.
func (w *windowed) lax() bool { return false }

func (w *windowed) passed(t, calls float64) {}

func (w *windowed) back(t float64) bool {
	w.tally.advance(t)
	return w.tally.sum == 0
}

func (w *windowed) perSecond() float64 { return w.quota / w.window }

// full reports whether n more permits are more than the quota.
func (w *windowed) full(n float64) bool { return w.tally.sum+n > math.Floor(w.quota) }

func (w *windowed) wait(t, n float64) float64 {
	w.tally.advance(t)
	n = min(n, math.Floor(w.quota)) // of a take larger than the quota the rest is owed
	if w.search.begins(w, t); w.search.on {
		if d, mine := w.search.wait(w, t, n); mine {
			return w.waits(d)
		}
	}
	d := w.train.wait(t, n)
	if whole := w.train.whole(w, n); w.full(whole) {
		w.train.room = w.tally.room(math.Floor(w.quota) - whole)
		d = max(d, w.train.room-t)
	}
	return w.waits(d)
}

func (w *windowed) waits(d float64) float64 {
	w.limits.waited = w.limits.waited || d > tick
	return d
}

func (w *windowed) take(t, n float64) {
	w.tally.advance(t)
	w.resume(t)
	alone := w.search.on && w.full(n)
	w.tally.add(n)
	if alone {
		w.search.sent(w, t)
		return
	}
	busy := w.limits.often()
	if w.train.left < n {
		busy = w.limits.took() // the rest of a train never waits
	}
	w.train.take(w, t, n)
	if w.search.on && w.full(1) {
		w.train.next = max(w.train.next, t+w.answer.accepted) // what follows goes alone
	}
	if busy && w.growth > 0 {
		w.grow(t, n)
	}
}

// since is the length of a pause until t; not 0, which says that there was none.
func (w *windowed) since(t float64) float64 { return max(min(t-w.cut, longest), 1e-3) }

// resume begins again after a pause.
func (w *windowed) resume(t float64) {
	if !w.paused {
		return
	}
	w.paused, w.pause = false, w.since(t)
	w.train = train{next: t}
	if w.growth == 0 {
		w.stand(t)
	}
}

func (w *windowed) more(t, n float64) {
	w.tally.advance(t)
	w.tally.add(n)
}

func (w *windowed) less(t, taken, n, used float64) {
	w.tally.advance(t)
	w.tally.drop(taken, n-used)
}

// grow raises the quota after a take of n that was kept back, as long as something
// is accepted in each window.
func (w *windowed) grow(t, n float64) {
	if t-w.grown >= w.window {
		if !w.proven {
			return
		}
		w.grown, w.proven = t, false
	}
	w.quota = min(w.quota*math.Exp2(w.growth*n/w.quota), w.most)
	if w.fallen > 0 && w.quota >= w.fallen {
		w.quota, w.ceiling, w.fallen = w.fallen, w.fallen/(1-margin), 0
		w.search.rest = w.search.stood
		w.stand(t)
	}
}

// stand ends growth, and plans a search.
func (w *windowed) stand(t float64) {
	w.growth, w.stands = 0, t
	w.search.later(w, t)
}

func (w *windowed) startGrowth(t, doublings float64) {
	w.growth, w.grown, w.proven = doublings, t, true
}

func (w *windowed) accepted(t, sent float64) {
	w.tally.advance(t)
	w.answer.accepted = max(w.took(t, sent), w.answer.accepted*0.99)
	w.proven = w.proven || sent >= w.grown
	if w.search.on && sent >= w.search.last {
		w.search.found = w.search.tried
	}
}

// refused learns from the first refusal of an episode. Calls that were sent before
// it was received tell the same again, but for that they do not count. How many
// permits the call took is not known here: one is given back, the safe side.
func (w *windowed) refused(t, sent float64) {
	w.tally.advance(t)
	if w.answer.refused == 0 {
		w.answer.refused = w.took(t, sent)
	}
	w.answer.refused += (w.took(t, sent) - w.answer.refused) / 4
	w.tally.drop(sent, 1)
	if sent <= w.cut {
		return
	}
	w.cut, w.paused = t, true
	revealed, ok := w.tally.before(sent)
	if !ok {
		revealed = w.quota / 2
	}
	searched := w.search.on && sent >= w.search.first
	w.search.on = false
	switch {
	case searched:
		w.ceiling, w.quota = revealed, revealed*(1-margin)
		w.search.failed(w)
	case w.growth > 0:
		w.ceiling, w.quota = revealed, min(w.quota, revealed*(1-margin))
	case t-w.stands < mustStand*w.window:
		w.quota = min(w.quota, revealed) * (1 - tooMuch)
		w.ceiling = w.quota
	default:
		w.fall()
	}
	w.quota = min(max(w.quota, w.least), w.most)
	w.stand(t)
}

// fall takes half of a quota that stood and stands no more.
func (w *windowed) fall() {
	if w.fallen == 0 {
		w.search.stood = w.search.rest
	}
	w.fallen = max(w.fallen, w.quota)
	w.ceiling = w.quota
	w.quota /= 2
	w.search.rest = restFallen
}

// limit takes the vendor's word that the quota is no more. When it was less
// before, and that was in use, the rest is sought as what has not been proven is.
func (w *windowed) limit(t, rate float64) {
	w.most = max(1, min(w.configured, rate*w.window))
	switch {
	case w.quota >= w.most:
		w.quota, w.growth, w.search.at = w.most, 0, math.Inf(1)
	case w.growth == 0 && math.IsInf(w.search.at, 1):
		w.search.grow(w, t)
	}
}
