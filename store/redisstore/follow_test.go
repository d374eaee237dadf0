package redisstore

import (
	"testing"
	"time"

	"github.com/flyball-go/flyball/registry"
)

// What one process puts, another hears of by a hint: here it would not ask for an hour.
func TestConfigurationIsFollowedThroughHints(t *testing.T) {
	mine, r := one(t)
	theirs := open(t, Config{Addrs: []string{r.Addr}})
	var all []*registry.Follower
	for _, s := range []*Store{mine, theirs} {
		guards, err := registry.New(registry.Config{})
		if err != nil {
			t.Fatal(err)
		}
		f, err := guards.Follow(registry.FollowerConfig{Store: s, Key: "config:shop", Refresh: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		if err := f.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	}
	for _, text := range []string{`{"timeouts": {"bases": {"default": {"After": "3s"}}}}`, `{}`} {
		put, err := all[0].Put(t.Context(), []byte(text), all[0].Version())
		if err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(30 * time.Second); all[1].Version() != put.Version; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("version %d, want %d", all[1].Version(), put.Version)
			}
		}
	}
}
