package vendortest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
)

// use is what the slow models remember: all of it.
type use struct {
	at time.Time
	n  float64
}

// slow is a limit as its words say, counted anew from everything at each call.
type slow struct {
	q    Quota
	all  []use
	ends time.Time // of a window that does not slide
}

// used returns what counts at now.
func (s *slow) used(now time.Time) (sum float64) {
	switch {
	case s.q.Window == 0: // what has not leaked out
		var last time.Time
		for _, u := range s.all {
			if !last.IsZero() {
				sum = max(0, sum-u.at.Sub(last).Seconds()*s.q.Rate)
			}
			sum, last = max(0, sum+u.n), u.at
		}
		if !last.IsZero() {
			sum = max(0, sum-now.Sub(last).Seconds()*s.q.Rate)
		}
	case !s.q.Sliding:
		if now.Before(s.ends) {
			for _, u := range s.all {
				sum += u.n
			}
		}
	default:
		for _, u := range s.all {
			if now.Sub(u.at) < s.q.Window {
				sum += u.n
			}
		}
	}
	return sum
}

func (s *slow) use(now time.Time, n float64) {
	if s.q.Window > 0 && !s.q.Sliding && !now.Before(s.ends) {
		s.all, s.ends = nil, now.Add(s.q.Window)
		if s.q.Round > 0 {
			s.ends = now.Truncate(s.q.Round).Add(s.q.Window)
		}
	}
	s.all = append(s.all, use{now, n})
}

// Every limit lets in what its slow model does, and at once when it said so.
func TestLimitsAgreeWithASlowModel(t *testing.T) {
	for name, q := range map[string]Quota{
		"bucket":          {Rate: 20, Burst: 50, Lenient: true},
		"counted bucket":  {Rate: 20, Burst: 50, Lenient: true, Counted: true},
		"window":          {Burst: 50, Window: 3 * s, Lenient: true},
		"rounded window":  {Burst: 50, Window: 3 * s, Round: s, Lenient: true},
		"counted window":  {Burst: 50, Window: 3 * s, Lenient: true, Counted: true},
		"sliding":         {Burst: 50, Window: 3 * s, Sliding: true, Lenient: true},
		"counted sliding": {Burst: 50, Window: 3 * s, Sliding: true, Lenient: true, Counted: true},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(effort.Times(10)) {
				r := rand.New(rand.NewPCG(seed, 3))
				e := mustEngine(t, q)
				model := slow{q: e.q}
				now := epoch
				for range 150 {
					// In steps that a thousandth of the window divides, so that the
					// sliding window is exact.
					now = now.Add(time.Duration(r.IntN(400)) * 3 * time.Millisecond)
					n := 1 + r.IntN(30)
					used := model.used(now)
					fits := used+float64(n) <= float64(q.Burst)+slack
					v := e.AdmitN(now, n)
					if v.Accepted != fits {
						t.Fatalf("seed %d at %v: %d units with %.3f used: %+v", seed, now.Sub(epoch), n, used, v)
					}
					switch {
					case fits:
						model.use(now, float64(n))
						if r.IntN(4) == 0 && q.Window == 0 {
							back := r.IntN(n + 1)
							e.Refund(now, back)
							model.use(now, -float64(back))
						}
					case q.Counted:
						model.use(now, min(float64(n), 2*float64(q.Burst)-used))
					}
					if !fits {
						if v.Delay <= 0 {
							t.Fatalf("seed %d: refused for %v", seed, v.Delay)
						}
						if at := now.Add(v.Delay); model.used(at)+float64(n) > float64(q.Burst)+2*slack {
							t.Fatalf("seed %d: told to come in %v, and would be refused again", seed, v.Delay)
						}
					}
					u := e.Usage(now)
					if want := model.used(now); float64(u.Used) < want-0.01 || float64(u.Used) > want+1 {
						t.Fatalf("seed %d: %d used, want %.3f", seed, u.Used, want)
					}
				}
			}
		})
	}
}

func TestSlidingWindowKeepsNoMoreThanAThousandSlots(t *testing.T) {
	e := mustEngine(t, Quota{Burst: 1 << 20, Window: time.Hour, Sliding: true})
	for i := range 10_000 {
		e.Admit(epoch.Add(time.Duration(i) * time.Second))
	}
	if n := len(e.meter.slots); n > slots+1 {
		t.Errorf("%d slots", n)
	}
}

