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
	"math/rand/v2"
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

// Port returns a port of 127.0.0.1 at which nobody listens, for a server that may be
// started late, and again. It is below those that systems give to connections and to
// listeners that ask for any, 32768 and up, since one of these could have it while no
// server is there. Of those who call Port, in whatever process, nobody else gets it
// before the test ends: the UDP port of the same number says that it is taken.
func Port(t TB) int {
	t.Helper()
	for range 1000 {
		port := lowPort + rand.IntN(highPort-lowPort)
		claim, err := net.ListenPacket("udp", Address(port))
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", Address(port))
		if err != nil {
			claim.Close()
			continue
		}
		l.Close()
		t.Cleanup(func() { claim.Close() })
		return port
	}
	t.Fatalf("no port from %d to %d that is not in use", lowPort, highPort-1)
	return 0
}

const lowPort, highPort = 10000, 32768

// Address is port at the loopback interface.
func Address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
