package store

import "time"

// SetWall has s see a wall clock that was set by step.
func (s *Syncer) SetWall(step func() time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.step = step
}

// Cells is how many keys s knows of.
func (s *Syncer) Cells() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.cells)
}

// Due is how many of them are to be exchanged some time.
func (s *Syncer) Due() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.due)
}

// Keys is how many keys sh knows of.
func (sh *Share) Keys() int {
	sh.s.mu.Lock()
	defer sh.s.mu.Unlock()
	return len(sh.keys)
}

// Needs is how many permits of key somebody waits for.
func (sh *Share) Needs(key string) int {
	sh.s.mu.Lock()
	defer sh.s.mu.Unlock()
	if c := sh.keys[key]; c != nil {
		return c.need
	}
	return 0
}

// Untold is how many words governors are to be told.
func (s *Syncer) Untold() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.cells {
		if c.member != nil {
			for _, h := range c.member.gov {
				n += len(h.out)
			}
		}
	}
	return n
}

// Owed is how many words the store is to be told.
func (s *Syncer) Owed() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.cells {
		if c.member != nil {
			n += len(c.member.tell)
		}
	}
	return n
}

// News is how many events wait to be told.
func (s *Syncer) News() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.news)
}

// Later is how many owners are to be woken at some time.
func (s *Syncer) Later() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.later)
}
