package registry

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/flyball-go/flyball/event"
)

// Default is the name of the base that Get makes instances of.
const Default = "default"

// SetConfig says what a Set holds: instances of type T, made of configurations of
// type C.
type SetConfig[C, T any] struct {
	// Kind is what an instance is called in events and errors: "breaker". Required.
	Kind string

	// New makes an instance. Required. What it returns beside an error is ignored.
	New func(name string, cfg C) (T, error)

	// Change makes a change of configuration in an instance that runs, all of it or,
	// when it returns an error, nothing. It is called for one instance once at a time.
	// nil: a new instance takes the place of the old one.
	Change func(inst T, from, to C) error

	// Replace makes that new instance, which may go on where the old one is. nil: New.
	Replace func(name string, old T, cfg C) (T, error)

	// Close ends an instance that was removed or replaced, or that lost a race to be
	// the first. nil: nothing does.
	Close func(T)

	// Max is how many instances there may be, and how many bases. 0 means 10,000.
	Max int
}

// Set holds the instances of one kind by their names, which are texts of 1 up to 256
// bytes. Make one with NewSet, or use those of a Registry.
//
// It may be used by any number of goroutines at once, also by the functions of its
// SetConfig, but those must not change the instance that they are called for. Lookup
// and Get of an instance that is there cost a lock for reading and a map access.
type Set[C, T any] struct {
	cfg   SetConfig[C, T]
	check func(from, to C) error // what Change would return; nil: it is not known before
	bus   *event.Bus

	// mu guards the maps and what is in an entry but its turn. No function of cfg is
	// called under it. Events are emitted under it, so that they come in the order of
	// what they tell of.
	mu      sync.RWMutex
	bases   map[string]base[C]
	entries map[string]*entry[C, T]
}

// base is a configuration with a name. A set one is larger by 1 in turn than the one
// before; 0 is one that is not set.
type base[C any] struct {
	cfg  C
	turn uint64
}

// entry is an instance. One that is no more in Set.entries does not change any more.
type entry[C, T any] struct {
	// turn is held while the instance is changed, so that changes come one after the
	// other, and what it is made of is what it does. mu may be taken under it, not the
	// other way round.
	turn sync.Mutex

	inst     T
	cfg      C
	base     string         // "": the zero configuration
	override func(*C) error // nil: none
	put      bool           // there is no configuration
}

// NewSet returns an empty Set. The error, which matches ErrInvalid, names the field
// that is missing or out of range.
func NewSet[C, T any](cfg SetConfig[C, T]) (*Set[C, T], error) {
	return newSet(cfg, new(event.Bus))
}

func newSet[C, T any](cfg SetConfig[C, T], bus *event.Bus) (*Set[C, T], error) {
	switch {
	case cfg.Kind == "":
		return nil, invalidf("SetConfig.Kind is empty, want a name")
	case cfg.New == nil:
		return nil, invalidf("SetConfig.New is nil, want a function")
	case cfg.Max < 0:
		return nil, invalidf("SetConfig.Max is %d, want 0 or more", cfg.Max)
	}
	cfg.Max = cmp.Or(cfg.Max, 10_000)
	if cfg.Replace == nil {
		cfg.Replace = func(name string, _ T, to C) (T, error) { return cfg.New(name, to) }
	}
	return &Set[C, T]{cfg: cfg, bus: bus, bases: map[string]base[C]{}, entries: map[string]*entry[C, T]{}}, nil
}

// Listen calls fn for each instance that was added, replaced, changed in place or
// removed: an event.Changed each, in their order, until stop is called. See event.Bus
// for what fn may do, which is anything.
func (s *Set[C, T]) Listen(fn func(event.Event)) (stop func()) { return s.bus.Listen(fn) }

// tell is called under mu.
func (s *Set[C, T]) tell(what, name string) {
	if s.bus.Wants(event.Changed) {
		s.bus.Emit(event.Event{Time: time.Now(), Kind: event.Changed, Name: name, Source: what + " " + s.cfg.Kind})
	}
}

func (s *Set[C, T]) failed(name string, err error) error {
	return fmt.Errorf("registry: %s %.64q: %w", s.cfg.Kind, name, err)
}

func checkName(name string) error {
	if name == "" || len(name) > 256 {
		return invalidf("name is %.64q, want 1 up to 256 bytes", name)
	}
	return nil
}

func (s *Set[C, T]) close(inst T) {
	if s.cfg.Close != nil {
		s.cfg.Close(inst)
	}
}

// Lookup returns an instance.
func (s *Set[C, T]) Lookup(name string) (inst T, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if e := s.entries[name]; e != nil {
		return e.inst, true
	}
	return inst, false
}

