package governor

import (
	"testing"
	"time"
	"unsafe"
)

// A time without a monotonic reading, as it comes from a file or a header, means
// what the wall clock shows now, not what it would show had it not been set.
func TestTimeWithoutMonotonicReadingIsReadByTheWallClockOfNow(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, 0, time.Hour} {
		g := &gate{base: stepped(time.Now(), -step)} // since then the clock was set by step
		soon := time.Now().Add(time.Minute)
		for name, at := range map[string]time.Time{"with": soon, "without": soon.Round(0)} {
			if d := time.Duration(g.ns(at)) - time.Since(g.base); (d - time.Minute).Abs() > 30*time.Second {
				t.Errorf("clock set by %v: a minute from now, %s monotonic reading, is in %v", step, name, d)
			}
		}
	}
}

// stepped returns t as it would have been read had the wall clock shown d more.
func stepped(t time.Time, d time.Duration) time.Time {
	wall := (*uint64)(unsafe.Pointer(&t)) // its seconds are above 30 bits of nanoseconds
	*wall += uint64(int64(d/time.Second)) << 30
	return t
}
