package mysqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/internal/servers"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/store/mysqlstore"
)

// liar says of every failure that nothing was executed.
type liar struct{ store.Store }

func (l liar) Exchange(ctx context.Context, node store.Node, items []store.Item) ([]store.Answer, error) {
	as, err := l.Store.Exchange(ctx, node, items)
	if err != nil {
		err = store.ErrNotExecuted
	}
	return as, err
}

// forgetful executes what is repeated once more, under a new number.
type forgetful struct {
	store.Store
	seq uint64
}

func (f *forgetful) Exchange(ctx context.Context, node store.Node, items []store.Item) ([]store.Answer, error) {
	items = append([]store.Item(nil), items...)
	for i := range items {
		f.seq++
		items[i].Seq = f.seq
	}
	return f.Store.Exchange(ctx, node, items)
}

// The connection is cut at each command, those that begin a session included, before
// it and after it; who keeps to the contract then has every permit once.
func TestACutAtAnyStatementLosesNoPermit(t *testing.T) {
	m := shared(t)
	for _, engine := range []struct {
		name  string
		wrap  func(store.Store) store.Store
		holds bool
	}{
		{"right", func(s store.Store) store.Store { return s }, true},
		{"says that nothing was executed", func(s store.Store) store.Store { return liar{s} }, false},
		{"executes again what is repeated", func(s store.Store) store.Store { return &forgetful{Store: s} }, false},
	} {
		t.Run(engine.name, func(t *testing.T) {
			dsn, _ := database(t, m)
			p := newProxy(t, servers.Address(m.Port))
			s := open(t, mysqlstore.Config{DSN: through(p, dsn), Sessions: 1, Poll: 10 * time.Second})
			c := newClient(engine.wrap(s))
			lost, cuts := 0, 0
			// try cuts at a command, and reports whether there was such a one.
			try := func(at int, how fate, known bool) (hit bool) {
				key := store.KeyFor(fmt.Sprint(how, known, at))
				limits := forever(20)
				if known { // a row that is there already, and a session that has its statements
					c.take(t, key, 0, limits)
				} else {
					p.cutAll()
				}
				seen := 0
				p.set(nil, func(string) fate {
					if seen++; seen == at {
						hit = true
						return how
					}
					return passes
				})
				got := c.take(t, key, 5, limits)
				p.set(nil, nil)
				if rest := newClient(s).drain(t, key, limits); got+rest != 20 {
					lost++
					if engine.holds {
						t.Errorf("cut at command %d (%d, %t): %d granted, %d are left of 20", at, how, known, got, rest)
					}
				}
				return hit
			}
			for _, how := range []fate{isCut, isUnheard} {
				for _, known := range []bool{false, true} {
					for at := 1; try(at, how, known); at++ {
						cuts++
					}
				}
			}
			t.Logf("%d cuts, %d times permits were lost", cuts, lost)
			require.Greater(t, cuts, 30)
			if !engine.holds {
				require.Positive(t, lost, "an engine that %s passes", engine.name)
			}
		})
	}
}

