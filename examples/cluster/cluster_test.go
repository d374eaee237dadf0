package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/examples/internal/adsreport"
	"github.com/flyball-go/flyball/internal/servers"
)

// leaderEnv has the test's binary be the program.
const leaderEnv = "FLYBALL_EXAMPLE_LEADER"

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(replicaEnv) != "":
		os.Exit(replicaMain())
	case os.Getenv(leaderEnv) != "":
		os.Unsetenv(leaderEnv)
		flag.CommandLine.Parse(nil) // the flags are the program's, and not the test's
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// slow is a quota at a pace that a busy machine keeps up with.
var slow = []string{"-qps", "100", "-burst", "10", "-cooldown", "300ms", "-grace", "50ms", "-latency", "50ms", "-start-rate", "60", "-replicas", "3"}

// needs fails the test where the server of a store is missing, and skips it under -short.
func needs(t *testing.T, store string) {
	t.Helper()
	if store == "redis" {
		servers.Command(t, "redis-server", "redis-server")
		return
	}
	servers.Command(t, "mariadbd", "mariadb-server")
	servers.Command(t, "mariadb-install-db", "mariadb-server")
}

// children are the processes that parent has begun and that are there still; those that
// nobody has waited for are, unless they are dead. nil where it cannot be told.
func children(t *testing.T, parent int) (pids []int) {
	t.Helper()
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil { // it has just ended
			continue
		}
		var state string
		var of int
		name := bytes.LastIndexByte(text, ')')
		if _, err := fmt.Sscan(string(text[name+1:]), &state, &of); err != nil {
			t.Fatal(err)
		}
		if of == parent {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// Processes that share a quota keep to it, together, and what one of them had under way
// when it was killed the others do.
func TestProcessesShareAQuotaAndOneIsKilled(t *testing.T) {
	for _, store := range []string{"redis", "mysql"} {
		t.Run(store, func(t *testing.T) {
			needs(t, store)
			const n = 150
			var out, errs bytes.Buffer
			code := run(t.Context(), append(slow, "-store", store, "-accounts", strconv.Itoa(n), "-json"), &out, &errs)
			if code != exitOK {
				t.Fatalf("exit %d\n%s%s", code, out.String(), errs.String())
			}
			var modes map[string]struct {
				adsreport.Measured
				cluster
			}
			if err := json.Unmarshal(out.Bytes(), &modes); err != nil || len(modes) != 2 {
				t.Fatalf("%v in %s", err, out.String())
			}
			for mode, m := range modes {
				if m.Completed != n || !m.Same || m.Rows == 0 || m.Rows != modes[governed].Rows || m.Killed != 1 || m.Replicas != 3 {
					t.Errorf("%s: %+v", mode, m)
				}
				// What is handed out again may have been done.
				if m.Calls != m.Accepted+m.Refused || m.Accepted < n+2 || m.Accepted > int64(n+2+m.Again) {
					t.Errorf("%s: %+v: the calls do not add up", mode, m)
				}
				if m.DuringPause != 0 {
					t.Errorf("%s: %d calls were begun in a pause that their process knew of", mode, m.DuringPause)
				}
				if want := 100 * n / (100 * float64(m.ElapsedMillis) / 1000); m.GoodputPct < want-0.5 || m.GoodputPct > want+0.5 {
					t.Errorf("%s: goodput %v, want %v", mode, m.GoodputPct, want)
				}
			}
			// Each by itself would be refused again and again; one call may be late.
			if c := modes[configured]; c.Escalations != 0 || c.Refused > 2 {
				t.Errorf("who shares a quota was refused, or made a pause longer: %+v", c)
			}
			for _, mode := range []string{governed, configured} {
				said := regexp.MustCompile(mode + `: process \d+ killed after (\d+) reports`).FindStringSubmatch(errs.String())
				if said == nil {
					t.Fatalf("%s: nothing of a process that was killed:\n%s", mode, errs.String())
				}
				if after, _ := strconv.Atoi(said[1]); after < n/2 || after >= n {
					t.Errorf("%s: killed after %d reports, want halfway", mode, after)
				}
			}
			if left := children(t, os.Getpid()); left != nil {
				t.Errorf("processes %v are left", left)
			}
		})
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// The end of the context, which is Ctrl-C, ends all processes, and what was done is told.
func TestInterruptEndsAllProcesses(t *testing.T) {
	needs(t, "redis")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	code := run(ctx, append(slow, "-accounts", "1000", "-mode", configured), &out, writerFunc(func(p []byte) (int, error) {
		cancel() // some reports are there
		return len(p), nil
	}))
	if code != exitInterrupted || !strings.Contains(out.String(), "stopped, ") || !strings.Contains(out.String(), "of 1000 missing") {
		t.Errorf("exit %d\n%s", code, out.String())
	}
	if left := children(t, os.Getpid()); left != nil {
		t.Errorf("processes %v are left", left)
	}
}

// When the program itself is killed, nothing that it began goes on.
func TestNothingOutlivesTheProgram(t *testing.T) {
	needs(t, "redis")
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends the server of a program that is killed")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, append(slow, "-accounts", "1000", "-mode", configured)...)
	cmd.Env = append(os.Environ(), leaderEnv+"=1", "TMPDIR="+t.TempDir()) // which goes with the test
	progress, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if !bufio.NewScanner(progress).Scan() {
		t.Fatal("it says nothing")
	}
	begun := children(t, cmd.Process.Pid)
	if len(begun) != 4 {
		t.Errorf("processes %v, want three and a server", begun)
	}
	cmd.Process.Kill()
	cmd.Wait() // its error is that it was killed
	for _, pid := range begun {
		for end := time.Now().Add(20 * time.Second); running(pid); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Errorf("process %d is left", pid)
				break
			}
		}
	}
}

// running reports whether a process is there, and is not one that only waits to be
// waited for.
func running(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !bytes.Contains(text, []byte(") Z "))
}

func TestAMissingServerIsSaid(t *testing.T) {
	if testing.Short() {
		t.Skip("says something else under -short")
	}
	t.Setenv("PATH", t.TempDir())
	var out, errs bytes.Buffer
	if code := run(t.Context(), nil, &out, &errs); code != exitFailed || out.Len() > 0 ||
		errs.String() != "cluster: -store redis: there is no redis-server, which this program starts; on Debian: apt-get install redis-server\n" {
		t.Errorf("exit %d, stdout %q, stderr %q", code, out.String(), errs.String())
	}
}

func TestWrongFlags(t *testing.T) {
	for args, says := range map[string]string{
		"-store etcd":               "-store etcd: want redis or mysql",
		"-replicas 0":               "-replicas 0: want 1 to 64",
		"-replicas 1":               "-replicas 1: want 2 or more, since one is killed",
		"-kill 1":                   "-kill 1: want 0 or more, and less than 1",
		"-kill NaN":                 "-kill NaN: want 0 or more",
		"-mode naive":               "-mode naive: want governed or configured",
		"-store mysql -addr x:1":    "-addr x:1: is for -store redis",
		"-dsn root@tcp(db:3306)/my": "-dsn: is for -store mysql",
		"-report weekly":            "-report weekly: want daily, hourly or campaigns",
		"-accounts 0":               "-accounts 0: want 1 to 100000",
		"-qps 2e6":                  "-qps 2e+06: want at most a million",
		"word":                      `unexpected argument "word"`,
		"-odd":                      "not defined: -odd",
	} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), strings.Fields(args), &out, &errs); code != exitUsage || out.Len() > 0 || strings.Count(errs.String(), "\n") != 1 || !strings.Contains(errs.String(), says) {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", args, code, out.String(), errs.String())
		}
	}
}

