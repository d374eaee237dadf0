package limiter

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/throttle"
)

func TestAdaptiveKeepsWhatItIsTold(t *testing.T) {
	a := newAdaptive(t, AdaptiveConfig{})
	said := func(now, sent time.Duration, limit, left int64, reset time.Duration) {
		q := throttle.Quota{Limit: limit, Remaining: left}
		if reset > 0 {
			q.Reset = after(reset)
		}
		a.Told(after(now), after(sent), q)
	}
	const s = time.Second
	for i, c := range []struct {
		do   func()
		at   time.Duration
		n    int
		want time.Duration
	}{
		{func() { said(0, 0, -1, 3, 60*s) }, 0, 3, 0},
		{func() {}, 0, 4, 60 * s},
		{func() { a.Take(after(s), "", 2) }, s, 2, 59 * s},
		{func() { said(2*s, s/2, -1, 3, 60*s) }, 2 * s, 2, 58 * s}, // sent before the two
		{func() { said(3*s, 2*s, -1, 9, 60*s) }, 3 * s, 2, 57 * s}, // a window's remainder does not grow
		{func() { said(3*s, 2*s, -1, 0, 60*s) }, 3 * s, 1, 57 * s}, // others used it
		{func() { said(4*s, 2*s, -1, 9, 30*s) }, 4 * s, 1, 56 * s}, // of another, shorter window
		{func() { said(4*s, 2*s, 5, -1, 0) }, 4 * s, 1, 56 * s},    // no remainder
		{func() { said(4*s, 2*s, -1, 9, 4*s) }, 4 * s, 1, 56 * s},  // over already
		{func() {}, 60 * s, 1, 0},                                  // nobody said what comes then
		{func() { said(61*s, 61*s, 5, 1, 100*s) }, 61 * s, 2, 39 * s},
		{func() {}, 100 * s, 5, 0},                                   // the limit of the next one
		{func() { a.Take(after(100*s), "", 5) }, 100 * s, 1, 60 * s}, // as long as the longest
		{func() {}, 160 * s, 99, 0},                                  // two windows later nothing is known
		{func() { said(170*s, 170*s, 5, 5, 200*s) }, 170 * s, 9, 0},  // more than there ever is goes alone
		{func() { a.Take(after(170*s), "", 9) }, 170 * s, 1, 30 * s},
		{func() { a.Take(after(210*s), "", 2) }, 210 * s, 9, 20 * s},      // of the next window, with the longest length again
		{func() { said(211*s, 209*s, -1, 3, 300*s) }, 211 * s, 2, 89 * s}, // the two are on their way
	} {
		c.do()
		if got := a.Wait(after(c.at), "", c.n); got != c.want {
			t.Errorf("step %d: Wait for %d = %v, want %v", i, c.n, got, c.want)
		}
	}
}

func TestAdaptiveKeepsAllWindowsThatItIsTold(t *testing.T) {
	const s = time.Second
	named := func(name string) throttle.Quota { return throttle.Quota{Name: name} }
	long := func(d time.Duration) throttle.Quota { return throttle.Quota{Window: d} }
	for what, c := range map[string]struct{ short, day throttle.Quota }{
		"by name":   {named("ten seconds"), named("daily")},
		"by length": {long(10 * s), long(24 * time.Hour)},
	} {
		a := newAdaptive(t, AdaptiveConfig{})
		said := func(q throttle.Quota, limit, left int64, reset time.Duration) {
			q.Limit, q.Remaining, q.Reset = limit, left, after(reset)
			a.Told(epoch, epoch, q)
		}
		expect := func(at time.Duration, n int, want time.Duration) {
			t.Helper()
			if got := a.Wait(after(at), "", n); got != want {
				t.Errorf("%s: Wait for %d at %v = %v, want %v", what, n, at, got, want)
			}
		}
		said(c.day, 1000, 20, time.Hour)
		said(c.short, 100, 5, 10*s)
		said(c.day, 1000, 20, time.Hour)
		expect(0, 5, 0)
		expect(0, 6, 10*s)
		expect(0, 21, time.Hour) // longer than the short one, and the longer wait
		a.Take(after(s), "", 5)
		expect(s, 1, 9*s)
		expect(10*s, 15, 0) // the next short one; the day knows of the 5
		expect(10*s, 16, time.Hour-10*s)
		a.Forget(after(10*s), "")
		expect(10*s, 99, 0)
	}
}

