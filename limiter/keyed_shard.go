package limiter

import (
	"sync"
	"sync/atomic"
	"time"
)

// shard holds the keys of one part of the hashes.
type shard struct {
	// table is replaced under mu, and read by anyone. Tables that were replaced
	// are frozen from end to end.
	table atomic.Pointer[cells]

	// mu is held by what adds, overwrites or moves keys; never for longer than
	// it takes to go through the table.
	mu sync.Mutex

	// The rest is guarded by mu.

	max  int // keys
	used int // cells of table with a key, full buckets among them

	// lost is the largest tat of a key that was forgotten. A key that is not
	// there may be that one, and comes with a now before it if its goroutine
	// was held up meanwhile.
	lost int64

	// due is when it is worth going through the table for full buckets, once
	// there was none.
	due int64

	_ [16]byte // to a cache line
}

// Of the cells of a table, 17 in 20 are used at most: beyond, searches get long.
// A new one is made for 10/7 of its keys, so for 1/5 more: 16 bytes at 0.70 to
// 0.85 make 23 to 19 a key.
func (s *shard) room(cells int) int { return min(s.max, cells*17/20) }
func cellsFor(keys int) int         { return keys*10/7 + 16 }

// take takes n permits of the key with that hash, or returns how long they have to
// wait.
func (s *shard) take(g *gcra, hash uint64, now int64, n int) (wait int64) {
	if cell := s.table.Load().find(hash); cell != nil {
		if wait, ok := cell.take(g, hash, now, n); ok {
			return wait
		}
	}
	return s.enter(g, hash, now, n)
}

// enter is take for a key whose cell was not found, or not any more the key's.
func (s *shard) enter(g *gcra, hash uint64, now int64, n int) (wait int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cell := s.table.Load().find(hash); cell != nil { // somebody entered it, or moved it
		wait, _ = cell.take(g, hash, now, n) // nothing is frozen while nobody else has the mutex
		return wait
	}
	if wait := g.wait(s.lost, now, n); wait > 0 {
		return wait
	}
	cell := s.place(hash, now)
	if cell == nil {
		return s.due - now
	}
	cell.give(hash, g.next(s.lost, now, n))
	return 0
}

// place returns a cell that it has claimed for hash, which has none; nil when
// there is none and it is not worth asking before due.
func (s *shard) place(hash uint64, now int64) *cell {
	for {
		t := *s.table.Load()
		cell, unused := t.free(hash, now)
		if unused && s.used == s.room(len(t)) {
			if !s.makeRoom(t, now) {
				return nil
			}
			continue
		}
		tat, ok := cell.claim(now)
		if !ok {
			continue // its own key was back before
		}
		s.lost = max(s.lost, tat)
		if unused {
			s.used++
		}
		return cell
	}
}

// makeRoom replaces t by a table with room for another key, which leaves out the
// full buckets. It reports false when the shard has max keys and none is full.
//
// Then going through them was of no use, as it would be for the next new key. So
// due is no earlier than a time after which that costs next to nothing, even if
// keys without number come: 8 us a cell, for what takes some 20 ns.
func (s *shard) makeRoom(t cells, now int64) bool {
	if s.used == s.max {
		if now < s.due {
			return false
		}
		live, earliest := t.live(now)
		if live == s.used {
			s.due = max(earliest, now+int64(len(t))*int64(8*time.Microsecond))
			return false
		}
	}
	s.replace(t, now)
	return true
}

// replace replaces t by a table of the size that its live keys need.
func (s *shard) replace(t cells, now int64) {
	s.used = t.freeze(now)
	next := make(cells, cellsFor(s.used))
	s.lost = max(s.lost, next.thaw(t, now))
	s.table.Store(&next)
}

// trim leaves out the full buckets, if that makes the table no larger.
func (s *shard) trim(now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := *s.table.Load()
	if live, _ := t.live(now); live < s.used && cellsFor(live) <= len(t) {
		s.replace(t, now)
	}
}

func (s *shard) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}
