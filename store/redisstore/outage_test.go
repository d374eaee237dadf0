package redisstore

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/internal/servers"
	"github.com/flyball-go/flyball/store"
)

// logs are lines that may be read while more come.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A server that goes away and comes back is told of, and calls go on without
// anybody's doing.
func TestAnOutageIsToldOfAndEndsByItself(t *testing.T) {
	t.Parallel()
	for _, policy := range []store.Outage{store.Closed, store.SafeShare, store.Open} {
		t.Run(policy.String(), func(t *testing.T) {
			t.Parallel()
			// A server that is killed is missed at once. One that stalls is not, for seconds.
			r := servers.Redis(t)
			s := open(t, Config{Addrs: []string{r.Addr}, TTL: 40 * time.Second})
			if err := s.AssumeUnused(t.Context()); err != nil {
				t.Fatal(err)
			}
			var log logs
			var lost, back, unguarded atomic.Int64
			shared, err := store.NewSyncer(store.SyncerConfig{
				Store: s, Outage: policy, Nodes: 2, Timeout: 20 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil)),
				OnEvent: func(e event.Event) {
					switch e.Kind {
					case event.StoreLost:
						if e.Source == policy.String() {
							lost.Add(1)
						}
					case event.StoreBack:
						back.Add(1)
					case event.Unguarded:
						unguarded.Add(1)
					}
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer shared.Close()
			// Half a second, so that what counts as taken after the loss is free again soon. Each
			// of two has 5 for itself.
			share, err := shared.Share(store.ShareConfig{Name: t.Name() + ", calls", Limits: []store.Limit{{Quota: 50, Per: 500 * time.Millisecond}}})
			if err != nil {
				t.Fatal(err)
			}
			g, err := governor.New(governor.PlainConfig{Name: t.Name(), Store: shared, Limits: []governor.Limit{{Limiter: share}}})
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			var calls atomic.Int64
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var wg sync.WaitGroup
			defer wg.Wait()
			defer cancel()
			wg.Go(func() {
				for ctx.Err() == nil {
					governor.Do(ctx, g, "", governor.Func(func(context.Context) (int, error) { return int(calls.Add(1)), nil }))
				}
			})
			await(t, func() bool { return calls.Load() > 10 })
			r.Kill()
			await(t, func() bool { return lost.Load() == 1 })
			time.Sleep(time.Second) // leases have ended
			before, begun := calls.Load(), time.Now()
			time.Sleep(time.Second)
			if policy != store.Closed {
				await(t, func() bool { return calls.Load() > before })
			}
			during := calls.Load() - before
			switch took := time.Since(begun); {
			case policy == store.Closed && during > 0, policy == store.SafeShare && during > 1+5*int64(took/(500*time.Millisecond)+1): // one had its permit before
				t.Errorf("%d calls in %v without the store", during, took)
			}
			r.Restart()
			r.Ready()
			await(t, func() bool { return back.Load() == 1 })
			before = calls.Load()
			await(t, func() bool { return calls.Load() > before+60 })
			// The client remembers for a moment that nobody answered, so that it may be lost
			// and back once more.
			await(t, func() bool { return lost.Load() == back.Load() })
			if n := lost.Load(); n > 2 || (unguarded.Load() > 0) != (policy == store.Open) {
				t.Errorf("lost %d times, unguarded %d", n, unguarded.Load())
			}
			if text := log.String(); strings.Count(text, `msg="store lost"`)+strings.Count(text, `msg="store back"`) < 2 || !strings.Contains(text, policy.String()) {
				t.Errorf("logged:\n%s", text)
			} else {
				t.Log(text)
			}
		})
	}
}

// counted counts exchanges.
type counted struct {
	*Store
	n atomic.Int64
}

func (c *counted) Exchange(ctx context.Context, node store.Node, items []store.Item) ([]store.Answer, error) {
	c.n.Add(1)
	return c.Store.Exchange(ctx, node, items)
}

// unsure is one that does not know what it has heard.
type unsure struct{ store.Store }

// Governors that have nothing to do ask for news only where a hint may be missing.
func TestNewsAreNotAskedForWhereHintsAreHeard(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Addrs: []string{servers.Redis(t).Addr}, TTL: 10 * time.Second})
	sure, other := &counted{Store: s}, &counted{Store: s}
	for name, engine := range map[string]store.Store{"sure": sure, "other": unsure{other}} {
		shared, err := store.NewSyncer(store.SyncerConfig{Store: engine})
		if err != nil {
			t.Fatal(err)
		}
		defer shared.Close()
		g, err := governor.New(governor.PlainConfig{Name: name, Store: shared})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
	}
	// A machine that stalls may let who hears all doubt it, now and then. For a while in
	// which the other asks and asks it does not.
	for tries := 0; ; tries++ {
		hears, asks := sure.n.Load(), other.n.Load()
		await(t, func() bool { return other.n.Load() >= asks+5 })
		if hears = sure.n.Load() - hears; hears <= 1 {
			break
		}
		t.Logf("%d exchanges of who hears all, %d of who does not", hears, other.n.Load()-asks)
		if tries == 5 {
			t.Fatal("who hears all asks for news")
		}
	}
}
