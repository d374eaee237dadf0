package limiter

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
)

func newFixedWindow(t testing.TB, cfg FixedWindowConfig) *FixedWindow {
	t.Helper()
	w, err := NewFixedWindow(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// trace is a run of a fixed window with reservation. Time begins at 0.
type trace struct {
	Name   string
	Config struct {
		Limit     int
		PeriodMS  int64 `json:"period_ms"`
		TimeoutMS int64 `json:"timeout_ms"`
	}
	Steps []struct {
		Op        string
		Permits   int
		WaitUS    int64 `json:"wait_us"` // -1: refused, since the wait would pass the timeout
		Limit     int
		MS        int64
		US        int64
		Available int // after the step
	}
}

// TestFixedWindowTraces replays runs of a reference implementation.
// FLYBALL_WINDOW_TRACES names another file of them.
func TestFixedWindowTraces(t *testing.T) {
	file := cmp.Or(os.Getenv("FLYBALL_WINDOW_TRACES"), "testdata/window_traces.json")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var traces []trace
	if err := json.Unmarshal(data, &traces); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if len(traces) == 0 {
		t.Fatalf("%s: no traces", file)
	}
	for _, tr := range traces {
		t.Run(tr.Name, func(t *testing.T) {
			w := newFixedWindow(t, FixedWindowConfig{
				Limit: tr.Config.Limit, Period: time.Duration(tr.Config.PeriodMS) * time.Millisecond,
				MaxWait: time.Duration(tr.Config.TimeoutMS) * time.Millisecond,
			})
			now := epoch
			w.Available(now, "")
			for i, s := range tr.Steps {
				var err error
				switch s.Op {
				case "advance":
					now = now.Add(time.Duration(s.US) * time.Microsecond)
				case "reserve":
					v := w.Reserve(now, "", s.Permits)
					if got := v.Delay().Microseconds(); v.OK() != (s.WaitUS >= 0) || v.OK() && got != s.WaitUS {
						t.Fatalf("step %d: Reserve(%d) = %d us, %v, want %d us", i, s.Permits, got, v.OK(), s.WaitUS)
					}
				case "set_limit":
					err = w.SetLimit(now, s.Limit)
				case "set_timeout":
					err = w.SetMaxWait(time.Duration(s.MS) * time.Millisecond)
				default:
					t.Fatalf("step %d: unknown op %q", i, s.Op)
				}
				if err != nil {
					t.Fatalf("step %d: %v", i, err)
				}
				if got := w.Available(now, ""); got != s.Available {
					t.Fatalf("step %d, %s: Available = %d, want %d", i, s.Op, got, s.Available)
				}
			}
		})
	}
}

// TestFixedWindowSetLimit changes the limit at random times: each window holds
// what the limit gives and, of reservations, what had been given before.
func TestFixedWindowSetLimit(t *testing.T) {
	for seed := range uint64(effort.Times(15)) {
		r := rand.New(rand.NewPCG(seed, 11))
		const period = 1000
		reserves := r.IntN(2) == 0
		limit := 1 + r.IntN(9)
		w := newFixedWindow(t, FixedWindowConfig{Limit: limit, Period: period, MaxWait: 3000, MaxKeys: 1 + r.IntN(2)})
		w.Available(epoch, "")
		starts, before, inForce := map[int64]int{}, map[int64]int{}, map[int64]int{0: limit}
		now, touched := int64(0), int64(0) // the last window in which the key was used; the first counts as one
		for range 300 {
			at := epoch.Add(time.Duration(now))
			window := now / period
			if touched != window {
				inForce[window] = limit // no use in it yet
			}
			switch r.IntN(8) {
			case 0:
				limit = 1 + r.IntN(9)
				if err := w.SetLimit(at, limit); err != nil {
					t.Fatal(err)
				}
				for k, n := range starts {
					before[k] = n
				}
			case 1:
				w.Take(at, fmt.Sprint(r.IntN(3)), 1) // makes others go
			case 2:
				now += r.Int64N(2 * period)
			default:
				if reserves {
					if v := w.Reserve(at, "", 1); v.OK() {
						starts[(now+int64(v.Delay()))/period]++
					}
					touched = window
				} else if w.Wait(at, "", 1) == 0 {
					w.Take(at, "", 1)
					starts[window]++
					touched = window
				}
			}
		}
		for window, n := range starts {
			most, ok := inForce[window]
			if !ok {
				most = limit // a coming window
			}
			if reserves {
				most = 9 + before[window]
			}
			if n > most {
				t.Fatalf("seed %d: window %d holds %d, want %d at most", seed, window, n, most)
			}
		}
	}
}

// A key without room waits for the next window, which has the limit as it is now.
func TestFixedWindowTellsNeverOfALoweredLimit(t *testing.T) {
	w := newFixedWindow(t, FixedWindowConfig{Limit: 5, Period: time.Second, MaxKeys: 1})
	w.Take(epoch, "x", 1)
	if err := w.SetLimit(epoch, 1); err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]time.Duration{1: time.Second, 2: Never} {
		if d := w.Wait(epoch, "y", n); d != want {
			t.Errorf("%d permits in %v, want %v", n, d, want)
		}
	}
	if d := w.Wait(epoch, "x", 4); d != 0 { // its window has what it had
		t.Errorf("4 permits of the key in use in %v", d)
	}
}

func TestFixedWindowSteps(t *testing.T) {
	at := func(ms int) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }
	w := newFixedWindow(t, FixedWindowConfig{Limit: 4, Period: time.Second, MaxWait: 3 * time.Second})
	check := func(ms, want int) {
		t.Helper()
		if got := w.Available(at(ms), "k"); got != want {
			t.Errorf("at %d ms: %d available, want %d", ms, got, want)
		}
	}
	check(0, 4)
	w.Take(at(100), "k", 3)
	w.Settle(at(100), "k", 3, 1)
	check(100, 3)
	w.Settle(at(100), "k", 0, 5) // two of them of the next window
	check(100, -2)
	if d := w.Wait(at(100), "k", 3); d != 1900*time.Millisecond {
		t.Errorf("Wait = %v, want 1.9s", d)
	}
	if d, ok := reserve(w, at(100), "k", 2); !ok || d != 900*time.Millisecond {
		t.Errorf("Reserve = %v, %v, want 900ms", d, ok)
	}
	check(100, -4)
	w.Settle(at(100), "k", 2, 0) // it may be what another window has lent
	check(100, -4)
	check(1000, 0)
	check(2000, 4)
	w.Drain(at(2000), "k")
	check(2000, 0)
	w.SetRemaining(at(3000), at(2999), "k", 1) // about the last window
	check(3000, 4)
	w.SetRemaining(at(3000), at(3000), "k", 5)
	check(3000, 4)
	w.SetRemaining(at(3000), at(3000), "k", 1)
	check(3000, 1)
	w.SetRemaining(at(3000), at(3000), "k", 3)
	check(3000, 1)
	if d, ok := reserve(w, at(3000), "k", 0); d != 0 || !ok {
		t.Errorf("Reserve of nothing = %v, %v", d, ok)
	}
	if d, ok := reserve(w, at(3000), "k", math.MaxInt); d <= 0 || ok {
		t.Errorf("Reserve of all there is = %v, %v", d, ok)
	}
	if err := w.SetLimit(at(4000), 2); err != nil { // for the key, in which this window has not been used yet
		t.Fatal(err)
	}
	w.Take(at(4000), "k", 0)
	check(4000, 2)
	if err := w.SetLimit(at(4000), 4); err != nil {
		t.Fatal(err)
	}
	w.Take(at(5000), "k", 1)
	if err := w.SetLimit(at(5000), 2); err != nil {
		t.Fatal(err)
	}
	if d := w.Wait(at(5000), "k", 3); d != 0 {
		t.Errorf("Wait = %v, want 0: the limit is still 4 in this window", d)
	}
	if d := w.Wait(at(5000), "k", 4); d != Never {
		t.Errorf("Wait = %v, want Never: it will be 2 in the next", d)
	}
	if err := w.SetLimit(at(5000), 4); err != nil {
		t.Fatal(err)
	}
	if got := w.Rate(at(3000), "k"); got != 4 {
		t.Errorf("Rate = %v", got)
	}
	for _, limit := range []int{0, -1, 1<<40 + 1} {
		if err := w.SetLimit(at(3000), limit); err == nil || err.Error() != fmt.Sprintf("limiter: SetLimit is %d, want 1 up to 1<<40", limit) {
			t.Errorf("SetLimit(%d): %v", limit, err)
		}
	}
	if err := w.SetMaxWait(-1); err == nil {
		t.Error("SetMaxWait(-1): no error")
	}
	check(7000, 4)

	one := newFixedWindow(t, FixedWindowConfig{Limit: 1, Period: time.Second, MaxWait: time.Minute, MaxKeys: 1})
	one.Reserve(at(0), "a", 3)
	if d, ok := reserve(one, at(500), "b", 1); ok || d != 2500*time.Millisecond {
		t.Errorf("Reserve without room = %v, %v, want 2.5s, when a has a window again", d, ok)
	}
	if d := one.Wait(at(500), "b", 1); d != 2500*time.Millisecond {
		t.Errorf("Wait without room = %v, want 2.5s", d)
	}
	if err := one.SetLimit(at(500), 10); err != nil {
		t.Fatal(err)
	}
	if d := one.Wait(at(500), "b", 1); d != 1500*time.Millisecond {
		t.Errorf("Wait without room = %v, want 1.5s, since the limit is higher", d)
	}
	if d, ok := reserve(one, at(2000), "b", 1); !ok || d != 0 {
		t.Errorf("Reserve = %v, %v, when there is room", d, ok)
	}
}

func TestFixedWindowReserveAllocatesNothing(t *testing.T) {
	w := newFixedWindow(t, FixedWindowConfig{Limit: 10, Period: 1000, MaxWait: 3000})
	now := epoch
	w.Reserve(now, "key", 1)
	if n := testing.AllocsPerRun(1000, func() {
		now = now.Add(90)
		w.Reserve(now, "key", 1)
		w.Available(now, "key")
	}); n != 0 {
		t.Errorf("%v allocations for Reserve and Available", n)
	}
}
