package mysqlstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/internal/servers"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/store/mysqlstore"
)

// crash kills the server and starts it again.
func crash(m *servers.MariaDB) {
	m.Kill()
	m.Restart()
	m.AwaitReady()
}

func TestAServerThatKeepsItsCommitsMayCrash(t *testing.T) {
	m := shared(t)
	dsn, _ := database(t, m)
	s := open(t, mysqlstore.Config{DSN: dsn})
	limits := forever(50)
	c := newClient(s)
	before := c.ask(t, store.Item{Key: "k", Limits: limits, Version: 1, Want: 20, Slots: 5, WantSlots: 2,
		Cool: []store.Cool{{Scope: "tenant:a", For: time.Hour}}})[0]
	require.EqualValues(t, 20, before.Granted)
	crash(m)
	after := c.ask(t, store.Item{Key: "k", Limits: limits, Version: 1, Want: 5, Slots: 5, Held: 2})[0]
	require.Equal(t, before.Epoch, after.Epoch)
	require.EqualValues(t, 5, after.Granted)
	require.EqualValues(t, 2, after.Held)
	require.Len(t, after.Cooldowns, 1, "the cooldown")
	require.EqualValues(t, 25, newClient(s).drain(t, "k", limits), "what is left of 50")
}

// A server that writes its log later loses what it has said was done. Who does not
// see that grants it again.
func TestAServerThatForgetsCommitsGrantsNothingTwice(t *testing.T) {
	for _, engine := range []struct {
		name    string
		rewrite func(conn int, sql string) string
		holds   bool
	}{
		{"right", nil, true},
		{"takes it for one that keeps them", func(_ int, sql string) string {
			if strings.HasPrefix(sql, "SHOW VARIABLES") { // two columns, as there; the server's own words but for one
				return `SELECT VARIABLE_NAME, IF(VARIABLE_NAME = 'INNODB_FLUSH_LOG_AT_TRX_COMMIT', '1', VARIABLE_VALUE) FROM
					(SELECT LOWER(VARIABLE_NAME) AS VARIABLE_NAME, VARIABLE_VALUE FROM information_schema.SESSION_VARIABLES) v`
			}
			return sql
		}, false},
	} {
		t.Run(engine.name, func(t *testing.T) {
			// Each its own: what recovers after a crash writes its log now and then.
			m := servers.StartMariaDBOnDisk(t, "--innodb-flush-log-at-trx-commit=0", "--innodb-flush-log-at-timeout=2700")
			dsn, _ := emptyDatabase(t, m)
			p := newProxy(t, servers.Address(m.Port))
			p.set(engine.rewrite, nil)
			s := open(t, mysqlstore.Config{DSN: through(p, dsn), AutoMigrate: true}) // changes of tables are written at once
			limits := forever(50)
			c := newClient(s)
			first := c.ask(t, store.Item{Key: "k", Limits: limits, Version: 1})[0]
			granted := c.drain(t, "k", limits)
			require.EqualValues(t, 50, granted)
			time.Sleep(time.Second) // which is what the server counts the time since its start in
			crash(m)
			again := c.ask(t, store.Item{Key: "k", Limits: limits, Version: 1, Want: 50})[0]
			granted += again.Granted + newClient(s).drain(t, "k", limits)
			t.Logf("%d granted of 50", granted)
			if !engine.holds {
				require.Greater(t, granted, int64(50), "an engine that %s passes", engine.name)
				return
			}
			require.EqualValues(t, 50, granted)
			require.NotEqual(t, first.Epoch, again.Epoch)
			require.Zero(t, c.take(t, "new", 10, limits), "a new key, which may be one that was forgotten")
			// It is not for ever: a Per later there are some again.
			short := []store.Limit{{Kind: store.Window, Quota: 10, Per: 200 * time.Millisecond, Transit: -1}}
			require.Eventually(t, func() bool { return c.take(t, "short", 10, short) > 0 }, 30*time.Second, time.Millisecond)
		})
	}
}

