package store

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/flyball-go/flyball/event"
)

// report tells of what passed unguarded.
func (s *Syncer) report() {
	s.mu.Lock()
	events := s.events
	s.events = nil
	s.mu.Unlock()
	for _, e := range events {
		event.Tell(s.cfg.OnEvent, e)
	}
}

// mood notes whether the store answers. The caller holds mu.
func (s *Syncer) mood(err error, now int64) (after []func()) {
	if err == nil {
		s.fails, s.retry = 0, 0
		if s.lost {
			s.lost = false
			after = append(after, func() { s.tell(slog.LevelInfo, event.StoreBack, "", "", nil) })
			after = append(after, s.everybody()...)
		}
		return after
	}
	if s.ctx.Err() != nil {
		return nil
	}
	s.fails++
	s.retry = now + s.backoff(s.fails)
	if !s.lost {
		s.lost = true
		after = append(after, func() { s.tell(slog.LevelWarn, event.StoreLost, "", s.cfg.Outage.String(), err) })
		after = append(after, s.everybody()...)
	}
	return after
}

// backoff is how long to leave the store alone with what has failed so many times in a
// row: 50 to 100 ms after the first, then twice as long, up to the Interval.
func (s *Syncer) backoff(fails int) int64 {
	wait := min(s.cfg.Interval, 50*time.Millisecond<<min(fails, 10))
	return int64(wait/2) + rand.Int64N(int64(wait/2)+1)
}

// everybody returns what tells the owners of all Shares, and of Slots where it makes a
// difference, to ask again.
func (s *Syncer) everybody() (after []func()) {
	for _, sh := range s.shares {
		after = append(after, sh.wake()...)
	}
	if s.cfg.Outage != Open {
		return after
	}
	for _, l := range s.slots {
		after = append(after, l.wake()...)
	}
	return after
}

// tell reports a change: of the governors to those of name, or to all if it is empty.
func (s *Syncer) tell(level slog.Level, kind event.Kind, name, source string, err error) {
	e := event.Event{Time: time.Now(), Kind: kind, Name: "store", Source: source, Err: err}
	event.Tell(s.cfg.OnEvent, e)
	for _, g := range s.joined(name) {
		event.Tell(g.Tell, e)
	}
	if s.cfg.Logger == nil {
		return
	}
	attrs := []slog.Attr{slog.String("node", string(s.node))}
	if source != "" {
		attrs = append(attrs, slog.String("source", source))
	}
	if err != nil {
		attrs = append(attrs, slog.String("err", err.Error()))
	}
	s.cfg.Logger.LogAttrs(context.Background(), level, kind.String(), attrs...)
}

// teller is a Governor that hears how the store is.
type teller interface{ Tell(event.Event) }

// joined returns the tellers of name, which a unit may follow, or all.
func (s *Syncer) joined(name string) (all []teller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.cells {
		if c.member == nil {
			continue
		}
		for _, g := range c.member.gov {
			if t, ok := g.(teller); ok && (name == "" || name == g.Name() || strings.HasPrefix(name, g.Name()+"/")) {
				all = append(all, t)
			}
		}
	}
	return all
}

// governs is the name of the governor whose c is, "" if that is not known.
func (c *cell) governs() string {
	switch {
	case c.member != nil && len(c.member.gov) > 0:
		return c.member.gov[0].Name()
	case c.share != nil:
		return c.share.name
	}
	return ""
}

// warn logs what is no event.
func (s *Syncer) warn(msg string, attrs ...slog.Attr) {
	if s.cfg.Logger != nil {
		s.cfg.Logger.LogAttrs(context.Background(), slog.LevelWarn, msg, append(attrs, slog.String("node", string(s.node)))...)
	}
}