func TestAdaptiveForgetsWindowsBeyondEight(t *testing.T) {
	a := newAdaptive(t, AdaptiveConfig{})
	for i := range 1000 {
		a.Told(epoch, epoch, throttle.Quota{Name: string(rune(i)), Remaining: 0, Reset: after(time.Duration(i+1) * time.Millisecond)})
	}
	if n := len(a.told.windows); n != 8 {
		t.Errorf("an Adaptive keeps %d windows, want 8", n)
	}
	if got, want := a.Wait(epoch, "", 1), 1000*time.Millisecond; got != want {
		t.Errorf("Wait = %v, want %v, of the one that ends last", got, want)
	}
}

// TestAdaptiveToldIsNeverRefused has a vendor that counts in windows tell of its
// quota in each answer, which takes a while, so that many are on their way.
func TestAdaptiveForgetsNoWindowForOneOfWhichNothingIsSaid(t *testing.T) {
	a := newAdaptive(t, AdaptiveConfig{})
	for i := range mostTold {
		a.Told(epoch, epoch, throttle.Quota{Name: string(rune('a' + i)), Limit: 100, Remaining: int64(100 * min(i, 1)), Reset: after(time.Duration(60+i) * time.Second)})
	}
	a.Told(epoch, epoch, throttle.Quota{Name: "x", Limit: 5, Remaining: -1, Reset: after(time.Hour)})
	a.Told(after(time.Second), epoch, throttle.Quota{Name: "y", Limit: -1, Remaining: 5, Reset: epoch})
	if got := a.Wait(after(time.Second), "", 1); got != 59*time.Second {
		t.Errorf("Wait = %v, want 59s", got)
	}
}

func TestAdaptiveToldIsNeverRefused(t *testing.T) {
	for seed := range uint64(effort.Times(3)) {
		rng := rand.New(rand.NewPCG(seed, 9))
		a := newAdaptive(t, AdaptiveConfig{Start: 1000})
		const window, limit = 10 * time.Second, 100
		type reply struct {
			at, sent time.Duration
			q        throttle.Quota
		}
		var replies []reply
		var now, begun time.Duration
		used, done := 0, 0
		for done < 1000 {
			next := now + max(time.Millisecond, a.Wait(after(now), "", 1))
			if len(replies) > 0 && (done == 0 || replies[0].at <= next) { // the first alone
				r := replies[0]
				replies = replies[1:]
				now = max(now, r.at)
				a.Told(after(now), after(r.sent), r.q)
				a.Accepted(after(now), after(r.sent), "")
				done++
				continue
			}
			if now = next; a.Wait(after(now), "", 1) > 0 || done == 0 && used > 0 {
				continue
			}
			a.Take(after(now), "", 1)
			if w := now.Truncate(window); w != begun {
				begun, used = w, 0
			}
			if used++; used > limit {
				t.Fatalf("seed %d: call %d of a window of %d", seed, used, limit)
			}
			took := time.Duration(rng.Int64N(int64(50 * time.Millisecond)))
			if n := len(replies); n > 0 {
				took = max(took, replies[n-1].at-now)
			}
			replies = append(replies, reply{now + took, now, throttle.Quota{Limit: limit, Remaining: int64(limit - used), Reset: after(begun + window)}})
		}
		if want := 10 * window; now > want {
			t.Errorf("seed %d: 1000 calls took %v, want %v", seed, now, want)
		}
	}
}

func TestAdaptiveToldLimitEndsTheSearch(t *testing.T) {
	a := newAdaptive(t, AdaptiveConfig{Start: 10, Window: time.Second})
	a.Told(epoch, epoch, throttle.Quota{Limit: 50, Remaining: -1})
	run(a, 0, 100*time.Second)
	if r := a.Rate(epoch, ""); r != 50 {
		t.Errorf("Rate = %v after 100 s without a refusal, want the 50 it was told", r)
	}
}

func TestAdaptiveTakesNoOtherWindowsLimitForItsOwn(t *testing.T) {
	a := newAdaptive(t, AdaptiveConfig{Start: 10, Window: time.Second})
	a.Told(epoch, epoch, throttle.Quota{Window: time.Second, Limit: 50, Remaining: -1})
	a.Told(epoch, epoch, throttle.Quota{Window: time.Hour, Limit: 40, Remaining: -1})
	run(a, 0, 100*time.Second)
	if r := a.Rate(epoch, ""); r != 50 {
		t.Errorf("Rate = %v after 100 s without a refusal, want the 50 per second it was told", r)
	}
}

