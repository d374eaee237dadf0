package registry_test

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/registry"
)

// thing is an instance that can be told from others.
type thing struct {
	name string
	mu   sync.Mutex
	size int
	ends int
}

func (x *thing) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ends++
}

type thingConfig struct{ Size, Weight int }

var errSize = errors.New("size is negative")

// workshop makes things and keeps all that it has made.
type workshop struct {
	mu   sync.Mutex
	made []*thing
}

func (w *workshop) config(live bool) registry.SetConfig[thingConfig, *thing] {
	cfg := registry.SetConfig[thingConfig, *thing]{Kind: "thing", Close: (*thing).close}
	cfg.New = func(name string, cfg thingConfig) (*thing, error) {
		if cfg.Size < 0 {
			return nil, errSize
		}
		x := &thing{name: name, size: cfg.Size}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.made = append(w.made, x)
		return x, nil
	}
	if live {
		cfg.Change = func(x *thing, from, to thingConfig) error {
			if from.Weight != to.Weight {
				return registry.ErrNotLive
			}
			x.mu.Lock()
			defer x.mu.Unlock()
			x.size = to.Size
			return nil
		}
	}
	return cfg
}

func size(n int) func(*thingConfig) error {
	return func(c *thingConfig) error { c.Size = n; return nil }
}

type embedded struct{ Inner []int }

// What an override changes, wherever it is, is its own.
func TestAnOverrideChangesNothingOfItsBase(t *testing.T) {
	type part struct{ N int }
	type nested struct {
		Parts  []part
		Lists  [][]int
		ByName map[string][]int
		To     *part
		Tos    []*part
		Log    *slog.Logger
		Any    any
		Most   *int
		Two    [2][]int
		embedded
	}
	made := map[string]nested{}
	s, err := registry.NewSet(registry.SetConfig[nested, int]{Kind: "thing", New: func(name string, cfg nested) (int, error) {
		made[name] = cfg
		return 0, nil
	}})
	require.NoError(t, err)
	one := func() nested {
		return nested{[]part{{1}}, [][]int{{1}}, map[string][]int{"a": {1}}, &part{1}, []*part{{1}}, slog.Default(), 1, new(1), [2][]int{{1}, {1}}, embedded{[]int{1}}}
	}
	base := one()
	require.NoError(t, s.SetBase("base", base))
	changes := func(cfg *nested) error {
		cfg.Parts[0].N, cfg.Lists[0][0], cfg.ByName["a"][0], cfg.To.N, cfg.Tos[0].N = 2, 2, 2, 2, 2
		cfg.ByName["b"] = nil
		*cfg.Most, cfg.Two[1][0], cfg.Inner[0] = 2, 2, 2
		return nil
	}
	_, err = s.Add("x", "base", changes)
	require.NoError(t, err)
	_, err = s.Add("y", "base", nil)
	require.NoError(t, err)
	require.NoError(t, s.Change("y", changes))
	require.Equal(t, one(), base)
	require.Equal(t, 2, made["x"].Tos[0].N)
	require.Equal(t, 2, made["y"].ByName["a"][0])
	require.Same(t, base.Log, made["x"].Log, "what is no configuration stays")
	_, err = s.Add("z", "base", nil)
	require.NoError(t, err)
	require.Equal(t, one(), made["z"])
}

// Pointers that lead in circles, or to the same, do so in the copy.
func TestAnOverrideOfWhatLeadsInCircles(t *testing.T) {
	type ring struct {
		Next, Before, Other *ring
		N                   int
	}
	s, err := registry.NewSet(registry.SetConfig[ring, *ring]{Kind: "ring", New: func(name string, cfg ring) (*ring, error) { return cfg.Next, nil }})
	require.NoError(t, err)
	r := &ring{}
	r.Next, r.Before, r.Other = r, r, r
	require.NoError(t, s.SetBase("base", *r))
	made, err := s.Add("x", "base", func(cfg *ring) error { cfg.Next.N = 2; return nil })
	require.NoError(t, err)
	require.Same(t, made, made.Before)
	require.Equal(t, 2, made.Other.N)
	require.Zero(t, r.N)
}

