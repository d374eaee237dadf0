package store_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/store"
)

// shards is a store of which one part may be down: that of the second key it hears
// of.
type shards struct {
	store.Store
	mu    sync.Mutex
	keys  []string
	down  error // guarded by mu
	asked int   // how often for what is down
}

func (s *shards) Exchange(ctx context.Context, node store.Node, items []store.Item) ([]store.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answers := make([]store.Answer, len(items))
	for i, it := range items {
		if !slices.Contains(s.keys, it.Key) {
			s.keys = append(s.keys, it.Key)
		}
		if s.down != nil && len(s.keys) > 1 && it.Key == s.keys[1] {
			s.asked++
			answers[i] = store.Answer{Node: node, Key: it.Key, Seq: it.Seq, Err: s.down}
			continue
		}
		as, err := s.Store.Exchange(ctx, node, items[i:i+1])
		if err != nil {
			return nil, err
		}
		answers[i] = as[0]
	}
	return answers, nil
}

func TestAnItemThatFailsAloneStopsNoOther(t *testing.T) {
	for _, tc := range []struct {
		policy store.Outage
		down   error
		passes bool
	}{{store.Closed, errNetwork, false}, {store.Open, errNetwork, true}, {store.Closed, store.ErrInvalid, false}} {
		t.Run(fmt.Sprint(tc.policy, " ", tc.down), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engine := &shards{Store: memory(t)}
				var mu sync.Mutex
				var told []string
				s := syncer(t, store.SyncerConfig{Store: engine, Outage: tc.policy, OnEvent: func(e event.Event) {
					if e.Kind != event.Unguarded {
						mu.Lock()
						defer mu.Unlock()
						told = append(told, e.Kind.String())
					}
				}})
				defer s.Close()
				var shares []*store.Share
				for _, name := range []string{"up", "down"} {
					sh, err := s.Share(store.ShareConfig{Name: name, Limits: []store.Limit{{Quota: 100, Per: time.Second}}})
					if err != nil {
						t.Fatal(err)
					}
					shares = append(shares, sh)
				}
				for _, sh := range shares {
					sh.Wait(time.Now(), "", 1)
					time.Sleep(100 * time.Millisecond)
				}
				set := func(err error) {
					engine.mu.Lock()
					defer engine.mu.Unlock()
					engine.down, engine.asked = err, 0
				}
				calls := func() (n [2]int) {
					for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
						for i, sh := range shares {
							if sh.Wait(time.Now(), "", 1) == 0 {
								sh.Take(time.Now(), "", 1)
								n[i]++
							}
						}
					}
					return n
				}
				set(tc.down)
				n := calls()
				engine.mu.Lock()
				asked := engine.asked
				engine.mu.Unlock()
				if n[0] < 60 || (n[1] > 100) != tc.passes || asked < 5 || asked > 20 {
					t.Errorf("%d calls pass beside what is down, %d of that, and it is asked %d times in five seconds", n[0], n[1], asked)
				}
				set(nil)
				if n := calls(); n[1] < 60 {
					t.Errorf("%d calls pass when it is back", n[1])
				}
				mu.Lock()
				defer mu.Unlock()
				if got := strings.Join(told, ", "); got != "store lost, store back" {
					t.Errorf("told: %s", got)
				}
			})
		})
	}
}

// servers is shards as engines on servers have it: where nothing of an exchange has an answer,
// that is the error of it.
type servers struct{ *shards }

func (s servers) Exchange(ctx context.Context, node store.Node, items []store.Item) ([]store.Answer, error) {
	as, err := s.shards.Exchange(ctx, node, items)
	if err == nil && !slices.ContainsFunc(as, func(a store.Answer) bool { return a.Err == nil }) {
		return nil, as[0].Err
	}
	return as, err
}

// A part of a store that is down, and that is asked by itself, opens no quota of another key, and
// is not the loss of the store again and again.
func TestAPartThatIsDownIsNotTheStore(t *testing.T) {
	for _, policy := range []store.Outage{store.Closed, store.Open} {
		t.Run(policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engine := &shards{Store: memory(t)}
				var log eventLog
				s := syncer(t, store.SyncerConfig{Store: servers{engine}, Outage: policy, OnEvent: log.add})
				defer s.Close()
				var shares []*store.Share
				for _, name := range []string{"up", "down"} {
					sh, err := s.Share(store.ShareConfig{Name: name, Limits: []store.Limit{{Kind: store.Window, Quota: 5, Per: 10 * time.Second}}})
					if err != nil {
						t.Fatal(err)
					}
					shares = append(shares, sh)
					sh.Wait(time.Now(), "", 1)
					time.Sleep(100 * time.Millisecond)
				}
				time.Sleep(9800 * time.Millisecond)
				engine.mu.Lock()
				engine.down = errNetwork
				engine.mu.Unlock()
				var n [2]int
				for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
					for i, sh := range shares {
						if now := time.Now(); sh.Claim(now, "", 1) == 0 {
							sh.SettleAt(now, now, "", 1, 1)
							n[i]++
						}
					}
				}
				if n[0] != 30 || (n[1] > 1000) != (policy == store.Open) {
					t.Errorf("%d calls in a minute by the key that is up, want 5 each 10s; %d by the other", n[0], n[1])
				}
				kinds := slices.DeleteFunc(log.kinds(), func(k event.Kind) bool { return k == event.Unguarded })
				if len(kinds) > 3 { // the store, until the other key has an answer, and then the part
					t.Errorf("told %d times: %v", len(kinds), kinds)
				}
			})
		})
	}
}
