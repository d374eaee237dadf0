package limiter

import (
	"errors"
	"io"
	"time"

	"github.com/flyball-go/flyball/event"
)

// Close rejects all calls that wait, and those that come later, with ErrClosed, and
// closes the limiters that have a method Close() error; it returns their errors.
// It waits for nothing: calls that were admitted go on, and may be settled and
// released. Further calls do nothing.
func (s *Shared) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	now := time.Now()
	for r := s.queue.all.oldest; r != nil; r = s.queue.all.oldest {
		s.emit(now, event.LimitRefused, r.call, r.key, 0, ErrClosed)
		s.decide(r, ErrClosed)
	}
	s.arm(now, time.Time{})
	s.mu.Unlock()
	s.bus.Close()
	var errs []error
	for _, p := range s.parts() {
		if c, ok := p.Limiter.(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}
