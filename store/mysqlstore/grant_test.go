package mysqlstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/internal/servers"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/store/mysqlstore"
)

// An exchange is a read and a write, each of which is over when it has answered.
func TestAnExchangeIsTwoStatements(t *testing.T) {
	dsn, _ := database(t, shared(t))
	p := newProxy(t, servers.Address(shared(t).Port))
	c := newClient(open(t, mysqlstore.Config{DSN: through(p, dsn), Sessions: 1, Poll: 10 * time.Second}))
	for _, n := range []int{1, 2, 7, 64} {
		ask := func() {
			var items []store.Item
			for i := range n {
				items = append(items, store.Item{Key: fmt.Sprint("key", i), Limits: forever(20), Version: 1, Want: 1})
			}
			c.ask(t, items...)
		}
		ask() // makes rows, and prepares the statements
		var commands []string
		p.set(nil, func(sql string) fate {
			commands = append(commands, sql)
			return passes
		})
		ask()
		p.set(nil, nil)
		require.Len(t, commands, 2)
		require.True(t, strings.HasPrefix(commands[0], executes+"SELECT k, epoch") && !strings.Contains(commands[0], "UPDATE"), commands[0])
		require.True(t, writes(commands[1]), commands[1])
	}
}

// A process that is stopped between its read and its write has no lock, and nobody waits
// for it. What it writes when it goes on, others having changed the row, is decided anew.
func TestWhoHangsBetweenReadAndWriteDelaysNobody(t *testing.T) {
	m := shared(t)
	dsn, db := database(t, m)
	p := newProxy(t, servers.Address(m.Port))
	hangs := newClient(open(t, mysqlstore.Config{DSN: through(p, dsn), Sessions: 1, Poll: 10 * time.Second}))
	other := newClient(open(t, mysqlstore.Config{DSN: dsn}))
	hangs.take(t, "k", 0, forever(50))
	stopped, goOn, done := make(chan bool), make(chan bool), make(chan bool)
	n := 0
	p.set(nil, func(sql string) fate {
		if writes(sql) {
			if n++; n == 1 {
				close(stopped)
				<-goOn
			}
		}
		return passes
	})
	var late int64
	go func() { defer close(done); late = hangs.take(t, "k", 30, forever(50)) }()
	<-stopped
	_, locked := db.Exec("SELECT k FROM gov_state WHERE k = 'k' FOR UPDATE NOWAIT")
	as, err := other.s.Exchange(t.Context(), other.node, []store.Item{{Key: "k", Seq: 1, Limits: forever(50), Version: 1, Want: 45}})
	close(goOn)
	<-done
	require.NoError(t, locked)
	require.NoError(t, err)
	require.EqualValues(t, 45, as[0].Granted)
	require.EqualValues(t, 5, late)
	require.Equal(t, 2, n, "writes of who was stopped")
	require.Zero(t, newClient(other.s).drain(t, "k", forever(50)))
}

// Others tell of what they have written when it can be seen, however long ago it was
// decided: else the poller would take it for something that it has told.
func TestNewsAreAsOldAsTheirWrite(t *testing.T) {
	m := shared(t)
	dsn, db := database(t, m)
	p := newProxy(t, servers.Address(m.Port))
	c := newClient(open(t, mysqlstore.Config{DSN: through(p, dsn), Sessions: 1, Poll: 10 * time.Second}))
	c.take(t, "k", 0, forever(50))
	var written, news int64
	p.set(nil, func(sql string) fate {
		if writes(sql) {
			time.Sleep(10 * time.Millisecond)
			db.QueryRow("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))").Scan(&written)
		}
		return passes
	})
	c.ask(t, store.Item{Key: "k", Cool: []store.Cool{{Scope: "a", For: time.Minute}}})
	require.NoError(t, db.QueryRow("SELECT news_us FROM gov_state WHERE k = 'k'").Scan(&news))
	require.Positive(t, written)
	require.GreaterOrEqual(t, news, written)
}

