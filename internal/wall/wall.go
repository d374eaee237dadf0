// Package wall sets the wall clock back and forth, in tests that nothing depends
// on it.
package wall

import (
	"testing"
	"time"
	"unsafe"
)

// Set is at as if the wall clock had been set by d before it was read: its
// monotonic reading stays. The test is skipped where that cannot be done.
func Set(t testing.TB, at time.Time, d time.Duration) time.Time {
	t.Helper()
	s := at
	// A Time that has a monotonic reading keeps the wall's seconds in bits 30 to 62.
	(*struct {
		wall uint64
		ext  int64
		loc  *time.Location
	})(unsafe.Pointer(&s)).wall += uint64(d/time.Second) << 30
	if s.Sub(at) != 0 || s.Round(0).Sub(at.Round(0)) != d {
		t.Skip("package time keeps times in another way now")
	}
	return s
}
