package registry_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/policy"
	"github.com/flyball-go/flyball/registry"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/store"
)

func TestTextThatCannotComeIntoForceIsRefusedWhole(t *testing.T) {
	// Each would also raise what can be raised.
	const good = `"bulkheads": {"bases": {"default": {"max": 50}}, "instances": {"b": {"config": {"max": 9}}, "new": {}}}, "timeouts": {"bases": {"default": {"after": "9s"}}}`
	for text, want := range map[string]string{
		`5`:                                    "want an object",
		`"` + strings.Repeat("x", 7<<10) + `"`: "want an object",
		`{` + good + `, "governors": {}}`:      "governors is {}",
		`{` + good + `, "breakers": {"bases": {"a": {"window": "x"}}}}`:                                                            `Window is "x"`,
		`{` + good + `, "breakers": {"bases": {"a": {"failureRate": 2}}}}`:                                                         "FailureRate",
		`{` + good + `, "breakers": {"bases": {"": {}}}}`:                                                                          "name is",
		`{` + good + `, "breakers": {"instances": {"": {}}}}`:                                                                      "name is",
		`{` + good + `, "breakers": {"instances": {"a": {"base": "none"}}}}`:                                                       "not found",
		`{` + good + `, "breakers": {"instances": {"a": {"config": {"failureRate": 2}}}}}`:                                         "FailureRate",
		`{` + good + `, "breakers": {"instances": {"mine": {}}}}`:                                                                  "it was put",
		`{` + good + `, "breakers": {"bases": {"1": {}, "2": {}, "3": {}, "4": {}}}}`:                                              "there would be 1, of 4 bases, want up to 3",
		`{` + good + `, "breakers": {"instances": {"1": {}, "2": {}, "3": {}}}}`:                                                   "there would be 4, of 0 bases, want up to 3",
		`{` + good + `, "limiters": {"bases": {"default": {"limits": [{"bucket": {"rate": 1}}]}}}}`:                                "cannot be changed at run time",
		`{` + good + `, "limiters": {"instances": {"l": {"config": {"limits": [{"slidingLog": {"limit": 5, "window": "2m"}}]}}}}}`: "cannot be changed at run time",
		`{"bulkheads": {"bases": {"default": {"max": 50, "maxQueue": 7}}}}`:                                                        "cannot be changed at run time",
		`{` + good + `, "retries": {"bases": {"default": {"attempts": 3}}}}`:                                                       "attempts: no more than 2",
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newApart(t)
			r, err := registry.New(registry.Config{Max: 3})
			require.NoError(t, err)
			p := &process{Registry: r}
			r.Listen(func(e event.Event) {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.told = append(p.told, e.Name+": "+e.Source)
			})
			require.NoError(t, r.Load([]byte(`{"bulkheads": {"bases": {"default": {"max": 5}}, "instances": {"b": {}}}, "limiters": {"bases": {"default": {}}, "instances": {"l": {"config": {"limits": [{"slidingLog": {"limit": 5, "window": "1m"}}]}}}}, "retries": {"bases": {"default": {}}}}`)))
			_, err = r.Limiters.Add("sized", registry.Default, nil)
			require.NoError(t, err)
			mine, err := breaker.New(breaker.Config{})
			require.NoError(t, err)
			require.NoError(t, r.Breakers.Put("mine", mine))
			_, err = r.Retries.Add("few", registry.Default, fewAttempts)
			require.NoError(t, err)
			p.Follower, err = r.Follow(registry.FollowerConfig{Store: s, Key: configKey, Logger: slog.New(slog.NewTextHandler(&p.log, nil))})
			require.NoError(t, err)
			defer p.Close()
			first := s.write(t, `{"bulkheads": {"instances": {"b": {"config": {"max": 6}}}}}`)
			time.Sleep(time.Second)
			p.lines()
			same := func() {
				t.Helper()
				synctest.Wait()
				b, _ := r.Bulkheads.Lookup("b")
				require.Equal(t, 6, b.Max())
				base, _ := r.Bulkheads.Base(registry.Default)
				require.Equal(t, policy.BulkheadConfig{Max: 5}, base)
				_, there := r.Bulkheads.Lookup("new")
				require.False(t, there)
				_, there = r.Timeouts.Base(registry.Default)
				require.False(t, there)
				require.Equal(t, first.Version, p.Version())
			}

			// At the door nothing is stored.
			_, err = p.Put(t.Context(), []byte(text), first.Version)
			require.ErrorContains(t, err, want, text)
			got, err := p.Get(t.Context())
			require.NoError(t, err)
			require.Equal(t, first, got)
			same()

			// From the store nothing is set, and it is told once.
			s.write(t, text)
			time.Sleep(10 * time.Second)
			same()
			told, log := p.lines()
			require.Equal(t, []string{configKey + ": refused configuration"}, told, text)
			require.Equal(t, 1, strings.Count(log, "\n"), log)
			require.Contains(t, log, `level=WARN msg="refused configuration" key=config:shop version=2 err=`)
			require.ErrorContains(t, p.Refresh(t.Context()), want)
			same()
			told, log = p.lines()
			require.Empty(t, told)
			require.Empty(t, log)

			// And the next one counts.
			last := s.write(t, `{"bulkheads": {"instances": {"b": {"config": {"max": 7}}}}}`)
			time.Sleep(time.Second)
			synctest.Wait()
			require.Equal(t, last.Version, p.Version())
			b, _ := r.Bulkheads.Lookup("b")
			require.Equal(t, 7, b.Max())
		})
	}
}

