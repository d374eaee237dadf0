package registry

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Load sets what a JSON text says: bases and instances of each kind.
//
//	{
//	  "breakers": {
//	    "bases": {"default": {"FailureRate": 0.4, "OpenFor": "exponential 30s x2 up to 10m"}},
//	    "instances": {"billing": {"base": "default", "config": {"Window": 20}}}
//	  },
//	  "bulkheads": {...}, "limiters": {...}, "retries": {...}, "timeouts": {...}
//	}
//
// A configuration is what Decode reads; an instance's is about what it changes of its
// base, which is "default" where none is named. Bases are set first, with the instances
// of them that the text does not name. One that it names is changed, once, as Set.Change
// does, or added; what it says nothing of stays. So a text may be loaded again when it
// has changed.
//
// Nothing is set of a text that Decode would refuse, in whole or in any part. What can
// be read is set as far as it can be; the error joins what could not.
func (r *Registry) Load(data []byte) error {
	of, err := r.parse(data)
	if err != nil {
		return err
	}
	return r.set(of)
}

// sections are what a text says.
type sections struct{ breakers, bulkheads, limiters, retries, timeouts section }

// parse reads a text that Decode would not refuse in any part.
func (r *Registry) parse(data []byte) (of sections, err error) {
	if err := configLimits.check(data); err != nil {
		return of, err
	}
	if err := decodeSections(data, map[string]*section{
		"breakers": &of.breakers, "bulkheads": &of.bulkheads, "limiters": &of.limiters,
		"retries": &of.retries, "timeouts": &of.timeouts,
	}); err != nil {
		return of, err
	}
	return of, errors.Join(
		readable(r.Breakers, "breakers", of.breakers), readable(r.Bulkheads, "bulkheads", of.bulkheads),
		readable(r.Limiters, "limiters", of.limiters), readable(r.Retries, "retries", of.retries),
		readable(r.Timeouts, "timeouts", of.timeouts),
	)
}

// set sets what a text says, as far as it can be.
func (r *Registry) set(of sections) error {
	return errors.Join(
		load(r.Breakers, of.breakers), load(r.Bulkheads, of.bulkheads), load(r.Limiters, of.limiters),
		load(r.Retries, of.retries), load(r.Timeouts, of.timeouts),
	)
}

// section is what a text says of one kind.
type section struct {
	bases     []member
	instances []instanceText
}

type instanceText struct{ name, base, config string }

// decodeSections reads those of a text.
func decodeSections(data []byte, sections map[string]*section) error {
	all, ok := members(data)
	if !ok {
		return &FieldError{"", shown(data), "an object"}
	}
	for _, m := range all {
		s := sections[m.name]
		if s == nil {
			return &FieldError{m.name, shown(m.value), "no such field"}
		}
		parts, ok := members(m.value)
		if !ok {
			return &FieldError{m.name, shown(m.value), "an object"}
		}
		for _, part := range parts {
			path := m.name + "." + part.name
			named, ok := members(part.value)
			if !ok {
				return &FieldError{path, shown(part.value), "an object"}
			}
			switch part.name {
			case "bases":
				s.bases = named
			case "instances":
				for _, n := range named {
					i, err := decodeInstance(path+"."+n.name, n)
					if err != nil {
						return err
					}
					s.instances = append(s.instances, i)
				}
			default:
				return &FieldError{path, shown(part.value), "no such field"}
			}
		}
	}
	return nil
}

func decodeInstance(path string, m member) (i instanceText, err error) {
	i = instanceText{m.name, Default, "{}"}
	parts, ok := members(m.value)
	if !ok {
		return i, &FieldError{path, shown(m.value), "an object"}
	}
	for _, p := range parts {
		switch {
		case p.name == "base" && json.Unmarshal(p.value, &i.base) == nil && i.base != "":
		case p.name == "base":
			return i, &FieldError{path + ".base", shown(p.value), "the name of a base"}
		case p.name == "config":
			i.config = string(p.value)
		default:
			return i, &FieldError{path + "." + p.name, shown(p.value), "no such field"}
		}
	}
	return i, nil
}

// readable returns what is wrong with the configurations of a section, as text.
func readable[C, T any](s *Set[C, T], kind string, of section) error {
	known := map[string]bool{Default: true}
	for _, b := range of.bases {
		var cfg C
		if err := Decode(b.value, &cfg); err != nil {
			return fmt.Errorf("%s.bases.%.64q: %w", kind, b.name, err)
		}
		known[b.name] = true
	}
	for _, i := range of.instances {
		var cfg C
		if err := Decode([]byte(i.config), &cfg); err != nil {
			return fmt.Errorf("%s.instances.%.64q: %w", kind, i.name, err)
		}
		if _, there := s.Base(i.base); !there && !known[i.base] {
			return fmt.Errorf("%s.instances.%.64q: base %.64q: %w", kind, i.name, i.base, ErrNotFound)
		}
	}
	return nil
}

func load[C, T any](s *Set[C, T], of section) error {
	var errs []error
	named := make(map[string]bool, len(of.instances))
	for _, i := range of.instances {
		named[i.name] = true // changed below, once
	}
	for _, b := range of.bases {
		var cfg C
		err := Decode(b.value, &cfg)
		if err == nil {
			err = s.setBase(b.name, cfg, named)
		}
		errs = append(errs, err)
	}
	for _, i := range of.instances {
		override := Override[C]([]byte(i.config))
		_, err := s.add(i.name, i.base, override)
		if errors.Is(err, ErrExists) {
			err = s.change(i.name, func(*entry[C, T]) (string, func(*C) error, bool) { return i.base, override, true }, false)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