// A pause is longer than it takes until all processes have heard of it.
func TestPausesAreLongerThanTheWayThroughTheStore(t *testing.T) {
	for args, want := range map[string][2]time.Duration{
		"":                                  {150 * time.Millisecond, 15 * time.Millisecond},
		"-store mysql":                      {600 * time.Millisecond, 300 * time.Millisecond},
		"-store mysql -grace 1ms":           {600 * time.Millisecond, time.Millisecond},
		"-store mysql -quota real":          {15 * time.Second, time.Second},
		"-store mysql -quota cooldown=9s":   {9 * time.Second, 15 * time.Millisecond},
		"-cooldown-max 1m -store mysql":     {600 * time.Millisecond, 300 * time.Millisecond},
		"-store redis -quota demo -qps 100": {150 * time.Millisecond, 15 * time.Millisecond},
	} {
		o, err := parse(strings.Fields(args))
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]time.Duration{o.model.Quota.Pause, o.model.Quota.Grace}; got != want {
			t.Errorf("%s: pause and grace are %v, want %v", args, got, want)
		}
	}
}

// What the processes may do together in any time, the vendor's bucket has.
func TestWithinABucket(t *testing.T) {
	for _, q := range []struct {
		rate  float64
		burst int
	}{{250, 20}, {100, 10}, {10, 40}, {1000, 40}, {50, 5}, {0.5, 3}, {100_000, 1000}} {
		l := within(q.rate, q.burst)
		if err := l.Check(); err != nil {
			t.Errorf("%+v: %v", q, err)
			continue
		}
		// See store.Limit.Charge: each permit takes the bucket's time for it, and is used
		// within Lease and Transit of that.
		fill := float64(l.Quota+1-l.Burst) / (l.Per + l.Lease + l.Transit).Seconds()
		atOnce := float64(l.Burst) + fill*(l.Lease+l.Transit).Seconds()
		if fill > q.rate || fill < 0.95*q.rate || atOnce > float64(q.burst) {
			t.Errorf("%+v: %+v fills at %v a second, and lets %v pass at once", q, l, fill, atOnce)
		}
	}
}
