package vendortest

import (
	"math"
	"time"
)

// slack is how much of a unit is forgiven: sums of floats are not exact, and who
// comes when it was told to must be let in.
const slack = 1e-6

// slots is how finely a sliding window is counted.
const slots = 1000

// meter counts what is used of one limit: a bucket, a window or a sliding one.
// Times never go back; roll comes first.
type meter struct {
	q     *Quota
	used  float64   // units that count
	last  time.Time // of a bucket: when it was brought up to date
	end   time.Time // of a window: when it is over; zero before the first
	slots []slot    // of a sliding window, oldest first
}

// slot is what was used in one part of a sliding window, which begins at at.
type slot struct {
	at time.Time
	n  float64
}

// roll brings the meter to now.
func (m *meter) roll(now time.Time) {
	switch q := m.q; {
	case q.Window == 0:
		if !m.last.IsZero() {
			m.used = max(0, m.used-now.Sub(m.last).Seconds()*q.Rate)
		}
		m.last = now
	case !q.Sliding:
		if !now.Before(m.end) {
			m.used = 0
		}
	default:
		gone := 0
		for gone < len(m.slots) && now.Sub(m.slots[gone].at) >= q.Window {
			m.used -= m.slots[gone].n
			gone++
		}
		if m.slots = m.slots[gone:]; len(m.slots) == 0 {
			m.slots, m.used = nil, 0
		}
	}
}

func (m *meter) fits(n float64) bool { return m.used+n <= float64(m.q.Burst)+slack }

// charge counts n units as used now, up to twice what the limit holds.
func (m *meter) charge(now time.Time, n float64) {
	n = min(n, 2*float64(m.q.Burst)-m.used)
	if n <= 0 {
		return
	}
	m.used += n
	switch q := m.q; {
	case q.Window == 0:
	case !q.Sliding:
		if !now.Before(m.end) {
			began := now
			if q.Round > 0 {
				began = now.Truncate(q.Round)
			}
			m.end = began.Add(q.Window)
		}
	default:
		if k := len(m.slots) - 1; k >= 0 && now.Sub(m.slots[k].at) < q.Window/slots {
			m.slots[k].n += n
			return
		}
		m.slots = append(m.slots, slot{now, n})
	}
}

// refund takes n units, or what there is, off again: the last ones first.
func (m *meter) refund(n float64) {
	n = min(n, m.used)
	m.used -= n
	for k := len(m.slots) - 1; k >= 0 && n > 0; k-- {
		d := min(n, m.slots[k].n)
		m.slots[k].n -= d
		n -= d
	}
}

// free returns how long it is until n units fit, which are no more than Burst, if
// nobody uses any meanwhile.
func (m *meter) free(now time.Time, n float64) time.Duration {
	over := m.used + n - float64(m.q.Burst)
	if over <= slack {
		return 0
	}
	switch q := m.q; {
	case q.Window == 0:
		return saturate(math.Ceil(over / q.Rate * 1e9))
	case !q.Sliding:
		return m.end.Sub(now)
	}
	for _, s := range m.slots {
		if over -= s.n; over <= slack {
			return s.at.Add(m.q.Window).Sub(now)
		}
	}
	return m.q.Window
}
