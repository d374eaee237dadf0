package limiter

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
)

func reserve(w *FixedWindow, now time.Time, key string, n int) (time.Duration, bool) {
	v := w.Reserve(now, key, n)
	return v.Delay(), v.OK()
}

// handedOut is the slow exact model of reservations: each window has its permits,
// and they are handed out one by one, after all others; or, where some were given
// back, those of one window.
type handedOut struct {
	limit  int
	period int64
	given  map[int64]int // by window
}

// reserve returns what n permits are given by each window from that of now on, and
// the last of these.
func (m *handedOut) reserve(now int64, n int) (from map[int64]int, last int64) {
	window := now / m.period
	for at, k := range m.given {
		if k > 0 {
			last = max(last, at)
		}
	}
	for ; window < last; window++ {
		if m.limit-m.given[window] >= n {
			return map[int64]int{window: n}, window
		}
	}
	from = map[int64]int{}
	for {
		k := min(n, m.limit-m.given[window])
		from[window] = k
		if n -= k; n == 0 {
			return from, window
		}
		window++
	}
}

func (m *handedOut) add(from map[int64]int, sign int) {
	for at, k := range from {
		m.given[at] += sign * k
	}
}

// standing is a reservation that may be cancelled.
type standing struct {
	v    WindowReservation
	from map[int64]int
	last int64
	n    int
}

func TestFixedWindowReserveHandsOutEachPermitOnce(t *testing.T) {
	granted, refused, cancelled, filled, seeds := 0, 0, 0, 0, effort.Times(30)
	for seed := range uint64(seeds) {
		r := rand.New(rand.NewPCG(seed, 10))
		limit, period := 1+r.IntN(9), int64(1+r.IntN(1000))
		timeout := r.Int64N(5 * period)
		cancels := 0
		if seed%2 == 1 {
			cancels = 1 + r.IntN(4)
		}
		w := newFixedWindow(t, FixedWindowConfig{Limit: limit, Period: time.Duration(period), MaxWait: time.Duration(timeout)})
		w.Available(epoch, "")
		m := handedOut{limit, period, map[int64]int{}}
		starts := map[int64]int{}
		var now, end int64
		var out []standing
		largest := 0
		for step := range 200 {
			n := 1 + r.IntN(1+r.IntN(12))
			at := epoch.Add(time.Duration(now))
			v := w.Reserve(at, "", n)
			from, last := m.reserve(now, n)
			want := max(0, last*period-now)
			if int64(v.Delay()) != want || v.OK() != (want <= timeout) {
				t.Fatalf("seed %d step %d at %d: Reserve(%d) = %d, %v, want %d; timeout %d", seed, step, now, n, v.Delay(), v.OK(), want, timeout)
			}
			if v.OK() {
				granted++
				m.add(from, 1)
				for at := range m.given {
					if at > last {
						filled++
						break
					}
				}
				starts[last] += n
				largest, end = max(largest, n), max(end, last)
				out = append(out, standing{v, from, last, n})
			} else {
				refused++
			}
			for len(out) > 0 && r.IntN(5) < cancels {
				i := r.IntN(len(out))
				gone := &out[i]
				gone.v.Cancel(at)
				if gone.v.OK() {
					t.Fatal("OK after Cancel")
				}
				gone.v.Cancel(at)
				m.add(gone.from, -1)
				starts[gone.last] -= gone.n
				out = append(out[:i], out[i+1:]...)
				cancelled++
			}
			if r.IntN(3) == 0 {
				now += r.Int64N(2 * period)
			}
		}
		for from := range end + 1 {
			sum := 0
			for to := from; to <= end; to++ {
				sum += starts[to]
				if most := int(to-from+1)*limit + largest - 1; sum > most {
					t.Fatalf("seed %d: windows %d to %d hold %d, want %d at most", seed, from, to, sum, most)
				}
			}
		}
	}
	if min(granted, refused, cancelled, filled) < 2*seeds {
		t.Errorf("%d granted, %d of them in a hole, %d refused, %d cancelled: the test tests little", granted, filled, refused, cancelled)
	}
}

