package limiter

import "math"

// train spaces calls: it lets some pass at once, and after them nobody for as long
// as they take of the quota.
type train struct {
	left float64 // permits of the present one
	next float64 // when the next one goes
	room float64 // when there was room for the last one that had to wait for that
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
	size := r.size(w, n)
	if free := math.Floor(w.quota) - w.tally.sum + n; !w.search.on && w.growth == 0 && size < free && free < 2*size {
		size++ // else what is no whole train would never be used
	}
	// Only the owner's delay can be caught up on, not the time without room.
	r.next = max(r.next, t-late*w.window, min(r.room, t)) + size/w.pace()
	r.left = size - n
}

// pace is the rate at which trains go, in permits per second.
func (w *windowed) pace() float64 {
	if w.search.on {
		return w.search.pace(w)
	}
	return w.quota * overPace / w.window
}

// size is how many permits a train has whose first take is n.
func (r *train) size(w *windowed, n float64) float64 {
	share := trainShare
	if w.growth > 0 && w.fallen == 0 {
		share = growShare
	}
	return max(n, math.Ceil(min(trainTime*w.refusalTime()*w.pace(), share*w.quota)))
}

// whole is for how many permits there has to be room before n are taken: for a train
// that begins with them. A search fills the window to the last permit.
func (r *train) whole(w *windowed, n float64) float64 {
	if r.left >= n || w.search.on {
		return n
	}
	return min(r.size(w, n), math.Floor(w.quota))
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

// took returns how long an answer took, as far as it counts. One that took longer
// than a search waits for, say a download, would hold back all the others as long.
func (w *windowed) took(t, sent float64) float64 {
	return min(max(0, t-sent), longestGap*w.window)
}