// Get returns an instance, made of the base Default if it is not there yet; without
// that base, of the zero configuration.
func (s *Set[C, T]) Get(name string) (T, error) {
	if inst, ok := s.Lookup(name); ok {
		return inst, nil
	}
	inst, err := s.add(name, Default, nil)
	if errors.Is(err, ErrExists) { // who was faster may have removed it, too; then it is ours to tell
		if inst, ok := s.Lookup(name); ok {
			return inst, nil
		}
	}
	return inst, err
}

// Add makes an instance of a base, "" for the zero configuration, with what override
// changes of it: Override, say, or nil. It gets a copy, of which it may change anything:
// fields, elements of slices and maps, and what pointers to configurations point to. The
// error matches ErrExists when there is one
// of that name, ErrNotFound when there is no such base, and ErrTooMany when there are
// as many instances as may be.
func (s *Set[C, T]) Add(name, base string, override func(*C) error) (T, error) {
	if _, ok := s.Base(base); base != "" && !ok {
		var none T
		return none, s.failed(name, fmt.Errorf("base %.64q: %w", base, ErrNotFound))
	}
	return s.add(name, base, override)
}

func (s *Set[C, T]) add(name, base string, override func(*C) error) (none T, _ error) {
	if err := checkName(name); err != nil {
		return none, s.failed(name, err)
	}
	if err := s.room(name); err != nil { // before anything is made
		return none, s.failed(name, err)
	}
	for {
		of := s.base(base)
		cfg, err := overridden(of.cfg, override)
		if err != nil {
			return none, s.failed(name, err)
		}
		inst, err := s.cfg.New(name, cfg)
		if err != nil {
			return none, s.failed(name, err)
		}
		// Who sets the base after this finds the entry; who did before has the turn.
		s.mu.Lock()
		err = s.roomLocked(name)
		late := s.bases[base].turn != of.turn
		if err == nil && !late {
			s.entries[name] = &entry[C, T]{inst: inst, cfg: cfg, base: base, override: override}
			s.tell("added", name)
			s.mu.Unlock()
			return inst, nil
		}
		s.mu.Unlock()
		s.close(inst)
		if err != nil {
			return none, s.failed(name, err)
		}
	}
}

func (s *Set[C, T]) room(name string) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.roomLocked(name)
}

func (s *Set[C, T]) roomLocked(name string) error {
	switch {
	case s.entries[name] != nil:
		return ErrExists
	case len(s.entries) >= s.cfg.Max:
		return fmt.Errorf("%w: there are %d", ErrTooMany, s.cfg.Max)
	}
	return nil
}

// Put adds an instance that was made elsewhere, or puts it in the place of the one of
// that name, which is closed. It has no configuration that could be changed.
func (s *Set[C, T]) Put(name string, inst T) error {
	_, err := s.put(name, inst, true)
	return err
}

// put is Put, which may replace or not.
func (s *Set[C, T]) put(name string, inst T, replace bool) (*entry[C, T], error) {
	if err := checkName(name); err != nil {
		return nil, s.failed(name, err)
	}
	e := &entry[C, T]{inst: inst, put: true}
	s.mu.Lock()
	old, err := s.entries[name], s.roomLocked(name)
	if err != nil && !(replace && old != nil) {
		s.mu.Unlock()
		return nil, s.failed(name, err)
	}
	what := "added"
	var was T
	if s.entries[name] = e; old != nil {
		what, was = "replaced", old.inst
	}
	s.tell(what, name)
	s.mu.Unlock()
	if old != nil {
		s.close(was)
	}
	return e, nil
}

// Remove takes an instance out, and closes it; false when there is none.
func (s *Set[C, T]) Remove(name string) bool { return s.remove(name, nil) }

// remove takes an instance out: only that of an entry, or whichever it is.
func (s *Set[C, T]) remove(name string, only *entry[C, T]) bool {
	s.mu.Lock()
	e := s.entries[name]
	if e == nil || only != nil && e != only {
		s.mu.Unlock()
		return false
	}
	delete(s.entries, name)
	s.tell("removed", name)
	inst := e.inst
	s.mu.Unlock()
	s.close(inst)
	return true
}

// Len returns how many instances there are.
func (s *Set[C, T]) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.entries)
}

// All returns the instances there are now, by name.
func (s *Set[C, T]) All() iter.Seq2[string, T] {
	s.mu.RLock()
	insts := make(map[string]T, len(s.entries))
	for name, e := range s.entries {
		insts[name] = e.inst
	}
	s.mu.RUnlock()
	return func(yield func(string, T) bool) {
		for _, name := range slices.Sorted(maps.Keys(insts)) {
			if !yield(name, insts[name]) {
				return
			}
		}
	}
}
