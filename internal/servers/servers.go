// Package servers starts real servers for tests, and for programs that measure:
// private ones, on free ports of the loopback interface, with their files in a
// directory that goes with the test. A server ends with the test that started it,
// or with the test's process, however that ends.
//
//	p := servers.Start(t, servers.Command(t, "redis-server", "redis-server"), "--port", strconv.Itoa(servers.Port(t)))
//
// The rest of a Process may be used by any number of goroutines, but Restart, Stop
// and Kill by one at a time. It knows nothing of what the servers are: the files
// beside this one do.
package servers

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"
)

// TB is what is needed of a test. A program that is none brings its own.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
	Skipf(format string, args ...any)
	TempDir() string
}

// Command returns the path of a program that debianPackage has. If there is none,
// the test fails, and says how to get it; under -short it is skipped, whether there
// is one or not, and the first of a process says on stderr that it is: go test shows
// that with -v, or of the package in the current directory.
func Command(t TB, program, debianPackage string) string {
	t.Helper()
	if testing.Testing() && testing.Short() {
		said.Do(func() { fmt.Fprintln(os.Stderr, "-short is set: tests that need servers of their own are skipped") })
		t.Skipf("needs a %s of its own: skipped, since -short is set", program)
	}
	// Debian keeps servers where only root looks for them.
	for _, dir := range []string{"", "/usr/sbin/", "/usr/local/sbin/"} {
		if path, err := exec.LookPath(dir + program); err == nil {
			return path
		}
	}
	t.Fatalf("there is no %s, which this test starts; on Debian: apt-get install %s (or leave out what needs servers: go test -short)", program, debianPackage)
	return ""
}

var said sync.Once

// ports are those that Port has handed out, so that none is twice.
var ports struct {
	mu   sync.Mutex
	used map[int]bool // guarded by mu
}

// Port returns a port of 127.0.0.1 at which nobody listens. The kernel picks it,
// and it could be taken by somebody else before a server listens there: Start what
// needs it soon.
func Port(t TB) int {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("no port: %v", err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		l.Close()
		ports.mu.Lock()
		again := ports.used[port]
		if ports.used == nil {
			ports.used = make(map[int]bool)
		}
		ports.used[port] = true
		ports.mu.Unlock()
		if !again {
			return port
		}
	}
	t.Fatalf("no port that is not in use")
	return 0
}

// Address is port at the loopback interface.
func Address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
