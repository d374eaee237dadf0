package governortest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/throttle"
)

// In a bubble a cooldown of 15 s takes exactly 15 s, and no time.
func TestScriptedRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := governor.New(governor.PlainConfig{Name: "acme", Vendor: governortest.Vendor{}})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		events := governortest.Record(g, event.Cooling, event.Cooled)

		s := governortest.NewScript(governortest.Limited(15*time.Second), nil)
		n, err := governor.Do(t.Context(), g, "", s.Call)
		if n != 2 || err != nil {
			t.Fatalf("got attempt %d, %v; want the second to succeed", n, err)
		}
		if at := s.Starts(); at[1].Sub(at[0]) != 15*time.Second {
			t.Errorf("second attempt after %v, want 15s", at[1].Sub(at[0]))
		}
		synctest.Wait()
		if got := fmt.Sprint(events.Kinds()); got != "[cooling cooled]" {
			t.Errorf("events %s, want cooling and cooled", got)
		}
	})
}

func TestVendorReadsTheFirstSignalOfARefusalInAnErrorsTree(t *testing.T) {
	two := &governortest.Refusal{Signals: []throttle.Signal{{Delay: time.Second}, {Delay: time.Minute}}}
	for _, c := range []struct {
		err     error
		delay   time.Duration
		limited bool
		signals int
	}{
		{governortest.Limited(15 * time.Second), 15 * time.Second, true, 1},
		{fmt.Errorf("call: %w", governortest.Limited(throttle.Unknown)), throttle.Unknown, true, 1},
		{errors.Join(errors.New("first"), two), time.Second, true, 2},
		{&governortest.Refusal{}, 0, false, 0},
		{errors.New("broken"), 0, false, 0},
		{nil, 0, false, 0},
	} {
		if d, limited := (governortest.Vendor{}).DelayError(c.err); d != c.delay || limited != c.limited {
			t.Errorf("%v: delay %v, %v; want %v, %v", c.err, d, limited, c.delay, c.limited)
		}
		if s := (governortest.Vendor{}).Signals(c.err, time.Now()); len(s) != c.signals || len(s) > 0 && s[0].Delay != c.delay {
			t.Errorf("%v: signals %+v", c.err, s)
		}
	}
}

func TestScriptTakesItsLatencyUnlessItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause, broken := errors.New("cause"), errors.New("broken")
		s := governortest.NewScript(broken)
		s.Latency = 10 * time.Second
		call := func(ctx context.Context, n int, want error, took time.Duration) {
			t.Helper()
			start := time.Now()
			if got, err := s.Call(ctx, struct{}{}); got != n || err != want || time.Since(start) != took {
				t.Errorf("attempt %d, %v after %v; want %d, %v after %v", got, err, time.Since(start), n, want, took)
			}
		}
		call(t.Context(), 1, broken, 10*time.Second)
		call(t.Context(), 2, nil, 10*time.Second)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(3*time.Second, func() { cancel(cause) })
		call(ctx, 3, cause, 3*time.Second)
		s.Latency = 0
		call(ctx, 4, nil, 0)
	})
}

func TestRecorderThatIsStoppedCollectsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := governor.New(governor.PlainConfig{Name: "acme", Vendor: governortest.Vendor{}})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		stopped, other := governortest.Record(g), governortest.Record(g, event.Completed)
		call := func() {
			if _, err := governor.Do(t.Context(), g, "", governortest.NewScript().Call); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		call()
		before := len(stopped.Events())
		if stopped.Count(event.Completed) != 1 || before < 2 {
			t.Errorf("recorded %v", stopped.Kinds())
		}
		stopped.Stop()
		call()
		if n := len(stopped.Events()); n != before || other.Count(event.Completed) != 2 {
			t.Errorf("%d events, %d before it was stopped; another recorder has %v", n, before, other.Kinds())
		}
	})
}
