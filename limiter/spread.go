package limiter

import (
	"math"
	"time"

	"github.com/flyball-go/flyball/throttle"
)

// SpreadConfig has no required fields.
type SpreadConfig struct {
	// MaxKeys bounds the keys of which something is known. Of a further key nothing
	// is kept, and it is not held back. At most 1<<30. 0 means 100,000.
	MaxKeys int
}

// Spread spreads what a vendor says is left of a quota over the time until it is
// renewed, so that Remaining lasts until Reset: with 60 permits left for a minute,
// one a second. It knows nothing beforehand, and lets everything pass of which it
// was told nothing.
//
// After a take of n permits of the r that are left at time t, the next has to wait
// n/r of the time from t to Reset. So takes are evenly apart, closer together after
// a time in which there were none, and the permits are used up at Reset and not
// before; when none is left, all wait until then. Each answer that is newer, by when
// its call was sent, corrects what is left, less what was taken since. Where the
// length of the window and its limit are known, from answers before, the next window
// is taken for as long and as large until an answer tells; else what comes after
// Reset passes until then. Of several windows of a key that Name or Window tell
// apart, at most 8, each is spread, and the slowest counts.
//
// It is not a limit of its own: others that use the same quota, and calls on their
// way when the first answer comes, are known only by the next answer.
//
// A Spread belongs to one owner and has no lock. Methods are O(1) in the number of
// keys; a key of which something is known costs some 700 bytes, and 100 for each
// further window, until all are over and another key needs the room.
type Spread struct {
	keys    map[string]*spread
	most    int
	start   time.Time // the first now; times are seconds since then
	begun   bool
	last    float64
	sweepAt int     // keys at which those that are over are looked for,
	soonest float64 // but not before one may be
}

// spread is what is known of one key.
type spread struct {
	windows []spreadWindow // at most mostTold
	one     [1]spreadWindow
	lately
	ring [spreadStamps]stamp
}

type spreadWindow struct {
	toldWindow
	newest float64 // when the call was sent whose answer counts
	free   float64 // nothing passes before
}

// until returns when the last window ends, 0 when all are over.
func (k *spread) until(t float64) (end float64) {
	for i := range k.windows {
		w := &k.windows[i]
		w.roll(t)
		end = max(end, w.until)
	}
	return end
}

// of returns the window that is meant, nil when it is not known.
func (k *spread) of(which toldOf) *spreadWindow {
	for i := range k.windows {
		if k.windows[i].which == which {
			return &k.windows[i]
		}
	}
	return nil
}

// add makes a window. When there are too many, the one that ends first is forgotten.
func (k *spread) add(which toldOf) *spreadWindow {
	first := len(k.windows)
	if first < mostTold {
		k.windows = append(k.windows, spreadWindow{})
	} else {
		first = 0
		for i := range k.windows {
			if k.windows[i].until < k.windows[first].until {
				first = i
			}
		}
	}
	k.windows[first] = spreadWindow{toldWindow: toldWindow{which: which}}
	return &k.windows[first]
}

const spreadStamps = 32

// NewSpread returns a Spread that was told nothing. The error names the field that
// is out of range.
func NewSpread(cfg SpreadConfig) (*Spread, error) {
	if err := checkKeys("SpreadConfig", cfg.MaxKeys); err != nil {
		return nil, err
	}
	return &Spread{keys: make(map[string]*spread), most: maxKeys(cfg.MaxKeys), sweepAt: 64}, nil
}

func (s *Spread) at(now time.Time) float64 {
	if !s.begun {
		s.begun, s.start = true, now
	}
	s.last = max(s.last, now.Sub(s.start).Seconds())
	return s.last
}

// Wait returns how long it is until n permits of key can be taken. It is never
// Never.
func (s *Spread) Wait(now time.Time, key string, n int) time.Duration {
	t := s.at(now)
	k := s.keys[key]
	if k == nil || n < 1 {
		return 0
	}
	var d float64
	for i := range k.windows {
		w := &k.windows[i]
		if w.roll(t); w.until > 0 {
			d = max(d, w.wait(t, float64(n)), w.free-t)
		}
	}
	return time.Duration(max(0, math.Ceil(min(d*1e9, float64(Never/2))-tick*1e9)))
}

