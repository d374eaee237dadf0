package clustertest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/faultproxy"
	"github.com/flyball-go/flyball/internal/judge"
)

// cluster is replicas, each behind a proxy of its own, a store's server and a vendor.
type cluster struct {
	t        *testing.T
	dir      string
	server   *server
	vendors  []*vendor // of the template's jobs
	vendor   *vendor   // of the first
	template replica
	tune     func(i int, r *replica) // what is different of the i-th, from 1
	members  []*member
	born     int
	turn     int
	killed   map[string]bool
	notes    map[string]*notes
	control  bool // something is broken
}

// vendor is whom a job calls.
type vendor struct {
	*judge.Vendor
	job *job
	log *os.File
}

// member is a replica that runs.
type member struct {
	name  string
	proxy *faultproxy.Proxy
	cmd   *exec.Cmd
	stdin io.WriteCloser
	said  *bufio.Reader
	dead  bool
}

// begin starts n replicas that are as template says, and returns when all are ready. cfg is
// that of a vendor without slots.
func begin(t *testing.T, s *server, n int, template replica, tune func(int, *replica), cfg judge.Config) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: t.TempDir(), server: s, template: template, tune: tune, killed: make(map[string]bool), notes: make(map[string]*notes)}
	for _, j := range template.jobs() {
		cfg := cfg
		if j.Slots > 0 {
			cfg.Slots, cfg.Hold = j.Slots, hold
		}
		log, err := os.OpenFile(c.file("vendor", j), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Log = log
		v, err := judge.Start(cfg)
		if err != nil {
			t.Fatal(err)
		}
		c.vendors = append(c.vendors, &vendor{v, j, log})
	}
	c.vendor = c.vendors[0]
	t.Cleanup(func() {
		if t.Failed() {
			c.show()
		}
		for _, m := range c.members {
			if !m.dead {
				m.kill()
			}
			m.proxy.Close()
		}
		for _, v := range c.vendors {
			v.Close()
			v.log.Close()
		}
	})
	if err := s.unused(); err != nil {
		t.Fatal(err)
	}
	for range n {
		c.members = append(c.members, c.conceive())
	}
	for _, m := range c.members {
		c.ready(m)
	}
	return c
}

// show logs the end of what each replica printed.
func (c *cluster) show() {
	for i := range c.born {
		text, _ := os.ReadFile(filepath.Join(c.dir, name(i+1)+".log"))
		if text = text[max(0, len(text)-2000):]; len(text) > 0 {
			c.t.Logf("%s printed:\n%s", name(i+1), text)
		}
	}
}

// name is that of the i-th replica, from 1.
func name(i int) string { return fmt.Sprintf("r%d", i) }

// file is what name, a replica or the vendor, writes down of a job.
func (c *cluster) file(name string, j *job) string {
	if j.Job != "" {
		name += "." + j.Job
	}
	return filepath.Join(c.dir, name+".jsonl")
}

// birth starts another replica, and returns when it is ready.
func (c *cluster) birth() *member {
	c.t.Helper()
	m := c.conceive()
	c.ready(m)
	return m
}

func (c *cluster) ready(m *member) {
	c.t.Helper()
	if line, err := m.said.ReadString('\n'); err != nil || line != "ready\n" {
		c.t.Fatalf("replica %s says %q, %v", m.name, line, err)
	}
}

// conceive starts another replica.
func (c *cluster) conceive() *member {
	c.t.Helper()
	c.born++
	r := c.template
	if c.tune != nil {
		c.tune(c.born, &r)
	}
	m := &member{name: name(c.born)}
	r.Name, r.Beside = m.name, slices.Clone(r.Beside)
	for i, j := range r.jobs() {
		j.Vendor, j.History = c.vendors[i].URL(), c.file(m.name, j)
	}
	var err error
	if m.proxy, err = faultproxy.Listen(c.server.addr); err != nil {
		c.t.Fatal(err)
	}
	switch {
	case c.server.redis != nil:
		r.Redis = m.proxy.Addr()
		if r.Deaf {
			m.proxy.Set(faultproxy.Fault{Lose: hints})
		}
	case c.server.cluster != nil:
		r.Cluster = c.server.addrs() // nodes say where others are, so there is no proxy between
	default:
		r.MySQL = c.server.dsn(m.proxy.Addr())
	}
	told, err := json.Marshal(r)
	if err != nil {
		c.t.Fatal(err)
	}
	m.cmd = exec.Command(os.Args[0])
	m.cmd.Env = append(os.Environ(), replicaEnv+"="+string(told))
	said, err := os.Create(filepath.Join(c.dir, m.name+".log"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer said.Close()
	m.cmd.Stderr = said
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
	m.said = bufio.NewReader(out)
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

// next is another replica each time, in turn.
func (c *cluster) next() *member {
	c.turn++
	return c.members[c.turn%len(c.members)]
}

// ask sends a replica a line, and returns its answer.
func (m *member) ask(line string) (string, error) {
	io.WriteString(m.stdin, line+"\n")
	killer := time.AfterFunc(patience, func() { m.signal(syscall.SIGKILL) })
	defer killer.Stop()
	answer, err := m.said.ReadString('\n')
	if err != nil {
		err = fmt.Errorf("%s does not answer %q: %w", m.name, line, err)
	}
	return answer, err
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
	c.t.Helper()
	var errs []error
	for _, m := range c.members {
		if m.dead {
			continue
		}
		m.stdin.Close()
		killer := time.AfterFunc(patience, func() { m.signal(syscall.SIGKILL) })
		if err := m.cmd.Wait(); err != nil {
			errs = append(errs, fmt.Errorf("replica %s: %w", m.name, err))
		}
		killer.Stop()
		m.dead = true
	}
	return c.history(), errors.Join(errs...)
}

// alive are the names of those that were not killed.
func (c *cluster) alive() (names []string) {
	for i := range c.born {
		if n := name(i + 1); !c.killed[n] {
			names = append(names, n)
		}
	}
	return names
}

// note writes an event of the test's own into the history.
func (c *cluster) note(r judge.Record) {
	w := judge.NewWriter(c.vendor.log, "test")
	w.Write(r)
}

func short(err error) string {
	if err == nil {
		return ""
	}
	s, _, _ := strings.Cut(err.Error(), "\n")
	return s
}
