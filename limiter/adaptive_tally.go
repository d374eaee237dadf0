package limiter

// tally counts permits by when they were taken, in segments of a 512th of the
// window. It keeps each for 3 segments longer than the window: one was not over
// when the permit was taken, and two are a margin for what a network does to the
// spacing of calls.
type tally struct {
	segment float64  // seconds
	counts  []uint32 // by number of the segment, a ring
	last    int64    // the newest segment
	sum     float64  // of those in the window
}

const (
	perWindow = 512
	inWindow  = perWindow + 3
	inTally   = 4 * perWindow // so that late answers find their window
)

func newTally(window float64) tally {
	return tally{segment: window / perWindow, counts: make([]uint32, inTally)}
}

func (y *tally) of(number int64) *uint32 { return &y.counts[number&(inTally-1)] }

// advance forgets what has left the window by t.
func (y *tally) advance(t float64) {
	now := int64(t / y.segment)
	if now-y.last >= inTally {
		clear(y.counts)
		y.last, y.sum = now, 0
	}
	for y.last < now {
		y.last++
		y.sum -= float64(*y.of(y.last - inWindow))
		*y.of(y.last) = 0
	}
}

// add counts n permits as taken now, that is, when advance was last called.
func (y *tally) add(n float64) {
	c := y.of(y.last)
	n = min(n, float64(^uint32(0)-*c))
	*c += uint32(n)
	y.sum += n
}

// drop forgets n permits of a call that was sent then.
func (y *tally) drop(sent, n float64) {
	number := int64(sent / y.segment)
	if number <= y.last-inTally || number > y.last {
		return
	}
	c := y.of(number)
	n = min(n, float64(*c))
	*c -= uint32(n)
	if number > y.last-inWindow {
		y.sum -= n
	}
}

// room returns when the window will hold no more than most permits.
func (y *tally) room(most float64) float64 {
	left, number := y.sum, y.last-inWindow
	for left > most && number < y.last {
		number++
		left -= float64(*y.of(number))
	}
	return float64(number+inWindow) * y.segment
}

// before returns how many permits were taken in the window that ended with a call
// sent then, without it; ok is false when that is too long ago to tell.
func (y *tally) before(sent float64) (n float64, ok bool) {
	number := int64(sent / y.segment)
	if number-perWindow <= y.last-inTally {
		return 0, false
	}
	for i := number - perWindow + 1; i < number; i++ {
		n += float64(*y.of(i))
	}
	return n + float64(*y.of(number))/2, true // of the same segment some came after it
}
