package limiter

// marks are moments of a first sample, the oldest first, each with what had been taken
// until then: so many that whatever the sample's length, one of them was about as long
// ago as any time asked for.
//
// They are for a sample of which most was idle. That a vendor has accepted a hundred
// calls in the last second says more of its quota than that they were the only ones in
// an hour: the bound of adaptive_learn.go holds from any moment on, since the bucket was
// no more than full at it, and the highest bound is the nearest.
type marks struct {
	n  int
	at [8]round
}

// apart is how far apart marks are at least, in seconds: a fraction of a pause.
const apart = 0.1

// add notes what was taken before t.
func (m *marks) add(t, taken float64) {
	if m.n > 0 && t-m.at[m.n-1].time < apart {
		return
	}
	if m.n == len(m.at) {
		m.thin(t)
	}
	m.at[m.n] = round{t, taken}
	m.n++
}

// thin drops the mark, neither the oldest nor the newest, whose neighbours are nearest
// to each other, as ratio of how long ago they were; with a second added, since a pause
// is to be added to both.
func (m *marks) thin(t float64) {
	least, drop := 0.0, 1
	for i := 1; i < m.n-1; i++ {
		ratio := (1 + t - m.at[i-1].time) / (1 + t - m.at[i+1].time)
		if i == 1 || ratio < least {
			least, drop = ratio, i
		}
	}
	copy(m.at[drop:], m.at[drop+1:m.n])
	m.n--
}

// bound returns the highest rate that a sample proves which ended at end with all
// taken, of which lost were refused, and with a pause; least if it proves no more. What
// was fewer than a sample proves nothing.
func (m *marks) bound(end, pause, all, lost, least float64) float64 {
	for _, a := range m.at[:m.n] {
		if got := all - lost - a.taken; got >= enough {
			least = max(least, got/max(end-a.time+pause, 1e-3))
		}
	}
	return least
}
