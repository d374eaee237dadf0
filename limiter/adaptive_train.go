package limiter

import "math"

// train spaces calls: it lets some pass at once, and after them nobody for as long
// as they take of the quota.
type train struct {
	left float64 // permits of the present one
	next float64 // when the next one goes
}

func (r *train) wait(t, n float64) float64 {
	if r.left >= n {
		return 0
	}
	return r.next - t
}

func (r *train) take(w *windowed, t, n float64) {
	if r.left >= n {
		r.left -= n
		return
	}
	pace := w.quota * overPace / w.window
	if w.search.on {
		pace = w.search.pace(w)
	}
	size := math.Ceil(min(trainTime*w.refusalTime()*pace, trainShare*w.quota))
	size = max(size, n)
	r.next = max(r.next, t-late*w.window) + size/pace
	r.left = size - n
}

// refusalTime is how long a refusal takes to come back.
func (w *windowed) refusalTime() float64 {
	if w.answer.refused > 0 {
		return w.answer.refused
	}
	return answerShare * w.answer.accepted
}

// answer is how long answers take, in seconds.
type answer struct {
	accepted float64 // nearly the longest
	refused  float64 // the mean
}
