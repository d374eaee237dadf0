package clustertest

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// usage is what a process has of a machine when it has nothing to do. What the system
// does not tell is 0.
type usage struct {
	RSS        int64 `json:"rss"`  // bytes of memory
	Heap       int64 `json:"heap"` // of which so many are of objects
	Goroutines int   `json:"goroutines"`
	FDs        int   `json:"fds"`
}

// slack is how many goroutines, and file descriptors, a process may have more than it had
// when it was new: a few connections to a store, of which a pool keeps more or less, one
// descriptor and at most one goroutine each. What leaks with each call, or each second
// fault, is more than that in two minutes.
const slack = 8

// grows returns an error when now is more than u was.
func (u usage) grows(now usage) (err error) {
	if now.Goroutines > u.Goroutines+slack {
		err = fmt.Errorf("%d goroutines, and %d at first", now.Goroutines, u.Goroutines)
	}
	if now.FDs > u.FDs+slack {
		err = errors.Join(err, fmt.Errorf("%d file descriptors, and %d at first", now.FDs, u.FDs))
	}
	return err
}

// measure is what this process uses.
func measure() (u usage) {
	debug.FreeOSMemory() // collects, too
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u.Heap, u.Goroutines = int64(m.HeapAlloc), runtime.NumGoroutine()
	if all, err := os.ReadDir("/proc/self/fd"); err == nil {
		u.FDs = len(all) - 1 // that of the directory
	}
	if status, err := os.ReadFile("/proc/self/statm"); err == nil {
		if of := strings.Fields(string(status)); len(of) > 1 {
			pages, _ := strconv.ParseInt(of[1], 10, 64)
			u.RSS = pages * int64(os.Getpagesize())
		}
	}
	return u
}

// Of so long a soak the memory may grow by so many MiB per hour. In a shorter one the
// garbage collector's ups and downs are more.
const longSoak, mostGrowth = time.Hour, 1.0

// growth is by how many MiB per hour the memory grew in a soak of that length, which is an
// error if it is too much.
func growth(samples []sample, length time.Duration) (float64, error) {
	if len(samples) > 3 {
		samples = samples[1:] // all grow at first
	}
	by := slope(samples)
	if length >= longSoak && by > mostGrowth {
		return by, fmt.Errorf("the memory grows by %.2f MiB per hour, want at most %v", by, mostGrowth)
	}
	return by, nil
}

// sample is the memory of a process, in bytes, so many hours after the begin.
type sample struct {
	Hours float64 `json:"hours"`
	RSS   float64 `json:"rss"`
	Heap  float64 `json:"heap"`
}

// slope is that of the line nearest to the RSS of samples, in MiB per hour; 0 of fewer than two.
func slope(samples []sample) float64 {
	var n, x, y, xx, xy float64
	for _, s := range samples {
		n, x, y, xx, xy = n+1, x+s.Hours, y+s.RSS, xx+s.Hours*s.Hours, xy+s.Hours*s.RSS
	}
	if n*xx-x*x <= 0 {
		return 0
	}
	return (n*xy - x*y) / (n*xx - x*x) / (1 << 20)
}
