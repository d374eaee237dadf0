package registry

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// check returns what of a text could not be set, and changes nothing.
func (r *Registry) check(of sections) error {
	return errors.Join(
		check(r.Breakers, of.breakers), check(r.Bulkheads, of.bulkheads), check(r.Limiters, of.limiters),
		check(r.Retries, of.retries), check(r.Timeouts, of.timeouts),
	)
}

// planned is what an instance is to be made of.
type planned[C any] struct {
	base     string
	override func(*C) error
	from     C // what it is made of now, if it is
	there    bool
	put      bool
}

// check tries what load would do: it makes the bases, and of the instances those that
// the text names or whose bases it does. Of what fails it returns the first: there may
// be as many as instances.
func check[C, T any](s *Set[C, T], of section) error {
	bases := make(map[string]C, len(of.bases))
	for _, b := range of.bases {
		var cfg C
		err := checkName(b.name)
		if err == nil {
			err = Decode(b.value, &cfg)
		}
		if err == nil {
			err = s.try(b.name, cfg)
		}
		if err != nil {
			return s.failed(b.name, err)
		}
		bases[b.name] = cfg
	}
	plan, err := s.plan(bases, of.instances)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(plan)) {
		p := plan[name]
		base, named := bases[p.base]
		if !named {
			base = s.base(p.base).cfg
		}
		if err := s.would(name, p, base); err != nil {
			return s.failed(name, err)
		}
	}
	return nil
}

// plan returns the instances that bases and a text would change, or make.
func (s *Set[C, T]) plan(bases map[string]C, instances []instanceText) (map[string]planned[C], error) {
	all := make(map[string]planned[C])
	s.mu.RLock()
	defer s.mu.RUnlock()
	for name, e := range s.entries {
		if _, changes := bases[e.base]; changes && !e.put {
			all[name] = planned[C]{e.base, e.override, e.cfg, true, false}
		}
	}
	for _, i := range instances {
		p := planned[C]{base: i.base, override: Override[C]([]byte(i.config))}
		if e := s.entries[i.name]; e != nil {
			p.from, p.there, p.put = e.cfg, true, e.put
		}
		all[i.name] = p
	}
	of, kinds := len(s.entries), len(s.bases)
	for name := range all {
		if s.entries[name] == nil {
			of++
		}
	}
	for name := range bases {
		if s.bases[name].turn == 0 {
			kinds++
		}
	}
	if max(of, kinds) > s.cfg.Max {
		return nil, fmt.Errorf("registry: %s: %w: there would be %d, of %d bases, want up to %d", s.cfg.Kind, ErrTooMany, of, kinds, s.cfg.Max)
	}
	return all, nil
}

// would returns why an instance cannot be made, or changed to what a base says.
func (s *Set[C, T]) would(name string, p planned[C], base C) error {
	if err := checkName(name); err != nil {
		return err
	}
	if p.put {
		return fmt.Errorf("it was put: %w", ErrNotLive)
	}
	cfg, err := overridden(base, p.override)
	switch {
	case err != nil:
		return err
	case p.there && s.check != nil:
		return s.check(p.from, cfg)
	case p.there && s.cfg.Change == nil && reflect.DeepEqual(cfg, p.from):
		return nil // it stays
	}
	return s.try(name, cfg)
}
