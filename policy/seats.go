package policy

import (
	"math"
	"sync"
	"sync/atomic"
)

// seats counts permits, and queues those who wait for one.
type seats struct {
	max atomic.Uint64

	// word counts the permits taken in its lower half, and in its upper half
	// those who wait. Anybody may lower the lower half by his own permit. It
	// rises by anybody's swap while nobody waits; while somebody does, and
	// wherever the upper half changes, only under mu.
	//
	// Whenever somebody waits, at least max permits are taken, or somebody who
	// has given one back is about to take mu and hand it over: the value that
	// his addition returned told him to. Nobody else can have it meanwhile.
	word atomic.Uint64

	// mu is held for a few instructions, never while waiting.
	mu          sync.Mutex
	first, last *seat
}

const oneWaits = 1 << 32 // in word

// seat is one who waits. Its fields but ready are under seats.mu.
type seat struct {
	ready      chan struct{} // closed when it has a permit
	granted    bool
	prev, next *seat
}

// take takes a permit if one is free and nobody waits: word is less than max.
func (s *seats) take() bool {
	for {
		w := s.word.Load()
		if w >= s.max.Load() {
			return false
		}
		if s.word.CompareAndSwap(w, w+1) {
			return true
		}
	}
}

// giveBack gives back a permit that the caller has. When somebody has given back one that
// was not his own, it is that, and the last to come finds none taken: what he has borrowed
// from the upper half he puts back.
func (s *seats) giveBack() {
	w := s.word.Add(^uint64(0))
	if w < math.MaxUint32 {
		return
	}
	if uint32(w) == math.MaxUint32 {
		s.word.Add(1)
	}
	s.handOver()
}

// handOver admits who waits for what came back.
func (s *seats) handOver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.admit()
}

// giveBackAny is giveBack for a caller who may have no permit: when none is taken
// it does nothing.
func (s *seats) giveBackAny() {
	for {
		w := s.word.Load()
		if w%oneWaits == 0 {
			return
		}
		if s.word.CompareAndSwap(w, w-1) {
			if w >= oneWaits {
				s.handOver()
			}
			return
		}
	}
}

func (s *seats) resize(max uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.max.Store(max)
	s.admit()
}

// admit gives permits to those who wait, under mu. The one addition takes the
// place of two: between them, with nobody waiting and a permit free, somebody
// else would take it.
func (s *seats) admit() {
	for s.first != nil && s.word.Load()%oneWaits < s.max.Load() {
		e := s.first
		s.unlink(e)
		s.word.Add(^uint64(oneWaits-1) + 1) // one waits less, one is taken more
		e.granted = true
		close(e.ready)
	}
}

// queue makes a seat for one who found no permit; or takes a permit, when one has
// come back meanwhile; or does neither when as many wait as may.
func (s *seats) queue(most int) (e *seat, granted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		w := s.word.Load()
		switch {
		case w < s.max.Load():
			if s.word.CompareAndSwap(w, w+1) {
				return nil, true
			}
		case most > 0 && w/oneWaits >= uint64(most):
			return nil, false
		case s.word.CompareAndSwap(w, w+oneWaits):
			return s.link(), false
		}
	}
}

// leave takes e out of the queue, unless it has a permit.
func (s *seats) leave(e *seat) (granted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !e.granted {
		s.unlink(e)
		s.word.Add(^uint64(oneWaits - 1))
	}
	return e.granted
}

func (s *seats) link() *seat {
	e := &seat{ready: make(chan struct{}), prev: s.last}
	if e.prev == nil {
		s.first = e
	} else {
		e.prev.next = e
	}
	s.last = e
	return e
}

func (s *seats) unlink(e *seat) {
	if e.prev == nil {
		s.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		s.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.prev, e.next = nil, nil
}
