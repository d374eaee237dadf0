package store_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/throttle"
)

// unwatched is a Store that answers, and refuses Watch until it is told otherwise, after
// some time.
type unwatched struct {
	store.Store
	refusing time.Duration

	mu        sync.Mutex
	allows    bool
	asked     []time.Time // Watch
	exchanged []time.Time
}

func (u *unwatched) Watch(ctx context.Context, hint func(store.Hint)) (func(), error) {
	u.mu.Lock()
	u.asked = append(u.asked, time.Now())
	allows := u.allows
	u.mu.Unlock()
	if allows {
		return u.Store.Watch(ctx, hint)
	}
	if err := sleep(ctx, u.refusing); err != nil {
		return nil, err
	}
	return nil, errors.New("no permission to subscribe")
}

func (u *unwatched) Exchange(ctx context.Context, node store.Node, items []store.Item) ([]store.Answer, error) {
	u.mu.Lock()
	u.exchanged = append(u.exchanged, time.Now())
	u.mu.Unlock()
	return u.Store.Exchange(ctx, node, items)
}

// A subscription may be refused for good, while all else works: each try is a connection.
func TestAWatchThatIsRefusedIsAskedForSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &unwatched{Store: memory(t), refusing: 20 * time.Millisecond}
		s := syncer(t, store.SyncerConfig{Store: w})
		defer s.Close()
		sh := share(t, s, store.Limit{Kind: store.Sliding, Quota: 1000, Per: time.Second})
		tries := func(d time.Duration) int {
			w.mu.Lock()
			w.asked = nil
			w.mu.Unlock()
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				if sh.Wait(time.Now(), "", 5) == 0 {
					sh.Take(time.Now(), "", 5)
				}
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(w.asked)
		}
		// 50 to 100 ms after the first, then twice as long, up to the Interval.
		if n := tries(time.Second); n < 3 || n > 6 {
			t.Errorf("%d tries in the first second, want 3 to 6", n)
		}
		if n := tries(10 * time.Second); n < 9 || n > 21 {
			t.Errorf("%d tries in ten seconds after it, want one a second, and up to twice as many", n)
		}
		w.mu.Lock()
		w.allows = true
		w.mu.Unlock()
		if n := tries(3 * time.Second); n != 1 {
			t.Errorf("%d tries when it is allowed, want 1", n)
		}
	})
}

// Only the first try is worth waiting for.
func TestExchangesDoNotWaitForAWatchThatWasRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &unwatched{Store: memory(t), refusing: 20 * time.Millisecond}
		s := syncer(t, store.SyncerConfig{Store: w})
		defer s.Close()
		time.Sleep(50 * time.Millisecond) // it has been refused once
		sh, err := s.Share(store.ShareConfig{Name: "acme", Per: throttle.Tenant, Limits: []store.Limit{{Quota: 100, Per: time.Hour}}})
		if err != nil {
			t.Fatal(err)
		}
		for n := range 300 {
			asked := time.Now()
			sh.Wait(asked, string(rune('a'+n%26))+string(rune('a'+n/26)), 1) // a new key
			time.Sleep(7 * time.Millisecond)
			w.mu.Lock()
			at := slices.Clone(w.exchanged)
			w.mu.Unlock()
			if !slices.ContainsFunc(at, asked.Equal) {
				t.Errorf("no exchange when key %d was asked for", n)
			}
		}
	})
}
