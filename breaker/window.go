package breaker

// counts are numbers of calls. A call that is both is one of failed and of slow.
type counts struct{ calls, failed, slow int }

func (c *counts) add(o counts) {
	c.calls += o.calls
	c.failed += o.failed
	c.slow += o.slow
}

func (c *counts) sub(o counts) {
	c.calls -= o.calls
	c.failed -= o.failed
	c.slow -= o.slow
}

// mark is what the window of the last calls keeps of one.
type mark uint8

const (
	failedMark mark = 1 << iota
	slowMark
)

func (m mark) counts() counts {
	return counts{1, int(m & failedMark), int(m&slowMark) >> 1}
}

// window counts the outcomes of the last len(marks) calls, or of the last
// len(seconds) seconds; or, when it has neither, failures in a row. Adding an
// outcome takes constant time, and so does a second that passes.
type window struct {
	counts
	rejected uint64

	marks   []mark   // a ring; the next goes to at, over the oldest one
	seconds []counts // a ring; at is the one for second
	at      int
	second  int64
}

// add counts a call in the present second.
func (w *window) add(m mark) {
	switch {
	case w.seconds != nil:
		w.seconds[w.at].add(m.counts())
	case w.marks != nil:
		if w.calls == len(w.marks) {
			w.sub(w.marks[w.at].counts())
		}
		w.marks[w.at] = m
		w.step(len(w.marks))
	case m&failedMark == 0:
		w.counts = counts{}
		return
	}
	w.counts.add(m.counts())
}

// addGood counts n calls that neither failed nor were slow.
func (w *window) addGood(n uint32) {
	if w.seconds != nil {
		w.seconds[w.at].calls += int(n)
		w.calls += int(n)
		return
	}
	for range min(n, max(1, uint32(len(w.marks)))) { // more would push out their own kind
		w.add(0)
	}
}

// advance makes second the present one, unless a later one has been counted in.
func (w *window) advance(second int64) {
	if w.seconds == nil {
		return
	}
	for w.second < second && w.counts != (counts{}) {
		w.second++
		w.step(len(w.seconds))
		w.sub(w.seconds[w.at])
		w.seconds[w.at] = counts{}
	}
	if w.counts == (counts{}) {
		w.second = second
	}
}

func (w *window) step(size int) {
	if w.at++; w.at == size {
		w.at = 0
	}
}

// clean reports that no failure and no slow call is counted.
func (w *window) clean() bool { return w.failed == 0 && w.slow == 0 }

// room returns how many calls a window of calls has yet to count until it is full;
// 0 without one.
func (w *window) room() uint32 { return uint32(max(0, len(w.marks)-w.calls)) }
