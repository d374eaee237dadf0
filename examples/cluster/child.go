package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/flyball-go/flyball/examples/internal/adsclient"
)

// child is one of the processes, as the leader sees it.
type child struct {
	n       int // from 1
	cmd     *exec.Cmd
	in      io.WriteCloser
	under   map[string]adsclient.Access // the accounts that it has and has not told of
	last    told                        // what it told last
	killed  bool
	dismiss bool // its input has ended
	gone    bool
}

// heard is a line of a child, or its end.
type heard struct {
	from *child
	told
	end bool
	err error // of the end
}

// startChild starts a process, whose lines and end are sent to hear. Somebody has to
// receive until the end has come.
func startChild(n int, s setup, hear chan<- heard) (*child, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), replicaEnv+"=1")
	var said bytes.Buffer // read when the process is gone
	cmd.Stderr = &said
	dieWithUs(cmd)
	c := &child{n: n, cmd: cmd, under: map[string]adsclient.Access{}}
	if c.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	started := make(chan error)
	go func() {
		// The kernel ends a child when the thread ends that began it: so that is kept.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		lines := json.NewDecoder(bufio.NewReader(out))
		for {
			var t told
			if lines.Decode(&t) != nil { // its end, perhaps within a line
				break
			}
			hear <- heard{from: c, told: t}
		}
		io.Copy(io.Discard, out) // what is no line is not waited for by the writer
		err = cmd.Wait()
		if text := strings.TrimSpace(said.String()); err != nil && text != "" {
			err = fmt.Errorf("%w: %.500s", err, text)
		}
		hear <- heard{from: c, end: true, err: err}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	c.say(s)
	return c, nil
}

// say writes a line. When it cannot, the child is going, which is heard of.
func (c *child) say(v any) {
	line, err := json.Marshal(v)
	if err != nil {
		panic(err) // what is said has nothing that is no JSON
	}
	c.in.Write(append(line, '\n'))
}

// send gives the child an account to report.
func (c *child) send(a adsclient.Access) {
	c.under[a.Customer] = a
	c.say(task{a})
}

// close tells the child to end.
func (c *child) close() {
	if !c.dismiss {
		c.dismiss = true
		c.in.Close()
	}
}

// kill ends the child at once (SIGKILL).
func (c *child) kill() {
	c.killed = true
	c.cmd.Process.Kill()
}
