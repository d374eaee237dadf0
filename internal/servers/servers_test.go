package servers

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// double is a test that notes how it ends.
type double struct {
	testing.TB
	said string
}

func (d *double) Fatalf(format string, args ...any) {
	d.said = "fails: " + fmt.Sprintf(format, args...)
	panic(d)
}
func (d *double) Skipf(format string, args ...any) {
	d.said = "skips: " + fmt.Sprintf(format, args...)
	panic(d)
}

func (d *double) run(f func()) (said string) {
	defer func() {
		said = d.said
		if p := recover(); p != nil && p != any(d) {
			panic(p)
		}
	}()
	f()
	return ""
}

func TestAMissingProgramFailsTheTestAndSaysHowToGetIt(t *testing.T) {
	d := &double{TB: t}
	want := "fails: there is no nosuchserver, which this test starts; on Debian: apt-get install nosuchpackage"
	if testing.Short() {
		want = "skips: needs a nosuchserver"
	}
	if said := d.run(func() { Command(d, "nosuchserver", "nosuchpackage") }); !strings.HasPrefix(said, want) {
		t.Errorf("it %s", said)
	}
}

func TestPortsAreDifferent(t *testing.T) {
	seen := map[int]bool{}
	for range 300 {
		p := Port(t)
		if seen[p] {
			t.Fatalf("port %d twice", p)
		}
		seen[p] = true
	}
}

// A server that starts late, or again, finds its port taken if the system has given
// it to a connection meanwhile.
func TestAPortIsNoneThatTheSystemGivesAway(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		t.Skip(err)
	}
	var low, high int
	if _, err := fmt.Sscan(string(text), &low, &high); err != nil {
		t.Fatal(err)
	}
	if low < highPort {
		t.Skipf("this system gives away %d to %d, more than others do", low, high)
	}
	for range 100 {
		if p := Port(t); low <= p && p <= high {
			t.Fatalf("port %d is one of %d to %d", p, low, high)
		}
	}
}

func TestAPortIsNobodyElsesUntilTheTestEnds(t *testing.T) {
	var port int
	t.Run("that has it", func(t *testing.T) {
		port = Port(t)
		if c, err := net.ListenPacket("udp", Address(port)); err == nil {
			c.Close()
			t.Error("the next process would take it, too")
		}
	})
	c, err := net.ListenPacket("udp", Address(port))
	if err != nil {
		t.Fatalf("it is kept: %v", err)
	}
	c.Close()
}

// shell is a server that everybody has. It ignores SIGTERM if deaf.
func shell(t *testing.T, deaf bool) *Process {
	if testing.Short() {
		t.Skip("starts processes")
	}
	script := "echo began; touch began; while :; do sleep .01; done"
	if deaf {
		script = "trap '' TERM; " + script
	}
	p := Start(t, "/bin/sh", "-c", script)
	p.Await(func() error { _, err := os.Stat(filepath.Join(p.Dir, "began")); return err })
	return p
}

func TestAProcessEndsWithItsTest(t *testing.T) {
	var p *Process
	t.Run("of a server", func(t *testing.T) { p = shell(t, false) })
	if p == nil {
		t.Skip("no server")
	}
	if !p.Ended() {
		t.Error("it is still there")
	}
}

func TestStopTwiceKillAndRestart(t *testing.T) {
	p := shell(t, false)
	first := p.Pid()
	p.Stop()
	p.Stop()
	if !p.Ended() {
		t.Error("it goes on after Stop")
	}
	p.Restart()
	if p.Ended() || p.Pid() == first {
		t.Error("it has not begun again")
	}
	p.Kill()
	if !p.Ended() {
		t.Error("it goes on after Kill")
	}
}

func TestAwaitSaysWhatAServerPrintedThatEnded(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	d := &double{TB: t}
	said := d.run(func() {
		p := Start(d, "/bin/sh", "-c", "echo the port is taken; exit 3")
		p.Await(func() error { return os.ErrNotExist })
	})
	if !strings.Contains(said, "the port is taken") || !strings.Contains(said, "exit status 3") {
		t.Errorf("it %s", said)
	}
}

func TestRedisStartsAndRestarts(t *testing.T) {
	r := Redis(t)
	r.Must("SET", "a", "1")
	r.Kill()
	r.Restart()
	r.Ready()
	if got := r.Must("GET", "a"); got != "" {
		t.Errorf("a restarted server, which keeps nothing, has %q", got)
	}
	replica := Replica(t, r)
	r.Must("SET", "a", "2")
	replica.Await(func() error { return replica.says("2", "GET", "a") })
}

func TestSentinelsAgree(t *testing.T) {
	r := Redis(t)
	Replica(t, r)
	for _, s := range Sentinels(t, "main", r, 1, time.Second) {
		if got := s.Must("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main"); got != fmt.Sprintf("127.0.0.1\n%d", r.Port) {
			t.Errorf("a sentinel says %q", got)
		}
	}
}

func TestAClusterAgrees(t *testing.T) {
	all := Cluster(t, time.Second)
	if len(all) != 6 {
		t.Fatalf("%d nodes", len(all))
	}
}
