package clustertest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"

	"github.com/flyball-go/flyball/internal/servers"
	"github.com/flyball-go/flyball/store/mysqlstore"
	"github.com/flyball-go/flyball/store/redisstore"
)

// server is a real store's server.
type server struct {
	kind    string
	addr    string
	redis   *servers.RedisServer
	cluster []*servers.RedisServer // the first three were primaries at first
	maria   *servers.MariaDB
	dsn     func(addr string) string
	unused  func() error // says that what is absent was never used
}

// startServer starts one that the test has for itself, but for MariaDB, of which it has
// a database. timeout is that of a Redis Cluster's nodes.
func startServer(t *testing.T, kind string, timeout time.Duration) *server {
	t.Helper()
	s := &server{kind: kind, unused: func() error { return nil }}
	if kind != "mysql" {
		s.unused = func() error {
			e, err := redisstore.New(redisstore.Config{Addrs: s.addrs(), Cluster: kind == "cluster"})
			if err != nil {
				return err
			}
			defer e.Close()
			// On a Cluster it asks for all slots, for which a slow machine may need longer
			// than one read may take.
			for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
				err := e.AssumeUnused(context.Background())
				if err == nil || time.Now().After(end) {
					return err
				}
			}
		}
	}
	switch kind {
	case "redis":
		s.redis = servers.Redis(t)
		s.addr = s.redis.Addr
		return s
	case "cluster":
		s.cluster = servers.Cluster(t, timeout)
		s.addr = s.cluster[0].Addr
		return s
	}
	maria.database(t, s)
	return s
}

// ownServer is startServer for who restarts it.
func ownServer(t *testing.T, kind string) *server {
	t.Helper()
	if kind != "mysql" {
		return startServer(t, kind, 0)
	}
	s := &server{kind: kind, unused: func() error { return nil }, maria: servers.StartMariaDB(t, manyConns)}
	s.database(t, "own")
	return s
}

const manyConns = "--max-connections=1000"

// maria is the MariaDB of all who do not restart it, in a database of their own each:
// to make its files takes longer than most of what is done with them.
var maria sharedMaria

type sharedMaria struct {
	once sync.Once
	host servers.Host
	db   *servers.MariaDB
	err  error
	n    atomic.Int64 // databases
}

// database has s be a database of the shared server, which it starts if need be.
func (m *sharedMaria) database(t *testing.T, s *server) {
	t.Helper()
	servers.Command(t, "mariadbd", "mariadb-server") // skips this test, or fails it
	m.once.Do(func() {
		m.err = m.host.Try(func() { m.db = servers.StartMariaDB(&m.host, manyConns) })
	})
	if m.err != nil {
		t.Fatal(m.err)
	}
	s.maria = m.db
	s.database(t, fmt.Sprintf("cluster%d", m.n.Add(1)))
}

// migrating is held while tables are made: there is one lock for it in a server, for
// which nobody waits for longer than ten seconds.
var migrating sync.Mutex

// database makes a database of s.maria, and has s be that.
func (s *server) database(t *testing.T, name string) {
	t.Helper()
	migrating.Lock()
	defer migrating.Unlock()
	s.addr = servers.Address(s.maria.Port)
	s.dsn = func(addr string) string { return "root@tcp(" + addr + ")/" + name }
	err := errors.Join(
		withDB(s.maria.DSN(""), func(db *sql.DB) error {
			_, err := db.ExecContext(t.Context(), "CREATE DATABASE "+name)
			return err
		}),
		withDB(s.dsn(s.addr), func(db *sql.DB) error { return mysqlstore.Migrate(t.Context(), db, "") }))
	if err != nil {
		t.Fatal(err)
	}
}

func withDB(dsn string, f func(*sql.DB) error) error {
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	return f(db)
}

// addrs are those of all servers.
func (s *server) addrs() (all []string) {
	for _, r := range s.cluster {
		all = append(all, r.Addr)
	}
	if all == nil {
		all = []string{s.addr}
	}
	return all
}

// restart kills the server, and starts it again with what it kept.
func (s *server) restart() {
	if s.redis != nil {
		s.redis.Restart()
		s.redis.Ready()
		return
	}
	s.maria.Restart()
	s.maria.AwaitReady()
}
