package limiter

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/throttle"
)

// exercise does the same to all of as, at random, and returns when it ended and what they said.
func exercise(r *rand.Rand, now time.Time, n int, as ...*Adaptive) (end time.Time, said [][]time.Duration) {
	said = make([][]time.Duration, len(as))
	sent := now
	for range n {
		op, arg := r.IntN(20), 1+r.IntN(5)
		for i, a := range as {
			d := a.Wait(now, "", arg)
			said[i] = append(said[i], d, time.Duration(a.Rate(now, "")*1e6))
			switch {
			case op < 10 && d == 0:
				a.Take(now, "", arg)
			case op < 16:
				a.Accepted(now, sent, "")
			case op == 16:
				a.Refused(now, sent, "")
			case op == 17:
				a.Told(now, sent, throttle.Quota{Limit: int64(arg * 100), Remaining: int64(arg * 10), Reset: now.Add(time.Duration(arg) * time.Second)})
			case op == 18:
				a.SettleAt(now, sent, "", 1, arg)
			}
		}
		if op < 10 {
			sent = now
		}
		now = now.Add(time.Duration(r.IntN(200)) * time.Millisecond)
	}
	return now, said
}

func TestAnAdaptiveGoesOnFromASnapshotAsTheOneItIsOf(t *testing.T) {
	for seed := range uint64(effort.Times(100)) {
		r := rand.New(rand.NewPCG(seed, 1))
		cfg := AdaptiveConfig{Start: float64(r.IntN(3) * 10), Max: 1e4, Window: time.Duration(r.IntN(3)) * time.Second}
		a, b, c := newAdaptive(t, cfg), newAdaptive(t, cfg), newAdaptive(t, cfg)
		now, _ := exercise(r, epoch, r.IntN(500), a)
		s := a.Snapshot(now)
		if !b.Restore(s) {
			t.Fatal("it is not restored")
		}
		_, said := exercise(r, now, 500, a, b)
		if at := differ(said[0], said[1]); at >= 0 {
			t.Fatalf("seed %d, %+v: they differ after %d: %v, %v", seed, cfg, at, said[0][at], said[1][at])
		}
		// What became of those is nothing to the next.
		q, p := rand.New(rand.NewPCG(seed, 2)), rand.New(rand.NewPCG(seed, 2))
		if d := newAdaptive(t, cfg); !c.Restore(s) || !d.Restore(s) {
			t.Fatal("it is not restored twice")
		} else {
			_, one := exercise(q, now, 300, c)
			_, two := exercise(p, now, 300, d)
			if at := differ(one[0], two[0]); at >= 0 {
				t.Fatalf("seed %d, %+v: two of one Snapshot differ after %d", seed, cfg, at)
			}
		}
	}
	a := newAdaptive(t, AdaptiveConfig{Start: 5})
	for _, s := range []*Snapshot{nil, {}, newAdaptive(t, AdaptiveConfig{Start: 6}).Snapshot(epoch)} {
		if a.Restore(s) || a.Rate(epoch, "") != 5 {
			t.Errorf("%+v is restored", s)
		}
	}
}

// differ returns where a and b differ first, -1: nowhere.
func differ(a, b []time.Duration) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

// vendor takes at most quota calls in any window, and sees them drive after drive.
type windowVendor struct {
	quota  int
	window time.Duration
	took   []time.Time
}

func (v *windowVendor) accepts(now time.Time) bool {
	for len(v.took) > 0 && now.Sub(v.took[0]) >= v.window {
		v.took = v.took[1:]
	}
	if len(v.took) >= v.quota {
		return false
	}
	v.took = append(v.took, now)
	return true
}

// drive has a send what it lets pass to v for d, or until a refusal if that is enough.
func drive(a *Adaptive, now time.Time, d time.Duration, v *windowVendor, enough bool) (end time.Time, refused int) {
	for over := now.Add(d); now.Before(over); {
		if d := a.Wait(now, "", 1); d > 0 {
			now = now.Add(d)
			continue
		}
		a.Take(now, "", 1)
		sent := now
		if now = now.Add(2 * time.Millisecond); v.accepts(sent) {
			a.Accepted(now, sent, "")
			continue
		}
		a.Refused(now, sent, "")
		if refused++; enough {
			break
		}
		now = now.Add(10 * time.Second)
	}
	return now, refused
}