// Another server in its place may not have what the first said last.
func TestAnotherServerBeginsAnotherEpoch(t *testing.T) {
	for _, engine := range []struct {
		name    string
		rewrite func(conn int, sql string) string
		holds   bool
	}{
		{"right", nil, true},
		{"does not ask where it is", func(_ int, sql string) string {
			sql = strings.ReplaceAll(sql, "@@server_id", "1")
			return strings.ReplaceAll(sql, "'server_id'", "'none'")
		}, false},
	} {
		t.Run(engine.name, func(t *testing.T) {
			m := shared(t)
			var id int
			dsn, db := emptyDatabase(t, m)
			require.NoError(t, db.QueryRow("SELECT @@server_id").Scan(&id))
			defer db.Exec(fmt.Sprint("SET GLOBAL server_id = ", id))
			p := newProxy(t, servers.Address(m.Port))
			p.set(engine.rewrite, nil)
			s := open(t, mysqlstore.Config{DSN: through(p, dsn), AutoMigrate: true})
			limits := forever(50)
			c := newClient(s)
			before := c.ask(t, store.Item{Key: "k", Limits: limits, Version: 1, Want: 20})[0]
			_, err := db.Exec("SET GLOBAL server_id = 99")
			require.NoError(t, err)
			after := c.ask(t, store.Item{Key: "k", Limits: limits, Version: 1, Want: 20})[0]
			if !engine.holds {
				require.Positive(t, after.Granted, "an engine that %s passes", engine.name)
				return
			}
			require.NotEqual(t, before.Epoch, after.Epoch)
			require.Zero(t, after.Granted+newClient(s).drain(t, "k", limits))
			// Others hear of it by the fence.
			o := open(t, mysqlstore.Config{DSN: dsn})
			require.Equal(t, after.Epoch, newClient(o).ask(t, store.Item{Key: "k"})[0].Epoch)
		})
	}
}

func TestAnEmptiedTableBeginsAnotherEpoch(t *testing.T) {
	m := shared(t)
	for _, empty := range []string{"TRUNCATE gov_state", "DELETE FROM gov_state", "DELETE FROM gov_state WHERE k = ''"} {
		for _, known := range []bool{true, false} {
			dsn, db := database(t, m)
			s, o := open(t, mysqlstore.Config{DSN: dsn}), open(t, mysqlstore.Config{DSN: dsn})
			limits := forever(50)
			c, d := newClient(s), newClient(o)
			before := c.ask(t, store.Item{Key: "k", Limits: limits, Version: 1, Want: 20})[0]
			if known {
				d.take(t, "k", 1, limits)
			}
			_, err := db.Exec(empty)
			require.NoError(t, err)
			if strings.HasSuffix(empty, "''") { // the rows are there, and nobody knows whether all are
				c.take(t, "another", 1, limits)
			}
			after := c.ask(t, store.Item{Key: "k", Limits: limits, Version: 1, Want: 20})[0]
			require.NotEqual(t, before.Epoch, after.Epoch, empty)
			require.Zero(t, after.Granted, empty)
			require.Zero(t, d.drain(t, "k", limits), empty)
			require.Equal(t, after.Epoch, d.ask(t, store.Item{Key: "k"})[0].Epoch, empty)
		}
	}
}

// A row is deleted by hand, which the fence is not: who was told its epoch says so. Who
// was not is the control, and the documentation says so.
func TestADeletedRowIsLost(t *testing.T) {
	dsn, db := database(t, shared(t))
	c := newClient(open(t, mysqlstore.Config{DSN: dsn}))
	for _, told := range []bool{true, false} {
		key, it := fmt.Sprint("told-", told), store.Item{Limits: forever(50), Version: 1, Want: 50}
		it.Key = key
		for _, scope := range []string{"tenant:a", "tenant:b", "tenant:c"} {
			c.ask(t, store.Item{Key: key, Cool: []store.Cool{{Scope: scope, For: time.Millisecond}}})
		}
		before := c.ask(t, it)[0]
		require.EqualValues(t, 50, before.Granted)
		_, err := db.Exec("DELETE FROM gov_state WHERE k = ?", key)
		require.NoError(t, err)
		if told {
			it.Epoch = before.Epoch
		}
		after := c.ask(t, it)[0]
		require.Equal(t, told, after.Granted == 0, "%d granted again", after.Granted)
		require.Zero(t, newClient(c.s).drain(t, key, forever(50)))
		// Who was told of more changes than there were since hears of those all the same.
		c.ask(t, store.Item{Key: key, Cool: []store.Cool{{Scope: "tenant:b", For: time.Hour}}})
		for range 2 {
			require.Len(t, newClient(c.s).ask(t, store.Item{Key: key, Epoch: before.Epoch, Seen: before.Gen})[0].Cooldowns, 1)
			before.Gen--
		}
	}
}
