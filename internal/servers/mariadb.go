package servers

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// MariaDB is a MariaDB under way, for user root without a password, from this
// machine alone. It has no database but its own.
type MariaDB struct {
	*Process
	Port   int
	Socket string
}

// StartMariaDB starts a MariaDB with args beside those that make it small, and waits
// until it listens. A commit is on disk when it returns, unless args say otherwise.
func StartMariaDB(t TB, args ...string) *MariaDB {
	t.Helper()
	return startMariaDB(t, inMemory(t), args...)
}

// StartMariaDBOnDisk is StartMariaDB with its files on a disk, for who measures or
// wants to lose what has not been written: a log in memory is written at once.
func StartMariaDBOnDisk(t TB, args ...string) *MariaDB {
	t.Helper()
	return startMariaDB(t, t.TempDir(), args...)
}

func startMariaDB(t TB, dir string, args ...string) *MariaDB {
	t.Helper()
	program := Command(t, "mariadbd", "mariadb-server")
	install := Command(t, "mariadb-install-db", "mariadb-server")
	port := Port(t)
	data := filepath.Join(dir, "data")
	// Each its own for temporary tables: one that begins removes those that it finds.
	common := []string{"--no-defaults", "--datadir=" + data, "--tmpdir=" + dir}
	if os.Getuid() == 0 {
		common = append(common, "--user=root")
	}
	out, err := exec.Command(install, append(common, "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-log-bin")...).CombinedOutput()
	if err != nil {
		t.Fatalf("mariadb-install-db: %v\n%s", err, out)
	}
	m := &MariaDB{Port: port, Socket: filepath.Join(dir, "sock")}
	m.Process = In(t, dir, program, append(append(common,
		"--bind-address=127.0.0.1", "--port="+strconv.Itoa(port), "--socket="+m.Socket,
		"--pid-file="+filepath.Join(dir, "pid"), "--skip-name-resolve", "--skip-log-bin",
		"--innodb-flush-log-at-trx-commit=1", "--innodb-buffer-pool-size=16M", "--innodb-log-file-size=16M",
		"--performance-schema=OFF", "--key-buffer-size=1M", "--max-connections=200",
	), args...)...)
	m.AwaitReady()
	return m
}

// AwaitReady waits until the server greets who connects.
func (m *MariaDB) AwaitReady() {
	m.t.Helper()
	m.Await(func() error {
		c, err := net.DialTimeout("tcp", Address(m.Port), time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(time.Second))
		_, err = c.Read(make([]byte, 5)) // of its greeting
		return err
	})
}

// DSN is where database is, as go-sql-driver has it.
func (m *MariaDB) DSN(database string) string {
	return fmt.Sprintf("root@tcp(%s)/%s", Address(m.Port), database)
}

// inMemory is a directory that goes with the test: in memory, where there is such a
// place, since a database waits for its disk at each commit. What is written there
// outlives a server that is killed, as it would on a disk.
func inMemory(t TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "flyball-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
