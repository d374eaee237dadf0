package registry

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// Base returns a base's configuration.
func (s *Set[C, T]) Base(name string) (cfg C, ok bool) {
	b := s.base(name)
	return b.cfg, b.turn > 0
}

func (s *Set[C, T]) base(name string) base[C] {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.bases[name]
}

// SetBase gives a name to a configuration that instances are made of, and changes
// those that were made of the one that had the name before. The configuration is
// tried first: an instance that is made of it, and closed, must come about. The error
// joins those of the instances that could not be changed and stay as they were; the
// base is set nevertheless.
func (s *Set[C, T]) SetBase(name string, cfg C) error { return s.setBase(name, cfg, nil) }

// setBase is SetBase, but for instances that are changed by who calls it.
func (s *Set[C, T]) setBase(name string, cfg C, but map[string]bool) error {
	err := checkName(name)
	if err == nil {
		err = s.try(name, cfg)
	}
	if err != nil {
		return s.failed(name, err)
	}
	s.mu.Lock()
	old := s.bases[name]
	if old.turn == 0 && len(s.bases) >= s.cfg.Max {
		s.mu.Unlock()
		return s.failed(name, fmt.Errorf("%w: there are %d bases", ErrTooMany, s.cfg.Max))
	}
	s.bases[name] = base[C]{cfg, old.turn + 1}
	var of []string
	for inst, e := range s.entries {
		if e.base == name && !but[inst] {
			of = append(of, inst)
		}
	}
	s.mu.Unlock()
	slices.Sort(of)
	unchanged := old.turn > 0 && reflect.DeepEqual(old.cfg, cfg)
	var errs []error
	for _, inst := range of {
		// It is made of what the base is by then, whoever has set it last. Who has
		// removed it meanwhile, or put another in its place, need not be told.
		err := s.change(inst, func(e *entry[C, T]) (string, func(*C) error, bool) { return e.base, e.override, e.base == name }, unchanged)
		if err != nil && !errors.Is(err, ErrNotFound) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// try makes an instance of cfg, to see whether that is valid.
func (s *Set[C, T]) try(name string, cfg C) error {
	inst, err := s.cfg.New(name, cfg)
	if err == nil {
		s.close(inst)
	}
	return err
}

// overridden returns what override makes of a copy of cfg.
func overridden[C any](cfg C, override func(*C) error) (_ C, err error) {
	if override != nil {
		own(reflect.ValueOf(&cfg).Elem(), make(map[any]reflect.Value), 0)
		err = override(&cfg)
	}
	return cfg, err
}

// own gives v copies of the slices, the maps, and what is behind pointers, that it has
// in common with others. A struct with fields that are not exported, a logger say, is no
// configuration: that stays in common, and so does what is behind an interface, or
// nested as deeply as no configuration is. copies are those of pointers so far: where
// two point to the same, or one leads back to itself, so do theirs.
func own(v reflect.Value, copies map[any]reflect.Value, depth int) {
	if depth > 16 {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			// Of one that is embedded the exported fields can be set.
			if f := v.Type().Field(i); f.IsExported() || f.Anonymous && f.Type.Kind() == reflect.Struct {
				own(v.Field(i), copies, depth+1)
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			own(v.Index(i), copies, depth+1)
		}
	case reflect.Slice:
		if v.IsNil() || !v.CanSet() {
			return
		}
		c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(c, v)
		for i := range c.Len() {
			own(c.Index(i), copies, depth+1)
		}
		v.Set(c)
	case reflect.Map:
		if v.IsNil() || !v.CanSet() {
			return
		}
		c := reflect.MakeMapWithSize(v.Type(), v.Len())
		for it := v.MapRange(); it.Next(); {
			e := reflect.New(v.Type().Elem()).Elem()
			e.Set(it.Value())
			own(e, copies, depth+1)
			c.SetMapIndex(it.Key(), e)
		}
		v.Set(c)
	case reflect.Pointer:
		if v.IsNil() || !v.CanSet() || !open(v.Type().Elem()) {
			return
		}
		c, there := copies[v.Interface()]
		if !there {
			c = reflect.New(v.Type().Elem())
			copies[v.Interface()] = c
			c.Elem().Set(v.Elem())
			own(c.Elem(), copies, depth+1)
		}
		v.Set(c)
	}
}

// open reports whether t is a number, a text, or a struct of which all fields are
// exported: what a pointer of a configuration points to.
func open(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return t.Kind() >= reflect.Bool && t.Kind() <= reflect.Complex128 && t.Kind() != reflect.Uintptr || t.Kind() == reflect.String
	}
	for i := range t.NumField() {
		if !t.Field(i).IsExported() {
			return false
		}
	}
	return true
}

// Config returns what an instance is made of; false when there is none, or it was Put.
func (s *Set[C, T]) Config(name string) (cfg C, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if e := s.entries[name]; e != nil && !e.put {
		return e.cfg, true
	}
	return cfg, false
}

// same reports whether to says the same as from. Functions cannot be compared: they are the
// same where nothing was changed.
func same[C any](from, to C, unchanged bool) bool {
	return reflect.DeepEqual(from, to) ||
		unchanged && reflect.TypeFor[C]().Kind() == reflect.Struct && sameBut("", from, to) == nil
}

// Change gives an instance another override in the place of the one that it has: its
// configuration is that of its base with what override, or nil, changes of it. Where
// the instance cannot be changed while it runs a new one takes its place: who has kept
// the old one has it still, so Get it anew for each use; but not where the configuration
// comes out the same. After an error everything is as it was; it matches ErrNotLive for an instance that was Put.
func (s *Set[C, T]) Change(name string, override func(*C) error) error {
	return s.change(name, func(e *entry[C, T]) (string, func(*C) error, bool) { return e.base, override, true }, false)
}

// change makes an instance what a base and an override say, if it is to. unchanged says
// that neither is another than before.
func (s *Set[C, T]) change(name string, to func(*entry[C, T]) (base string, override func(*C) error, ok bool), unchanged bool) error {
	s.mu.RLock()
	e := s.entries[name]
	s.mu.RUnlock()
	if e == nil {
		return s.failed(name, ErrNotFound)
	}
	e.turn.Lock()
	defer e.turn.Unlock()
	// Only who has the turn writes to the entry, so it may be read without mu.
	base, override, ok := to(e)
	if !ok {
		return nil
	}
	if e.put {
		return s.failed(name, fmt.Errorf("it was put: %w", ErrNotLive))
	}
	cfg, err := overridden(s.base(base).cfg, override)
	if err != nil {
		return s.failed(name, err)
	}
	if s.cfg.Change == nil && same(e.cfg, cfg, unchanged) { // it keeps what it has counted
		s.mu.Lock()
		e.base, e.override = base, override
		s.mu.Unlock()
		return nil
	}
	inst, what := e.inst, "changed"
	if s.cfg.Change != nil {
		err = s.cfg.Change(inst, e.cfg, cfg)
	} else {
		what = "replaced"
		inst, err = s.cfg.Replace(name, inst, cfg)
	}
	if err != nil {
		return s.failed(name, err)
	}
	s.mu.Lock()
	was, there := e.inst, s.entries[name] == e
	if there {
		e.inst, e.cfg, e.base, e.override = inst, cfg, base, override
		s.tell(what, name)
	}
	s.mu.Unlock()
	if what == "replaced" {
		if !there { // removed meanwhile, and closed by who did that
			was = inst
		}
		s.close(was)
	}
	if !there {
		return s.failed(name, ErrNotFound)
	}
	return nil
}

// Override returns an override that JSON says, for Add and Change: see Decode.
func Override[C any](data []byte) func(*C) error {
	data = slices.Clone(data)
	return func(cfg *C) error { return Decode(data, cfg) }
}