// An exchange locks its own rows alone, also where there are few others, and the fence: who
// locks another one stops nobody, and two never wait for each other.
func TestAnExchangeWaitsForNoOtherRow(t *testing.T) {
	dsn, db := database(t, shared(t))
	s := open(t, mysqlstore.Config{DSN: dsn})
	var items []store.Item
	for _, key := range []string{"a", "b", "c", "d"} {
		items = append(items, store.Item{Key: key, Limits: forever(50), Version: 1, Want: 1})
	}
	newClient(s).ask(t, items...)
	tx, err := db.Begin()
	require.NoError(t, err)
	defer tx.Rollback()
	for _, key := range []string{"", "a"} {
		_, err = tx.Exec("SELECT ver FROM gov_state WHERE k = ? FOR UPDATE", key)
		require.NoError(t, err)
	}
	for n := 1; n < 4; n++ {
		node := store.NewNode()
		for i := range items {
			items[i].Seq = 1
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		_, err := s.Exchange(ctx, node, items[1:1+n])
		cancel()
		require.NoError(t, err, "%d keys", n)
	}
}

// A process is stopped before it makes a row that it has not found. Others have made it by
// then, and had permits, and the table was emptied: they count as taken.
func TestARowThatIsMadeInAnEmptiedTableIsLost(t *testing.T) {
	m := shared(t)
	dsn, db := database(t, m)
	p := newProxy(t, servers.Address(m.Port))
	c := newClient(open(t, mysqlstore.Config{DSN: through(p, dsn), Sessions: 1, Poll: 10 * time.Second}))
	other := newClient(open(t, mysqlstore.Config{DSN: dsn}))
	before := c.ask(t, store.Item{Key: "another", Limits: forever(50), Version: 1})[0].Epoch
	n := 0
	p.set(nil, func(sql string) fate {
		if strings.HasPrefix(sql, executes+"INSERT IGNORE INTO gov_state") {
			if n++; n == 1 {
				require.EqualValues(t, 50, other.take(t, "k", 50, forever(50)))
				_, err := db.Exec("TRUNCATE gov_state")
				require.NoError(t, err)
			}
		}
		return passes
	})
	got := c.ask(t, store.Item{Key: "k", Limits: forever(50), Version: 1, Want: 50})[0]
	p.set(nil, nil)
	require.Positive(t, n)
	require.NotEqual(t, before, got.Epoch)
	require.Zero(t, got.Granted)
	require.Zero(t, newClient(other.s).drain(t, "k", forever(50)))
}

// Who comes too late each time, since the others are faster, locks in the end.
func TestWhoIsSlowerThanAllOthersComesThrough(t *testing.T) {
	m := shared(t)
	dsn, _ := database(t, m)
	p := newProxy(t, servers.Address(m.Port))
	slow := newClient(open(t, mysqlstore.Config{DSN: through(p, dsn), Sessions: 1, Poll: 10 * time.Second}))
	fast := newClient(open(t, mysqlstore.Config{DSN: dsn}))
	slow.take(t, "k", 0, forever(50))
	for seq := range uint64(5) {
		n := 0
		p.set(nil, others(fast, t, "k", func(sql string) fate {
			if writes(sql) {
				n++
			}
			return passes
		}))
		as, err := slow.s.Exchange(t.Context(), slow.node, []store.Item{{Key: "k", Seq: 10 + seq, Want: 2}})
		require.NoError(t, err)
		require.EqualValues(t, 2, as[0].Granted)
		require.Equal(t, 4, n, "writes")
	}
	p.set(nil, nil)
	require.EqualValues(t, 40, newClient(fast.s).drain(t, "k", forever(50)))
}

// Sixteen clients of eight processes want the same rows all the time: each exchange
// comes through, and nothing is granted twice or lost.
func TestManyWhoWantTheSameRowsAllComeThrough(t *testing.T) {
	m := shared(t)
	for _, keys := range []int{1, 5} {
		t.Run(fmt.Sprint("keys=", keys), func(t *testing.T) {
			dsn, _ := database(t, m)
			var wg sync.WaitGroup
			for range 8 {
				s := open(t, mysqlstore.Config{DSN: dsn, Sessions: 2})
				for range 2 {
					node := store.NewNode()
					wg.Go(func() {
						for seq := range uint64(15) {
							var items []store.Item
							for k := range keys {
								items = append(items, store.Item{Key: fmt.Sprint("key", k), Seq: seq + 1, Limits: forever(1000), Version: 1, Want: 2})
							}
							as, err := s.Exchange(t.Context(), node, items)
							if err != nil {
								t.Errorf("exchange %d: %v", seq, err)
								return
							}
							for _, a := range as {
								if a.Err != nil || a.Granted != 2 {
									t.Errorf("exchange %d of %s: %d granted, %v", seq, a.Key, a.Granted, a.Err)
								}
							}
						}
					})
				}
			}
			wg.Wait()
			last := newClient(open(t, mysqlstore.Config{DSN: dsn}))
			for k := range keys {
				require.EqualValues(t, 1000-16*15*2, last.drain(t, fmt.Sprint("key", k), forever(1000)))
			}
		})
	}
}

// A proxy may send a read to one server and a write to another, which may have other
// rows, or other settings.
func TestAWriteThatComesElsewhereIsRefused(t *testing.T) {
	m := shared(t)
	for _, engine := range []struct {
		name  string
		anew  func(sql string) string
		holds bool
	}{
		{"right", func(sql string) string { return sql }, true},
		{"does not ask where it is", func(sql string) string { return strings.Replace(sql, " = ?, IF((", " = ? OR TRUE, IF((", 1) }, false},
	} {
		t.Run(engine.name, func(t *testing.T) {
			dsn, db := database(t, m)
			p := newProxy(t, servers.Address(m.Port))
			s := open(t, mysqlstore.Config{DSN: through(p, dsn), Sessions: 1, Poll: 10 * time.Second})
			newClient(s).take(t, "k", 0, forever(50))
			var was, is uint64
			require.NoError(t, db.QueryRow("SELECT ver FROM gov_state WHERE k = 'k'").Scan(&was))
			p.set(func(_ int, sql string) string { // as the other server would answer
				if strings.HasPrefix(sql, "INSERT INTO gov_state") {
					sql = engine.anew(strings.Replace(sql, "@@global.server_id", "99", 1))
				}
				return sql
			}, nil)
			p.cutAll() // so that its statements are prepared once more
			_, err := s.Exchange(t.Context(), store.NewNode(), []store.Item{{Key: "k", Seq: 1, Limits: forever(50), Version: 1, Want: 5}})
			require.NoError(t, db.QueryRow("SELECT ver FROM gov_state WHERE k = 'k'").Scan(&is))
			if !engine.holds {
				require.NoError(t, err)
				require.NotEqual(t, was, is, "an engine that %s passes", engine.name)
				return
			}
			require.ErrorIs(t, err, store.ErrNotExecuted)
			require.ErrorContains(t, err, "not to where it was")
			require.Equal(t, was, is)
		})
	}
}

// Between the read and the write of a batch one of its rows is changed, removed, or
// removed and made anew with as many changes as before; or all are gone, and the fence.
// Nothing is written, and all is decided anew.
func TestRowsThatChangeMeanwhileAreDecidedAnew(t *testing.T) {
	m := shared(t)
	for _, change := range []struct {
		name  string
		do    string
		takes int   // of others, afterwards, of 5 each
		left  int64 // for who is asked last, and after him
		lost  bool
	}{
		{"changed", "", 1, 25, false},
		{"removed", "DELETE FROM gov_state WHERE k = 'b'", 0, 50, false},
		{"removed and made anew", "DELETE FROM gov_state WHERE k = 'b'", 5, 25, false},
		{"emptied", "TRUNCATE gov_state", 0, 0, true},
		{"emptied and made anew", "TRUNCATE gov_state", 4, 0, true},
	} {
		t.Run(change.name, func(t *testing.T) {
			dsn, db := database(t, m)
			p := newProxy(t, servers.Address(m.Port))
			c := newClient(open(t, mysqlstore.Config{DSN: through(p, dsn), Sessions: 1, Poll: 10 * time.Second}))
			other := newClient(open(t, mysqlstore.Config{DSN: dsn}))
			item := func(key string, want int64) store.Item {
				return store.Item{Key: key, Limits: forever(50), Version: 1, Want: want}
			}
			before := c.ask(t, item("a", 0), item("b", 0), item("c", 0))[1].Epoch
			for range 4 { // the fifth change of the row is the last
				newClient(other.s).take(t, "b", 5, forever(50))
			}
			versions := func() (v []uint64) {
				for _, k := range []string{"a", "c"} {
					var ver uint64
					db.QueryRow("SELECT ver FROM gov_state WHERE k = ?", k).Scan(&ver)
					v = append(v, ver)
				}
				return v
			}
			was, n := versions(), 0
			p.set(nil, func(sql string) fate {
				if !writes(sql) {
					return passes
				}
				if n++; n == 1 {
					if change.do != "" {
						_, err := db.Exec(change.do)
						require.NoError(t, err)
					}
					for range change.takes {
						newClient(other.s).take(t, "b", 5, forever(50))
					}
				} else if n == 2 && !change.lost {
					require.Equal(t, was, versions(), "a part was written")
				}
				return passes
			})
			got := c.ask(t, item("a", 1), item("b", 50), item("c", 1))[1]
			p.set(nil, nil)
			require.Equal(t, change.lost, got.Epoch != before)
			require.Equal(t, change.lost, got.Granted == 0)
			require.EqualValues(t, change.left, got.Granted+newClient(other.s).drain(t, "b", forever(50)))
			require.Equal(t, 2, n, "writes")
		})
	}
}
