package clustertest

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"

	"github.com/flyball-go/flyball/internal/faultproxy"
	"github.com/flyball-go/flyball/internal/judge"
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
	unused  func() // says that what is absent was never used
}

func startServer(t *testing.T, kind string) *server {
	t.Helper()
	s := &server{kind: kind, unused: func() {}}
	if kind != "mysql" {
		s.unused = func() {
			e, err := redisstore.New(redisstore.Config{Addrs: s.addrs(), Cluster: kind == "cluster"})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			if err := e.AssumeUnused(context.Background()); err != nil {
				t.Error(err)
			}
		}
	}
	switch kind {
	case "redis":
		s.redis = servers.Redis(t)
		s.addr = s.redis.Addr
		return s
	case "cluster":
		s.cluster = servers.Cluster(t, nodeTimeout)
		s.addr = s.cluster[0].Addr
		return s
	}
	s.maria = servers.StartMariaDB(t)
	s.addr = servers.Address(s.maria.Port)
	s.dsn = func(addr string) string { return "root@tcp(" + addr + ")/cluster" }
	db, err := sql.Open("mysql", s.maria.DSN(""))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE DATABASE cluster"); err != nil {
		t.Fatal(err)
	}
	own, err := sql.Open("mysql", s.dsn(s.addr))
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if err := mysqlstore.Migrate(t.Context(), own, ""); err != nil {
		t.Fatal(err)
	}
	return s
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

// cluster is replicas, each behind a proxy of its own, a store's server and a vendor.
type cluster struct {
	t        *testing.T
	dir      string
	server   *server
	vendor   *judge.Vendor
	log      *os.File
	template replica
	tune     func(i int, r *replica) // what is different of the i-th, from 1
	members  []*member
	born     int
	killed   map[string]bool
}

// member is a replica that runs.
type member struct {
	name  string
	proxy *faultproxy.Proxy
	cmd   *exec.Cmd
	stdin io.WriteCloser
	dead  bool
}

// begin starts n replicas that are as template says.
func begin(t *testing.T, s *server, n int, template replica, tune func(int, *replica), cfg judge.Config) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: t.TempDir(), server: s, template: template, tune: tune, killed: make(map[string]bool)}
	var err error
	if c.log, err = os.Create(filepath.Join(c.dir, "vendor.jsonl")); err != nil {
		t.Fatal(err)
	}
	cfg.Log = c.log
	if c.vendor, err = judge.Start(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, m := range c.members {
			if !m.dead {
				m.kill()
			}
			m.proxy.Close()
		}
		c.vendor.Close()
		c.log.Close()
	})
	s.unused()
	for range n {
		c.members = append(c.members, c.birth())
	}
	return c
}

// birth starts another replica.
func (c *cluster) birth() *member {
	c.t.Helper()
	c.born++
	r := c.template
	if c.tune != nil {
		c.tune(c.born, &r)
	}
	m := &member{name: fmt.Sprintf("r%d", c.born)}
	r.Name, r.Vendor, r.History = m.name, c.vendor.URL(), filepath.Join(c.dir, m.name+".jsonl")
	var err error
	if m.proxy, err = faultproxy.Listen(c.server.addr); err != nil {
		c.t.Fatal(err)
	}
	switch {
	case c.server.redis != nil:
		r.Redis = m.proxy.Addr()
	case c.server.cluster != nil:
		r.Cluster = c.server.addrs() // nodes say where others are, so there is no proxy between
	default:
		r.MySQL = c.server.dsn(m.proxy.Addr())
	}
	said, err := json.Marshal(r)
	if err != nil {
		c.t.Fatal(err)
	}
	m.cmd = exec.Command(os.Args[0])
	m.cmd.Env = append(os.Environ(), replicaEnv+"="+string(said))
	m.cmd.Stderr = os.Stderr
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if m.stdin, err = m.cmd.StdinPipe(); err != nil {
		c.t.Fatal(err)
	}
	if err := m.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		c.t.Fatalf("replica %s says %q, %v", m.name, line, err)
	}
	return m
}

func (m *member) signal(s syscall.Signal) { m.cmd.Process.Signal(s) }

func (m *member) kill() {
	m.dead = true
	m.signal(syscall.SIGKILL)
	m.cmd.Wait()
}

// kill ends a replica without a word.
func (c *cluster) kill(m *member) {
	m.kill()
	c.killed[m.name] = true
}

// replace kills a replica and starts another.
func (c *cluster) replace(i int) {
	c.kill(c.members[i])
	c.members[i].proxy.Close()
	c.members[i] = c.birth()
}

// fault sets the fault of all proxies.
func (c *cluster) fault(f faultproxy.Fault) {
	for _, m := range c.members {
		m.proxy.Set(f)
	}
}

// tell sends all replicas a line.
func (c *cluster) tell(line string) {
	for _, m := range c.members {
		io.WriteString(m.stdin, line+"\n")
	}
}

// end stops the replicas, each of which has to end well, and returns what was written
// down.
func (c *cluster) end() (*judge.History, error) {
	var errs []error
	for _, m := range c.members {
		if m.dead {
			continue
		}
		m.stdin.Close()
		killer := time.AfterFunc(30*time.Second, func() { m.signal(syscall.SIGKILL) })
		if err := m.cmd.Wait(); err != nil {
			errs = append(errs, fmt.Errorf("replica %s: %w", m.name, err))
		}
		killer.Stop()
		m.dead = true
	}
	h := new(judge.History)
	files, err := filepath.Glob(filepath.Join(c.dir, "*.jsonl"))
	errs = append(errs, err)
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		if err := h.Read(f); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", filepath.Base(name), err))
		}
		f.Close()
	}
	return h, errors.Join(errs...)
}

// alive are the names of those that were not killed.
func (c *cluster) alive() (names []string) {
	for i := range c.born {
		if name := fmt.Sprintf("r%d", i+1); !c.killed[name] {
			names = append(names, name)
		}
	}
	return names
}

// note writes an event of the test's own into the history.
func (c *cluster) note(r judge.Record) {
	w := judge.NewWriter(c.log, "test")
	w.Write(r)
}

func short(err error) string {
	if err == nil {
		return ""
	}
	s, _, _ := strings.Cut(err.Error(), "\n")
	return s
}
