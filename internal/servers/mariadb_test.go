package servers

import (
	"net"
	"os"
	"testing"
	"time"
)

func TestAMariaDBKeepsItsFilesAndGoesWithItsTest(t *testing.T) {
	Command(t, "mariadbd", "mariadb-server") // or this test is skipped, and not only its part
	var m *MariaDB
	t.Run("started", func(t *testing.T) {
		m = StartMariaDB(t)
		first := m.Pid()
		m.Kill()
		if !m.Ended() {
			t.Error("it is there after Kill")
		}
		m.Restart()
		m.AwaitReady()
		if m.Pid() == first {
			t.Error("it is the same after Restart")
		}
	})
	if c, err := net.DialTimeout("tcp", Address(m.Port), time.Second); err == nil {
		c.Close()
		t.Error("it listens when its test is over")
	}
	if !m.Ended() {
		t.Error("its process is there when its test is over")
	}
	if _, err := os.Stat(m.Dir); !os.IsNotExist(err) {
		t.Errorf("its files are there when its test is over: %v", err)
	}
}