// What kept a text from coming into force may go away.
func TestRefusedTextIsTriedAgainByRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newApart(t)
		p := newProcess(t, s)
		defer p.Close()
		_, err := p.Bulkheads.Get("b")
		require.NoError(t, err)
		r := s.write(t, `{"bulkheads": {"bases": {"default": {"maxQueue": 7}}}}`)
		require.ErrorIs(t, p.Refresh(t.Context()), registry.ErrNotLive)
		p.Bulkheads.Remove("b")
		time.Sleep(5 * time.Second)
		require.Zero(t, p.Version())
		require.NoError(t, p.Refresh(t.Context()))
		require.Equal(t, r.Version, p.Version())
	})
}

func TestPutComparesAndSets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newApart(t)
		p := newProcess(t, s)
		defer p.Close()
		r, err := p.Put(t.Context(), []byte(logOf(5)), 0)
		require.NoError(t, err)
		for _, version := range []uint64{0, r.Version + 1} {
			got, err := p.Put(t.Context(), []byte(logOf(6)), version)
			require.ErrorIs(t, err, store.ErrConflict)
			require.Zero(t, got)
		}
		long := `{"limiters": {` + strings.Repeat(" ", 8<<10) + `}}`
		_, err = p.Put(t.Context(), []byte(long), r.Version)
		require.ErrorIs(t, err, store.ErrInvalid)
		require.Equal(t, r.Version, p.Version())

		// A store that has lost its versions: the text is stored, and does not count here.
		now, err := p.Put(t.Context(), []byte(logOf(6)), r.Version)
		require.NoError(t, err)
		s.does(func(_ context.Context, op store.MetaOp) ([]store.Record, error) {
			return []store.Record{{Key: op.Key, Value: op.Value, Version: r.Version}}, nil
		})
		got, err := p.Put(t.Context(), []byte(logOf(7)), now.Version)
		require.ErrorIs(t, err, store.ErrConflict)
		require.Equal(t, r.Version, got.Version)
		require.Equal(t, now.Version, p.Version())
		s.does(func(_ context.Context, op store.MetaOp) ([]store.Record, error) { return nil, nil })
		_, err = p.Put(t.Context(), []byte(logOf(6)), r.Version)
		require.ErrorContains(t, err, "no record")
	})
}

func TestFollowOfNonsense(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newApart(t)
		r := newRegistry(t)
		for want, cfg := range map[string]registry.FollowerConfig{
			"Store is nil":      {Key: configKey},
			`Key is ""`:         {Store: s},
			`Key is "a.b"`:      {Store: s, Key: "a.b"},
			"Key is \"xxxxxxxx": {Store: s, Key: strings.Repeat("x", 37)},
			"Refresh is 9ms":    {Store: s, Key: configKey, Refresh: 9 * time.Millisecond},
			"Refresh is -1s":    {Store: s, Key: configKey, Refresh: -time.Second},
		} {
			_, err := r.Follow(cfg)
			require.ErrorIs(t, err, registry.ErrInvalid)
			require.ErrorContains(t, err, want)
		}
		for _, none := range []*registry.Registry{nil, {}} {
			_, err := none.Follow(registry.FollowerConfig{Store: s, Key: configKey})
			require.ErrorIs(t, err, registry.ErrInvalid)
		}
		f, err := r.Follow(registry.FollowerConfig{Store: s, Key: configKey})
		require.NoError(t, err)
		defer f.Close()
		var none context.Context
		require.ErrorIs(t, f.Refresh(none), registry.ErrInvalid)
		_, err = f.Get(none)
		require.ErrorIs(t, err, registry.ErrInvalid)
		_, err = f.Put(none, nil, 0)
		require.ErrorIs(t, err, registry.ErrInvalid)
		_, err = f.Put(t.Context(), nil, 0)
		require.ErrorIs(t, err, registry.ErrInvalid)

		// A store that is a typed nil, and an override, panic on a goroutine of nobody's.
		g, err := r.Follow(registry.FollowerConfig{Store: (*store.Memory)(nil), Key: configKey})
		require.NoError(t, err)
		defer g.Close()
		require.ErrorContains(t, g.Refresh(t.Context()), "panic of the MetaStore")
		bad := false
		require.NoError(t, r.Breakers.SetBase(registry.Default, breaker.Config{}))
		_, err = r.Breakers.Add("x", registry.Default, func(*breaker.Config) error {
			if bad {
				panic("x")
			}
			return nil
		})
		require.NoError(t, err)
		bad = true
		s.write(t, `{"breakers": {"bases": {"default": {}}}}`)
		require.ErrorContains(t, f.Refresh(t.Context()), "panic of an override: x")
		require.Zero(t, f.Version())
	})
}

// fewAttempts is an override that does not go with each base.
func fewAttempts(cfg *retry.Config) error {
	if cfg.Attempts > 2 {
		return errors.New("attempts: no more than 2")
	}
	return nil
}