func TestFixedWindowCancelledReservationsLeaveNoTrace(t *testing.T) {
	for name, next := range map[string]func(n int) int{
		"the first first": func(int) int { return 0 },
		"the last first":  func(n int) int { return n - 1 },
		"in the middle":   func(n int) int { return n / 2 },
	} {
		for _, n := range []int{1, 3} {
			w := newFixedWindow(t, FixedWindowConfig{Limit: 2, Period: time.Minute, MaxWait: time.Hour})
			w.Take(epoch, "", 2)
			var out []WindowReservation
			for range 20 {
				out = append(out, w.Reserve(epoch, "", n))
			}
			for len(out) > 0 {
				i := next(len(out))
				out[i].Cancel(epoch)
				out = append(out[:i], out[i+1:]...)
			}
			if got := w.Available(epoch, ""); got != 0 {
				t.Errorf("%s, of %d: %d available, want 0", name, n, got)
			}
			if d, ok := reserve(w, epoch, "", 2); !ok || d != time.Minute {
				t.Errorf("%s, of %d: the next waits %v, %v, want a minute", name, n, d, ok)
			}
			if s := w.keys.index[""].state; len(s.holes) > 0 {
				t.Errorf("%s, of %d: holes %v are left", name, n, s.holes)
			}
		}
	}
}

// Cancelled between others that stand, a place is for the next who can use it, be it
// by Reserve or by Wait and Take.
func TestFixedWindowGivesCancelledPlacesToTheNext(t *testing.T) {
	w := newFixedWindow(t, FixedWindowConfig{Limit: 2, Period: time.Minute, MaxWait: time.Hour})
	at := func(minutes int) time.Time { return epoch.Add(time.Duration(minutes) * time.Minute) }
	w.Take(epoch, "", 2)
	var out []WindowReservation
	for range 10 { // in minutes 1 to 5
		out = append(out, w.Reserve(epoch, "", 1))
	}
	out[2].Cancel(epoch)
	out[3].Cancel(epoch)
	out[5].Cancel(epoch)
	if got := w.Available(epoch, ""); got != -7 {
		t.Errorf("%d available, want -7: three of ten are cancelled", got)
	}
	for _, c := range []struct{ n, minutes int }{{3, 7}, {2, 2}, {1, 3}, {1, 7}} {
		if d, ok := reserve(w, epoch, "", c.n); !ok || d != time.Duration(c.minutes)*time.Minute {
			t.Errorf("Reserve(%d) waits %v, %v, want %d minutes", c.n, d, ok, c.minutes)
		}
	}
	out[6].Cancel(epoch) // minute 4
	if d := w.Wait(epoch, "", 1); d != 4*time.Minute {
		t.Errorf("Wait = %v, want 4 minutes", d)
	}
	if got := w.Available(at(4), ""); got != 1 {
		t.Errorf("%d available in minute 4, want 1", got)
	}
	w.Take(at(4), "", 1)
	if d := w.Wait(at(4), "", 1); d == 0 {
		t.Error("the place is given twice")
	}
	out[8].Cancel(at(5))
	out[9].Cancel(at(6)) // its minute is over
	if got := w.Available(at(6), ""); got != -2 {
		t.Errorf("%d available in minute 6, want -2", got)
	}
}

func TestFixedWindowCancelAfterAChange(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *FixedWindow)
		want   int
	}{
		"nothing":        {func(*FixedWindow) {}, 1},
		"SetLimit":       {func(w *FixedWindow) { w.SetLimit(epoch, 3) }, -4},
		"the same limit": {func(w *FixedWindow) { w.SetLimit(epoch, 2) }, 1},
		"Drain":          {func(w *FixedWindow) { w.Drain(epoch, "") }, 0},
		"SetRemaining":   {func(w *FixedWindow) { w.SetRemaining(epoch, epoch, "", 1) }, 0},
	} {
		w := newFixedWindow(t, FixedWindowConfig{Limit: 2, Period: time.Minute, MaxWait: time.Hour})
		w.Take(epoch, "", 1)
		v := w.Reserve(epoch, "", 5) // one of this window
		c.change(w)
		v.Cancel(epoch)
		if got := w.Available(epoch, ""); got != c.want {
			t.Errorf("%s: %d available, want %d", name, got, c.want)
		}
	}
}