// What is too old to be believed, or was learned with another Window, is a Start from which
// the rate grows, in an Adaptive that would otherwise have nothing to find out, too.
func TestAdaptiveGrowsFromWhatIsOnlyAStart(t *testing.T) {
	for name, l := range map[string]Learned{
		"another Window": {Rate: 4, Window: time.Minute, When: epoch},
		"31 days old":    {Rate: 4, Window: time.Second, When: epoch.Add(-31 * 24 * time.Hour)},
	} {
		a := newAdaptive(t, AdaptiveConfig{Max: 10, Window: time.Second})
		if err := a.Import(epoch, l); err != nil {
			t.Fatal(err)
		}
		if rate := a.Rate(epoch, ""); rate > 2 {
			t.Errorf("%s: the rate is %v at first, want 2, half of what was learned", name, rate)
		}
		run(a, 0, 5*time.Minute)
		if rate := a.Rate(after(5*time.Minute), ""); rate < 9.9 {
			t.Errorf("%s: the rate is %v after five minutes without a refusal, want Max, 10", name, rate)
		}
	}
}

// What was taken since the call was sent that was answered is subtracted: before anything was
// told, while everything passed, and however much it was.
func TestAdaptiveSubtractsAllThatWasTakenSince(t *testing.T) {
	for name, take := range map[string]func(a *Adaptive, at time.Time){
		"taken":  func(a *Adaptive, at time.Time) { a.Take(at, "", 1) },
		"passed": func(a *Adaptive, at time.Time) { a.Passed(at, "", 1) },
	} {
		for _, c := range []struct {
			told          bool // something before
			before, since int
			part          float64 // of that, by which too many may be subtracted
		}{
			{false, 1, 9, 0}, {false, 5, 16, 0}, {false, 100, 5000, 1}, {false, 5000, 100, 1}, {false, 100_000, 10_000, 1},
			{true, 5000, 100, 0}, {true, 100, 5000, .125}, {true, 5000, 1000, .125}, {true, 100_000, 10_000, .125},
		} {
			a := newAdaptive(t, AdaptiveConfig{})
			now := epoch
			told := func(sent time.Time, left int64) {
				a.Told(now, sent, throttle.Quota{Limit: -1, Remaining: left, Reset: epoch.Add(time.Hour), Cost: -1})
			}
			tick := func() { now = now.Add(time.Millisecond); take(a, now) }
			a.Wait(now, "", 1)
			if c.told {
				told(now, 1e6)
			}
			for range c.before {
				tick()
			}
			sent := now
			for range c.since {
				tick()
			}
			const left = 40_000
			told(sent, left)
			n := 0
			for ; a.Wait(now, "", 1) == 0 && n < 2*left; n++ {
				a.Take(now, "", 1)
			}
			if most, least := left-c.since, left-c.since-int(c.part*float64(c.since)); n > most || n < least {
				t.Errorf("%s, %+v: %d more pass, want %d to %d", name, c, n, least, most)
			}
		}
	}
}

// Export returns what Import takes, of a vendor of a large bucket, too, and long pauses.
func TestAdaptiveExportsWhatCanBeImported(t *testing.T) {
	const rate, size, cost = 1e8, 5e9, 1e7
	a := newAdaptive(t, AdaptiveConfig{Start: 1e6})
	now, last, tokens, refused := epoch, epoch, size, 0
	for i := 0; refused < 20 && i < 1_000_000; i++ {
		if d := a.Wait(now, "", cost); d > 0 {
			now = now.Add(d)
			continue
		}
		a.Take(now, "", cost)
		sent := now
		now = now.Add(time.Millisecond)
		tokens, last = min(size, tokens+rate*now.Sub(last).Seconds()), now
		if tokens >= cost {
			tokens -= cost
			a.Accepted(now, sent, "")
			continue
		}
		a.Refused(now, sent, "")
		refused++
		now = now.Add(time.Duration(refused*refused) * 12 * time.Hour)
		if err := newAdaptive(t, AdaptiveConfig{}).Import(now, a.Export(now)); err != nil {
			t.Fatalf("after refusal %d: %v", refused, err)
		}
	}
	if refused < 20 {
		t.Errorf("the vendor has refused %d times", refused)
	}
}