func TestWeightedCalls(t *testing.T) {
	e := mustEngine(t, Quota{Rate: 10, Burst: 100, Lenient: true})
	for i, tc := range []struct {
		at   time.Duration
		n    int
		want Verdict
	}{
		{0, 90, yes},
		{0, 30, no(2 * s)}, // 20 more than there are
		{0, 101, Verdict{TooLarge: true, InPause: true}},
		{1500 * time.Millisecond, 25, Verdict{Accepted: true, InPause: true}}, // fits, and is late
		{4 * s, 0, yes}, {4 * s, -5, yes},
	} {
		if got := e.AdmitN(epoch.Add(tc.at), tc.n); got != tc.want {
			t.Errorf("call %d: %+v, want %+v", i, got, tc.want)
		}
	}
	want := Totals{Calls: 6, Accepted: 4, Refused: 2, Used: 115, InPause: 2, Late: 1, LongestPause: 2 * s}
	if got := e.Totals(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestCountedCallsPutTheEndOff(t *testing.T) {
	e := mustEngine(t, Quota{Burst: 2, Window: time.Hour, Sliding: true, Lenient: true, Counted: true, Round: time.Minute})
	e.AdmitN(epoch, 2)
	if v := e.Admit(epoch.Add(90 * s)); v != no(59*time.Minute) {
		t.Errorf("%+v", v)
	}
	// A late one keeps the window full for longer.
	v := e.Admit(epoch.Add(10 * time.Minute))
	if !v.Escalated || v.Delay <= 50*time.Minute {
		t.Errorf("%+v, want an escalation", v)
	}
}

func TestRefuseBeginsAndDisturbsThePause(t *testing.T) {
	e := mustEngine(t, Quota{Rate: 1, Burst: 5})
	for i, tc := range []struct {
		at   time.Duration
		want Verdict
	}{{0, no(15 * s)}, {s, inPause(14 * s)}, {5 * s, escalated(30 * s)}} {
		if got := e.Refuse(epoch.Add(tc.at)); got != tc.want {
			t.Errorf("call %d: %+v, want %+v", i, got, tc.want)
		}
	}
	if v := e.Admit(epoch.Add(35 * s)); v != yes {
		t.Errorf("after it: %+v", v)
	}
}

// A lenient vendor tells several ends, each known a grace after it was told.
func TestLateIsWhoCouldHaveKnown(t *testing.T) {
	e := mustEngine(t, Quota{Rate: 1, Burst: 10, Lenient: true})
	at := func(d time.Duration, n int) Verdict { return e.AdmitN(epoch.Add(d), n) }
	at(0, 10)
	at(0, 2)                    // until 2 s, known from 1 s on
	at(500*time.Millisecond, 8) // until 8 s, known from 1.5 s on
	at(1200*time.Millisecond, 9)
	if got := e.Totals().Late; got != 1 {
		t.Errorf("%d late during the first end, want 1", got)
	}
	at(2100*time.Millisecond, 9)
	if got := e.Totals().Late; got != 2 {
		t.Errorf("%d late during the second end, want 2", got)
	}
	for i := range 300 { // far more announcements than are remembered
		at(2200*time.Millisecond+time.Duration(i)*time.Millisecond, 10)
	}
	if n := len(e.pause.told); n > maxTold {
		t.Errorf("%d announcements kept", n)
	}
}

func TestBadWindowsAreRefused(t *testing.T) {
	for _, q := range []Quota{{Window: -1}, {Sliding: true}, {Round: -1}, (Quota{Window: s}).Scale(-1)} {
		if _, err := NewEngine(q); err == nil {
			t.Errorf("%+v accepted", q)
		}
	}
	if q := (Quota{Window: time.Minute, Burst: 30}).Scale(0.5); q.Window != 30*s || q.Rate != 1 || q.Burst != 30 {
		t.Errorf("half a minute is %+v", q)
	}
	if q := (Quota{Window: time.Minute}).withDefaults(); q.Burst != 600 {
		t.Errorf("a minute's worth is %d", q.Burst)
	}
}

func TestLongKeysAreNotKept(t *testing.T) {
	k, err := NewKeyed(Quota{Burst: 1, Rate: 1}, 0)
	if err != nil {
		t.Fatal(err)
	}
	long := string(make([]byte, 1<<20))
	k.Admit(long, epoch)
	for key := range k.byKey {
		if len(key) > 128 {
			t.Errorf("a key of %d bytes is kept", len(key))
		}
	}
	if got := k.Key(long); got.Calls != 1 {
		t.Errorf("%+v", got)
	}
}