// The present window may have another limit than the coming ones.
func TestFixedWindowCancelGivesEachWindowItsOwn(t *testing.T) {
	w := newFixedWindow(t, FixedWindowConfig{Limit: 9, Period: time.Minute, MaxWait: time.Hour})
	w.Take(epoch, "", 1)
	w.SetLimit(epoch, 2)         // from the next minute on
	v := w.Reserve(epoch, "", 9) // 8 of this one, 1 of the next
	w.Reserve(epoch, "", 1)
	v.Cancel(epoch)
	if got := w.Available(epoch, ""); got != 8 {
		t.Errorf("%d available, want 8", got)
	}
	if d := w.Wait(epoch.Add(time.Minute), "", 2); d != time.Minute {
		t.Errorf("Wait = %v, want a minute: one of this is taken", d)
	}
}

func TestFixedWindowForgetsPlacesOfAnotherLimit(t *testing.T) {
	w := newFixedWindow(t, FixedWindowConfig{Limit: 1, Period: time.Minute, MaxWait: time.Hour})
	w.Take(epoch, "", 1)
	gone := w.Reserve(epoch, "", 1)
	w.Reserve(epoch, "", 1)
	gone.Cancel(epoch)
	w.SetLimit(epoch, 5)
	if got := w.Available(epoch, ""); got != -2 {
		t.Errorf("%d available, want -2", got)
	}
}

// A take that did not wait is no use to a place in another window.
func TestFixedWindowTakesDebtFromTheTail(t *testing.T) {
	w := newFixedWindow(t, FixedWindowConfig{Limit: 1, Period: time.Minute, MaxWait: time.Hour})
	w.Take(epoch, "", 1)
	gone := w.Reserve(epoch, "", 1)
	w.Reserve(epoch, "", 1)
	gone.Cancel(epoch)
	w.Take(epoch, "", 1) // is charged with the third minute
	if d := w.Wait(epoch, "", 1); d != time.Minute {
		t.Errorf("Wait = %v, want a minute: the place is there still", d)
	}
}

// A place is a take that may be settled, and a key without reservations is forgotten.
func TestFixedWindowPlacesAreTakes(t *testing.T) {
	w := newFixedWindow(t, FixedWindowConfig{Limit: 2, Period: time.Minute, MaxWait: time.Hour, MaxKeys: 1})
	at := func(minutes int) time.Time { return epoch.Add(time.Duration(minutes) * time.Minute) }
	gone := w.Reserve(epoch, "a", 2)
	last := w.Reserve(epoch, "a", 1)
	gone.Cancel(epoch)
	w.Reserve(epoch, "a", 2)
	if open := w.keys.index["a"].back.open; open != 3 {
		t.Errorf("%d permits may be settled, want 3", open)
	}
	long := w.Reserve(epoch, "a", 9)
	w.Wait(epoch, "b", 1) // which looks when a will be idle
	long.Cancel(epoch)
	last.Cancel(epoch)
	if d := w.Wait(epoch, "b", 1); d != time.Minute {
		t.Errorf("another key waits for %v, want a minute", d)
	}

	w = newFixedWindow(t, FixedWindowConfig{Limit: 1, Period: time.Minute, MaxWait: time.Hour})
	w.Reserve(epoch, "", 20)
	for i := range 20 { // there is always a tail far off
		gone := w.Reserve(at(i), "", 1)
		w.Reserve(at(i), "", 1)
		gone.Cancel(at(i))
		if n := len(w.keys.index[""].state.holes); n > 21 {
			t.Errorf("%d holes", n)
		}
	}
	for i := 20; i < 60; i++ {
		gone := w.Reserve(at(i), "", 2)
		w.Reserve(at(i), "", 2)
		gone.Cancel(at(i))
		for hole := range w.keys.index[""].state.holes {
			if hole < uint64(i) {
				t.Fatalf("at %d a place of %d is kept", i, hole)
			}
		}
	}
}

