package servers

import (
	"fmt"
	"os"
)

// Host is a TB for programs that are no tests. Its zero value is ready. It is used by
// one goroutine at a time.
type Host struct {
	cleanups []func()
}

// failure is what Fatalf panics with, for Try.
type failure struct{ error }

// Try calls f, which may start servers, and returns what they failed with.
func (h *Host) Try(f func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p.error
		default:
			panic(p)
		}
	}()
	f()
	return nil
}

// Close ends the servers, the last first, and removes their files.
func (h *Host) Close() {
	for len(h.cleanups) > 0 {
		last := len(h.cleanups) - 1
		f := h.cleanups[last]
		h.cleanups = h.cleanups[:last]
		f()
	}
}

// Helper does nothing.
func (h *Host) Helper() {}

// Cleanup has Close call f.
func (h *Host) Cleanup(f func()) { h.cleanups = append(h.cleanups, f) }

// Logf drops what is said.
func (h *Host) Logf(string, ...any) {}

// Fatalf ends the function that Try called.
func (h *Host) Fatalf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// Skipf is Fatalf.
func (h *Host) Skipf(format string, args ...any) { h.Fatalf(format, args...) }

// TempDir makes a directory that Close removes.
func (h *Host) TempDir() string {
	dir, err := os.MkdirTemp("", "flyball-")
	if err != nil {
		h.Fatalf("%v", err)
	}
	h.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