func TestAdaptiveExportImport(t *testing.T) {
	for _, w := range []world{demo, minute.with(func(w *world) { w.pace.Window = time.Minute })} {
		w.calls = 5000
		o := simulate(w)
		l := o.learned
		if !near(l.Rate, w.quota(), 0.1) || l.Pause < w.pause || l.Pause > 2*w.pause || l.Window != w.pace.Window {
			t.Errorf("learned %+v of %+v", l, w)
		}
		text, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		var back Learned
		if err := json.Unmarshal(text, &back); err != nil || !back.When.Equal(l.When) || back.Rate != l.Rate {
			t.Errorf("%s came back as %+v, %v", text, back, err)
		}
		for _, c := range []struct {
			age  time.Duration
			want float64 // of the rate
		}{{0, 1}, {time.Hour, 1}, {-time.Hour, 1}, {2 * time.Hour, 0.5}, {10 * time.Hour, 0.1}, {60 * 24 * time.Hour, 0.5}} {
			a := newAdaptive(t, w.pace)
			now := l.When.Add(c.age)
			if err := a.Import(now, back); err != nil {
				t.Fatal(err)
			}
			if got := a.Rate(now, ""); !near(got, l.Rate*c.want, 0.05) && got > 2.01/60 {
				t.Errorf("window %v: after %v the rate is %v of %v, want %v of it", w.pace.Window, c.age, got, l.Rate, c.want)
			}
		}
		// What is learned saves learning it: of the first minute hardly anything is lost.
		w.calls, w.learned = int(60*w.quota())+1, l
		if o := simulate(w); o.goodput < 0.93 || o.refused > max(3, o.sent/1000) {
			t.Errorf("window %v: goodput %.3f and %d refused of %d after an import", w.pace.Window, o.goodput, o.refused, o.sent)
		}
	}
}

// What grows goes on from where it was, not from its Start.
func TestAdaptiveGrowsOnAfterAnImport(t *testing.T) {
	grow := func(a *Adaptive, now time.Time, d time.Duration) time.Time {
		for end := now.Add(d); now.Before(end); {
			if d := a.Wait(now, "", 1); d > 0 {
				now = now.Add(d)
				continue
			}
			a.Take(now, "", 1)
			a.Accepted(now, now, "")
		}
		return now
	}
	for _, cfg := range []AdaptiveConfig{{Start: 10, Max: 1e6}, {Start: 10, Max: 1e6, Window: time.Second}} {
		a := newAdaptive(t, cfg)
		now := grow(a, epoch, 500*time.Millisecond+3*cfg.Window)
		rate := a.Rate(now, "")
		l := a.Export(now)
		if rate < 20 || l.Rate != rate || !l.Growing {
			t.Fatalf("%+v: from a rate of %v came %+v", cfg, rate, l)
		}
		for _, c := range []struct {
			age         time.Duration
			start, want float64
		}{{0, 10, rate}, {2 * time.Hour, 10, rate / 2}, {10 * time.Hour, 10, max(10, rate/10)}, {0, 1e4, 1e4}} {
			cfg.Start = c.start
			b, now := newAdaptive(t, cfg), now.Add(c.age)
			if err := b.Import(now, l); err != nil {
				t.Fatal(err)
			}
			if r := b.Rate(now, ""); !near(r, c.want, 1e-9) {
				t.Errorf("%+v: after %v %v, want %v", cfg, c.age, r, c.want)
			}
			if grow(b, now, time.Second); b.Rate(now, "") < 1.3*c.want {
				t.Errorf("%+v: after %v it went on to %v from %v", cfg, c.age, b.Rate(now, ""), c.want)
			}
		}
	}
	a, b := newAdaptive(t, AdaptiveConfig{Start: 10}), newAdaptive(t, AdaptiveConfig{})
	if b.Import(epoch, a.Export(epoch)); b.Rate(epoch, "") != 0 {
		t.Error("where everything passed before a Start was imported it does not any more")
	}
}

