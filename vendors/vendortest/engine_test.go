package vendortest

import (
	"math"
	"sync"
	"testing"
	"time"
)

var epoch = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// step is one call at a moment after the epoch and the answer it must get.
type step struct {
	at   time.Duration
	want Verdict
}

var (
	yes = Verdict{Accepted: true}
	s   = time.Second
)

func no(d time.Duration) Verdict      { return Verdict{Delay: d} }
func inPause(d time.Duration) Verdict { return Verdict{Delay: d, InPause: true} }
func escalated(d time.Duration) Verdict {
	return Verdict{Delay: d, InPause: true, Escalated: true}
}

func TestEngineVerdicts(t *testing.T) {
	// One call per second, two at once, the default pauses.
	q := Quota{Rate: 1, Burst: 2}
	for name, tc := range map[string]struct {
		quota Quota
		steps []step
		want  Totals
	}{
		"a bucket refills with time and never above its burst": {q, []step{
			{0, yes}, {0, yes}, {s, yes}, {10 * s, yes}, {10 * s, yes}, {10 * s, no(15 * s)},
		}, Totals{Calls: 6, Accepted: 5, Used: 5, Refused: 1, LongestPause: 15 * s}},

		"an obeyed pause ends exactly when it was said to": {q, []step{
			{0, yes}, {0, yes}, {0, no(15 * s)}, {15 * s, yes}, {15 * s, yes}, {15 * s, no(15 * s)}, {30 * s, yes},
		}, Totals{Calls: 7, Accepted: 5, Used: 5, Refused: 2, LongestPause: 15 * s}},

		"calls within the grace get the remaining time and are not punished": {q, []step{
			{0, yes}, {0, yes}, {0, no(15 * s)}, {s / 2, inPause(14*s + s/2)}, {s, inPause(14 * s)}, {15 * s, yes},
		}, Totals{Calls: 6, Accepted: 3, Used: 3, Refused: 3, InPause: 2, LongestPause: 15 * s}},

		"a call after the grace doubles the pause from its own moment": {q, []step{
			{0, yes}, {0, yes}, {0, no(15 * s)}, {s + 1, escalated(30 * s)},
			{2 * s, inPause(29*s + 1)}, // the restarted pause has a grace of its own
			{10 * s, escalated(60 * s)},
			{70*s - 1, escalated(120 * s)}, // a nanosecond too early
			{190*s - 1, yes},
		}, Totals{Calls: 8, Accepted: 3, Used: 3, Refused: 5, InPause: 4, Late: 3, Escalations: 3, LongestPause: 120 * s}},

		"doubling stops at the longest pause, punishment does not": {
			Quota{Rate: 1, Burst: 1, MaxPause: 50 * s}, []step{
				{0, yes}, {0, no(15 * s)}, {5 * s, escalated(30 * s)}, {10 * s, escalated(50 * s)}, {20 * s, escalated(50 * s)},
				{70 * s, yes},
			}, Totals{Calls: 6, Accepted: 2, Used: 2, Refused: 4, InPause: 3, Late: 3, Escalations: 3, LongestPause: 50 * s}},

		"a pause that nobody violated resets the next one": {q, []step{
			{0, yes}, {0, yes}, {0, no(15 * s)}, {5 * s, escalated(30 * s)}, // level 30 s, violated
			{35 * s, yes}, {35 * s, yes}, {35 * s, no(30 * s)}, // keeps its level
			{65 * s, yes}, {65 * s, yes}, {65 * s, no(15 * s)}, // obeyed: back to the start
		}, Totals{Calls: 10, Accepted: 6, Used: 6, Refused: 4, InPause: 1, Late: 1, Escalations: 1, LongestPause: 30 * s}},

		"a kept level doubles on": {q, []step{
			{0, yes}, {0, yes}, {0, no(15 * s)}, {5 * s, escalated(30 * s)},
			{35 * s, yes}, {35 * s, yes}, {35 * s, no(30 * s)}, {40 * s, escalated(60 * s)},
			{100 * s, yes}, {100 * s, yes}, {100 * s, no(60 * s)},
		}, Totals{Calls: 11, Accepted: 6, Used: 6, Refused: 5, InPause: 2, Late: 2, Escalations: 2, LongestPause: 60 * s}},

		"a quiet time forgives": {Quota{Rate: 1, Burst: 1, Forgive: 100 * s}, []step{
			{0, yes}, {0, no(15 * s)}, {5 * s, escalated(30 * s)}, // ends at 35 s
			{135 * s, yes}, {135 * s, no(15 * s)},
			{145 * s, escalated(30 * s)}, // ends at 175 s
			{275*s - 1, yes}, {275*s - 1, no(30 * s)},
		}, Totals{Calls: 8, Accepted: 3, Used: 3, Refused: 5, InPause: 2, Late: 2, Escalations: 2, LongestPause: 30 * s}},

		"the default quiet time is twice the longest pause": {Quota{Rate: 1, Burst: 1, MaxPause: 40 * s}, []step{
			{0, yes}, {0, no(15 * s)}, {5 * s, escalated(30 * s)}, // ends at 35 s
			{115*s - 1, yes}, {115*s - 1, no(30 * s)},
		}, Totals{Calls: 5, Accepted: 2, Used: 2, Refused: 3, InPause: 1, Late: 1, Escalations: 1, LongestPause: 30 * s}},

		"a negative grace punishes at once, a factor of 1 only restarts": {
			Quota{Rate: 1, Burst: 1, Grace: -1, Factor: 1}, []step{
				{0, yes}, {0, no(15 * s)}, {0, escalated(15 * s)}, {s, escalated(15 * s)}, {16 * s, yes},
			}, Totals{Calls: 5, Accepted: 2, Used: 2, Refused: 3, InPause: 2, Late: 2, Escalations: 2, LongestPause: 15 * s}},

		"time never runs backwards": {q, []step{
			{10 * s, yes}, {0, yes}, {0, no(15 * s)}, {11*s + 1, escalated(30 * s)}, {5 * s, inPause(30 * s)},
		}, Totals{Calls: 5, Accepted: 2, Used: 2, Refused: 3, InPause: 2, Late: 1, Escalations: 1, LongestPause: 30 * s}},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := NewEngine(tc.quota)
			if err != nil {
				t.Fatal(err)
			}
			for i, st := range tc.steps {
				if got := e.Admit(epoch.Add(st.at)); got != st.want {
					t.Fatalf("call %d at %v: got %+v, want %+v", i, st.at, got, st.want)
				}
			}
			if got := e.Totals(); got != tc.want {
				t.Fatalf("totals %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestZeroQuotaIsTheDocumentedOne(t *testing.T) {
	got := Quota{}.withDefaults()
	want := Quota{Rate: 10, Burst: 10, Pause: 15 * s, MaxPause: 15 * time.Minute, Grace: s, Forgive: 30 * time.Minute, Factor: 2}
	if got != want {
		t.Fatalf("got %+v, want %+v", got, want)
	}
}

func TestScaleChangesSpeedAndNothingElse(t *testing.T) {
	q := Quota{Rate: 2, Burst: 3, Grace: s / 4}
	slow, fast := mustEngine(t, q), mustEngine(t, q.Scale(0.01))
	// The same run, a hundred times faster: every answer must be the same but for
	// its delay, which is a hundredth.
	at := time.Duration(0)
	for i := range 3000 {
		at += time.Duration(i*7919%700) * time.Millisecond
		a, b := slow.Admit(epoch.Add(at)), fast.Admit(epoch.Add(at/100))
		a.Delay = (a.Delay / 100).Round(time.Microsecond)
		b.Delay = b.Delay.Round(time.Microsecond)
		if a != b {
			t.Fatalf("call %d at %v: %+v at full scale, %+v at 1:100", i, at, a, b)
		}
	}
	if tot := slow.Totals(); tot.Escalations == 0 || tot.Accepted == 0 {
		t.Fatalf("the run showed nothing: %+v", tot)
	}
	if got := (Quota{}).Scale(0.01); got.MaxPause != 9*s || got.Pause != 150*time.Millisecond || got.Rate != 1000 || got.Burst != 10 {
		t.Fatalf("1:100 is %+v", got)
	}
}

func TestBadQuotasAreRefused(t *testing.T) {
	nan := math.NaN()
	for _, q := range []Quota{
		{Rate: -1}, {Rate: nan}, {Rate: math.Inf(1)}, {Burst: -1}, {Pause: -1}, {Pause: 2, MaxPause: 1},
		{Factor: 0.5}, {Factor: nan}, {Forgive: -1},
		Quota{}.Scale(0), Quota{}.Scale(-1), Quota{}.Scale(nan), Quota{}.Scale(math.Inf(1)),
	} {
		if _, err := NewEngine(q); err == nil {
			t.Errorf("%+v accepted", q)
		}
		if _, err := NewKeyed(q, 0); err == nil {
			t.Errorf("keyed %+v accepted", q)
		}
	}
	if _, err := NewKeyed(Quota{}, -1); err == nil {
		t.Error("negative number of keys accepted")
	}
	// The extremes that are allowed must not overflow.
	e := mustEngine(t, Quota{Pause: math.MaxInt64 / 2, Factor: 1e9, Rate: 1e-9, MaxPause: math.MaxInt64})
	e.Admit(epoch)
	for i := range 5 {
		if v := e.Admit(epoch.Add(time.Duration(i) * time.Hour)); v.Accepted || v.Delay <= 0 {
			t.Fatalf("call %d: %+v", i, v)
		}
	}
}

func TestEngineConcurrentCallsAreEachJudgedOnce(t *testing.T) {
	e := mustEngine(t, Quota{Rate: 1, Burst: 50})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				e.Admit(epoch)
			}
		})
	}
	wg.Wait()
	want := Totals{Calls: 800, Accepted: 50, Used: 50, Refused: 750, InPause: 749, LongestPause: 15 * s}
	if got := e.Totals(); got != want {
		t.Fatalf("got %+v, want %+v", got, want)
	}
}

