package mysqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/internal/servers"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/store/mysqlstore"
)

var databases atomic.Int64

// database makes a database with our tables, and returns its DSN and a pool of it.
func database(t testing.TB, m *servers.MariaDB) (dsn string, db *sql.DB) {
	t.Helper()
	dsn, db = emptyDatabase(t, m)
	require.NoError(t, mysqlstore.Migrate(t.Context(), db, ""))
	return dsn, db
}

// emptyDatabase makes one without tables.
func emptyDatabase(t testing.TB, m *servers.MariaDB) (dsn string, db *sql.DB) {
	t.Helper()
	root, err := sql.Open("mysql", m.DSN(""))
	require.NoError(t, err)
	defer root.Close()
	name := fmt.Sprintf("test%d", databases.Add(1))
	_, err = root.Exec("CREATE DATABASE " + name)
	require.NoError(t, err)
	dsn = m.DSN(name)
	db, err = sql.Open("mysql", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	return dsn, db
}

// through is dsn by way of p.
func through(p *proxy, dsn string) string {
	i, j := strings.Index(dsn, "(")+1, strings.Index(dsn, ")")
	return dsn[:i] + p.addr + dsn[j:]
}

// open opens a Store, which the test's end closes.
func open(t testing.TB, cfg mysqlstore.Config) *mysqlstore.Store {
	t.Helper()
	s, err := mysqlstore.Open(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// forever is a limit of a window that does not end while a test runs.
func forever(quota int64) []store.Limit {
	return []store.Limit{{Kind: store.Window, Quota: quota, Per: 31 * 24 * time.Hour}}
}

// client is a node that keeps to the contract: what may have been executed it repeats
// under its number, and what was not under the next.
type client struct {
	s    store.Store
	node store.Node
	seqs map[string]uint64
}

func newClient(s store.Store) *client {
	return &client{s, store.NewNode(), make(map[string]uint64)}
}

// ask exchanges the items until it has answers.
func (c *client) ask(t testing.TB, items ...store.Item) []store.Answer {
	t.Helper()
	for i := range items {
		c.seqs[items[i].Key]++
		items[i].Seq = c.seqs[items[i].Key]
	}
	sure := true // that it has not been executed
	for end := time.Now().Add(2 * time.Minute); ; {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		as, err := c.s.Exchange(ctx, c.node, items)
		cancel()
		if err == nil {
			for i := range as {
				if as[i].Err != nil {
					err = as[i].Err
				}
			}
		}
		if err == nil {
			return as
		}
		if time.Now().After(end) || errors.Is(err, store.ErrInvalid) {
			t.Fatalf("Exchange: %v", err)
		}
		if sure = sure && errors.Is(err, store.ErrNotExecuted); sure {
			for i := range items {
				c.seqs[items[i].Key]++
				items[i].Seq = c.seqs[items[i].Key]
			}
		}
		time.Sleep(time.Millisecond)
	}
}

// take asks for permits of key.
func (c *client) take(t testing.TB, key string, want int64, limits []store.Limit) int64 {
	t.Helper()
	return c.ask(t, store.Item{Key: key, Limits: limits, Version: 1, Want: want})[0].Granted
}

// drain takes what there is.
func (c *client) drain(t testing.TB, key string, limits []store.Limit) (sum int64) {
	t.Helper()
	for none := 0; none < 3; {
		got := c.take(t, key, 1e6, limits)
		if sum += got; got == 0 {
			none++
			time.Sleep(6 * time.Millisecond) // others were expected
		}
	}
	return sum
}

// writes reports whether a command is the statement that grants.
func writes(sql string) bool { return strings.HasPrefix(sql, executes+"INSERT INTO gov_state") }

// others is a fate: as long as a connection grants without a lock, c changes the row of
// key between what that reads and what it writes. With a lock, and for the rest, it is
// then.
func others(c *client, t testing.TB, key string, then func(sql string) fate) func(sql string) fate {
	locks := false
	return func(sql string) fate {
		locks = sql == "START TRANSACTION" || locks && sql != "COMMIT" && sql != "ROLLBACK"
		if writes(sql) && !locks {
			c.take(t, key, 0, forever(50))
		}
		return then(sql)
	}
}
