package breaker_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/breaker"
)

// byDefault runs fn with a breaker whose Config is zero.
func byDefault(t *testing.T, fn func(t *testing.T, b *breaker.Breaker)) {
	synctest.Test(t, func(t *testing.T) { fn(t, newBreaker(t, breaker.Config{})) })
}

func TestDefaultInitialStateIsClosed(t *testing.T) {
	byDefault(t, func(t *testing.T, b *breaker.Breaker) { inState(t, b, breaker.Closed) })
}

func TestInitialState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := time.Now().Add(time.Minute)
		for s, want := range map[breaker.State]breaker.Stats{
			breaker.Open: {Until: until, Opens: 1}, breaker.HalfOpen: {}, breaker.Disabled: {}, breaker.ForcedOpen: {Opens: 1}, breaker.MetricsOnly: {},
		} {
			want.State, want.Generation, want.FailureRate, want.SlowRate = s, 1, -1, -1
			if got := newBreaker(t, breaker.Config{Initial: s}).Stats(); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
	})
}

func TestDefaultMinimumIs100Calls(t *testing.T) {
	byDefault(t, func(t *testing.T, b *breaker.Breaker) {
		calls(t, b, 99, breaker.Failure, 0)
		if s := b.Stats(); s.State != breaker.Closed || s.FailureRate != -1 || s.SlowRate != -1 {
			t.Errorf("after 99 failures: %+v", s)
		}
		calls(t, b, 1, breaker.Failure, 0)
		inState(t, b, breaker.Open)
	})
}