func TestAdaptiveImportRefusesNonsense(t *testing.T) {
	for want, l := range map[string]Learned{
		"Rate is NaN":   {Rate: math.NaN()},
		"Rate is -1":    {Rate: -1},
		"Rate is +Inf":  {Rate: math.Inf(1)},
		"Burst is -1":   {Rate: 1, Burst: -1},
		"Burst is 1e+1": {Rate: 1, Burst: 1e10},
		"Pause is -1s":  {Rate: 1, Pause: -time.Second},
		"Window is -1s": {Rate: 1, Window: -time.Second},
	} {
		a := newAdaptive(t, AdaptiveConfig{Start: 7})
		if err := a.Import(epoch, l); err == nil || !strings.Contains(err.Error(), "Learned."+want) {
			t.Errorf("%+v: error %v, want %q", l, err, want)
		}
		if r := a.Rate(epoch, ""); r != 7 {
			t.Errorf("%+v: Rate = %v, want 7 as before", l, r)
		}
	}
	a := newAdaptive(t, AdaptiveConfig{Start: 7, Max: 10})
	if a.Import(epoch, Learned{}); a.Rate(epoch, "") != 7 {
		t.Error("nothing learned changed the rate")
	}
	if a.Import(epoch, Learned{Rate: 1e9, Pause: time.Second, When: epoch}); a.Rate(epoch, "") > 10 {
		t.Errorf("Rate = %v, want Max, 10, at most", a.Rate(epoch, ""))
	}
}

// TestTallyAgainstModel compares a tally with a list of all that was taken.
func TestTallyAgainstModel(t *testing.T) {
	type took struct {
		seg int64
		n   float64
	}
	for seed := range uint64(effort.Times(3)) {
		rng := rand.New(rand.NewPCG(seed, 11))
		y := newTally(perWindow) // a segment is a second
		var all []took
		now := 0.0
		for range 3000 {
			switch rng.IntN(12) {
			case 0:
				now += rng.Float64() * 300
			case 1:
				if rng.IntN(50) == 0 {
					now += 3000
				}
			case 2:
				if len(all) > 0 {
					k := rng.IntN(len(all))
					if all[k].seg > int64(now)-inTally { // else it is forgotten
						y.advance(now)
						y.drop(float64(all[k].seg)+0.5, all[k].n)
						all = append(all[:k], all[k+1:]...)
					}
				}
			default:
				now += rng.Float64()
				n := float64(rng.IntN(4) + 1)
				y.advance(now)
				y.add(n)
				all = append(all, took{int64(now), n})
			}
			y.advance(now)
			for len(all) > 0 && all[0].seg < int64(now)-inTally-perWindow-1 {
				all = all[1:] // of no window that is asked for
			}
			in := func(from, to int64) (n float64) {
				for _, k := range all {
					if k.seg > from && k.seg <= to {
						n += k.n
					}
				}
				return n
			}
			seg := int64(now)
			if want := in(seg-inWindow, seg); y.sum != want {
				t.Fatalf("seed %d at %v: sum %v, want %v", seed, now, y.sum, want)
			}
			most := float64(rng.IntN(int(y.sum) + 1))
			at := y.room(most)
			if s := int64(at); in(s-inWindow, seg) > most || s > seg && in(s-1-inWindow, seg) <= most {
				t.Fatalf("seed %d at %v: room for %v at %v, want the first time", seed, now, most, at)
			}
			sent := now - rng.Float64()*inTally
			if n, ok := y.before(sent); ok && sent >= 0 {
				s := int64(sent)
				if want := in(s-perWindow, s-1) + in(s-1, s)/2; n != want {
					t.Fatalf("seed %d at %v: %v before %v, want %v", seed, now, n, sent, want)
				}
			} else if sent >= 0 && int64(sent)-perWindow > seg-inTally {
				t.Fatalf("seed %d at %v: does not know what was before %v", seed, now, sent)
			}
		}
	}
}

