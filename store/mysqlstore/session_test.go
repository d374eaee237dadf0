package mysqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/internal/servers"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/store/mysqlstore"
)

// With SIMULTANEOUS_ASSIGNMENT an UPDATE means something else.
func TestASessionWithAnotherModeIsRefused(t *testing.T) {
	m := servers.StartMariaDB(t, "--sql-mode=SIMULTANEOUS_ASSIGNMENT,ANSI_QUOTES,NO_BACKSLASH_ESCAPES")
	dsn, _ := database(t, m)
	p := newProxy(t, servers.Address(m.Port))
	// Of the server it is not the Store's.
	s := open(t, mysqlstore.Config{DSN: through(p, dsn), Sessions: 1})
	require.EqualValues(t, 50, newClient(s).drain(t, "k", forever(50)))
	for from, to := range map[string]string{
		"sql_mode = 'STRICT_ALL_TABLES": "sql_mode = 'SIMULTANEOUS_ASSIGNMENT,STRICT_ALL_TABLES",
		"autocommit = 1":                "autocommit = 0",
		"READ COMMITTED":                "REPEATABLE READ",
	} {
		p.set(func(_ int, sql string) string { return strings.ReplaceAll(sql, from, to) }, nil)
		_, err := mysqlstore.Open(t.Context(), mysqlstore.Config{DSN: through(p, dsn)})
		require.ErrorContains(t, err, "session refused", to)
	}
	// The control: without that, it is not.
	p.set(nil, nil)
	open(t, mysqlstore.Config{DSN: through(p, dsn)})
}

// A proxy may bring a session elsewhere later: what it reads says so.
func TestASessionThatChangesIsReplaced(t *testing.T) {
	m := shared(t)
	dsn, _ := database(t, m)
	for _, change := range []string{"SET SESSION sql_mode = 'SIMULTANEOUS_ASSIGNMENT'", "SET SESSION autocommit = 0"} {
		db, err := sql.Open("mysql", dsn)
		require.NoError(t, err)
		db.SetMaxOpenConns(1)
		p := newProxy(t, servers.Address(m.Port))
		s := open(t, mysqlstore.Config{DSN: through(p, dsn), Sessions: 1, Poll: 10 * time.Second})
		c := newClient(s)
		key := store.KeyFor(change)
		c.take(t, key, 1, forever(50))
		connects := 0
		p.set(func(_ int, sql string) string {
			if sql == "ROLLBACK" || sql == "COMMIT" { // once, at the end of a transaction
				p.rewrite = func(_ int, sql string) string {
					if strings.HasPrefix(sql, "SHOW VARIABLES") {
						connects++
					}
					return sql
				}
				return change
			}
			return sql
		}, nil)
		_, err = s.Meta(t.Context(), store.MetaOp{Do: store.Delete, Key: "none"})
		require.NoError(t, err)
		require.EqualValues(t, 1, c.take(t, key, 1, forever(50)))
		require.EqualValues(t, 1, c.take(t, key, 1, forever(50)))
		require.Equal(t, 1, connects, change)
		db.Close()
	}
}

// A session that takes longer than an exchange has is there for the next: if each began
// another, none would ever be there.
func TestASessionIsBegunOnceHoweverLongThatTakes(t *testing.T) {
	m := shared(t)
	dsn, _ := database(t, m)
	p := newProxy(t, servers.Address(m.Port))
	s := open(t, mysqlstore.Config{DSN: through(p, dsn), Sessions: 1, Poll: 10 * time.Second})
	c := newClient(s)
	require.EqualValues(t, 1, c.take(t, "k", 1, forever(50)))

	begins := 0 // guarded by the proxy's lock
	ctx, cancel := context.WithCancel(t.Context())
	goOn := make(chan struct{})
	p.set(func(_ int, sql string) string {
		if strings.HasPrefix(sql, "SHOW VARIABLES") {
			if begins++; begins == 1 {
				cancel()
				<-goOn
			}
		}
		return sql
	}, nil)
	p.cutAll()
	_, err := s.Exchange(ctx, store.NewNode(), []store.Item{{Key: "k", Seq: 1, Limits: forever(50), Version: 1, Want: 1}})
	require.ErrorIs(t, err, store.ErrNotExecuted)
	require.ErrorIs(t, err, context.Canceled)
	close(goOn)
	require.EqualValues(t, 1, c.take(t, "k", 1, forever(50)))
	p.set(nil, nil)
	require.Equal(t, 1, begins)
}

func TestAPoolOfTheCallersIsGivenBackAsItWas(t *testing.T) {
	m := shared(t)
	dsn, _ := database(t, m)
	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	defer db.Close()
	db.SetMaxOpenConns(1) // which the poller and everybody share
	s, err := mysqlstore.Open(t.Context(), mysqlstore.Config{DB: db, Poll: 10 * time.Millisecond})
	require.NoError(t, err)
	stop, err := s.Watch(t.Context(), func(store.Hint) {})
	require.NoError(t, err)
	defer stop()
	c := newClient(s)
	for range 20 {
		c.take(t, "k", 1, forever(50))
	}
	_, err = s.Meta(t.Context(), store.MetaOp{Do: store.List})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	var mode string
	var auto int
	require.NoError(t, db.QueryRow("SELECT @@sql_mode, @@autocommit").Scan(&mode, &auto))
	require.Equal(t, 1, auto)
	require.NotContains(t, mode, "STRICT_ALL_TABLES")
	require.Equal(t, 1, db.Stats().OpenConnections)
}

