package store_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/throttle"
)

// small is a Memory with room for so many keys, and nodes under each.
func small(t *testing.T, keys, nodes int) *store.Memory {
	t.Helper()
	m, err := store.NewMemory(store.MemoryConfig{MaxKeys: keys, MaxNodes: nodes})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// What there is no room for is refused by itself; if nothing of an Exchange has room, as a whole.
func TestAFullMemoryExecutesWhatItHasRoomFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, seq := small(t, 2, 1), uint64(0)
		exchange := func(node store.Node, keys ...string) (which []bool, err error) {
			var items []store.Item
			for _, key := range keys {
				seq++
				items = append(items, store.Item{Key: key, Seq: seq, Limits: []store.Limit{{Quota: 10, Per: time.Hour}}, Version: 1, Want: 1})
			}
			as, err := m.Exchange(t.Context(), node, items)
			for i, a := range as {
				if a.Node != node || a.Key != items[i].Key || a.Seq != items[i].Seq || a.Err != nil && !errors.Is(a.Err, store.ErrTooMany) {
					t.Errorf("%+v is the answer to %+v", a, items[i])
				}
				which = append(which, a.Err == nil && a.Granted == 1)
			}
			return which, err
		}
		for _, tc := range []struct {
			node store.Node
			keys []string
			want []bool // nil: an error of all
		}{
			{"n", []string{"a"}, []bool{true}},
			{"n", []string{"a", "b", "c", "d"}, []bool{true, true, false, false}}, // there is room for one more
			{"n", []string{"c", "a"}, []bool{false, true}},
			{"n", []string{"c", "d"}, nil},
			{"o", []string{"a"}, nil}, // it has its node
		} {
			got, err := exchange(tc.node, tc.keys...)
			if !slices.Equal(got, tc.want) || errors.Is(err, store.ErrTooMany) != (tc.want == nil) {
				t.Errorf("%s of %v: %v, %v, want %v", tc.node, tc.keys, got, err, tc.want)
			}
		}
	})
}

// That the engine has no room for a key is that key's matter: others go on, by their limits,
// and nobody hears that the store is lost, but once of the one.
func TestAKeyWithoutRoomLeavesTheOthersAlone(t *testing.T) {
	for _, outage := range []store.Outage{store.Closed, store.Open} {
		t.Run(fmt.Sprint(outage), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log eventLog
				s := syncer(t, store.SyncerConfig{Store: small(t, 2, 0), Outage: outage, OnEvent: log.add})
				defer s.Close()
				sh, err := s.Share(store.ShareConfig{Name: "acme", Per: throttle.Tenant, Limits: []store.Limit{{Kind: store.Window, Quota: 5, Per: 10 * time.Second}}})
				if err != nil {
					t.Fatal(err)
				}
				made := map[string]int{}
				start := time.Now()
				for time.Since(start) < time.Minute {
					for _, key := range []string{"a", "b", "c"} {
						if now := time.Now(); (key != "c" || now.Sub(start) > 10*time.Second) && sh.Claim(now, key, 1) == 0 {
							sh.SettleAt(now, now, key, 1, 1)
							made[key]++
						}
					}
					time.Sleep(50 * time.Millisecond)
				}
				if made["a"] != 30 || made["b"] != 30 || (made["c"] > 0) != (outage == store.Open) {
					t.Errorf("calls in a minute: %v, want 5 each 10s, and of c none but with Open", made)
				}
				kinds := slices.DeleteFunc(log.kinds(), func(k event.Kind) bool { return k == event.Unguarded })
				if !slices.Equal(kinds, []event.Kind{event.StoreLost}) {
					t.Errorf("told: %v", kinds)
				}
			})
		})
	}
}

// Hosts that cooled, and of which everybody has gone, take nobody's room for ever.
func TestAMemoryForgetsWhatCooledOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, seq := small(t, 4, 0), uint64(0)
		exchange := func(key string, it store.Item) (store.Answer, error) {
			seq++
			it.Key, it.Seq = key, seq
			as, err := m.Exchange(t.Context(), "node", []store.Item{it})
			if err != nil {
				return store.Answer{}, err
			}
			return as[0], as[0].Err
		}
		for i := range 4 {
			if _, err := exchange(fmt.Sprint(i), store.Item{Cool: []store.Cool{{For: time.Second}}}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Minute)
		if a, err := exchange("0", store.Item{}); err != nil || a.Probe != store.ProbeOpen {
			t.Errorf("minutes after a cooldown that nobody probed it says %v, %v", a.Probe, err)
		}
		time.Sleep(24 * time.Hour)
		if _, err := exchange("another", store.Item{}); err != nil {
			t.Errorf("a day after four keys cooled for a second: %v", err)
		}
	})
}
