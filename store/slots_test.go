package store_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/store"
)

func TestSlotsAreAsManyAsWasSaidLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, err := store.NewMemory(store.MemoryConfig{})
		require.NoError(t, err)
		s, err := store.NewSyncer(store.SyncerConfig{Store: engine})
		require.NoError(t, err)
		defer s.Close()
		l, err := s.Slots(store.SlotsConfig{Name: "x", Max: 2})
		require.NoError(t, err)
		l.OnChange(func() {})
		// take takes as many as there are to be had within some seconds.
		take := func() (n int) {
			for range 50 {
				for l.Wait(time.Now(), "", 1) == 0 {
					l.Take(time.Now(), "", 1)
					n++
				}
				time.Sleep(100 * time.Millisecond)
			}
			return n
		}
		require.Equal(t, 2, take())
		require.Equal(t, limiter.Never, l.Wait(time.Now(), "", 3))
		require.NoError(t, l.SetMax(5))
		require.Equal(t, 3, take())
		require.NoError(t, l.SetMax(3))
		l.Release(time.Now(), "", 2)
		require.Equal(t, 0, take(), "3 are held")
		l.Release(time.Now(), "", 1)
		require.Equal(t, 1, take())
		// A smaller number counts at once, before the store has heard of it.
		l.Release(time.Now(), "", 3)
		require.NoError(t, l.SetMax(1))
		for range 2 {
			if l.Wait(time.Now(), "", 1) == 0 {
				l.Take(time.Now(), "", 1)
			}
		}
		require.NotZero(t, l.Wait(time.Now(), "", 1))
		require.Equal(t, 0, take())
		for _, max := range []int{0, -1, 1<<20 + 1} {
			require.ErrorContains(t, l.SetMax(max), "want 1 up to 1048576")
		}
	})
}

func TestSlotsThatWereAskedForBeforeALoweringAreNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, err := store.NewMemory(store.MemoryConfig{})
		require.NoError(t, err)
		far := &faulty{Store: engine, delay: func() time.Duration { return 200 * time.Millisecond }}
		s, err := store.NewSyncer(store.SyncerConfig{Store: far})
		require.NoError(t, err)
		defer s.Close()
		l, err := s.Slots(store.SlotsConfig{Name: "x", Max: 5})
		require.NoError(t, err)
		heard := make(chan struct{}, 10)
		l.OnChange(func() { heard <- struct{}{} })
		require.NotZero(t, l.Wait(time.Now(), "", 5))
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, l.SetMax(1))
		<-heard
		n := 0
		for ; l.Wait(time.Now(), "", 1) == 0; n++ {
			l.Take(time.Now(), "", 1)
		}
		require.Equal(t, 1, n)
	})
}

// A process that has lost its slots by its silence does not have them back from a store
// that has lost its state since.
func TestSlotsThatWereLostAreNotBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory(t)
		var cut atomic.Bool
		sa := syncer(t, store.SyncerConfig{Store: &faulty{Store: m, fate: func() fate {
			if cut.Load() {
				return lost
			}
			return arrives
		}}})
		defer sa.Close()
		sb := syncer(t, store.SyncerConfig{Store: m})
		defer sb.Close()
		mk := func(s *store.Syncer) *store.Slots {
			l, err := s.Slots(store.SlotsConfig{Name: "acme", Max: 4})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		a, b := mk(sa), mk(sb)
		take := func(l *store.Slots, d time.Duration) (n int) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				if n < 4 && l.Claim(time.Now(), "", 1) == 0 {
					n++
				}
			}
			return n
		}
		na := take(a, 2*time.Second)
		cut.Store(true)
		time.Sleep(100 * time.Millisecond)
		for range na { // its calls end at once
			a.Release(time.Now(), "", 1)
		}
		nb := take(b, 12*time.Second)
		m.Lose()
		time.Sleep(1500 * time.Millisecond)
		cut.Store(false)
		na = take(a, 5*time.Second)
		if na+nb > 4 {
			t.Errorf("%d calls are under way, with 4 slots", na+nb)
		}
	})
}

// seen is a Store whose requests are looked at.
type seen struct {
	store.Store
	look func([]store.Item)
}

func (s seen) Exchange(ctx context.Context, node store.Node, items []store.Item) ([]store.Answer, error) {
	s.look(items)
	return s.Store.Exchange(ctx, node, items)
}

// silent is a Store that does not answer while it is cut off.
type silent struct {
	store.Store
	cut *atomic.Bool
}

func (s silent) Exchange(ctx context.Context, node store.Node, items []store.Item) ([]store.Answer, error) {
	if s.cut.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Store.Exchange(ctx, node, items)
}

// Nor by a repetition that was begun before they were lost.
func TestSlotsThatWereLostAreNotClaimedByARepetition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory(t)
		var cut, lost atomic.Bool
		first := map[uint64]time.Time{}
		sa := syncer(t, store.SyncerConfig{Store: seen{silent{m, &cut}, func(items []store.Item) {
			for _, it := range items {
				if it.Slots == 0 || !cut.Load() {
					continue
				}
				if _, known := first[it.Seq]; !known {
					first[it.Seq] = time.Now()
				}
				if time.Since(first[it.Seq]) >= m.TTL() && lost.CompareAndSwap(false, true) {
					m.Lose()
					cut.Store(false)
				}
			}
		}}})
		defer sa.Close()
		sb := syncer(t, store.SyncerConfig{Store: m})
		defer sb.Close()
		slots := func(s *store.Syncer) *store.Slots {
			l, err := s.Slots(store.SlotsConfig{Name: "acme", Max: 4})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		a, b := slots(sa), slots(sb)
		take := func(l *store.Slots, d time.Duration, enough func() bool) (n int) {
			for end := time.Now().Add(d); time.Now().Before(end) && !enough(); time.Sleep(10 * time.Millisecond) {
				if n < 4 && l.Claim(time.Now(), "", 1) == 0 {
					n++
				}
			}
			return n
		}
		never := func() bool { return false }
		na := take(a, 2*time.Second, never)
		if na != 4 {
			t.Fatalf("%d of 4 slots", na)
		}
		cut.Store(true)
		time.Sleep(1100 * time.Millisecond) // an exchange has begun
		for range na {
			a.Release(time.Now(), "", 1)
		}
		nb := take(b, 30*time.Second, lost.Load)
		if !lost.Load() {
			t.Fatal("nothing was sent again after the store's TTL")
		}
		if na = take(a, 5*time.Second, never); na+nb > 4 {
			t.Errorf("%d and %d calls are under way, with 4 slots", na, nb)
		}
	})
}
