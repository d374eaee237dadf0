package governor

import (
	"fmt"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/throttle"
)

// shared is what a governor has in common with those of other processes.
type shared struct {
	store  *store.Syncer
	shares []*store.Share
	leave  func() // set when the governor begins
}

// sharer is a governor as its store knows it: it says how the store is.
type sharer struct{ *core }

// Tell passes on what the store tells.
func (s sharer) Tell(e event.Event) { s.emit(e) }

// Listen is core's, but that fn is told what the vendor has said that holds when events were
// dropped: others are to hear of that, however many scopes are refused at once.
func (s sharer) Listen(fn func(event.Event), kinds ...event.Kind) (stop func()) {
	return s.bus.Follow(func(e event.Event) {
		if fn(e); e.Kind == event.Learned {
			s.told.Store(int64(e.Time.Sub(s.gate.base)))
		}
	}, func() {
		for _, e := range s.gate.cooling(s.now(), -1) { // what was narrower is not known any more
			fn(e)
		}
	}, kinds...)
}

// Cooling returns the words of the vendor that hold, as events, for those that hear no more.
func (s sharer) Cooling() []event.Event { return s.gate.cooling(s.now(), s.told.Load()) }

// share has the limits that are a Quota, those of one level and unit together,
// granted by a store. Without one of calls for the Host there is a gate for what
// follows its cooldowns.
func (s *settings) share(with *store.Syncer, limits []Limit) error {
	type group struct {
		per  throttle.Level
		unit string
	}
	groups, all, version := []group{{}}, map[group][]store.Limit{}, map[group]uint64{}
	for i, l := range limits {
		if l.Limiter != nil {
			continue
		}
		q := sharedLimit(l.Quota)
		if err := q.Check(); err != nil {
			return fmt.Errorf("governor: Config.Limits[%d].Quota: %w", i, err)
		}
		g := group{l.Per, l.Unit}
		if g != groups[0] && all[g] == nil {
			groups = append(groups, g)
		}
		all[g], version[g] = append(all[g], q), max(version[g], l.Version)
	}
	s.shared = &shared{store: with}
	for _, g := range groups {
		sh, l, err := grant(with, store.ShareConfig{Name: s.sharedName(g.unit), Per: g.per, Limits: all[g], Version: version[g]})
		if err != nil {
			s.shared.end()
			return fmt.Errorf("governor: Config.Limits: %w", err)
		}
		s.shared.shares = append(s.shared.shares, sh)
		granted := newLimit(g.per, l)
		granted.unit = g.unit
		s.limits = append(s.limits, granted)
	}
	return nil
}

// grant returns the Share for some limits, or a Gate where there are none, and what
// of it is the limiter.
func grant(with *store.Syncer, cfg store.ShareConfig) (*store.Share, limiter.Limiter, error) {
	if len(cfg.Limits) == 0 {
		g, err := with.Gate(cfg.Name)
		return g.Share, g, err
	}
	sh, err := with.Share(cfg)
	return sh, sh, err
}

// sharedName is what the limits of a unit are called in the store.
func (s *settings) sharedName(unit string) string {
	if unit == "" {
		return s.name
	}
	return s.name + "/" + unit
}

// sharedLimit is q as limiter.NewQuota has it: permits stay away for Margin longer
// than the vendor says.
func sharedLimit(q limiter.QuotaConfig) store.Limit {
	margin := max(0, q.Margin)
	if q.Margin == 0 {
		margin = min(q.Per/200, 250*time.Millisecond)
	}
	return store.Limit{Quota: int64(q.Limit), Per: q.Per + margin, Transit: -1}
}

// end leaves the store to the others.
func (s *shared) end() {
	if s == nil {
		return
	}
	if s.leave != nil {
		s.leave()
	}
	for _, sh := range s.shares {
		sh.Close()
	}
}
