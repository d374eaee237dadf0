package store

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/flyball-go/flyball/event"
)

// mood notes whether the store answers. The caller holds mu.
func (s *Syncer) mood(err error, now int64) (after []func()) {
	if err == nil {
		s.fails, s.retry = 0, 0
		if s.lost {
			s.lost = false
			s.tell(event.StoreBack, "", "", nil)
			after = s.everybody()
		}
		return after
	}
	if s.ctx.Err() != nil {
		return nil
	}
	s.fails++
	// So that a store that is back is in use within an Interval, whatever else has to be
	// found out first.
	s.retry = now + backoff(s.fails, s.cfg.Interval/2)
	if !s.lost {
		s.lost, s.allLost = true, now+int64(s.cfg.Interval)
		s.tell(event.StoreLost, "", s.cfg.Outage.String(), err)
		after = s.everybody()
	}
	return after
}

// backoff is how long to leave the store alone with what has failed so many times in a
// row: 50 to 100 ms after the first, then twice as long, up to most.
func backoff(fails int, most time.Duration) int64 {
	wait := min(most, 50*time.Millisecond<<min(fails, 10))
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

// tell reports a change: of the governors to those of name, or to all if it is empty. The
// caller holds mu.
func (s *Syncer) tell(kind event.Kind, name, source string, err error) {
	s.report(event.Event{Time: time.Now(), Kind: kind, Name: name, Source: source, Err: err})
}

// report has e told, after what there is to tell already, on a goroutine that there is only
// while there is something: who listens sees one change after the other, and holds nobody up.
// The caller holds mu.
func (s *Syncer) report(e event.Event) {
	if s.closed {
		return
	}
	if len(s.news) >= mostNews { // somebody listens to none
		s.news = s.news[1:]
	}
	if s.news = append(s.news, e); !s.reports {
		s.reports = true
		s.work.Go(s.tellAll)
	}
}

// mostNews is how many events wait to be told at most.
const mostNews = 4096

func (s *Syncer) tellAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		if s.reports = len(s.news) > 0; s.reports { // a listener has ended the goroutine
			s.work.Go(s.tellAll)
		}
	}()
	for len(s.news) > 0 {
		e := s.news[0]
		s.news[0] = event.Event{}
		if s.news = s.news[1:]; len(s.news) == 0 {
			s.news = nil
		}
		if !s.closed || e.Kind != event.Unguarded { // of those there may be many, and Close waits
			s.tellOne(e)
		}
	}
}

// tellOne leaves mu to tell e.
func (s *Syncer) tellOne(e event.Event) {
	var hear []teller
	if e.Kind != event.Unguarded {
		hear = s.joined(e.Name)
		e.Name = "store"
	}
	s.mu.Unlock()
	defer s.mu.Lock()
	event.Tell(s.cfg.OnEvent, e)
	for _, g := range hear {
		event.Tell(g.Tell, e)
	}
	if e.Kind == event.Unguarded || s.cfg.Logger == nil {
		return
	}
	level, attrs := slog.LevelInfo, []slog.Attr{slog.String("node", string(s.node))}
	if e.Kind == event.StoreLost {
		level = slog.LevelWarn
	}
	if e.Source != "" {
		attrs = append(attrs, slog.String("source", e.Source))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.String("err", e.Err.Error()))
	}
	s.cfg.Logger.LogAttrs(context.Background(), level, e.Kind.String(), attrs...)
}

// teller is a Governor that hears how the store is.
type teller interface{ Tell(event.Event) }

// joined returns the tellers of name, which a unit may follow, or all. The caller holds mu.
func (s *Syncer) joined(name string) (all []teller) {
	for _, c := range s.cells {
		if c.member == nil {
			continue
		}
		for _, g := range c.member.gov {
			if t, ok := g.gov.(teller); ok && (name == "" || name == g.gov.Name() || strings.HasPrefix(name, g.gov.Name()+"/")) {
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
		return c.member.gov[0].gov.Name()
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