// TestAdaptiveKeepsToItsWindow takes whenever it may, at random times, and checks
// every window against the quota of its time.
func TestAdaptiveKeepsToItsWindow(t *testing.T) {
	for seed := range uint64(effort.Times(2)) {
		rng := rand.New(rand.NewPCG(seed, 12))
		const window = 10 * time.Second
		a := newAdaptive(t, AdaptiveConfig{Start: 10, Max: 10, Window: window})
		var log []time.Duration
		now := time.Duration(0)
		for len(log) < 5000 {
			n := 1 + rng.IntN(3)
			if d := a.Wait(after(now), "", n); d > 0 {
				now += d + time.Duration(rng.Int64N(int64(50*time.Millisecond)))
				continue
			}
			a.Take(after(now), "", n)
			for range n {
				log = append(log, now)
			}
			if k := len(log) - 1; k >= 100 && log[k]-log[k-100] < window {
				t.Fatalf("seed %d: 101 permits in %v", seed, log[k]-log[k-100])
			}
		}
		if got := 5000 / now.Seconds(); got < 9.4 {
			t.Errorf("seed %d: %.2f permits a second, want nearly 10", seed, got)
		}
	}
}

func TestAdaptiveLearnsFromARefusalInAWindow(t *testing.T) {
	a := newAdaptive(t, AdaptiveConfig{Start: 100, Window: time.Second})
	w := a.model.(*windowed)
	var log []time.Duration
	pass := func(from, to time.Duration) {
		for now := from; now < to; now += time.Millisecond {
			for a.Wait(after(now), "", 1) == 0 {
				a.Take(after(now), "", 1)
				a.Accepted(after(now), after(now-10*time.Millisecond), "")
				log = append(log, now)
			}
		}
	}
	const s = time.Second
	pass(0, 3*s)
	sent, accepted := log[len(log)-1], 0
	for _, at := range log[:len(log)-1] {
		if sent-at < s {
			accepted++
		}
	}
	a.Refused(after(3*s), after(sent), "")
	learned := a.Rate(epoch, "")
	if !near(learned, 0.99*float64(accepted), 0.01) || w.growth != 0 {
		t.Errorf("Rate = %v after a refusal, want 0.99 of the %d accepted in the window before", learned, accepted)
	}
	was := w.tally.sum
	for i := range 5 { // they were on their way
		a.Refused(after(3*s+time.Duration(i)), after(log[len(log)-2-i]), "")
	}
	if a.Rate(epoch, "") != learned || w.tally.sum != was-5 {
		t.Errorf("Rate = %v, want %v still; %v of %v count, want 5 less", a.Rate(epoch, ""), learned, w.tally.sum, was)
	}
	pass(4*s, 6*s)
	a.Refused(after(6*s), after(log[len(log)-1]), "")
	if got := a.Rate(epoch, ""); got >= learned || got < 0.8*learned {
		t.Errorf("Rate = %v, was %v: want a little less, it had not stood for long", got, learned)
	}
	pass(7*s, 15*s)
	learned = a.Rate(epoch, "")
	a.Refused(after(15*s), after(log[len(log)-1]), "")
	if got := a.Rate(epoch, ""); got != learned/2 {
		t.Errorf("Rate = %v, want half of the %v that stood", got, learned)
	}
}

func TestAdaptiveNeverStopsSearching(t *testing.T) {
	for _, fallen := range []float64{0, 100} {
		w := newWindowed(1, 10, 1, 1e9)
		w.fallen = fallen
		for range 100 {
			w.search.failed(w)
		}
		if w.search.rest != 100 {
			t.Errorf("fallen from %v: a search every %v windows after 100 that found nothing, want 100", fallen, w.search.rest)
		}
	}
}

func TestAdaptiveSettleInAWindow(t *testing.T) {
	a := newAdaptive(t, AdaptiveConfig{Start: 10, Max: 10, Window: time.Second})
	a.Take(epoch, "", 4)
	a.Settle(epoch, "", 4, 10)
	if d := a.Wait(after(500*time.Millisecond), "", 1); d < 500*time.Millisecond || d > 510*time.Millisecond {
		t.Errorf("Wait = %v after the whole quota, want the rest of the window", d)
	}
	a.SettleAt(after(500*time.Millisecond), epoch, "", 10, 9)
	if d := a.Wait(after(500*time.Millisecond), "", 1); d != 0 {
		t.Errorf("Wait = %v after one was given back, want none", d)
	}
	a.SettleAt(after(500*time.Millisecond), epoch, "", math.MaxInt, 0)
	if d := a.Wait(after(500*time.Millisecond), "", 10); d != 0 {
		t.Errorf("Wait = %v after all was given back, want none", d)
	}
}

