package mysqlstore_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/internal/servers"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/store/mysqlstore"
)

// BenchmarkExchange is of a server on the disk of TMPDIR, beside the smallest
// transaction that there is: most of the time is the disk's. In memory
// (FLYBALL_MEMORY=1) it is the processor's.
func BenchmarkExchange(b *testing.B) {
	start := servers.StartMariaDBOnDisk
	if os.Getenv("FLYBALL_MEMORY") != "" {
		start = servers.StartMariaDB
	}
	m := start(b)
	dsn, db := database(b, m)
	b.Run("smallest transaction", func(b *testing.B) {
		conn, err := db.Conn(b.Context())
		require.NoError(b, err)
		defer conn.Close()
		for b.Loop() {
			_, err := conn.ExecContext(b.Context(), "UPDATE gov_seq SET ver = ver + 1")
			require.NoError(b, err)
		}
	})
	s := open(b, mysqlstore.Config{DSN: dsn})
	for _, nodes := range []int{1, 8, 256} {
		for _, keys := range []int{1, 64} {
			b.Run(fmt.Sprintf("nodes=%d/keys=%d", nodes, keys), func(b *testing.B) {
				var ns []store.Node
				for range nodes {
					ns = append(ns, store.NewNode())
				}
				id, seq := string(store.NewNode()), uint64(0)
				ask := func(n store.Node) {
					seq++
					var items []store.Item
					for k := range keys {
						items = append(items, store.Item{Key: store.KeyFor(id, fmt.Sprint(k)), Seq: seq, Version: 1, Want: 10,
							Limits: []store.Limit{{Quota: 10000, Per: time.Second}}})
					}
					_, err := s.Exchange(b.Context(), n, items)
					require.NoError(b, err)
				}
				for _, n := range ns {
					ask(n)
				}
				for i := 0; b.Loop(); i++ {
					ask(ns[i%nodes])
				}
			})
		}
	}
}

// BenchmarkCooldown is how long a cooldown is on its way from one process to another:
// half of Config.Poll, and what the two need.
func BenchmarkCooldown(b *testing.B) {
	m := servers.StartMariaDBOnDisk(b)
	dsn, _ := database(b, m)
	s, o := open(b, mysqlstore.Config{DSN: dsn}), open(b, mysqlstore.Config{DSN: dsn})
	c := newClient(s)
	heard := make(chan string, 1000)
	stop, err := o.Watch(b.Context(), func(h store.Hint) { heard <- h.Key })
	require.NoError(b, err)
	defer stop()
	time.Sleep(time.Second)
	var most time.Duration
	for i := 0; b.Loop(); i++ {
		key := store.KeyFor(fmt.Sprint(i))
		time.Sleep(time.Duration(i%25) * 11 * time.Millisecond) // at any moment between two polls
		sent := time.Now()
		c.ask(b, store.Item{Key: key, Cool: []store.Cool{{For: time.Minute}}})
		for got := range heard {
			if got == key {
				break
			}
		}
		most = max(most, time.Since(sent))
	}
	b.ReportMetric(float64(most)/1e6, "ms-at-most")
}
