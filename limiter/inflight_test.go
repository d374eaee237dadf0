package limiter

import (
	"testing"
	"time"
)

// An answer tells what the vendor had counted when it was given. Calls that left
// after the one that it answers, and are under way, are to come off that.
func TestRemainingIsLessWhatLeftSince(t *testing.T) {
	const ms = time.Millisecond
	log := func() Counter {
		l, err := NewSlidingLog(SlidingLogConfig{Limit: 100, Window: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	segments := func() Counter {
		l, err := NewSlidingCounter(SlidingCounterConfig{Limit: 100, Window: time.Second, Segments: 500})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	for name, make := range map[string]func() Counter{"SlidingLog": log, "SlidingCounter": segments} {
		l := make()
		at := func(d time.Duration) time.Time { return epoch.Add(d) }
		l.Take(at(0), "k", 10)
		l.Take(at(10*ms), "k", 30)
		l.SetRemaining(at(20*ms), at(0), "k", 50) // others have used 40
		if got := l.Available(at(20*ms), "k"); got != 20 {
			t.Errorf("%s: %d available, want 50 without the 30 that left since", name, got)
		}
		l.SetRemaining(at(30*ms), at(0), "k", 5)
		if got := l.Available(at(30*ms), "k"); got != 0 {
			t.Errorf("%s: %d available, want none", name, got)
		}

		// What has come back from the vendor since is in no doubt.
		l = make()
		l.Take(at(0), "k", 10)
		l.Take(at(10*ms), "k", 30)
		l.Settle(at(15*ms), "k", 30, 30)
		l.SetRemaining(at(20*ms), at(0), "k", 40)
		if got := l.Available(at(20*ms), "k"); got != 30 {
			t.Errorf("%s: %d available, want 40 without the 10 that have not been answered", name, got)
		}

		// Alone, a client always knows of more than the vendor has counted.
		l = make()
		l.Take(at(0), "k", 10)
		l.Take(at(10*ms), "k", 30)
		l.SetRemaining(at(20*ms), at(0), "k", 90)
		if got := l.Available(at(20*ms), "k"); got != 60 {
			t.Errorf("%s: %d available, want 60", name, got)
		}
	}
}
