package store

import "time"

// SetWall has s see a wall clock that was set by step.
func (s *Syncer) SetWall(step func() time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.step = step
}
