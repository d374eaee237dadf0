package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// programEnv has the test's binary be the program: to link it once more takes long.
const programEnv = "FLYBALL_EXAMPLE_GOOGLEADS"

// build builds the server, once.
var build = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "googleads-test"); err != nil {
		return "", err
	}
	out, err := exec.Command("go", "build", "-o", dir+"/", "./adsserver").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, out)
	}
	return dir, err
})

func TestMain(m *testing.M) {
	if os.Getenv(programEnv) != "" {
		main()
	}
	code := m.Run()
	if dir, err := build(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// command is googleads or adsserver. Its environment has no credentials.
func command(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	if name == "adsserver" {
		var dir string
		dir, err = build()
		program = filepath.Join(dir, name)
		if runtime.GOOS == "windows" {
			program += ".exe"
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "GOOGLE_ADS_") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	if name == "googleads" {
		cmd.Env = append(cmd.Env, programEnv+"=1")
	}
	return cmd
}

// witness is a server in a process of its own.
type witness struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
	addr  string
	root  string // the file with its certificate, of a TLS server
}

func startServer(t *testing.T, args ...string) *witness {
	t.Helper()
	w := &witness{cmd: command(t, "adsserver", append(args, "-listen", "127.0.0.1:0")...)}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.lines = bufio.NewScanner(out)
	for w.lines.Scan() {
		line := w.lines.Text()
		if file, ok := strings.CutPrefix(line, "root certificate "); ok {
			w.root = file
		}
		if _, rest, ok := strings.Cut(line, " accounts on "); ok {
			w.addr, _, _ = strings.Cut(rest, ",")
			return w
		}
	}
	t.Fatal("the server said no address")
	return nil
}

// end interrupts the server and returns what it saw.
func (w *witness) end(t *testing.T) string {
	t.Helper()
	if err := w.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for w.lines.Scan() {
		b.WriteString(strings.Join(strings.Fields(w.lines.Text()), " ") + "\n")
	}
	if err := w.cmd.Wait(); err != nil {
		t.Errorf("adsserver: %v", err)
	}
	return b.String()
}

// Two processes: what the client measured is what the server saw.
func TestWitness(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no interrupts")
	}
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls=%v", secure), func(t *testing.T) {
			w := startServer(t, append(slow[:10:10], "-accounts", "40", fmt.Sprintf("-tls=%v", secure))...)
			args := append(slow, "-endpoint", w.addr, "-mode", "governed", "-json")
			if secure {
				args = append(args, "-ca", w.root)
			}
			cmd := command(t, "googleads", args...)
			var errs bytes.Buffer
			cmd.Stderr = &errs
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, errs.String())
			}
			m := measurements(t, string(out), "governed")["governed"]
			if m.Completed != 40 || m.DuringPause != 0 || m.Calls != 42+m.Refused {
				t.Errorf("%+v", m)
			}
			saw := w.end(t)
			want := fmt.Sprintf("calls %d\naccepted 42\nrefused %d\n", m.Calls, m.Refused)
			if !strings.HasPrefix(saw, want) || !strings.Contains(saw, "escalations 0\n") || !strings.Contains(saw, fmt.Sprintf("rows sent %d\n", m.Rows+40)) {
				t.Errorf("the client measured %+v, the server saw\n%s", m, saw)
			}
		})
	}
}

// What is wrong is said in one line, and nothing is printed as if it were right.
func TestFailuresOfTheProgram(t *testing.T) {
	for _, tc := range []struct {
		args string
		code int
		says string
	}{
		{"-workers 0", exitUsage, "-workers 0: want 1 to 10000"},
		{"-endpoint 127.0.0.1:1", exitFailed, "no connection to 127.0.0.1:1"},
		{"-endpoint 127.0.0.1:1 -access-token x -json", exitFailed, "connection refused"},
		{"-refresh-token wrong", exitFailed, "invalid_grant"},
		{"-access-token wrong -json", exitFailed, "OAUTH_TOKEN_INVALID"},
		{"-login-customer-id 1234567890 -mode governed", exitFailed, "INVALID_LOGIN_CUSTOMER_ID"},
	} {
		cmd := command(t, "googleads", strings.Fields(tc.args)...)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		cmd.Run() // the exit code tells
		if code := cmd.ProcessState.ExitCode(); code != tc.code || out.Len() > 0 || strings.Count(errs.String(), "\n") != 1 || !strings.Contains(errs.String(), tc.says) {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", tc.args, code, out.String(), errs.String())
		}
	}
	for _, args := range []string{"-accounts 0", "-listen nowhere", "-api-versions x", "-api-versions v25,v25", "word", "-odd"} {
		cmd := command(t, "adsserver", strings.Fields(args)...)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		cmd.Run() // the exit code tells
		if cmd.ProcessState.Success() || out.Len() > 0 || strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("adsserver %s: stdout %q, stderr %q", args, out.String(), errs.String())
		}
	}
}

// Ctrl-C drains and prints what was done.
func TestInterruptedProgram(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no interrupts")
	}
	cmd := command(t, "googleads", "-mode", "governed")
	var out bytes.Buffer
	cmd.Stdout = &out
	progress, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(progress)
	for interrupted := false; lines.Scan(); {
		if !interrupted && !strings.Contains(lines.Text(), "] 0/") {
			interrupted = true
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
	}
	cmd.Wait() // the exit code tells
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted || !strings.Contains(out.String(), "stopped, ") || !strings.Contains(out.String(), "of 2000 missing") {
		t.Errorf("exit %d\n%s", code, out.String())
	}
}
