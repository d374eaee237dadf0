package mysqlstore_test

import (
	"flag"
	"os"
	"sync"
	"testing"

	"github.com/flyball-go/flyball/internal/servers"
)

func TestMain(m *testing.M) {
	// The checks of the conformance suite wait most of the time, for windows to end.
	flag.Set("test.parallel", "4") // before the command line is parsed, which wins
	code := m.Run()
	common.host.Close()
	os.Exit(code)
}

// common is the server for all tests that do with one of the usual settings, each in
// databases of its own. The tests of this package run one after the other, so that one
// may crash it, or change a setting, and put that right again.
var common struct {
	once sync.Once
	host servers.Host
	db   *servers.MariaDB
	err  error
}

// shared is that server, which it starts if need be.
func shared(t testing.TB) *servers.MariaDB {
	t.Helper()
	servers.Command(t, "mariadbd", "mariadb-server") // or t is skipped, or fails, not all
	common.once.Do(func() {
		common.err = common.host.Try(func() { common.db = servers.StartMariaDB(&common.host) })
	})
	err := common.err
	if err == nil && common.db.Ended() { // a test that failed has left it so
		err = common.host.Try(func() {
			common.db.Restart()
			common.db.AwaitReady()
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return common.db
}