// imported returns another Adaptive that goes on with what a has learned.
func imported(t *testing.T, a *Adaptive, now time.Time) *Adaptive {
	t.Helper()
	b := newAdaptive(t, a.cfg)
	if err := b.Import(now, a.Export(now)); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAQuotaThatHasFallenIsExportedAsSuch(t *testing.T) {
	a := newAdaptive(t, AdaptiveConfig{Start: 10. / 60, Window: time.Minute, Max: 1e4})
	v := &windowVendor{quota: 100, window: time.Minute}
	now, _ := drive(a, epoch, 20*time.Minute, v, false)
	stood := a.Rate(now, "")
	v.quota = 40
	now, _ = drive(a, now, time.Hour, v, true)
	now = now.Add(2 * time.Minute)
	b := a
	for range 3 {
		b = imported(t, b, now)
		if ra, rb := a.Rate(now, ""), b.Rate(now, ""); ra > stood/1.9 || rb != ra {
			t.Errorf("from %v it has fallen to %v, and another goes on with %v", stood, ra, rb)
		}
	}
	v.quota = 100
	if now, _ = drive(b, now, 30*time.Minute, v, false); !near(b.Rate(now, ""), stood, 0.05) {
		t.Errorf("what stood before, %v, is not found again: %v", stood, b.Rate(now, ""))
	}
}

func TestWhatIsOldDoesNotBecomeNewByAnExport(t *testing.T) {
	a := newAdaptive(t, AdaptiveConfig{Start: 10. / 60, Window: time.Minute, Max: 1e4})
	if err := a.Import(epoch, Learned{Rate: 100, Window: time.Minute, Pause: time.Second, When: epoch.Add(-10 * time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if ra, rb := a.Rate(epoch, ""), imported(t, a, epoch).Rate(epoch, ""); !near(ra, 10, 1e-9) || rb != ra {
		t.Errorf("of 100 that are 10 hours old %v is used, and %v by another", ra, rb)
	}
}

// A refused Start is not taken up again by who goes on with what grows.
func TestWhatGrowsAfterRefusalsDoesNotGoBackToItsStart(t *testing.T) {
	for name, of := range map[string]func() (*Adaptive, time.Time){
		"halved": func() (*Adaptive, time.Time) {
			a := newAdaptive(t, AdaptiveConfig{Start: 100, Max: 1e4})
			now, _ := drive(a, epoch, 40*time.Second, &windowVendor{window: time.Second}, false)
			return a, now
		},
		"refused first": func() (*Adaptive, time.Time) {
			a := newAdaptive(t, AdaptiveConfig{Start: 100, Max: 1e4})
			now, _ := drive(a, epoch, time.Minute, &windowVendor{quota: 500, window: time.Minute}, true)
			return a, now
		},
		"found more": func() (*Adaptive, time.Time) {
			a := newAdaptive(t, AdaptiveConfig{Start: 200. / 60, Window: time.Minute, Max: 1e4})
			v := &windowVendor{quota: 100, window: time.Minute}
			now, _ := drive(a, epoch, 10*time.Minute, v, false)
			v.quota = 150
			for i := 0; i < 200 && !a.Export(now).Growing; i++ {
				now, _ = drive(a, now, time.Minute, v, false)
			}
			return a, now
		},
	} {
		a, now := of()
		l := a.Export(now)
		if !l.Growing || l.Pause == 0 {
			t.Fatalf("%s: %+v, want what grows after a refusal", name, l)
		}
		if ra, rb := a.Rate(now, ""), imported(t, a, now).Rate(now, ""); rb > min(ra, a.cfg.Start) && rb != ra || rb == 0 {
			t.Errorf("%s: %v goes on with %v", name, ra, rb)
		}
	}
}

// Without a Start, too, and though what was imported was only one.
func TestARateIsNotLostByAnExportInAPause(t *testing.T) {
	for name, l := range map[string]Learned{
		"31 days old":         {Rate: 50, Pause: time.Second, When: epoch.Add(-31 * 24 * time.Hour)},
		"of a Window":         {Rate: 50, Window: time.Minute, Pause: time.Second, When: epoch},
		"growing, or refused": {Rate: 50, Growing: true, Pause: time.Second, When: epoch},
	} {
		a := newAdaptive(t, AdaptiveConfig{})
		if err := a.Import(epoch, l); err != nil {
			t.Fatal(err)
		}
		now, _ := drive(a, epoch, time.Minute, &windowVendor{quota: 5, window: time.Second}, true)
		if ra, rb := a.Rate(now, ""), imported(t, a, now).Rate(now, ""); rb == 0 || rb > ra {
			t.Errorf("%s: %v goes on with %v", name, ra, rb)
		}
	}
}

func TestAnExportInAPauseOfAWindowTellsOfTheRefusal(t *testing.T) {
	a := newAdaptive(t, AdaptiveConfig{Start: 200. / 60, Window: time.Minute, Max: 1e4})
	v := &windowVendor{quota: 100, window: time.Minute}
	now, _ := drive(a, epoch, 10*time.Minute, v, true)
	b := imported(t, a, now)
	now = now.Add(10 * time.Second)
	v.quota = 150
	for i := 0; i < 200 && !b.Export(now).Growing; i++ {
		now, _ = drive(b, now, time.Minute, v, false)
	}
	if rb, rc := b.Rate(now, ""), imported(t, b, now).Rate(now, ""); rc > rb*1.001 {
		t.Errorf("%v goes on with %v, and Start was refused", rb, rc)
	}
}

func TestASnapshotKnowsWhatALateAnswerIsAbout(t *testing.T) {
	cfg := AdaptiveConfig{Start: 100. / 60, Window: time.Minute, Max: 1e4}
	a, b := newAdaptive(t, cfg), newAdaptive(t, cfg)
	now, sent := epoch, epoch
	for now.Before(epoch.Add(70 * time.Second)) {
		if d := a.Wait(now, "", 1); d > 0 {
			now = now.Add(d)
			continue
		}
		a.Take(now, "", 1)
		sent, now = now, now.Add(time.Millisecond)
	}
	now = now.Add(65 * time.Second)
	if !a.Full(now) || !b.Restore(a.Snapshot(now)) {
		t.Fatal("it is not restored")
	}
	a.Refused(now, sent, "")
	b.Refused(now, sent, "")
	if ra, rb := a.Rate(now, ""), b.Rate(now, ""); ra != rb {
		t.Errorf("a refusal leaves %v a second, and %v where it was restored", ra, rb)
	}
	if b.Restore(a.Snapshot(now)) {
		t.Error("one that is in use is replaced")
	}
}

func TestTheLargestRateCanBeImported(t *testing.T) {
	for w := time.Millisecond; w < 50*time.Millisecond; w += 7 * time.Microsecond {
		a := newAdaptive(t, AdaptiveConfig{Start: 1e9, Max: 1e9, Window: w})
		imported(t, a, epoch)
	}
}
