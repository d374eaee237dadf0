package servers

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Process is a server under way.
type Process struct {
	// Dir is its working directory, which is empty at first and survives Restart.
	Dir string

	t    TB
	name string
	args []string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process is gone
}

// Start starts the program name, in a directory of its own. What it prints is in
// the file "log" there; Await shows its end. The test's end stops it.
func Start(t TB, name string, args ...string) *Process {
	t.Helper()
	p := &Process{Dir: t.TempDir(), t: t, name: name, args: args}
	p.start()
	// Runs before the cleanup of TempDir, which came first.
	t.Cleanup(p.Stop)
	return p
}

// In is Start in dir, for servers whose files are prepared there.
func In(t TB, dir, name string, args ...string) *Process {
	t.Helper()
	p := &Process{Dir: dir, t: t, name: name, args: args}
	p.start()
	t.Cleanup(p.Stop)
	return p
}

func (p *Process) start() {
	p.t.Helper()
	log, err := os.OpenFile(filepath.Join(p.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
	defer log.Close()
	cmd := exec.Command(p.name, p.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.Dir, log, log
	cmd.SysProcAttr = dieWithParent()
	started, done := make(chan error), make(chan struct{})
	go func() {
		// The kernel ends the child when the thread that began it ends, not the
		// process: so the thread is kept until the child is gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(done)
		err := cmd.Start()
		started <- err
		if err == nil {
			cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
	p.cmd, p.done = cmd, done
}

// Await waits until ready returns nil, asking again and again. The test fails when
// the server ends before, or has not come so far after a minute.
func (p *Process) Await(ready func() error) {
	p.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		err := ready()
		if err == nil {
			return
		}
		if p.Ended() {
			err = fmt.Errorf("it has ended: %s", p.cmd.ProcessState)
		} else if time.Now().Before(end) {
			continue
		}
		p.t.Fatalf("%s is not ready: %v\nIt has printed:\n%s", p.name, err, p.Log())
	}
}

// Pid is the number of the process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Signal sends a signal to the process, if it still is there.
func (p *Process) Signal(s os.Signal) { p.cmd.Process.Signal(s) }

// Ended reports whether the process is gone.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Stop asks the server to end (SIGTERM) and waits until it has, ten seconds at
// most; then it is killed. It may be called again, and of a server that has ended.
func (p *Process) Stop() {
	p.Signal(goOn) // a stopped one would not hear it
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
		p.Kill()
	}
}

// Kill ends the server at once, as a crash would (SIGKILL), and waits until it has
// ended.
func (p *Process) Kill() {
	p.cmd.Process.Kill()
	<-p.done
}

// Restart starts the server again, with the same arguments in the same directory,
// after a Stop if it still runs. It does not wait until it is ready.
func (p *Process) Restart() {
	p.t.Helper()
	p.Stop()
	p.start()
}

// Log is the end of what the server printed.
func (p *Process) Log() string {
	text, err := os.ReadFile(filepath.Join(p.Dir, "log"))
	if err != nil {
		return err.Error()
	}
	lines := strings.SplitAfter(string(bytes.TrimSpace(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "")
}
