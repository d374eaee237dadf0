package mysqlstore_test

import (
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/flyball-go/flyball/internal/servers"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// The checks of the conformance suite wait most of the time, for windows to end.
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		flag.Set("test.parallel", "4")
	}
	code := m.Run()
	lifetime.end()
	os.Exit(code)
}

// shared is a server for all tests that do with one of the usual settings, each in
// databases of its own. The tests of this package run one after the other, so that one
// may crash it, or change a setting, and put that right again.
func shared(t testing.TB) *servers.MariaDB {
	t.Helper()
	servers.Command(t, "mariadbd", "mariadb-server") // or t is skipped, or fails, not all
	started.Do(func() { common = servers.StartMariaDB(&lifetime) })
	if common == nil || common.Ended() {
		t.Fatal("the server that all tests share has ended")
	}
	return common
}

var (
	lifetime whole
	started  sync.Once
	common   *servers.MariaDB
)

// whole stands for all tests together, as what has begun a server.
type whole struct{ cleanups []func() }

func (w *whole) Helper()                           {}
func (w *whole) Cleanup(f func())                  { w.cleanups = append(w.cleanups, f) }
func (w *whole) Logf(format string, args ...any)   { fmt.Printf(format+"\n", args...) }
func (w *whole) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (w *whole) Skipf(format string, args ...any)  { panic(fmt.Sprintf(format, args...)) }

func (w *whole) TempDir() string {
	dir, err := os.MkdirTemp("", "flyball-test-")
	if err != nil {
		w.Fatalf("%v", err)
	}
	w.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (w *whole) end() {
	for i := len(w.cleanups) - 1; i >= 0; i-- {
		w.cleanups[i]()
	}
}
