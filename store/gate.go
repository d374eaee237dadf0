package store

import (
	"time"

	"github.com/flyball-go/flyball/limiter"
)

// Gate is a Share without limits: it keeps to the host's cooldown and to its probe,
// and else lets everything pass, so that a governor need not ask it then.
type Gate struct{ *Share }

var _ limiter.Lax = Gate{}

// Gate returns the Gate of a governor's Host. The error says that name is empty.
func (s *Syncer) Gate(name string) (Gate, error) {
	sh, err := s.Share(ShareConfig{Name: name})
	return Gate{sh}, err
}

// Lax reports whether no cooldown, and no probe after it, keeps anybody back, nor that the
// store has yet to say whether there is one.
func (g Gate) Lax() bool {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	c := g.keys[""]
	return c != nil && c.probe == ProbeOver && c.knows()
}

// Passed does nothing.
func (g Gate) Passed(now time.Time, key string, n int) {}