func TestAServerThatIsGoneIsNotExecuted(t *testing.T) {
	m := shared(t)
	dsn, _ := database(t, m)
	s := open(t, mysqlstore.Config{DSN: dsn})
	c := newClient(s)
	c.take(t, "k", 1, forever(50))
	m.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err := s.Exchange(ctx, c.node, []store.Item{{Key: "k", Seq: 9}})
	require.ErrorIs(t, err, store.ErrNotExecuted)
	_, err = s.Meta(ctx, store.MetaOp{Key: "k"})
	require.ErrorIs(t, err, store.ErrNotExecuted)
	m.Restart()
	m.AwaitReady()
	require.EqualValues(t, 49, newClient(s).drain(t, "k", forever(50)), "it goes on by itself")
}

// What waits for a lock for too long was not executed. Who does not wait that long cannot
// know.
func TestALockThatIsHeldIsNotExecuted(t *testing.T) {
	m := shared(t)
	dsn, db := database(t, m)
	s := open(t, mysqlstore.Config{DSN: dsn})
	c := newClient(s)
	c.take(t, "k", 0, forever(50))
	tx, err := db.Begin()
	require.NoError(t, err)
	_, err = tx.Exec("SELECT k FROM gov_state WHERE k = 'k' FOR UPDATE")
	require.NoError(t, err)
	_, err = s.Exchange(t.Context(), c.node, []store.Item{{Key: "k", Seq: 9, Limits: forever(50), Version: 1, Want: 5}})
	require.ErrorIs(t, err, store.ErrNotExecuted)
	require.ErrorContains(t, err, "1205")
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond) // long enough to be on its way, and shorter than the wait for a lock
	defer cancel()
	last := []store.Item{{Key: "k", Seq: 10, Limits: forever(50), Version: 1, Want: 5}}
	_, err = s.Exchange(ctx, c.node, last)
	require.NotErrorIs(t, err, store.ErrNotExecuted, "it was on its way")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, tx.Rollback())
	as, err := s.Exchange(t.Context(), c.node, last)
	require.NoError(t, err)
	require.EqualValues(t, 5, as[0].Granted, "once, whether it was executed or not")
	require.EqualValues(t, 45, newClient(s).drain(t, "k", forever(50)))
}

// A process to which others have not left the row, so that it has locked it, and that is
// stopped in the middle of that transaction, keeps the others from it for a second or
// two, and not for as long as it is stopped.
func TestWhoHangsInATransactionDoesNotStopOthers(t *testing.T) {
	m := shared(t)
	dsn, _ := database(t, m)
	p := newProxy(t, servers.Address(m.Port))
	hangs, other := newClient(open(t, mysqlstore.Config{DSN: through(p, dsn), Sessions: 1, Poll: 10 * time.Second})), newClient(open(t, mysqlstore.Config{DSN: dsn}))
	hangs.take(t, "k", 0, forever(50))
	stopped, goOn, done := make(chan bool), make(chan bool), make(chan bool)
	var once sync.Once
	p.set(nil, others(newClient(other.s), t, "k", func(sql string) fate {
		if sql == "COMMIT" {
			once.Do(func() { close(stopped); <-goOn })
		}
		return passes
	}))
	var late int64
	go func() { defer close(done); late = hangs.take(t, "k", 5, forever(50)) }()
	<-stopped
	var a store.Answer
	for begin := time.Now(); a.Granted == 0; {
		as, err := other.s.Exchange(t.Context(), other.node, []store.Item{{Key: "k", Seq: 1, Limits: forever(50), Version: 1, Want: 5}})
		if err == nil {
			a = as[0]
		} else if time.Since(begin) > 30*time.Second { // and with a moment to wait for a machine that is busy
			close(goOn)
			<-done
			t.Fatalf("others are kept out for %v: %v", time.Since(begin), err)
		}
	}
	close(goOn)
	<-done
	require.EqualValues(t, 50, late+a.Granted+newClient(other.s).drain(t, "k", forever(50)))
}

func TestCloseEndsWhatIsUnderWay(t *testing.T) {
	m := shared(t)
	dsn, db := database(t, m)
	s := open(t, mysqlstore.Config{DSN: dsn, Sessions: 1})
	newClient(s).take(t, "k", 0, forever(50))
	tx, err := db.Begin()
	require.NoError(t, err)
	defer tx.Rollback()
	_, err = tx.Exec("SELECT k FROM gov_state WHERE k = 'k' FOR UPDATE")
	require.NoError(t, err)
	failed := make(chan error)
	for range 2 { // one waits for the lock, one for a session
		go func() {
			_, err := s.Exchange(context.Background(), store.NewNode(), []store.Item{{Key: "k", Seq: 1}})
			failed <- err
		}()
	}
	time.Sleep(100 * time.Millisecond)
	require.NoError(t, s.Close())
	sure := 0 // of that for which there was no session
	for range 2 {
		err := <-failed
		require.Error(t, err)
		if errors.Is(err, store.ErrNotExecuted) {
			sure++
		}
	}
	require.Positive(t, sure)
	var n int
	require.Eventually(t, func() bool {
		return db.QueryRow("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE db = DATABASE()").Scan(&n) == nil && n <= 2
	}, time.Minute, 10*time.Millisecond, "connections are left")
}
