package breaker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
)

func TestFailuresOpenItHoweverManyCallsThereAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{Failures: 3, Window: 50})
		calls(t, b, 2, breaker.Failure, 0)
		calls(t, b, 40, breaker.Success, 0)
		inState(t, b, breaker.Closed)
		calls(t, b, 1, breaker.Failure, 0) // 3 of 43
		inState(t, b, breaker.Open)

		b.Reset()
		calls(t, b, 2, breaker.Failure, 0)
		calls(t, b, 50, breaker.Success, 0) // push them out
		calls(t, b, 2, breaker.Failure, 0)
		inState(t, b, breaker.Closed)

		b = newBreaker(t, breaker.Config{Failures: 3, WindowTime: 5 * time.Second})
		calls(t, b, 2, breaker.Failure, 0)
		time.Sleep(5 * time.Second)
		calls(t, b, 2, breaker.Failure, 0)
		inState(t, b, breaker.Closed)
		calls(t, b, 1, breaker.Failure, 0)
		inState(t, b, breaker.Open)
	})
}

func TestFailuresLeaveTheSlowRateAlone(t *testing.T) {
	b := newBreaker(t, breaker.Config{Failures: 3, MinCalls: 4, SlowRate: 0.5, SlowCall: time.Second})
	calls(t, b, 2, breaker.Success, 0)
	calls(t, b, 2, breaker.Success, 2*time.Second)
	inState(t, b, breaker.Open)
}

func TestWithFailuresTheFirstFailedTrialDecides(t *testing.T) {
	b := newBreaker(t, breaker.Config{Failures: 3, HalfOpenCalls: 5, Initial: breaker.HalfOpen})
	calls(t, b, 4, breaker.Success, 0)
	inState(t, b, breaker.HalfOpen)
	calls(t, b, 1, breaker.Failure, 0)
	inState(t, b, breaker.Open)
	transition(t, b, breaker.HalfOpen)
	calls(t, b, 5, breaker.Success, 0)
	inState(t, b, breaker.Closed)
}

func TestAnUndecidedHalfOpenCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		b := newBreaker(t, breaker.Config{Name: "acme", HalfOpenWait: 10 * time.Second, HalfOpenClose: true, Initial: breaker.HalfOpen, OnEvent: r.hear})
		calls(t, b, 9, breaker.Failure, 0) // of 10
		r.take()
		time.Sleep(10*time.Second - 1)
		inState(t, b, breaker.HalfOpen)
		time.Sleep(time.Nanosecond)
		inState(t, b, breaker.Closed)
		if s := b.Stats(); s.Calls != 0 || s.Opens != 0 || !s.Until.IsZero() {
			t.Errorf("%+v", s)
		}
		if got := r.take(); len(got) != 1 || got[0].Kind != event.BreakerState || got[0].Source != "closed" {
			t.Errorf("%+v", got)
		}
	})
}

func TestOpenUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		start := time.Now()
		b := newBreaker(t, breaker.Config{Name: "acme", MaxRetryAfter: time.Hour, OnEvent: r.hear})
		for _, c := range []struct{ until, want time.Duration }{
			{7 * time.Minute, 7 * time.Minute},
			{90 * time.Minute, time.Hour}, // clamped
			{-time.Minute, time.Minute},   // as the schedule says
		} {
			b.OpenUntil(time.Now().Add(c.until))
			if s := b.Stats(); s.State != breaker.Open || time.Until(s.Until) != c.want {
				t.Errorf("until %v: %+v", c.until, s)
			}
		}
		b.OpenUntil(time.Time{})
		if s := b.Stats(); s.Opens != 4 || time.Until(s.Until) != time.Minute {
			t.Errorf("%+v", s)
		}
		const want = `0 breaker set open until 420
0 clamped RetryAfter 1h0m0s
0 breaker set open until 3600
0 breaker set open until 60
0 breaker set open until 60`
		if got := told(start, r.take()); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

func TestStringSaysHowManyFailures(t *testing.T) {
	for want, cfg := range map[string]breaker.Config{
		"breaker(5 failures of 100 calls)": {Failures: 5},
		"breaker acme(5 failures in 10s)":  {Name: "acme", Failures: 5, WindowTime: 10 * time.Second},
	} {
		if got := newBreaker(t, cfg).String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
