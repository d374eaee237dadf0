package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"strings"
	"time"
)

// crowd is one of the two things that a row in bytes compares: n things that are
// there at once. It makes what does not count, closures and contexts for
// instance, and returns a function that makes what does. What that function
// refers to is kept alive until the bytes are counted.
type crowd struct {
	n          int
	goroutines int // that each of the n has: 0 or 1
	prepare    func(n int) (fill func() error, err error)
}

// crowds are those of all memory rows, by "row/ours" and "row/peer". Each is
// measured in a process of its own, because the runtime keeps what it once
// needed: dead goroutines' descriptors, grown tables.
var crowds = map[string]crowd{}

// childEnv names the crowd, or the bubble and how many seeds ("F2gov*6"), that this process is to measure.
const childEnv = "FLYBALL_BENCH_CROWD"

// footprint is what a child found, for one of the n.
type footprint struct {
	Bytes   float64 `json:"bytes"`   // growth of heap and stacks, after collection
	Stack   float64 `json:"stack"`   // of these the stacks
	Mallocs float64 `json:"mallocs"` // allocations, those collected since included
}

// memory measures ours and peer, each in a process of its own. Bytes hardly
// vary, so three passes are the most.
func memory(id string, ours, peer crowd) func(passes int) ([]sample, error) {
	crowds[id+"/ours"], crowds[id+"/peer"] = ours, peer
	return beside(id, func(ours, peer footprint) sample { return sample{ours.Bytes, peer.Bytes, ours.Mallocs} })
}

// beside measures the two crowds of id.
func beside(id string, of func(ours, peer footprint) sample) func(passes int) ([]sample, error) {
	return func(passes int) ([]sample, error) {
		samples := make([]sample, min(passes, 3))
		for i := range samples {
			a, err := spawn(id + "/ours")
			if err != nil {
				return nil, err
			}
			b, err := spawn(id + "/peer")
			if err != nil {
				return nil, fmt.Errorf("peer: %w", err)
			}
			samples[i] = of(a, b)
		}
		return samples, nil
	}
}

// spawn measures a crowd in a copy of this program.
func spawn(id string) (f footprint, err error) {
	out, err := respawn(id)
	if err != nil {
		return f, err
	}
	return f, json.Unmarshal(out, &f)
}

// respawn returns what a copy of this program prints that is told to be the child id.
func respawn(id string) ([]byte, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"="+id)
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && len(exit.Stderr) > 0 {
		line, _, _ := strings.Cut(string(exit.Stderr), "\n")
		err = errors.New(line)
	}
	return out, err
}

// child measures one crowd and prints its footprint, or runs a bubble.
func child(id string, stdout, stderr io.Writer) int {
	if strings.Contains(id, "*") {
		bubbled(id, stdout, stderr)
	}
	c, ok := crowds[id]
	if !ok {
		fmt.Fprintf(stderr, "there is no crowd %q\n", id)
		return 2
	}
	f, err := c.measure()
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	if err := json.NewEncoder(stdout).Encode(f); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

func (c crowd) measure() (footprint, error) {
	fill, err := c.prepare(c.n)
	if err != nil {
		return footprint{}, err
	}
	before, others := settled(), runtime.NumGoroutine()
	if err := fill(); err != nil {
		return footprint{}, err
	}
	if err := rest(others+c.goroutines*c.n, 20*time.Second); err != nil {
		return footprint{}, err
	}
	after := settled()
	runtime.KeepAlive(fill)
	return footprint{
		Bytes:   float64(bytes(after)-bytes(before)) / float64(c.n),
		Stack:   float64(int64(after.StackInuse)-int64(before.StackInuse)) / float64(c.n),
		Mallocs: float64(after.Mallocs-before.Mallocs) / float64(c.n),
	}, nil
}

func bytes(m runtime.MemStats) int64 { return int64(m.HeapAlloc + m.StackInuse) }

// settled returns what is in use when nothing is left to collect. It collects
// twice, since a sync.Pool gives up its contents at the second time.
func settled() (m runtime.MemStats) {
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m
}

// rest waits until there are n goroutines, give or take the program's and the
// runtime's own, and all are parked.
func rest(n int, patience time.Duration) error {
	const own = 8
	parked := []metrics.Sample{{Name: "/sched/goroutines/waiting:goroutines"}}
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		metrics.Read(parked)
		if parked[0].Value.Kind() != metrics.KindUint64 {
			return errors.New("this Go version does not count parked goroutines")
		}
		there, idle := runtime.NumGoroutine(), int(parked[0].Value.Uint64())
		if there >= n-own && there <= n+own && idle >= there-own {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d goroutines, %d of them parked, want about %d", there, idle, n)
		}
	}
}
