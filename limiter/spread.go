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
// Reset passes until then.
//
// It is not a limit of its own: others that use the same quota, and calls on their
// way when the first answer comes, are known only by the next answer.
//
// A Spread belongs to one owner and has no lock. Methods are O(1) in the number of
// keys; a key of which something is known costs some 700 bytes until its window is
// over and another key needs the room.
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
	told
	newest float64 // when the call was sent whose answer counts
	free   float64 // nothing passes before
	ring   [spreadStamps]stamp
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
	k.roll(t)
	if k.until == 0 {
		return 0
	}
	d := max(k.wait(t, float64(n)), k.free-t)
	return time.Duration(max(0, math.Ceil(min(d*1e9, float64(Never/2))-tick*1e9)))
}

// Take takes n permits of key.
func (s *Spread) Take(now time.Time, key string, n int) {
	t := s.at(now)
	k := s.keys[key]
	if k == nil || n < 1 {
		return
	}
	k.roll(t)
	if k.until > 0 {
		k.free = t + (k.until-t)*min(1, float64(n)/max(1, k.left))
	}
	k.take(t, float64(n))
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
	k := s.keys[q.Scope.Key]
	if q.Remaining < 0 || q.Reset.IsZero() || reset <= t || k != nil && from < k.newest {
		return
	}
	if k == nil {
		if k = s.room(t); k == nil {
			return
		}
		s.keys[q.Scope.Key] = k
	}
	k.roll(t)
	if k.until == 0 || reset > k.until+sameReset || reset < k.until-sameReset {
		k.free = t // another window
	}
	k.span = max(k.span, reset-t)
	if q.Limit > 0 {
		k.limit = float64(q.Limit)
	}
	k.newest, k.until = from, reset
	s.soonest = min(s.soonest, reset)
	k.left = float64(q.Remaining) - k.since(from)
}

// Forget drops what is known of key.
func (s *Spread) Forget(now time.Time, key string) {
	s.at(now)
	delete(s.keys, key)
}

// Rate returns what is left of key's quota per second until its end; 0 when
// everything passes.
func (s *Spread) Rate(now time.Time, key string) float64 {
	t := s.at(now)
	k := s.keys[key]
	if k == nil {
		return 0
	}
	if k.roll(t); k.until == 0 {
		return 0
	}
	return max(0, k.left) / (k.until - t)
}

// room makes a key, nil when there are too many.
func (s *Spread) room(t float64) *spread {
	if len(s.keys) >= min(s.sweepAt, s.most) && t >= s.soonest {
		s.soonest = math.Inf(1)
		for key, k := range s.keys {
			if k.roll(t); k.until == 0 {
				delete(s.keys, key)
			} else {
				s.soonest = min(s.soonest, k.until)
			}
		}
		s.sweepAt = max(64, 2*len(s.keys))
	}
	if len(s.keys) >= s.most {
		return nil
	}
	k := new(spread)
	k.taken = k.ring[:]
	return k
}
