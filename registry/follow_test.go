package registry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/registry"
	"github.com/flyball-go/flyball/store"
)

const configKey = "config:shop"

// apart is a store that is not always there, or not as it should be.
type apart struct {
	*store.Memory
	mu   sync.Mutex
	meta func(context.Context, store.MetaOp) ([]store.Record, error) // nil: Memory's
	deaf bool                                                        // no hints are heard
	gets int

	watches int // that were not stopped
}

func newApart(t *testing.T) *apart {
	t.Helper()
	m, err := store.NewMemory(store.MemoryConfig{})
	require.NoError(t, err)
	return &apart{Memory: m}
}

func (s *apart) Meta(ctx context.Context, op store.MetaOp) ([]store.Record, error) {
	s.mu.Lock()
	meta := s.meta
	if op.Do == store.Get {
		s.gets++
	}
	s.mu.Unlock()
	if meta != nil {
		return meta(ctx, op)
	}
	return s.Memory.Meta(ctx, op)
}

func (s *apart) Watch(ctx context.Context, hint func(store.Hint)) (func(), error) {
	if s.deaf {
		return func() {}, nil
	}
	s.watched(1)
	stop, err := s.Memory.Watch(ctx, hint)
	return func() { stop(); s.watched(-1) }, err
}

func (s *apart) watched(by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches += by
}

// read returns how often something was read since the last time.
func (s *apart) read() (times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	times, s.gets = s.gets, 0
	return times
}

// does has Meta do something else.
func (s *apart) does(meta func(context.Context, store.MetaOp) ([]store.Record, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meta = meta
}

// write stores a text as another program would, which rings no bell.
func (s *apart) write(t *testing.T, text string) store.Record {
	t.Helper()
	old, err := s.Memory.Meta(t.Context(), store.MetaOp{Key: configKey})
	require.NoError(t, err)
	op := store.MetaOp{Do: store.Put, Key: configKey, Value: json.RawMessage(text)}
	if len(old) > 0 {
		op.Version = old[0].Version
	}
	r, err := s.Memory.Meta(t.Context(), op)
	require.NoError(t, err)
	return r[0]
}

// process is a Registry that follows, and what it was told.
type process struct {
	*registry.Registry
	*registry.Follower
	log bytes.Buffer

	mu   sync.Mutex
	told []string
}

// lines returns what was told since the last time.
func (p *process) lines() (told []string, log string) {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	told, p.told = p.told, nil
	log = p.log.String()
	p.log.Reset()
	return told, log
}

func newProcess(t *testing.T, s store.Store) *process {
	t.Helper()
	p := &process{Registry: newRegistry(t)}
	p.Listen(func(e event.Event) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if e.Name == configKey {
			p.told = append(p.told, strings.TrimSuffix(fmt.Sprint(e.Kind, ": ", e.Source, ": ", e.Err), ": <nil>"))
		}
	})
	var err error
	p.Follower, err = p.Follow(registry.FollowerConfig{Store: s, Key: configKey, Logger: slog.New(slog.NewTextHandler(&p.log, nil))})
	require.NoError(t, err)
	return p
}

func logOf(n int) string {
	return fmt.Sprintf(`{"limiters": {"bases": {"default": {"limits": [{"slidingLog": {"limit": %d, "window": "1m"}}]}}}}`, n)
}

func TestOneChangeReachesAllWhoFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newApart(t)
		a, b := newProcess(t, s), newProcess(t, s)
		defer a.Close()
		defer b.Close()
		both := func(f func(p *process, l *registry.Limiter)) {
			t.Helper()
			synctest.Wait()
			for _, p := range []*process{a, b} {
				l, err := p.Limiters.Get("search")
				require.NoError(t, err)
				f(p, l)
			}
		}
		r, err := a.Put(t.Context(), []byte(logOf(5)), 0)
		require.NoError(t, err)
		require.Equal(t, r.Version, a.Version(), "it is in force here when Put returns")
		both(func(p *process, l *registry.Limiter) { require.Equal(t, r.Version, p.Version()) })

		// A raise when a window is over.
		r, err = b.Put(t.Context(), []byte(logOf(8)), r.Version)
		require.NoError(t, err)
		changed := time.Now()
		both(func(p *process, l *registry.Limiter) { require.Equal(t, 5, allowed(l)) })
		time.Sleep(time.Minute - 1)
		both(func(p *process, l *registry.Limiter) { require.Equal(t, 0, allowed(l)) })
		time.Sleep(time.Nanosecond)
		both(func(p *process, l *registry.Limiter) { require.Equal(t, 8, allowed(l)) })
		require.Equal(t, time.Minute, time.Since(changed))

		// A lowering at once.
		time.Sleep(time.Minute)
		both(func(p *process, l *registry.Limiter) { require.NoError(t, l.Allow("k", 2)) })
		_, err = a.Put(t.Context(), []byte(logOf(3)), r.Version)
		require.NoError(t, err)
		both(func(p *process, l *registry.Limiter) { require.Equal(t, 1, allowed(l)) })

		told, log := b.lines()
		require.Equal(t, []string{"changed: changed configuration", "changed: changed configuration", "changed: changed configuration"}, told)
		require.Equal(t, 3, strings.Count(log, `level=INFO msg="changed configuration" key=config:shop version=`))
	})
}