// Take takes n permits of key.
func (s *Spread) Take(now time.Time, key string, n int) {
	t := s.at(now)
	k := s.keys[key]
	if k == nil || n < 1 {
		return
	}
	for i := range k.windows {
		w := &k.windows[i]
		if w.roll(t); w.until > 0 {
			w.free = t + (w.until-t)*min(1, float64(n)/max(1, w.left))
		}
		w.left -= float64(n)
	}
	k.note(t, float64(n))
}

// Settle does nothing: the answer that tells what a call cost tells what is left.
func (s *Spread) Settle(now time.Time, key string, n, used int) {}

// Accepted does nothing: what counts is what the answer says.
func (s *Spread) Accepted(now, sent time.Time, key string) {}

// Refused does nothing: what counts is what the answer says.
func (s *Spread) Refused(now, sent time.Time, key string) {}

// Told takes what the answer to a call that was sent at sent said is left of the
// quota of q.Scope.Key, and until when. An answer to a call that was sent before the
// one that counts is ignored.
func (s *Spread) Told(now, sent time.Time, q throttle.Quota) {
	t := s.at(now)
	// By the wall clock of now, if Reset has no other: it may have been set.
	reset, from := t+q.Reset.Sub(now).Seconds(), sent.Sub(s.start).Seconds()
	if q.Remaining < 0 || q.Reset.IsZero() || reset <= t {
		return
	}
	k, which := s.keys[q.Scope.Key], toldOf{q.Name, q.Window}
	if k == nil {
		if k = s.room(t); k == nil {
			return
		}
		s.keys[q.Scope.Key] = k
	}
	w := k.of(which)
	if w == nil {
		w = k.add(which)
	} else if from < w.newest {
		return
	}
	w.roll(t)
	if w.until == 0 || reset > w.until+sameReset || reset < w.until-sameReset {
		w.free = t // another window
	}
	w.span = max(w.span, reset-t)
	if q.Limit > 0 {
		w.limit = float64(q.Limit)
	}
	w.newest, w.until = from, reset
	s.soonest = min(s.soonest, reset)
	w.left = float64(q.Remaining) - k.since(from)
}

// Forget drops what is known of key.
func (s *Spread) Forget(now time.Time, key string) {
	s.at(now)
	delete(s.keys, key)
}

// Idle reports whether what it was told is over, of every key.
func (s *Spread) Idle(now time.Time) bool {
	t := s.at(now)
	for key, k := range s.keys {
		if k.until(t) > 0 {
			return false
		}
		delete(s.keys, key)
	}
	return true
}

// Rate returns what is left of key's quota per second until its end, of several
// the least; 0 when everything passes.
func (s *Spread) Rate(now time.Time, key string) float64 {
	t := s.at(now)
	k := s.keys[key]
	if k == nil {
		return 0
	}
	least := math.Inf(1)
	for i := range k.windows {
		w := &k.windows[i]
		if w.roll(t); w.until > 0 {
			least = min(least, max(0, w.left)/(w.until-t))
		}
	}
	if math.IsInf(least, 1) {
		return 0
	}
	return least
}

// room makes a key, nil when there are too many.
func (s *Spread) room(t float64) *spread {
	if len(s.keys) >= min(s.sweepAt, s.most) && t >= s.soonest {
		s.soonest = math.Inf(1)
		for key, k := range s.keys {
			if end := k.until(t); end == 0 {
				delete(s.keys, key)
			} else {
				s.soonest = min(s.soonest, end)
			}
		}
		s.sweepAt = max(64, 2*len(s.keys))
	}
	if len(s.keys) >= s.most {
		return nil
	}
	k := new(spread)
	k.windows, k.taken = k.one[:0], k.ring[:0]
	return k
}
