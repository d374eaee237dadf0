package mysqlstore_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/store/mysqlstore"
)

func TestMigrateMayBeCalledAgainAndByMany(t *testing.T) {
	m := shared(t)
	dsn, db := emptyDatabase(t, m)
	_, err := mysqlstore.Open(t.Context(), mysqlstore.Config{DSN: dsn})
	require.ErrorIs(t, err, mysqlstore.ErrSchema)
	require.ErrorContains(t, err, "there is no table gov_schema; call mysqlstore.Migrate")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := mysqlstore.Migrate(t.Context(), db, ""); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s := open(t, mysqlstore.Config{DSN: dsn})
	c := newClient(s)
	require.EqualValues(t, 30, c.take(t, "k", 30, forever(50)))
	// Once more, from the beginning, as after one that was interrupted.
	_, err = db.Exec("DELETE FROM gov_schema")
	require.NoError(t, err)
	require.NoError(t, mysqlstore.Migrate(t.Context(), db, ""))
	var n int
	require.NoError(t, db.QueryRow("SELECT COUNT(*) FROM gov_schema").Scan(&n))
	require.Equal(t, mysqlstore.Migrations, n)
	require.EqualValues(t, 20, newClient(open(t, mysqlstore.Config{DSN: dsn})).drain(t, "k", forever(50)))
}

func TestPrefixesShareNothing(t *testing.T) {
	m := shared(t)
	dsn, db := database(t, m)
	require.NoError(t, mysqlstore.Migrate(t.Context(), db, "other_"))
	require.Error(t, mysqlstore.Migrate(t.Context(), db, "other`"))
	for _, prefix := range []string{"", "other_"} {
		require.EqualValues(t, 50, newClient(open(t, mysqlstore.Config{DSN: dsn, Prefix: prefix})).drain(t, "k", forever(50)))
	}
}

func TestOpenChecksTheTables(t *testing.T) {
	m := shared(t)
	for change, want := range map[string]string{
		"DELETE FROM gov_schema":                       "they are of version 0",
		"UPDATE gov_schema SET checksum = 'x'":         "another version 1 than this module",
		"DROP TABLE gov_meta":                          "table gov_meta is gone",
		"DROP TABLE gov_seq":                           "table gov_seq is gone",
		"ALTER TABLE gov_state ENGINE=MyISAM":          "engine \"MyISAM\"",
		"ALTER TABLE gov_state DROP COLUMN now_us":     "Unknown column",
		"ALTER TABLE gov_state MODIFY state TINYBLOB":  "Data too long",
		"ALTER TABLE gov_state MODIFY ver BIGINT NULL": "another version",
	} {
		dsn, db := database(t, m)
		_, err := db.Exec(change)
		require.NoError(t, err)
		_, err = mysqlstore.Open(t.Context(), mysqlstore.Config{DSN: dsn})
		require.ErrorContains(t, err, want, change)
	}
	// Newer tables only have more.
	dsn, db := database(t, m)
	_, err := db.Exec("INSERT INTO gov_schema (version, checksum, applied_us) VALUES (2, 'of the future', 0)")
	require.NoError(t, err)
	_, err = db.Exec("ALTER TABLE gov_state ADD COLUMN more INT NOT NULL DEFAULT 7")
	require.NoError(t, err)
	s := open(t, mysqlstore.Config{DSN: dsn, AutoMigrate: true})
	require.EqualValues(t, 50, newClient(s).drain(t, "k", forever(50)))
}

// Many processes are started in the same moment: none stands in another's way.
func TestManyMayOpenAtOnce(t *testing.T) {
	dsn, _ := database(t, shared(t))
	var wg sync.WaitGroup
	for range 24 {
		wg.Go(func() {
			s, err := mysqlstore.Open(t.Context(), mysqlstore.Config{DSN: dsn, Sessions: 1})
			if err != nil {
				t.Error(err)
				return
			}
			s.Close()
		})
	}
	wg.Wait()
}