// Without a hint a change is found when the text is read again, and not earlier.
func TestChangeWithoutAHintIsFound(t *testing.T) {
	for _, way := range []string{"deaf", "another program"} {
		synctest.Test(t, func(t *testing.T) {
			s := newApart(t)
			s.deaf = way == "deaf"
			a, b := newProcess(t, s), newProcess(t, s)
			defer a.Close()
			defer b.Close()
			time.Sleep(300 * time.Millisecond)
			var r store.Record
			if way == "deaf" {
				var err error
				r, err = a.Put(t.Context(), []byte(logOf(5)), 0)
				require.NoError(t, err)
			} else {
				r = s.write(t, logOf(5))
			}
			time.Sleep(700*time.Millisecond - 1)
			synctest.Wait()
			require.Zero(t, b.Version())
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			require.Equal(t, r.Version, b.Version())
		})
	}
}

// Each Put is hinted at, also when many come in one instant; and a text is read as often
// as it is to be, not more.
func TestEachChangeIsHintedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newApart(t)
		a, b := newProcess(t, s), newProcess(t, s)
		defer a.Close()
		defer b.Close()
		version := uint64(0)
		for n := range 10 {
			r, err := a.Put(t.Context(), []byte(logOf(1+n)), version)
			require.NoError(t, err)
			synctest.Wait()
			require.Equal(t, r.Version, b.Version())
			version = r.Version
		}
		s.read()
		time.Sleep(10*time.Second + 1)
		synctest.Wait()
		require.Equal(t, 20, s.read())
	})
}

// An answer that was under way while a newer one was brought into force.
func TestLateAnswerOfAnOldVersionChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newApart(t)
		p := newProcess(t, s)
		defer p.Close()
		synctest.Wait()
		old := s.write(t, logOf(5))
		require.NoError(t, p.Refresh(t.Context()))
		now := s.write(t, logOf(3))
		require.NoError(t, p.Refresh(t.Context()))
		p.lines()
		s.does(func(context.Context, store.MetaOp) ([]store.Record, error) { return []store.Record{old}, nil })
		time.Sleep(10 * time.Second)
		require.ErrorIs(t, p.Refresh(t.Context()), store.ErrConflict)
		require.Equal(t, now.Version, p.Version())
		l, err := p.Limiters.Get("x")
		require.NoError(t, err)
		require.Equal(t, 3, allowed(l))
		told, log := p.lines()
		require.Equal(t, []string{"changed: refused configuration: registry: configuration config:shop: store: another version: 1 is older than 2, which was there before"}, told)
		require.Equal(t, 1, strings.Count(log, "level=WARN"), "once")

		// So is one that is older than a text that was refused.
		s.does(nil)
		s.write(t, `{"limiters": 5}`)
		require.Error(t, p.Refresh(t.Context()))
		between := store.Record{Key: configKey, Value: []byte(logOf(9)), Version: 3}
		s.write(t, `{"limiters": 6}`)
		require.Error(t, p.Refresh(t.Context()))
		s.does(func(context.Context, store.MetaOp) ([]store.Record, error) { return []store.Record{between}, nil })
		require.ErrorIs(t, p.Refresh(t.Context()), store.ErrConflict)
		require.Equal(t, now.Version, p.Version())
	})
}

// Random changes by several processes, with hints that are lost: in the end all have
// what was stored last.
func TestFollowersUnderRandomChanges(t *testing.T) {
	s := newApart(t)
	deaf := newApart(t)
	deaf.Memory, deaf.deaf = s.Memory, true
	var all []*process
	for i := range 4 {
		of := store.Store(s)
		if i%2 == 1 {
			of = deaf
		}
		p := newProcess(t, of)
		defer p.Close()
		all = append(all, p)
	}
	var wg sync.WaitGroup
	for i, p := range all {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			for range effort.Times(60) {
				switch r.IntN(5) {
				case 0, 1:
					if now, err := p.Get(t.Context()); err == nil {
						_, err = p.Put(t.Context(), []byte(logOf(1+r.IntN(9))), now.Version)
						if err != nil && !errors.Is(err, store.ErrConflict) {
							t.Error(err)
						}
					}
				case 2:
					if err := p.Refresh(t.Context()); err != nil && !errors.Is(err, store.ErrConflict) {
						t.Error(err)
					}
				case 3:
					if _, err := p.Limiters.Get(fmt.Sprint(r.IntN(3))); err != nil {
						t.Error(err)
					}
				case 4:
					p.Limiters.Remove(fmt.Sprint(r.IntN(3)))
				}
			}
		})
	}
	wg.Wait()
	last, err := all[0].Get(t.Context())
	require.NoError(t, err)
	for _, p := range all {
		require.NoError(t, p.Refresh(t.Context()))
		require.Equal(t, last.Version, p.Version())
		base, _ := p.Limiters.Base(registry.Default)
		require.Contains(t, string(last.Value), fmt.Sprintf(`"limit": %d,`, base.Limits[0].SlidingLog.Limit))
		for name := range p.Limiters.All() {
			cfg, _ := p.Limiters.Config(name)
			require.Equal(t, base, cfg)
		}
	}
}