// The server ends connections while many ask.
func TestKilledConnectionsLoseNoPermit(t *testing.T) {
	m := shared(t)
	dsn, db := database(t, m)
	limits := forever(100_000)
	var wg sync.WaitGroup
	var mu sync.Mutex
	sum := int64(0)
	var stop atomic.Bool
	for range 4 {
		s := open(t, mysqlstore.Config{DSN: dsn, Sessions: 2})
		for range 2 {
			c := newClient(s)
			wg.Go(func() {
				for !stop.Load() {
					got := c.take(t, "k", 5, limits)
					mu.Lock()
					sum += got
					mu.Unlock()
				}
			})
		}
	}
	kills := 0
	for end := time.Now().Add(time.Minute); kills < 60 && time.Now().Before(end); {
		var id int
		if db.QueryRow("SELECT id FROM information_schema.PROCESSLIST WHERE id <> CONNECTION_ID() AND db = DATABASE() ORDER BY RAND() LIMIT 1").Scan(&id) == nil {
			if _, err := db.Exec(fmt.Sprintf("KILL CONNECTION %d", id)); err == nil {
				kills++
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	stop.Store(true)
	wg.Wait()
	require.Greater(t, kills, 50)
	rest := newClient(open(t, mysqlstore.Config{DSN: dsn})).drain(t, "k", limits)
	t.Logf("%d connections killed, %d granted", kills, sum)
	require.EqualValues(t, 100_000, sum+rest)
}

// Twelve clients, each with batches of keys that overlap those of the others.
func TestClientsDoNotDeadlock(t *testing.T) {
	for _, engine := range []struct {
		name    string
		rewrite func(conn int, sql string) string
		holds   bool
	}{
		{"right", nil, true},
		{"locks in another order in every second session", func(conn int, sql string) string {
			if conn%2 == 0 {
				sql = strings.ReplaceAll(sql, "ORDER BY k FOR UPDATE", "ORDER BY k DESC FOR UPDATE")
			}
			return sql
		}, false},
	} {
		t.Run(engine.name, func(t *testing.T) {
			m := shared(t)
			dsn, db := database(t, m)
			p := newProxy(t, servers.Address(m.Port))
			limits := forever(1_000_000)
			var wg sync.WaitGroup
			var mu sync.Mutex
			granted := map[string]int64{}
			var clients []*client
			for range 12 {
				clients = append(clients, newClient(open(t, mysqlstore.Config{DSN: through(p, dsn), Sessions: 1})))
			}
			p.set(engine.rewrite, nil) // after the self-test, which would say so
			count := func() (n int) {
				var name string
				require.NoError(t, db.QueryRow("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'").Scan(&name, &n))
				return n
			}
			before := count()
			var rounds atomic.Int64
			var stop atomic.Bool
			for _, c := range clients {
				wg.Go(func() {
					for !stop.Load() {
						var items []store.Item
						for _, k := range rand.Perm(12)[:6] {
							items = append(items, store.Item{Key: fmt.Sprint("key", k), Limits: limits, Version: 1, Want: 3})
						}
						as := c.ask(t, items...)
						mu.Lock()
						for _, a := range as {
							granted[a.Key] += a.Granted
						}
						mu.Unlock()
						rounds.Add(1)
					}
				})
			}
			// Some hundred requests, or until it is seen what is wrong.
			for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				if engine.holds && rounds.Load() >= int64(effort.Times(300)) || !engine.holds && count() > before {
					break
				}
			}
			stop.Store(true)
			wg.Wait()
			deadlocks := count() - before
			t.Logf("%d deadlocks in %d requests", deadlocks, rounds.Load())
			if engine.holds {
				require.Zero(t, deadlocks)
			} else {
				require.Positive(t, deadlocks, "an engine that %s passes", engine.name)
			}
			last := newClient(open(t, mysqlstore.Config{DSN: dsn}))
			for key, sum := range granted { // deadlocks or not
				require.EqualValues(t, 1_000_000, sum+last.drain(t, key, limits), key)
			}
		})
	}
}

// The version keeps writers apart, whoever locks or does not; without it updates are lost.
func TestTheVersionKeepsWritersApart(t *testing.T) {
	m := shared(t)
	noLock := func(_ int, sql string) string { return strings.ReplaceAll(sql, "ORDER BY k FOR UPDATE", "ORDER BY k") }
	noVersion := func(_ int, sql string) string {
		return strings.ReplaceAll(sql, "IF(ver + 1 = VALUES(ver), VALUES(ver), NULL)", "VALUES(ver)")
	}
	for _, engine := range []struct {
		name    string
		rewrite func(conn int, sql string) string
		holds   bool
	}{
		{"right", nil, true},
		{"version, and nobody locks", noLock, true},
		{"no version", noVersion, false},
	} {
		t.Run(engine.name, func(t *testing.T) {
			dsn, _ := database(t, m)
			p := newProxy(t, servers.Address(m.Port))
			limits := forever(300)
			var wg sync.WaitGroup
			var mu sync.Mutex
			sum := int64(0)
			for range 6 {
				s := open(t, mysqlstore.Config{DSN: through(p, dsn), Sessions: 1})
				p.set(engine.rewrite, nil) // after the self-test, which would say so
				p.cutAll()
				c := newClient(s)
				c.take(t, "k", 0, limits)
				p.set(nil, nil)
				wg.Go(func() {
					for range 100 {
						got := c.take(t, "k", 1, limits)
						mu.Lock()
						sum += got
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			t.Logf("%d granted of 300", sum)
			if engine.holds {
				require.LessOrEqual(t, sum, int64(300))
			} else {
				require.Greater(t, sum, int64(300), "an engine with %s passes", engine.name)
			}
		})
	}
}

func TestASwallowedReplyIsFoundAgain(t *testing.T) {
	m := shared(t)
	dsn, _ := database(t, m)
	p := newProxy(t, servers.Address(m.Port))
	s := open(t, mysqlstore.Config{DSN: through(p, dsn), Sessions: 1, Poll: 10 * time.Second})
	node := store.NewNode()
	item := func(seq uint64) []store.Item {
		return []store.Item{{Key: "k", Seq: seq, Limits: forever(20), Version: 1, Want: 7}}
	}
	_, err := s.Exchange(t.Context(), node, item(1))
	require.NoError(t, err)
	other := newClient(open(t, mysqlstore.Config{DSN: dsn, Poll: 10 * time.Second}))
	for seq := uint64(2); seq < 4; seq++ {
		swallowed := false
		swallow := func(last func(sql string) bool) func(sql string) fate {
			return func(sql string) fate {
				if last(sql) && !swallowed {
					swallowed = true
					return isUnheard
				}
				return passes
			}
		}
		if seq == 2 {
			p.set(nil, swallow(writes))
		} else { // and of a transaction
			p.set(nil, others(other, t, "k", swallow(func(sql string) bool { return sql == "COMMIT" })))
		}
		_, err = s.Exchange(t.Context(), node, item(seq))
		require.Error(t, err)
		require.False(t, errors.Is(err, store.ErrNotExecuted) || errors.Is(err, store.ErrInvalid), "%v: it was executed", err)
		for range 3 {
			as, err := s.Exchange(t.Context(), node, item(seq))
			require.NoError(t, err)
			require.EqualValues(t, []int64{0, 0, 7, 6}[seq], as[0].Granted)
		}
	}
}
