package redisstore

import (
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/store"
)

// An epoch that no server of ours has said is that of another store: who believes it
// knows nothing of this one, is told all, and stops nobody who asks beside it.
func TestAnEpochOfAnotherStoreIsNone(t *testing.T) {
	t.Parallel()
	s, _ := one(t)
	for _, epoch := range []string{"7", "not a word", strings.Repeat("x", 128), strings.Repeat("x", 129), strings.Repeat("x", 4096)} {
		key := store.KeyFor(epoch)
		newAsker(t, s, key, hourly(10)).send(store.Item{Key: key, Seq: 1, Cool: []store.Cool{{Scope: "tenant:a", For: time.Hour}}})
		as, err := s.Exchange(t.Context(), store.NewNode(), []store.Item{
			{Key: key, Seq: 1, Limits: []store.Limit{hourly(10)}, Version: 1, Want: 1, Epoch: epoch, Seen: 1},
			{Key: store.KeyFor(epoch, "x"), Seq: 1, Limits: []store.Limit{hourly(10)}, Version: 1, Want: 1},
		})
		if err != nil {
			t.Errorf("an epoch of %d bytes: %v", len(epoch), err)
			continue
		}
		for _, a := range as {
			if a.Err != nil || a.Granted != 1 {
				t.Errorf("an epoch of %d bytes: %d granted, %v", len(epoch), a.Granted, a.Err)
			}
		}
		if len(as[0].Cooldowns) != 1 {
			t.Errorf("who believes an epoch of %d bytes is told of %v", len(epoch), as[0].Cooldowns)
		}
	}
}
