package limiter

import (
	"context"
	"time"
)

// Reserve takes a place in the queue for a call that takes n permits of key, and
// does not wait. The answer, which may be there already, is the Reservation's. Who
// reserves makes the call when it is admitted, or calls Cancel.
func (s *Shared) Reserve(key string, n int) *Reservation {
	r, taken, err := s.enter(key, n, time.Time{}, true)
	if r == nil {
		r = &Reservation{shared: s, key: key, n: n, done: make(chan struct{}), err: err, taken: taken}
		close(r.done)
	}
	return r
}

// Reservation is a place in the queue of a Shared. Its methods may be called by
// any number of goroutines.
type Reservation struct {
	shared *Shared
	key    string
	n      int
	done   chan struct{} // closed when the call is decided
	err    error         // written before done is closed, only read after
	taken  time.Time     // the permits; as err

	// The rest is under the Shared's mu.
	call      uint64    // number
	began     time.Time // to wait
	until     time.Time // when it is too late; zero: never
	lane      *lane     // nil when the call is decided
	link      [2]struct{ older, newer *Reservation }
	cancelled bool
}

// Done returns a channel that is closed when the call is admitted, rejected or
// cancelled.
func (r *Reservation) Done() <-chan struct{} { return r.done }

// Err returns nil when the call is admitted. It returns an error while that is not
// decided, and then why it is not admitted, as Wait does.
func (r *Reservation) Err() error {
	select {
	case <-r.done:
		return r.err
	default:
		return errWaiting
	}
}

// Cancel says that the call will not be made. While it waits, it leaves the queue;
// its Err then matches context.Canceled. What an admitted call has taken is settled
// to 0 permits, and released. Further calls do nothing.
func (r *Reservation) Cancel() {
	s := r.shared
	if s.leave(r, &endedError{context.Canceled, context.Canceled}) != nil {
		return
	}
	s.mu.Lock()
	again := r.cancelled
	r.cancelled = true
	s.mu.Unlock()
	if !again {
		s.ended(r.key, r.n, ending{taken: r.taken})
	}
}

// errWaiting is what Err returns before there is an answer.
var errWaiting error = refusal("limiter: still waiting")