// A vendor that gives its reset as an absolute time, as X-RateLimit-Reset does, is
// understood by the wall clock of its answer, not by that of the first call.
func TestToldHeedsNoStepOfTheWallClock(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		a, err := NewAdaptive(AdaptiveConfig{Start: 10})
		if err != nil {
			t.Fatal(err)
		}
		first := time.Now()
		a.Take(first, "", 1)
		now := stepped(first.Add(10*time.Second), step) // the clock was set meanwhile
		a.Told(now, now, throttle.Quota{Limit: 100, Remaining: 0, Reset: now.Round(0).Add(time.Minute)})
		if d := a.Wait(now, "", 1); d < 59*time.Second || d > 61*time.Second {
			t.Errorf("step %v: nothing left for a minute, and a wait of %v", step, d)
		}
	}
}

// A vendor tells a limit, and later, since a better plan was bought, a higher one.
func TestToldFollowsALimitThatWasRaised(t *testing.T) {
	a, err := NewAdaptive(AdaptiveConfig{Start: 1, Window: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1e9, 0)
	tell := func(limit int64) {
		a.Told(now, now, throttle.Quota{Limit: limit, Remaining: limit, Reset: now.Add(time.Minute)})
	}
	tell(60)
	for end := now.Add(24 * time.Hour); now.Before(end) && a.Rate(now, "") < 2; {
		if d := a.Wait(now, "", 1); d > 0 {
			now = now.Add(d)
			continue
		}
		a.Take(now, "", 1)
		a.Accepted(now.Add(time.Millisecond), now, "")
		if now.Sub(time.Unix(1e9, 0)) > time.Hour {
			tell(6000)
		}
	}
	if rate := a.Rate(now, ""); rate < 2 {
		t.Errorf("23 h after the vendor has raised its limit from 60 to 6000 a minute the rate is %v a second", rate)
	}
}

// What is not over, another one is told.
func TestRemainingIsWhatAnotherAdaptiveNeedsToKnow(t *testing.T) {
	now := time.Now()
	a := newAdaptive(t, AdaptiveConfig{})
	if got := a.Remaining(now); got != nil {
		t.Errorf("of nothing said: %+v", got)
	}
	a.Told(now, now, throttle.Quota{Name: "hour", Limit: 100, Remaining: 10, Reset: now.Add(time.Hour)})
	a.Told(now, now, throttle.Quota{Name: "minute", Limit: -1, Remaining: 5, Reset: now.Add(time.Minute)})
	now = now.Add(2 * time.Minute)
	a.Take(now, "", 4)
	all := a.Remaining(now)
	if len(all) != 1 || all[0].Name != "hour" || all[0].Limit != 100 || all[0].Remaining != 6 || all[0].Reset.Sub(now).Round(time.Millisecond) != 58*time.Minute {
		t.Fatalf("remaining %+v, want 6 of the hour", all)
	}
	b := newAdaptive(t, AdaptiveConfig{})
	b.Told(now, now, all[0])
	for _, n := range []int{6, 7} {
		if x, y := a.Wait(now, "", n).Round(time.Millisecond), b.Wait(now, "", n).Round(time.Millisecond); x != y {
			t.Errorf("%d permits in %v and %v", n, x, y)
		}
	}
	if got := a.Remaining(now.Add(3 * time.Hour)); got != nil {
		t.Errorf("when it is over: %+v", got)
	}
}

// It is sound for whatever was said.
func TestRemainingOfNonsense(t *testing.T) {
	now := time.Now()
	a := newAdaptive(t, AdaptiveConfig{})
	a.Wait(now, "", 1)
	a.Told(now, now, throttle.Quota{Name: "x", Limit: math.MaxInt64, Remaining: math.MaxInt64, Reset: now.Add(time.Hour)})
	a.Told(now, now, throttle.Quota{Name: "y", Limit: 5, Remaining: 0, Reset: now.AddDate(400, 0, 0)})
	for _, q := range a.Remaining(now) {
		if q.Remaining < 0 || q.Limit < 0 || q.Reset.Before(now) {
			t.Errorf("%+v", q)
		}
	}
	b := newAdaptive(t, AdaptiveConfig{})
	for _, q := range a.Remaining(now) {
		b.Told(now, now, q)
	}
	if x, y := a.Wait(now, "", 1), b.Wait(now, "", 1); x != y {
		t.Errorf("the one waits %v, the other %v", x, y)
	}
}
