package governor

import (
	"context"
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

// Of StartBy and the context's deadline the earlier counts, though one may have been read
// before the wall clock was set and the other have no monotonic reading.
func TestTheEarlierOfStartByAndTheContextsDeadlineCountsWhateverTheWallClockShows(t *testing.T) {
	g, err := New(PlainConfig{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for _, step := range []time.Duration{-time.Hour, 0, time.Hour} {
		for name, first := range map[string]bool{"the context's deadline": true, "StartBy": false} {
			soon, late := time.Now().Add(time.Minute), time.Now().Add(2*time.Minute)
			by, end := soon, late
			if first {
				by, end = late, soon
			}
			for i, both := range [][2]time.Time{
				{by.Round(0), stepped(end, -step)},
				{stepped(by, -step), end.Round(0)},
			} {
				r := &request{ctx: until{t.Context(), both[1]}}
				r.wish(g.core, &Ask{StartBy: both[0]})
				if r.flags&dated == 0 || r.flags&ctxDeadline != 0 != first {
					t.Errorf("clock set by %v: %s, which is earlier, does not count (%d)", step, name, i)
				}
			}
		}
	}
}

// until is a context with another deadline.
type until struct {
	context.Context
	at time.Time
}

func (u until) Deadline() (time.Time, bool) { return u.at, true }

// stepped returns t as it would have been read had the wall clock shown d more.
func stepped(t time.Time, d time.Duration) time.Time {
	wall := (*uint64)(unsafe.Pointer(&t)) // its seconds are above 30 bits of nanoseconds
	*wall += uint64(int64(d/time.Second)) << 30
	return t
}
