package store_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/throttle"
)

// A wait that is only until it is known more is no earliest time, before which a call with a
// deadline would have no hope.

func TestACallWithADeadlineWaitsForAKeyThatWasRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		full.Store(true)
		call, end := callers(t, store.SyncerConfig{Store: perKey{memory(t), func(string) error {
			if full.Load() {
				return store.ErrTooMany
			}
			return nil
		}}}, limiter.QuotaConfig{Limit: 10, Per: time.Second})
		defer end()
		if err := call("a", 450*time.Millisecond); err == nil {
			t.Fatal("it was not refused")
		}
		full.Store(false)
		start := time.Now()
		if err := call("a", 900*time.Millisecond); err != nil { // it is asked for again within an Interval
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

// one does not answer a batch of bad alone.
type one struct {
	store.Store
	bad string
}

func (o one) Exchange(ctx context.Context, node store.Node, items []store.Item) ([]store.Answer, error) {
	if len(items) == 1 && items[0].Key == o.bad {
		return nil, errNetwork
	}
	return o.Store.Exchange(ctx, node, items)
}

func TestACallWithADeadlineWaitsForAStoreThatIsLostForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := syncer(t, store.SyncerConfig{OnEvent: func(e event.Event) { t.Log(time.Now(), e.Kind, e.Source, e.Err) }, Store: one{memory(t), store.KeyFor("bad", throttle.Scope{}.String())}})
		defer s.Close()
		g, err := governor.New(governor.PlainConfig{
			Name: "acme", Store: s, Limits: []governor.Limit{{Per: throttle.Tenant, Quota: limiter.QuotaConfig{Limit: 10, Per: time.Second}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		call := func(patience time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err := governor.Do(ctx, g.With(governor.Ask{Tenant: "a"}), "", governor.Func(func(context.Context) (int, error) { return 0, nil }))
			return err
		}
		if err := call(10 * time.Second); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4300 * time.Millisecond)
		bad, err := s.Share(store.ShareConfig{Name: "bad", Limits: []store.Limit{{Kind: store.Window, Quota: 10, Per: time.Second}}})
		if err != nil {
			t.Fatal(err)
		}
		bad.Wait(time.Now(), "", 1)
		time.Sleep(50 * time.Millisecond) // lost, says that
		start := time.Now()
		if err := call(500 * time.Millisecond); err != nil {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}
