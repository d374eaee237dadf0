package mysqlstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/registry"
	"github.com/flyball-go/flyball/store/mysqlstore"
)

// What one process puts, another hears of by a hint: here it would not ask for an hour.
func TestConfigurationIsFollowedThroughHints(t *testing.T) {
	dsn, _ := database(t, shared(t))
	var all []*registry.Follower
	for range 2 {
		guards, err := registry.New(registry.Config{})
		require.NoError(t, err)
		f, err := guards.Follow(registry.FollowerConfig{Store: open(t, mysqlstore.Config{DSN: dsn}), Key: "config:shop", Refresh: time.Hour})
		require.NoError(t, err)
		t.Cleanup(func() { f.Close() })
		require.NoError(t, f.Refresh(t.Context()))
		all = append(all, f)
	}
	for _, text := range []string{`{"timeouts": {"bases": {"default": {"After": "3s"}}}}`, `{}`} {
		put, err := all[0].Put(t.Context(), []byte(text), all[0].Version())
		require.NoError(t, err)
		require.Eventually(t, func() bool { return all[1].Version() == put.Version }, 30*time.Second, time.Millisecond)
	}
}