func TestInstancesAreMadeOfBasesWithOverrides(t *testing.T) {
	for _, live := range []bool{false, true} {
		var w workshop
		s, err := registry.NewSet(w.config(live))
		require.NoError(t, err)
		a, err := s.Get("a")
		require.NoError(t, err)
		require.Equal(t, 0, a.size)
		again, err := s.Get("a")
		require.NoError(t, err)
		require.Same(t, a, again)
		require.NoError(t, s.SetBase("large", thingConfig{Size: 100, Weight: 5}))
		b, err := s.Add("b", "large", registry.Override[thingConfig]([]byte(`{"size": 50}`)))
		require.NoError(t, err)
		require.Equal(t, 50, b.size)
		_, err = s.Add("c", "large", nil)
		require.NoError(t, err)
		_, err = s.Add("b", "large", nil)
		require.ErrorIs(t, err, registry.ErrExists)
		require.EqualError(t, err, `registry: thing "b": registry: exists already`)
		_, err = s.Add("d", "larger", nil)
		require.ErrorIs(t, err, registry.ErrNotFound)
		_, err = s.Add("d", "large", size(-1))
		require.ErrorIs(t, err, errSize)
		_, err = s.Add("d", "", registry.Override[thingConfig]([]byte(`{"width": 1}`)))
		require.ErrorContains(t, err, "width is 1")
		_, ok := s.Lookup("d")
		require.False(t, ok)

		// A base that changes takes its instances with it, but for what they override.
		require.NoError(t, s.SetBase("large", thingConfig{Size: 200, Weight: 5}))
		require.NoError(t, s.SetBase(registry.Default, thingConfig{Size: 10}))
		for name, want := range map[string]thingConfig{"a": {10, 0}, "b": {50, 5}, "c": {200, 5}} {
			cfg, ok := s.Config(name)
			require.True(t, ok)
			require.Equal(t, want, cfg, name)
			x, _ := s.Lookup(name)
			require.Equal(t, want.Size, x.size, name)
		}
		now, _ := s.Lookup("a")
		require.Equal(t, live, now == a)
		if live {
			err = s.SetBase("large", thingConfig{Size: 300, Weight: 6})
			require.ErrorIs(t, err, registry.ErrNotLive)
			require.Equal(t, 2, strings.Count(err.Error(), "run time"), "b and c")
			cfg, _ := s.Config("c")
			require.Equal(t, thingConfig{200, 5}, cfg)
			require.NoError(t, s.SetBase("large", thingConfig{Size: 200, Weight: 5}))
		}
		require.ErrorIs(t, s.SetBase("large", thingConfig{Size: -1}), errSize)
		base, _ := s.Base("large")
		require.Equal(t, 200, base.Size)

		// Another override takes the place of the first.
		require.NoError(t, s.Change("b", nil))
		cfg, _ := s.Config("b")
		require.Equal(t, thingConfig{200, 5}, cfg)
		require.NoError(t, s.Change("b", size(7)))
		require.ErrorIs(t, s.Change("zz", nil), registry.ErrNotFound)
		require.ErrorIs(t, s.Change("b", func(*thingConfig) error { return errSize }), errSize)
		x, _ := s.Lookup("b")
		require.Equal(t, 7, x.size)

		var names []string
		for name := range s.All() {
			names = append(names, name)
		}
		require.Equal(t, []string{"a", "b", "c"}, names)
		for name := range s.All() {
			require.Equal(t, "a", name)
			break
		}
		require.True(t, s.Remove("a"))
		require.False(t, s.Remove("a"))
		require.Equal(t, 2, s.Len())
		mine := &thing{name: "b"}
		require.NoError(t, s.Put("b", mine))
		x, _ = s.Lookup("b")
		require.Same(t, mine, x)
		_, ok = s.Config("b")
		require.False(t, ok)
		require.ErrorIs(t, s.Change("b", nil), registry.ErrNotLive)
		require.NoError(t, s.SetBase("large", thingConfig{Size: 1, Weight: 5}))
		for _, x := range w.made {
			in, _ := s.Lookup(x.name)
			want := 1
			if in == x {
				want = 0
			}
			require.Equal(t, want, x.ends, "%+v is closed once when it is no more in use", x.name)
		}
	}
}

func TestSetsAreBounded(t *testing.T) {
	var w workshop
	cfg := w.config(false)
	cfg.Max = 2
	s, err := registry.NewSet(cfg)
	require.NoError(t, err)
	for n := range 2 {
		_, err = s.Get(fmt.Sprint(n))
		require.NoError(t, err)
		require.NoError(t, s.SetBase(fmt.Sprint(n), thingConfig{}))
	}
	made := len(w.made)
	_, err = s.Get("2")
	require.ErrorIs(t, err, registry.ErrTooMany)
	require.Len(t, w.made, made, "nothing is made that there is no room for")
	require.ErrorIs(t, s.Put("2", &thing{}), registry.ErrTooMany)
	require.NoError(t, s.Put("1", &thing{}))
	require.ErrorIs(t, s.SetBase("2", thingConfig{}), registry.ErrTooMany)
	require.NoError(t, s.SetBase("1", thingConfig{}))
	for _, name := range []string{"", strings.Repeat("x", 257)} {
		_, err = s.Get(name)
		require.ErrorIs(t, err, registry.ErrInvalid)
		require.ErrorIs(t, s.Put(name, &thing{}), registry.ErrInvalid)
		require.ErrorIs(t, s.SetBase(name, thingConfig{}), registry.ErrInvalid)
	}
	for want, cfg := range map[string]registry.SetConfig[thingConfig, *thing]{
		"Kind is empty": {New: cfg.New}, "New is nil": {Kind: "x"}, "Max is -1": {Kind: "x", New: cfg.New, Max: -1},
	} {
		_, err := registry.NewSet(cfg)
		require.ErrorIs(t, err, registry.ErrInvalid)
		require.ErrorContains(t, err, want)
	}
}

func TestSetTellsOfEachChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w workshop
		s, err := registry.NewSet(w.config(true))
		require.NoError(t, err)
		var told []string
		stop := s.Listen(func(e event.Event) {
			require.Equal(t, event.Changed, e.Kind)
			require.False(t, e.Time.IsZero())
			told = append(told, e.Name+" "+e.Source)
			s.Lookup(e.Name) // a listener may use the Set
		})
		_, _ = s.Get("a")
		_, _ = s.Get("a")
		_ = s.SetBase(registry.Default, thingConfig{Size: 3})
		_ = s.Change("a", size(-1))
		_ = s.Change("a", func(c *thingConfig) error { c.Weight = 1; return nil })
		_ = s.Put("a", &thing{})
		_ = s.Put("b", &thing{})
		s.Remove("a")
		s.Remove("a")
		synctest.Wait()
		stop()
		s.Remove("b")
		synctest.Wait()
		require.Equal(t, []string{"a added thing", "a changed thing", "a changed thing", "a replaced thing", "b added thing", "a removed thing"}, told)
	})
}

// Random changes from several goroutines: in the end each instance is what its base and
// its override say, and each that was made is closed once unless it is in the Set.
func TestSetUnderRandomChanges(t *testing.T) {
	for _, live := range []bool{false, true} {
		var w workshop
		cfg := w.config(live)
		cfg.Max = 6
		s, err := registry.NewSet(cfg)
		require.NoError(t, err)
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(g), 1))
				for range effort.Times(200) {
					name := string(rune('a' + r.IntN(8)))
					switch r.IntN(7) {
					case 0, 1:
						if x, err := s.Get(name); err == nil && x.name != name {
							t.Errorf("%s is %s", name, x.name)
						}
					case 2:
						_ = s.SetBase(registry.Default, thingConfig{Size: r.IntN(100)})
					case 3:
						_ = s.Change(name, []func(*thingConfig) error{nil, size(r.IntN(100)), size(r.IntN(100))}[r.IntN(3)])
					case 4:
						s.Remove(name)
					case 5:
						for range s.All() {
						}
					case 6:
						_, _ = s.Config(name)
					}
					if s.Len() > 6 {
						t.Error("too many")
					}
				}
			})
		}
		wg.Wait()
		in := map[*thing]bool{}
		for name, x := range s.All() {
			in[x] = true
			cfg, _ := s.Config(name)
			require.Equal(t, cfg.Size, x.size, name)
		}
		base, _ := s.Base(registry.Default)
		for name := range s.All() {
			require.NoError(t, s.Change(name, nil))
			cfg, _ := s.Config(name)
			require.Equal(t, base, cfg)
		}
		in = map[*thing]bool{}
		for _, x := range s.All() {
			in[x] = true
		}
		for _, x := range w.made {
			if want := map[bool]int{true: 0, false: 1}[in[x]]; x.ends != want {
				t.Fatalf("%s was closed %d times, want %d", x.name, x.ends, want)
			}
		}
		require.NotEmpty(t, slices.Collect(func(yield func(string) bool) {
			for name := range s.All() {
				if !yield(name) {
					return
				}
			}
		}))
	}
}

// A base that is set while an instance of it is being made reaches that instance.
func TestBaseSetDuringTheMaking(t *testing.T) {
	var w workshop
	cfg := w.config(false)
	made := cfg.New
	var s *registry.Set[thingConfig, *thing]
	first := true
	cfg.New = func(name string, c thingConfig) (*thing, error) {
		if name == "a" && first {
			first = false
			if err := s.SetBase(registry.Default, thingConfig{Size: 9}); err != nil {
				return nil, err
			}
		}
		return made(name, c)
	}
	s, err := registry.NewSet(cfg)
	require.NoError(t, err)
	a, err := s.Get("a")
	require.NoError(t, err)
	require.Equal(t, 9, a.size)
}
