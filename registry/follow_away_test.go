package registry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/registry"
	"github.com/flyball-go/flyball/store"
)

func TestStoreThatIsAwayChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newApart(t)
		p := newProcess(t, s)
		defer p.Close()
		r, err := p.Put(t.Context(), []byte(logOf(5)), 0)
		require.NoError(t, err)
		p.lines()
		gone := errors.New("gone")
		for _, away := range []func(context.Context, store.MetaOp) ([]store.Record, error){
			func(context.Context, store.MetaOp) ([]store.Record, error) { return nil, gone },
			func(context.Context, store.MetaOp) ([]store.Record, error) { panic(gone) },
			func(ctx context.Context, _ store.MetaOp) ([]store.Record, error) {
				<-ctx.Done()
				return nil, fmt.Errorf("gone: %w", ctx.Err())
			},
		} {
			s.does(away)
			time.Sleep(10 * time.Second)
			require.ErrorContains(t, p.Refresh(t.Context()), "gone")
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := p.Get(ctx)
			require.ErrorContains(t, err, "gone")
			_, err = p.Put(ctx, []byte(logOf(6)), r.Version)
			require.ErrorContains(t, err, "gone")
			cancel()
			require.Equal(t, r.Version, p.Version())
			told, log := p.lines()
			require.Len(t, told, 1, "once")
			require.Contains(t, told[0], "store lost: the configuration of before: ")
			require.Contains(t, log, `level=WARN msg="store lost" key=config:shop version=1 err=`)
			s.does(nil)
			time.Sleep(3 * time.Second)
			told, log = p.lines()
			require.Equal(t, []string{"store back: "}, told)
			require.Equal(t, 1, strings.Count(log, "\n"))
		}

		// So does a text that is deleted, which is no loss.
		_, err = s.Memory.Meta(t.Context(), store.MetaOp{Do: store.Delete, Key: configKey, Version: r.Version})
		require.NoError(t, err)
		require.NoError(t, p.Refresh(t.Context()))
		got, err := p.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, store.Record{Key: configKey}, got)
		l, err := p.Limiters.Get("x")
		require.NoError(t, err)
		require.Equal(t, 5, allowed(l))
		told, _ := p.lines()
		require.Empty(t, told)
	})
}

// A store that is away at first is watched when it is there.
func TestHintsAreHeardOfAStoreThatComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newApart(t)
		s.does(func(context.Context, store.MetaOp) ([]store.Record, error) { return nil, errors.New("gone") })
		watches := 0
		late := &latecomer{apart: s, watches: &watches}
		a, b := newProcess(t, late), newProcess(t, s)
		defer a.Close()
		defer b.Close()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.LessOrEqual(t, watches, 1, "who does not answer is not asked to hint")
		s.does(nil)
		time.Sleep(2 * time.Second)
		r, err := b.Put(t.Context(), []byte(logOf(5)), 0)
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, r.Version, a.Version())
	})
}

// latecomer refuses the first watch.
type latecomer struct {
	*apart
	watches *int
}

func (s *latecomer) Watch(ctx context.Context, hint func(store.Hint)) (func(), error) {
	if *s.watches++; *s.watches == 1 {
		return nil, errors.New("gone")
	}
	return s.apart.Watch(ctx, hint)
}

// The bubble finds what is left running.
func TestFollowerThatIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newApart(t)
		p := newProcess(t, s)
		synctest.Wait()
		require.Equal(t, 1, s.watches)
		s.does(func(ctx context.Context, _ store.MetaOp) ([]store.Record, error) { // it hangs
			<-ctx.Done()
			return nil, ctx.Err()
		})
		time.Sleep(1500 * time.Millisecond)
		refreshed, began := make(chan error, 1), time.Now()
		go func() { refreshed <- p.Refresh(t.Context()) }()
		require.NoError(t, p.Close())
		require.Zero(t, time.Since(began), "Close does not wait for the store")
		require.ErrorIs(t, <-refreshed, registry.ErrClosed)
		require.NoError(t, p.Close())
		require.Zero(t, s.watches)
		told, log := p.lines()
		require.Empty(t, told, "it is closed, not lost")
		require.Empty(t, log)
		s.does(nil)
		require.ErrorIs(t, p.Refresh(t.Context()), registry.ErrClosed)
		_, err := p.Put(t.Context(), []byte(`{}`), 0)
		require.ErrorIs(t, err, registry.ErrClosed)
		found, err := s.Memory.Meta(t.Context(), store.MetaOp{Key: configKey})
		require.NoError(t, err)
		require.Empty(t, found)
		s.read()
		time.Sleep(time.Minute)
		require.Zero(t, s.read())
	})
}

func TestRefreshEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newApart(t)
		p := newProcess(t, s)
		defer p.Close()
		synctest.Wait()
		s.does(func(ctx context.Context, op store.MetaOp) ([]store.Record, error) {
			time.Sleep(time.Second)
			return s.Memory.Meta(ctx, op)
		})
		r := s.write(t, logOf(5))
		mine := errors.New("mine")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, mine)
		defer cancel()
		require.ErrorIs(t, p.Refresh(ctx), mine)
		require.ErrorIs(t, p.Refresh(ctx), mine)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, r.Version, p.Version(), "it is read nevertheless")
	})
}
