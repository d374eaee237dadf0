package limiter

import (
	"testing"
	"time"

	"github.com/flyball-go/flyball/throttle"
)

func TestSpreadKeepsAllWindowsOfAKey(t *testing.T) {
	s, err := NewSpread(SpreadConfig{})
	if err != nil {
		t.Fatal(err)
	}
	said := func(name string, left int64, reset time.Duration) {
		s.Told(epoch, epoch, throttle.Quota{Name: name, Limit: -1, Remaining: left, Reset: after(reset)})
	}
	said("ten seconds", 5, 10*time.Second)
	said("daily", 3600, time.Hour)
	s.Take(epoch, "", 1)
	if got := s.Wait(epoch, "", 1); got != 2*time.Second {
		t.Errorf("Wait = %v, want the 2s of 5 in 10 s", got)
	}
	if got := s.Rate(epoch, ""); got != 0.4 {
		t.Errorf("Rate = %v, want the 4 left in 10 s", got)
	}
	s.Take(after(10*time.Second), "", 1) // the short one is over, and nobody said what follows
	if got := s.Wait(after(10*time.Second), "", 1); got < 990*time.Millisecond || got > time.Second {
		t.Errorf("Wait = %v, want about 1s of 3599 in an hour less 10 s", got)
	}
	for i := range 1000 {
		said(string(rune(i)), 0, time.Hour)
	}
	if n := len(s.keys[""].windows); n != 8 {
		t.Errorf("a key has %d windows, want 8", n)
	}
}