func TestKeyedLimitsEachKeyAndStaysBounded(t *testing.T) {
	k, err := NewKeyed(Quota{Rate: 1, Burst: 1}, 2)
	if err != nil {
		t.Fatal(err)
	}
	for i, tc := range []struct {
		key  string
		want Verdict
	}{
		{"a", yes}, {"b", yes}, {"a", no(15 * s)}, {"b", no(15 * s)},
		{"c", yes}, {"d", no(15 * s)}, {"e", inPause(15 * s)}, // the third key on shares one engine
	} {
		if got := k.Admit(tc.key, epoch); got != tc.want {
			t.Fatalf("call %d for %q: got %+v, want %+v", i, tc.key, got, tc.want)
		}
	}
	if got, want := k.Key("a"), (Totals{Calls: 2, Accepted: 1, Used: 1, Refused: 1, LongestPause: 15 * s}); got != want {
		t.Errorf("a: %+v, want %+v", got, want)
	}
	if got := k.Key("nobody"); got != (Totals{}) {
		t.Errorf("nobody: %+v", got)
	}
	if got, want := k.Totals(), (Totals{Calls: 7, Accepted: 3, Used: 3, Refused: 4, InPause: 1, LongestPause: 15 * s}); got != want {
		t.Errorf("sum %+v, want %+v", got, want)
	}
}

func mustEngine(t *testing.T, q Quota) *Engine {
	t.Helper()
	e, err := NewEngine(q)
	if err != nil {
		t.Fatal(err)
	}
	return e
}
