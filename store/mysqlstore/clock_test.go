package mysqlstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/internal/servers"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/store/mysqlstore"
)

// Sessions in time zones half the world apart share a cooldown and a window.
func TestTimeZonesOfSessionsDoNotMatter(t *testing.T) {
	m := servers.StartMariaDB(t, "--default-time-zone=+05:30")
	for _, engine := range []struct {
		name    string
		rewrite func(conn int, sql string) string
		holds   bool
	}{
		{"right", nil, true},
		{"goes by NOW", func(_ int, sql string) string { return strings.ReplaceAll(sql, "UTC_TIMESTAMP", "NOW") }, false},
	} {
		t.Run(engine.name, func(t *testing.T) {
			dsn, _ := database(t, m)
			p := newProxy(t, servers.Address(m.Port))
			p.set(engine.rewrite, nil)
			var clients []*client
			for _, zone := range []string{"", "?time_zone=%27-11:00%27", "?time_zone=%27%2B13:00%27"} {
				clients = append(clients, newClient(open(t, mysqlstore.Config{DSN: through(p, dsn) + zone})))
			}
			wrong := 0
			for _, cools := range clients {
				key := store.KeyFor(string(cools.node))
				sent := time.Now()
				cools.ask(t, store.Item{Key: key, Cool: []store.Cool{{Scope: "a", For: 3 * time.Second}}})
				told := time.Now()
				for range 2 {
					time.Sleep(100 * time.Millisecond)
					for _, c := range clients {
						asked := time.Now()
						left := time.Duration(0)
						if known := c.ask(t, store.Item{Key: key})[0].Cooldowns; len(known) > 0 {
							left = known[0].Left
						}
						// Between what is left when it is asked and when it has answered.
						if left > max(0, 3*time.Second-asked.Sub(told))+20*time.Millisecond || left < 3*time.Second-time.Since(sent)-time.Millisecond {
							wrong++
							t.Logf("%v are left of 3s after %v", left, time.Since(sent))
						}
					}
				}
			}
			if engine.holds {
				require.Zero(t, wrong)
			} else {
				require.Positive(t, wrong, "an engine that %s passes", engine.name)
			}
		})
	}
}

// A server whose clock is set back goes on from where it was; one that waits for a
// lock has the time after it.
func TestTheStoresTimeNeverGoesBack(t *testing.T) {
	m := shared(t)
	dsn, db := database(t, m)
	p := newProxy(t, servers.Address(m.Port))
	s := open(t, mysqlstore.Config{DSN: through(p, dsn), Sessions: 1})
	c := newClient(s)
	limits := []store.Limit{{Kind: store.Window, Quota: 10, Per: time.Hour}}
	require.EqualValues(t, 10, c.drain(t, "k", limits))
	var last int64
	require.NoError(t, db.QueryRow("SELECT now_us FROM gov_state WHERE k = 'k'").Scan(&last))
	p.set(func(_ int, sql string) string {
		sql = strings.ReplaceAll(sql, "UTC_TIMESTAMP(6)", "UTC_TIMESTAMP(6) - INTERVAL 1 DAY")
		return strings.ReplaceAll(sql, "SYSDATE(6)", "SYSDATE(6) - INTERVAL 1 DAY")
	}, nil)
	p.cutAll()
	require.Zero(t, c.drain(t, "k", limits), "yesterday's window, once more")
	var after int64
	require.NoError(t, db.QueryRow("SELECT now_us FROM gov_state WHERE k = 'k'").Scan(&after))
	require.Equal(t, last, after)
}

// Who has to wait for a lock, and locks himself from then on, decides at the time at which
// he has it.
func TestTimeIsThatAfterTheLock(t *testing.T) {
	m := shared(t)
	dsn, db := database(t, m)
	c := newClient(open(t, mysqlstore.Config{DSN: dsn}))
	c.take(t, "k", 0, forever(1))
	tx, err := db.Begin()
	require.NoError(t, err)
	_, err = tx.Exec("SELECT k FROM gov_state WHERE k = 'k' FOR UPDATE")
	require.NoError(t, err)
	var released int64
	done := make(chan bool)
	go func() {
		defer close(done)
		for n := 0; n == 0; time.Sleep(time.Millisecond) {
			db.QueryRow("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT k, %FOR UPDATE'").Scan(&n)
		}
		time.Sleep(100 * time.Millisecond)
		tx.QueryRow("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))").Scan(&released)
		tx.Commit()
	}()
	c.take(t, "k", 0, forever(1))
	<-done
	var last int64
	require.NoError(t, db.QueryRow("SELECT now_us FROM gov_state WHERE k = 'k'").Scan(&last))
	require.GreaterOrEqual(t, last, released)
}