// What Drain takes of a window, it takes of places that were given back, too.
func TestFixedWindowDrainsCancelledPlaces(t *testing.T) {
	w := newFixedWindow(t, FixedWindowConfig{Limit: 3, Period: time.Minute, MaxWait: time.Hour})
	v := w.Reserve(epoch, "", 3)
	w.Reserve(epoch, "", 1) // of the next minute
	v.Cancel(epoch)
	w.SetRemaining(epoch, epoch, "", 2)
	if got := w.Available(epoch, ""); got != 2 {
		t.Errorf("%d available, want 2", got)
	}
	w.Drain(epoch, "")
	if d := w.Wait(epoch, "", 1); d != time.Minute {
		t.Errorf("Wait = %v, want a minute", d)
	}
}

// A cancelled reservation is not one that may be settled: the take beside it is.
func TestFixedWindowCancelLeavesOtherTakesToSettle(t *testing.T) {
	w := newFixedWindow(t, FixedWindowConfig{Limit: 9, Period: time.Minute, MaxWait: time.Hour})
	w.Take(epoch, "", 2)
	v := w.Reserve(epoch, "", 3)
	v.Cancel(epoch)
	w.Settle(epoch, "", 2, 0)
	w.Settle(epoch, "", 5, 0) // of nothing
	if got := w.Available(epoch, ""); got != 9 {
		t.Errorf("%d available, want 9", got)
	}
}

func TestFixedWindowCancelOfALongReservation(t *testing.T) {
	w := newFixedWindow(t, FixedWindowConfig{Limit: 1, Period: 1, MaxWait: century})
	v := w.Reserve(epoch, "", 1<<50)
	if !v.OK() {
		t.Fatalf("refused, for %v", v.Delay())
	}
	v.Cancel(epoch) // soon
	if got := w.Available(epoch, ""); got != 1-1<<50+mostWindows {
		t.Errorf("%d available, want %d", got, 1-1<<50+mostWindows)
	}
	var none WindowReservation
	none.Cancel(epoch)
	if none.OK() {
		t.Error("the zero value is OK")
	}
}

// TestFixedWindowCancelAnyTime does everything at random: no window holds more than
// its limit of what was not cancelled, each permit being reserved by itself, and all
// that is cancelled leaves the limiter as new.
func TestFixedWindowCancelAnyTime(t *testing.T) {
	for seed := range uint64(effort.Times(15)) {
		r := rand.New(rand.NewPCG(seed, 12))
		const period = 1000
		limit := 1 + r.IntN(5)
		w := newFixedWindow(t, FixedWindowConfig{Limit: limit, Period: period, MaxWait: 5000, MaxKeys: 3})
		w.Available(epoch, "")
		starts := map[string]int{}
		type one struct {
			v  WindowReservation
			in string
		}
		var out []one
		var now int64
		for range 300 {
			at := epoch.Add(time.Duration(now))
			key := fmt.Sprint(r.IntN(3))
			window := func(d time.Duration) string { return fmt.Sprint(key, "/", (now+int64(d))/period) }
			switch r.IntN(12) {
			case 0:
				w.Drain(at, key)
			case 1:
				w.SetRemaining(at, at, key, r.IntN(3))
			case 2:
				now += r.Int64N(2 * period)
			case 3, 4:
				if w.Wait(at, key, 1) == 0 {
					w.Take(at, key, 1)
					starts[window(0)]++
				}
			case 5, 6, 7:
				if i := r.IntN(len(out) + 1); i < len(out) {
					out[i].v.Cancel(at)
					starts[out[i].in]--
					out = append(out[:i], out[i+1:]...)
				}
			default:
				if v := w.Reserve(at, key, 1); v.OK() {
					in := window(v.Delay())
					starts[in]++
					out = append(out, one{v, in})
				}
			}
			for in, n := range starts {
				if n > limit {
					t.Fatalf("seed %d: %d permits in %s, want %d at most", seed, n, in, limit)
				}
			}
		}
	}
}
