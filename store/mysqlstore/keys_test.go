package mysqlstore_test

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/internal/servers"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/store/mysqlstore"
)

func TestManyKeysInOneExchange(t *testing.T) {
	m := shared(t)
	dsn, _ := database(t, m)
	s := open(t, mysqlstore.Config{DSN: dsn})
	c := newClient(s)
	for _, n := range []int{store.MaxItems, 1, 2, 3, 64, 65, 100} {
		var items []store.Item
		for i := range n {
			items = append(items, store.Item{Key: fmt.Sprint("key", n-i), Limits: forever(20), Version: 1, Want: 1})
		}
		for i, a := range c.ask(t, items...) {
			require.Equal(t, items[i].Key, a.Key)
			require.EqualValues(t, 1, a.Granted)
		}
	}
	// Two items of one key, one after the other.
	as, err := s.Exchange(t.Context(), c.node, []store.Item{
		{Key: "twice", Seq: 1, Limits: forever(20), Version: 1, Want: 3}, {Key: "other", Seq: 1}, {Key: "twice", Seq: 2, Want: 3}, {Key: "twice", Seq: 1, Want: 3}})
	require.NoError(t, err)
	require.EqualValues(t, []any{int64(3), int64(3), true}, []any{as[0].Granted, as[2].Granted, as[3].Stale})
	as, err = s.Exchange(t.Context(), c.node, nil)
	require.NoError(t, err)
	require.Empty(t, as)
}

func TestKeysAndNodesAreBounded(t *testing.T) {
	m := shared(t)
	dsn, _ := database(t, m)
	s := open(t, mysqlstore.Config{DSN: dsn, MaxKeys: 3, MaxNodes: 2, Poll: 10 * time.Second})
	s.Sweep(t.Context())
	c := newClient(s)
	for i := range 3 {
		c.take(t, fmt.Sprint("key", i), 1, forever(20))
	}
	_, err := s.Exchange(t.Context(), c.node, []store.Item{{Key: "further", Seq: 1}})
	require.ErrorIs(t, err, store.ErrTooMany)
	// Those that are there go on.
	as, err := s.Exchange(t.Context(), c.node, []store.Item{{Key: "further", Seq: 1}, {Key: "key1", Seq: 9, Want: 2, Limits: forever(20), Version: 1}})
	require.NoError(t, err)
	require.ErrorIs(t, as[0].Err, store.ErrTooMany)
	require.EqualValues(t, 2, as[1].Granted)
	newClient(s).take(t, "key1", 1, forever(20))
	_, err = s.Exchange(t.Context(), store.NewNode(), []store.Item{{Key: "key1", Seq: 1}})
	require.ErrorIs(t, err, store.ErrTooMany)
}

func TestIdleRowsAreRemoved(t *testing.T) {
	m := shared(t)
	dsn, db := database(t, m)
	s := open(t, mysqlstore.Config{DSN: dsn, Poll: 10 * time.Second})
	c := newClient(s)
	short := []store.Limit{{Kind: store.Window, Quota: 10, Per: time.Second}}
	c.take(t, "short", 5, short)
	c.take(t, "long", 5, forever(20))
	c.ask(t, store.Item{Key: "cool", Cool: []store.Cool{{Scope: "", For: time.Millisecond}}})
	keys := func() (n int) {
		require.NoError(t, db.QueryRow("SELECT COUNT(*) FROM gov_state WHERE k <> ''").Scan(&n))
		return n
	}
	s.Sweep(t.Context())
	require.Equal(t, 3, keys(), "nothing is idle yet")
	// Three hours later.
	_, err := db.Exec("UPDATE gov_state SET idle_us = idle_us - 3 * 3600 * 1000000")
	require.NoError(t, err)
	s.Sweep(t.Context())
	require.Equal(t, 2, keys(), "what is short is idle")
	require.EqualValues(t, 15, newClient(s).drain(t, "long", forever(20)))
	require.Positive(t, c.take(t, "short", 5, short), "and begins anew")
	// One that is asked for between the look and the removal stays: here all are
	// found.
	p := newProxy(t, servers.Address(m.Port))
	p.set(func(_ int, sql string) string {
		if strings.HasPrefix(sql, "SELECT k FROM gov_state WHERE idle_us") {
			return "SELECT k FROM gov_state WHERE k <> ''"
		}
		return sql
	}, nil)
	open(t, mysqlstore.Config{DSN: through(p, dsn), Poll: 10 * time.Second}).Sweep(t.Context())
	require.Equal(t, 3, keys(), "what is not idle")
	var fences int
	require.NoError(t, db.QueryRow("SELECT COUNT(*) FROM gov_state WHERE k = ''").Scan(&fences))
	require.Equal(t, 1, fences)
}

// The poller tells of what other processes have changed, once, and of any key when
// there are too many.
func TestHintsComeFromOtherProcesses(t *testing.T) {
	m := shared(t)
	dsn, _ := database(t, m)
	s, o := open(t, mysqlstore.Config{DSN: dsn, Poll: 20 * time.Millisecond}), open(t, mysqlstore.Config{DSN: dsn})
	var mu sync.Mutex
	heard := map[string]int{}
	stop, err := s.Watch(t.Context(), func(h store.Hint) {
		mu.Lock()
		defer mu.Unlock()
		heard[h.Key]++
	})
	require.NoError(t, err)
	times := func(key string) int {
		mu.Lock()
		defer mu.Unlock()
		return heard[key]
	}
	c := newClient(o)
	cool := []store.Cool{{Scope: "a", For: time.Minute}}
	// The poller has looked for the first time, from which on it tells.
	for i := 0; times("first") == 0; i++ {
		require.Less(t, i, 500, "no hint")
		c.ask(t, store.Item{Key: "first", Cool: []store.Cool{{Scope: fmt.Sprint(i % 9), For: time.Hour + time.Duration(i)*time.Minute}}})
		time.Sleep(40 * time.Millisecond)
	}
	c.ask(t, store.Item{Key: "a", Cool: cool}, store.Item{Key: "b", Cool: cool}, store.Item{Key: "c"})
	require.Eventually(t, func() bool { return times("a") == 1 && times("b") == 1 }, time.Minute, time.Millisecond)
	time.Sleep(200 * time.Millisecond)
	require.Equal(t, []int{1, 1, 0, 0}, []int{times("a"), times("b"), times("c"), times("")})
	for part := range 2 {
		var items []store.Item
		for i := range 600 {
			items = append(items, store.Item{Key: fmt.Sprint("key", part, "-", i), Cool: cool})
		}
		c.ask(t, items...)
	}
	require.Eventually(t, func() bool { return times("") > 0 }, time.Minute, time.Millisecond)
	stop()
	stop()
	n := times("a")
	c.ask(t, store.Item{Key: "a", Clear: []store.Cleared{{Scope: "a", Gen: math.MaxUint64}}})
	time.Sleep(200 * time.Millisecond)
	require.LessOrEqual(t, times("a"), n+1)
}
