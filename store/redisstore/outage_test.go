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
			s, r := one(t)
			var log logs
			var lost, back, unguarded atomic.Int64
			shared, err := store.NewSyncer(store.SyncerConfig{
				Store: s, Outage: policy, Nodes: 2, Timeout: 300 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&log, nil)),
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
			// Half a second, so that what counts as taken after the loss is free again soon.
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
			before := calls.Load()
			time.Sleep(time.Second)
			switch during := calls.Load() - before; {
			case policy == store.Closed && during > 0, policy == store.SafeShare && (during == 0 || during > 20), policy == store.Open && during == 0:
				t.Errorf("%d calls in a second without the store", during)
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
	await(t, func() bool { return other.n.Load() >= 10 })
	t.Logf("%d exchanges, and %d", sure.n.Load(), other.n.Load())
	if sure.n.Load() > 4 {
		t.Errorf("%d exchanges of who hears all, %d of who does not", sure.n.Load(), other.n.Load())
	}
}