func TestDefaultWindowIsTheLast100Calls(t *testing.T) {
	byDefault(t, func(t *testing.T, b *breaker.Breaker) {
		calls(t, b, 49, breaker.Failure, 0)
		calls(t, b, 99, breaker.Success, 0)
		if s := b.Stats(); s.Calls != 100 || s.Failed != 1 || s.FailureRate != 0.01 {
			t.Errorf("%+v", s)
		}
		time.Sleep(1000 * time.Hour)
		calls(t, b, 1, breaker.Success, 0)
		if s := b.Stats(); s.Calls != 100 || s.Failed != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestDefaultFailureRateIsOneHalf(t *testing.T) {
	byDefault(t, func(t *testing.T, b *breaker.Breaker) {
		calls(t, b, 49, breaker.Failure, 0)
		calls(t, b, 51, breaker.Success, 0)
		inState(t, b, breaker.Closed)
		b.Reset()
		calls(t, b, 50, breaker.Failure, 0)
		calls(t, b, 49, breaker.Success, 0)
		inState(t, b, breaker.Closed)
		calls(t, b, 1, breaker.Success, 0) // a success can be the last straw, by completing the minimum
		inState(t, b, breaker.Open)
	})
}

func TestDefaultSlowRateIsAllCallsOver1Min(t *testing.T) {
	byDefault(t, func(t *testing.T, b *breaker.Breaker) {
		calls(t, b, 1, breaker.Success, time.Minute) // not over
		calls(t, b, 99, breaker.Success, time.Minute+1)
		if s := b.Stats(); s.State != breaker.Closed || s.Slow != 99 || s.SlowRate != 0.99 {
			t.Errorf("%+v", s)
		}
		calls(t, b, 1, breaker.Success, time.Minute+1)
		inState(t, b, breaker.Open)
	})
}

func TestDefaultOpenIs1MinEachTime(t *testing.T) {
	byDefault(t, func(t *testing.T, b *breaker.Breaker) {
		for range 3 {
			transition(t, b, breaker.Open)
			if s := b.Stats(); !s.Until.Equal(time.Now().Add(time.Minute)) {
				t.Errorf("until %v, now %v", s.Until, time.Now())
			}
			time.Sleep(time.Minute - 1)
			if _, err := b.Acquire(time.Now()); !errors.Is(err, breaker.ErrOpen) {
				t.Fatal(err)
			}
			time.Sleep(time.Nanosecond)
			if _, err := b.Acquire(time.Now()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestDefaultHalfOpenCallsIs10(t *testing.T) {
	byDefault(t, func(t *testing.T, b *breaker.Breaker) {
		transition(t, b, breaker.HalfOpen)
		if n := admitted(b, 20); n != 10 {
			t.Errorf("%d at once", n)
		}
		transition(t, b, breaker.HalfOpen)
		calls(t, b, 5, breaker.Success, 0)
		calls(t, b, 4, breaker.Failure, 0)
		inState(t, b, breaker.HalfOpen)
		calls(t, b, 1, breaker.Success, 0)
		inState(t, b, breaker.Closed)
	})
}

func TestDefaultHalfOpenWaitIsNone(t *testing.T) {
	byDefault(t, func(t *testing.T, b *breaker.Breaker) {
		transition(t, b, breaker.HalfOpen)
		time.Sleep(10_000 * time.Hour)
		if s := b.Stats(); s.State != breaker.HalfOpen || !s.Until.IsZero() {
			t.Errorf("%+v", s)
		}
	})
}

func TestDefaultLeaseIs1MinOrSlowCallIfThatIsLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			cfg  breaker.Config
			want time.Duration
		}{
			{breaker.Config{}, time.Minute},
			{breaker.Config{SlowCall: time.Second}, time.Minute},
			{breaker.Config{SlowCall: time.Hour}, time.Hour},
			{breaker.Config{SlowCall: -1}, time.Minute},
			{breaker.Config{Consecutive: 1}, time.Minute},
		} {
			b := newBreaker(t, tt.cfg)
			transition(t, b, breaker.HalfOpen)
			n := admitted(b, 20)
			time.Sleep(tt.want - 1)
			if m := admitted(b, 20); m != 0 {
				t.Errorf("%v: %d admitted too early", tt.want, m)
			}
			time.Sleep(time.Nanosecond)
			if m := admitted(b, 20); m != n {
				t.Errorf("%v: %d admitted, want %d", tt.want, m, n)
			}
		}
	})
}

func TestDefaultEveryErrorIsAFailure(t *testing.T) {
	b := newBreaker(t, breaker.Config{})
	if b.Judge(nil) != breaker.Success || b.Judge(errDown) != breaker.Failure {
		t.Error(b.Judge(nil), b.Judge(errDown))
	}
}

func TestDefaultMaxRetryAfterIs24h(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{Consecutive: 1})
		_, _ = breaker.Do(t.Context(), b, returns(hint{math.MaxInt64}))
		if s := b.Stats(); !s.Until.Equal(time.Now().Add(24 * time.Hour)) {
			t.Errorf("%+v", s)
		}
	})
}

// A minimum that can never be had is as many as can.
func TestMinimumIsNoMoreThanTheWindow(t *testing.T) {
	b := newBreaker(t, breaker.Config{Window: 3, MinCalls: 1000})
	calls(t, b, 2, breaker.Failure, 0)
	inState(t, b, breaker.Closed)
	calls(t, b, 1, breaker.Failure, 0)
	inState(t, b, breaker.Open)
	transition(t, b, breaker.HalfOpen)
	calls(t, b, 10, breaker.Success, 0)
	inState(t, b, breaker.Closed)

	b = newBreaker(t, breaker.Config{WindowTime: time.Hour, MinCalls: 1000})
	calls(t, b, 999, breaker.Failure, 0)
	inState(t, b, breaker.Closed)
	calls(t, b, 1, breaker.Failure, 0)
	inState(t, b, breaker.Open)
}

// Trial calls are judged as soon as there are MinCalls of them.
func TestFewTrialCallsCanBeEnough(t *testing.T) {
	b := newBreaker(t, breaker.Config{MinCalls: 2, HalfOpenCalls: 5, Initial: breaker.HalfOpen})
	calls(t, b, 2, breaker.Success, 0)
	inState(t, b, breaker.Closed)
}

func TestNewNamesFieldAndValue(t *testing.T) {
	nan := math.NaN()
	for want, cfg := range map[string]breaker.Config{
		"Config.Window is -1":                    {Window: -1},
		"Config.Window is 1048577":               {Window: 1<<20 + 1},
		"Config.WindowTime is -1s":               {WindowTime: -time.Second},
		"Config.WindowTime is 1.5s":              {WindowTime: 1500 * time.Millisecond},
		"Config.WindowTime is 24h0m1s":           {WindowTime: 24*time.Hour + time.Second},
		"Config.WindowTime is 1s beside":         {WindowTime: time.Second, Window: 2},
		"Config.Consecutive is -2":               {Consecutive: -2},
		"Config.Window is 3 beside Consecutive":  {Consecutive: 1, Window: 3},
		"Config.WindowTime is 3s beside Con":     {Consecutive: 1, WindowTime: 3 * time.Second},
		"Config.MinCalls is 4 beside Con":        {Consecutive: 1, MinCalls: 4},
		"Config.FailureRate is 0.3 beside Con":   {Consecutive: 1, FailureRate: 0.3},
		"Config.SlowRate is 0.4 beside Con":      {Consecutive: 1, SlowRate: 0.4},
		"Config.SlowCall is 5s beside Con":       {Consecutive: 1, SlowCall: 5 * time.Second},
		"Config.Failures is -1":                  {Failures: -1},
		"Config.Failures is 2 beside a Fai":      {Failures: 2, FailureRate: 0.5},
		"Config.Failures is 2 beside Con":        {Failures: 2, Consecutive: 1},
		"Config.Failures is 101, want at most":   {Failures: 101},
		"Config.Failures is 4, want at most":     {Failures: 4, Window: 3},
		"Config.HalfOpenClose is true without":   {HalfOpenClose: true},
		"Config.MinCalls is -1":                  {MinCalls: -1},
		"Config.FailureRate is -0.1":             {FailureRate: -0.1},
		"Config.FailureRate is 50":               {FailureRate: 50},
		"Config.FailureRate is NaN":              {FailureRate: nan},
		"Config.SlowRate is 1.01":                {SlowRate: 1.01},
		"Config.SlowRate is NaN":                 {SlowRate: nan},
		"Config.HalfOpenCalls is -1":             {HalfOpenCalls: -1},
		"Config.HalfOpenCalls is 65537":          {HalfOpenCalls: 1<<16 + 1},
		"Config.HalfOpenWait is -1ns":            {HalfOpenWait: -1},
		"Config.Lease is -1s":                    {Lease: -time.Second},
		"Config.MaxRetryAfter is -1s":            {MaxRetryAfter: -time.Second},
		"Config.Initial is 6":                    {Initial: 6},
		"Config.OpenFor: backoff: invalid":       {OpenFor: backoff.Constant(-1)},
		"Schedule is a nil *backoff.Exponential": {OpenFor: (*backoff.Exponential)(nil)},
		"Config.OpenDelay is set beside OpenFor": {OpenFor: backoff.None, OpenDelay: func(breaker.Stats, backoff.Step) time.Duration { return 0 }},
	} {
		b, err := breaker.New(cfg)
		if err == nil || b != nil || !errors.Is(err, breaker.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := breaker.New(breaker.Config{OpenFor: backoff.Constant(-1)}); !errors.Is(err, backoff.ErrInvalid) {
		t.Error(err)
	}
}

func TestNewTakesTheEndsOfTheRanges(t *testing.T) {
	for _, cfg := range []breaker.Config{
		{Window: 1, MinCalls: 1, FailureRate: 1, SlowRate: 1, HalfOpenCalls: 1, Lease: 1, HalfOpenWait: 1, SlowCall: 1, MaxRetryAfter: 1, OpenFor: backoff.None},
		{Window: 1 << 20, MinCalls: math.MaxInt32, FailureRate: 5e-324, SlowRate: 5e-324, HalfOpenCalls: 1 << 16, Lease: math.MaxInt64,
			HalfOpenWait: math.MaxInt64, SlowCall: math.MaxInt64, MaxRetryAfter: math.MaxInt64, OpenFor: backoff.Constant(math.MaxInt64)},
		{WindowTime: time.Second},
		{WindowTime: 24 * time.Hour},
		{Failures: 100},
		{Failures: math.MaxInt32, WindowTime: time.Second},
		{Consecutive: math.MaxInt32, SlowCall: -1},
	} {
		synctest.Test(t, func(t *testing.T) { // where no time passes
			for s := breaker.Closed; s <= breaker.MetricsOnly; s++ {
				cfg.Initial = s
				b := newBreaker(t, cfg)
				inState(t, b, s)
				use(t, b)
			}
		})
	}
}

func TestNewNamesTheScheduleThatPanics(t *testing.T) {
	for field, cfg := range map[string]breaker.Config{
		"Config.OpenDelay": {OpenDelay: func(breaker.Stats, backoff.Step) time.Duration { panic("boom") }},
		"Config.OpenFor":   {OpenFor: backoff.Func(func(backoff.Step) (time.Duration, bool) { panic("boom") })},
	} {
		cfg.Initial = breaker.Open
		b, err := breaker.New(cfg)
		if b != nil || !errors.Is(err, breaker.ErrInvalid) || !strings.Contains(err.Error(), field) || !strings.Contains(err.Error(), "boom") {
			t.Errorf("New = %v, %v, want an error that names %s and what it panicked with", b, err, field)
		}
	}
}

// use makes some calls, as they come.
func use(t testing.TB, b *breaker.Breaker) {
	for i := range 20 {
		if done, err := b.Allow(); err == nil {
			done([]error{nil, errDown, hint{time.Hour}}[i%3])
		}
		if s := b.Stats(); s.State > breaker.MetricsOnly || s.Failed > s.Calls || s.Slow > s.Calls || s.Calls < 0 ||
			s.FailureRate > 1 || s.FailureRate < 0 && s.FailureRate != -1 || s.State == breaker.Open && s.Until.IsZero() {
			t.Errorf("%+v", s)
		}
		switch i {
		case 5:
			transition(t, b, breaker.Open)
		case 9, 12:
			transition(t, b, breaker.HalfOpen)
		}
	}
}

// A Config is refused by name, or makes a breaker that works.
func FuzzConfig(f *testing.F) {
	f.Add(0, int64(0), 0, 0, 0.0, 0.0, int64(0), 0, int64(0), int64(0), int64(0), int64(0), uint8(0))
	f.Add(10, int64(time.Second), 5, 3, 0.5, math.NaN(), int64(-1), 1<<16, int64(-1), int64(1), int64(math.MaxInt64), int64(math.MinInt64), uint8(6))
	f.Add(0, int64(3*time.Second), 0, 3, 1e-300, math.Inf(1), int64(math.MaxInt64), 1, int64(1), int64(math.MaxInt64), int64(1), int64(math.MaxInt64), uint8(2))
	f.Fuzz(func(t *testing.T, window int, windowTime int64, consecutive, minimum int, failureRate, slowRate float64,
		slowCall int64, halfOpen int, wait, lease, maxHint, openFor int64, initial uint8) {
		cfg := breaker.Config{
			Window: window, WindowTime: time.Duration(windowTime), Consecutive: consecutive, MinCalls: minimum,
			FailureRate: failureRate, SlowRate: slowRate, SlowCall: time.Duration(slowCall), HalfOpenCalls: halfOpen,
			HalfOpenWait: time.Duration(wait), Lease: time.Duration(lease), MaxRetryAfter: time.Duration(maxHint),
			OpenFor: backoff.Constant(openFor), Initial: breaker.State(initial),
		}
		b, err := breaker.New(cfg)
		if err != nil {
			if !errors.Is(err, breaker.ErrInvalid) || !strings.Contains(err.Error(), "Config.") {
				t.Errorf("%v", err)
			}
			return
		}
		use(t, b)
	})
}
