package limiter

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
)

// TestCountersBelieveTheVendor checks Drain and SetRemaining of all Counters.
func TestCountersBelieveTheVendor(t *testing.T) {
	for _, k := range kinds {
		l, ok := k.new(t, 2).(Counter)
		if !ok {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			now := epoch
			check := func(want int) {
				t.Helper()
				if got := l.Available(now, "k"); got != want {
					t.Errorf("%d available, want %d", got, want)
				}
			}
			check(7)
			l.SetRemaining(now, now, "k", 9)
			check(7) // nothing is ever given
			l.SetRemaining(now, now, "k", 5)
			check(5)
			l.SetRemaining(now, now, "k", 6)
			check(5)
			l.Take(now, "k", 2)
			l.SetRemaining(now, now, "k", 4) // an answer from before the take
			check(3)
			l.SetRemaining(now, now, "k", 3)
			l.Settle(now, "k", 2, 0) // the vendor may have known
			check(3)
			l.Take(now, "k", 2)
			l.Settle(now, "k", 2, 1)
			check(2)
			l.Drain(now, "k")
			l.Drain(now, "k")
			check(0)
			if d := l.Wait(now, "k", 7); d <= 0 || d > 2*k.per {
				t.Errorf("Wait = %v after Drain", d)
			}
			l.SetRemaining(now, now, "k", -5)
			check(0)
			if got := l.Available(now, "other"); got != 7 {
				t.Errorf("another key has %d, want 7", got)
			}
			sent := now
			now = now.Add(time.Duration(4 * k.scale))
			check(7)
			l.SetRemaining(now, sent, "k", 1) // about a window that is over
			check(7)
			sent = now
			now = now.Add(time.Duration(k.scale / 8))
			l.SetRemaining(now, sent, "k", 6) // about this one
			check(6)
			l.SetRemaining(now, now, "k", 1)
			check(1)
			l.Take(now, "a", 1)
			l.Take(now, "b", 1)
			l.Drain(now, "c") // no room: nothing to take, and nothing happens
			if d := l.Wait(now, "c", 1); d <= 0 {
				t.Errorf("Wait = %v without room", d)
			}
		})
	}
}

// TestCountersChangeTheirLimit sets limits at random times. A lower one counts at
// once, a higher one when its window comes; the model knows which is in force.
func TestCountersChangeTheirLimit(t *testing.T) {
	for _, c := range []struct {
		kind string
		next func(now int64) int64 // when a raise counts
	}{
		{"SlidingLog", func(now int64) int64 { return now + 1050 }},
		{"SlidingCounter", func(now int64) int64 { return now + 1250 }},
		{"Approx", func(now int64) int64 { return (now/1000 + 1) * 1000 }},
		{"Calendar", func(now int64) int64 { return (now/int64(time.Hour) + 1) * int64(time.Hour) }},
	} {
		var k kind
		for _, k = range kinds {
			if k.name == c.kind {
				break
			}
		}
		t.Run(c.kind, func(t *testing.T) {
			for seed := range uint64(effort.Times(10)) {
				r := rand.New(rand.NewPCG(seed, 20))
				l := k.new(t, 0).(Counter)
				l.Wait(epoch, "", 1)
				var log []taken
				limit, next, from := 7, 7, int64(0)
				var now int64
				for step := range 200 {
					at := epoch.Add(time.Duration(now))
					if now >= from {
						limit = next
					}
					switch r.IntN(6) {
					case 0:
						n := 1 + r.IntN(12)
						if err := l.SetLimit(at, n); err != nil {
							t.Fatal(err)
						}
						if limit == next {
							from = c.next(now)
						}
						limit, next = min(limit, n), n
					case 1, 2:
						now += r.Int64N(k.scale)
					default:
						n := 1 + r.IntN(4)
						// The kind's model is of a limit of 7.
						admits := func(now int64, n int) bool {
							limit := limit
							if now >= from {
								limit = next
							}
							return n <= limit && k.admits(log, now, n+7-limit)
						}
						d := l.Wait(at, "", n)
						if got, want := d == 0, admits(now, n); got != want || (d == Never) != (n > next) {
							t.Fatalf("seed %d step %d at %d: Wait(%d) = %v, limit %d, from %d %d: %+v", seed, step, now, n, d, limit, from, next, log)
						}
						if d > 0 && d != Never && (admits(now+int64(d)-1, n) || !admits(now+int64(d), n)) {
							t.Fatalf("seed %d step %d at %d: Wait(%d) = %d is not the nanosecond, limit %d, from %d %d: %+v", seed, step, now, n, d, limit, from, next, log)
						}
						if d == 0 {
							l.Take(at, "", n)
							log = append(log, taken{now, n, n, false})
						}
						if got := l.(Rater).Rate(at, ""); math.Abs(got-float64(limit)/k.per.Seconds()) > 1e-9*got {
							t.Fatalf("Rate = %v, limit %d", got, limit)
						}
					}
				}
			}
		})
	}
}

// TestRaiseIsNotPutOff sets the same raise again and again.
func TestRaiseIsNotPutOff(t *testing.T) {
	l, err := NewSlidingLog(SlidingLogConfig{Limit: 1, Window: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		if err := l.SetLimit(epoch.Add(time.Duration(i)*time.Second), 10+i); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.Available(epoch.Add(59*time.Second), ""); got != 1 {
		t.Errorf("%d available, want 1", got)
	}
	if got := l.Available(epoch.Add(time.Minute), ""); got != 69 {
		t.Errorf("%d available a minute after the first raise, want 69", got)
	}
	if err := l.SetLimit(epoch, 0); err == nil || err.Error() != "limiter: SetLimit is 0, want 1 up to 1<<40" {
		t.Errorf("SetLimit(0): %v", err)
	}
}

// TestSlidingLogIsBounded overdraws a log at ever new times.
func TestSlidingLogIsBounded(t *testing.T) {
	l, err := NewSlidingLog(SlidingLogConfig{Limit: 10, Window: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10_000 {
		l.Settle(epoch.Add(time.Duration(i)), "", 0, 1)
	}
	if n := len(l.keys.index[""].state.buf); n > 32 { // twice as many, and a power of two
		t.Errorf("%d takes are kept, of a limit of 10", n)
	}
	if got := l.Available(epoch, ""); got != 10-10_000 {
		t.Errorf("%d available", got)
	}
	if d := l.Wait(epoch, "", 1); d != time.Hour {
		t.Errorf("Wait = %v, want 1h", d)
	}
}

func TestSlidingLogSteps(t *testing.T) {
	l, err := NewSlidingLog(SlidingLogConfig{Limit: 3, Window: 1000, Margin: 100})
	if err != nil {
		t.Fatal(err)
	}
	at := func(ns int) time.Time { return epoch.Add(time.Duration(ns)) }
	l.Take(at(0), "", 1)
	l.Take(at(0), "", 1)
	l.Take(at(500), "", 1)
	if n := l.keys.index[""].state.len; n != 2 {
		t.Errorf("%d takes are kept, want 2: those of one nanosecond are one", n)
	}
	for _, c := range []struct{ ns, want int }{{500, 0}, {1099, 0}, {1100, 2}, {1599, 2}, {1600, 3}} {
		if got := l.Available(at(c.ns), ""); got != c.want {
			t.Errorf("at %d: %d available, want %d", c.ns, got, c.want)
		}
	}
	if got, want := l.Rate(at(1600), ""), 3/1.1e-6; math.Abs(got-want) > 1e-6*want {
		t.Errorf("Rate = %v, want %v", got, want)
	}
}

func TestSlidingCounterRoundsSegmentsUp(t *testing.T) {
	l, err := NewSlidingCounter(SlidingCounterConfig{Limit: 1, Window: 10, Segments: 3})
	if err != nil {
		t.Fatal(err)
	}
	l.Take(epoch, "", 1)
	if d := l.Wait(epoch, "", 1); d != 16 {
		t.Errorf("Wait = %d ns, want 4 segments of 4", d)
	}
}

// TestApproxReachesItsError takes a whole limit at the end of a window, and nearly
// a whole one in the next.
func TestApproxReachesItsError(t *testing.T) {
	l, err := NewApprox(ApproxConfig{Limit: 100, Window: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	l.Wait(epoch, "", 1)
	took := 0
	for now := epoch.Add(time.Second - 1); now.Before(epoch.Add(2*time.Second - 1)); {
		if d := l.Wait(now, "", 1); d > 0 {
			now = now.Add(d)
			continue
		}
		l.Take(now, "", 1)
		took++
	}
	if took != 199 {
		t.Errorf("%d in a second, want the error of 199", took)
	}
}

func TestLeaky(t *testing.T) {
	l, err := NewLeaky(LeakyConfig{Rate: 10})
	if err != nil {
		t.Fatal(err)
	}
	at := func(ms int) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }
	check := func(ms int, want time.Duration) {
		t.Helper()
		if got := l.Wait(at(ms), "", 1); got != want {
			t.Errorf("at %d ms: Wait = %v, want %v", ms, got, want)
		}
	}
	l.Take(at(0), "", 5)
	check(0, 500*time.Millisecond)
	check(200, 300*time.Millisecond)
	l.Settle(at(200), "", 5, 3)
	check(200, 100*time.Millisecond)
	l.Take(at(10_000), "", 1) // nothing was saved up
	check(10_000, 100*time.Millisecond)
	if err := l.SetRate(at(10_000), 100); err != nil {
		t.Fatal(err)
	}
	check(10_000, 100*time.Millisecond) // the wait already given stays
	l.Take(at(10_100), "", 1)
	check(10_100, 10*time.Millisecond)
	if got := l.Rate(at(0), ""); got != 100 {
		t.Errorf("Rate = %v", got)
	}
	l.Take(at(20_000), "", 100)
	if err := l.SetRate(at(20_000), 1); err != nil {
		t.Fatal(err)
	}
	l.Settle(at(20_000), "", 100, 50) // was charged at the old rate
	check(20_000, time.Second)
	if err := l.SetRate(at(200_000), 10); err != nil {
		t.Fatal(err)
	}
	l.Take(at(200_000), "", 5)
	check(200_200, 300*time.Millisecond)
	l.Settle(at(200_200), "", 0, 3)
	check(200_200, 600*time.Millisecond)
	l.Settle(at(200_200), "", 5, 0) // of which 2 have flowed out, and 3 cannot be told from the debt
	if d := l.Wait(at(200_200), "", 1); d < 300*time.Millisecond {
		t.Errorf("Wait = %v, less than the debt", d)
	}
	l.Settle(at(20_000), "", 0, math.MaxInt)
	l.Settle(at(20_000), "", 0, math.MaxInt)
	if d := l.Wait(at(20_000), "", 1); d <= 0 || d == Never {
		t.Errorf("Wait = %v in endless debt", d)
	}
	if err := l.SetRate(at(0), math.NaN()); err == nil || err.Error() != "limiter: SetRate is NaN, want one per century up to 1e9 per second" {
		t.Errorf("SetRate(NaN): %v", err)
	}
}

// TestLeakyDebtIsNotGivenBack settles a take whose permits have flowed out while a
// later debt has not.
func TestLeakyDebtIsNotGivenBack(t *testing.T) {
	l, err := NewLeaky(LeakyConfig{Rate: 10})
	if err != nil {
		t.Fatal(err)
	}
	l.Take(epoch, "", 5)
	now := epoch.Add(400 * time.Millisecond)
	l.Settle(now, "", 0, 4) // 1 of 5 is left, and 4 more
	l.Settle(now, "", 5, 0) // at most 1 of which is still there
	if d := l.Wait(now, "", 1); d < 400*time.Millisecond {
		t.Errorf("Wait = %v, less than the debt", d)
	}
}

func TestConcurrency(t *testing.T) {
	c, err := NewConcurrency(ConcurrencyConfig{Limit: 5, MaxKeys: 2})
	if err != nil {
		t.Fatal(err)
	}
	check := func(key string, n int, want time.Duration) {
		t.Helper()
		if got := c.Wait(epoch, key, n); got != want {
			t.Errorf("Wait(%s, %d) = %v, want %v", key, n, got, want)
		}
	}
	const again = 100 * time.Millisecond
	check("a", 5, 0)
	check("a", 6, Never)
	c.Take(epoch, "a", 3)
	check("a", 2, 0)
	check("a", 3, again)
	c.Settle(epoch, "a", 3, 2)
	check("a", 3, 0)
	c.Settle(epoch, "a", 2, 4)
	check("a", 2, again)
	c.Release(epoch, "a", 4)
	check("a", 5, 0)
	c.Release(epoch, "a", 4) // too much is nothing
	check("a", 5, 0)
	c.Take(epoch, "a", 5)
	c.Take(epoch, "b", 1)
	check("c", 1, again) // no room
	c.Take(epoch, "c", 1)
	c.Release(epoch, "b", 1)
	check("c", 1, 0)
	if err := c.SetLimit(epoch, 2); err != nil {
		t.Fatal(err)
	}
	if got := c.Available(epoch, "a"); got != -3 {
		t.Errorf("%d available, want -3", got)
	}
	check("a", 1, again)
	check("a", 3, Never)
	if err := c.SetLimit(epoch, -1); err == nil {
		t.Error("SetLimit(-1): no error")
	}
	c.Release(epoch, "a", 5)
	if len(c.held) != 0 {
		t.Errorf("%d keys are kept that hold nothing", len(c.held))
	}
}

// TestConcurrencyIsItsModel takes and releases at random.
func TestConcurrencyIsItsModel(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 21))
	c, err := NewConcurrency(ConcurrencyConfig{Limit: 4, MaxKeys: 3, AskAgain: 1})
	if err != nil {
		t.Fatal(err)
	}
	held := map[string]int{}
	for range effort.Times(2000) {
		key, n := string(rune('a'+r.IntN(5))), 1+r.IntN(4)
		if r.IntN(2) == 0 {
			k := min(n, held[key])
			c.Release(epoch, key, n)
			if held[key] -= k; held[key] == 0 {
				delete(held, key)
			}
			continue
		}
		_, in := held[key]
		want := held[key]+n <= 4 && (in || len(held) < 3)
		if got := c.Wait(epoch, key, n) == 0; got != want {
			t.Fatalf("Wait(%s, %d): %v, want %v: %v", key, n, got, want, held)
		}
		if want {
			c.Take(epoch, key, n)
			held[key] += n
		}
	}
}

// config is how a fuzz test and a table make any limiter from a few numbers.
func config(which uint8, limit int, d, e time.Duration, rate float64, extra, keys int) (name string, l Limiter, err error) {
	switch which % 9 {
	case 0:
		l, err = made(NewFixedWindow(FixedWindowConfig{Limit: limit, Period: d, MaxWait: e, MaxKeys: keys}))
		return "FixedWindowConfig", l, err
	case 1:
		l, err = made(NewSlidingLog(SlidingLogConfig{Limit: limit, Window: d, Margin: e, MaxKeys: keys}))
		return "SlidingLogConfig", l, err
	case 2:
		l, err = made(NewSlidingCounter(SlidingCounterConfig{Limit: limit, Window: d, Segments: extra, MaxKeys: keys}))
		return "SlidingCounterConfig", l, err
	case 3:
		l, err = made(NewApprox(ApproxConfig{Limit: limit, Window: d, MaxKeys: keys}))
		return "ApproxConfig", l, err
	case 4:
		l, err = made(NewCalendar(CalendarConfig{Limit: limit, Cycle: Cycle(extra), MaxKeys: keys}))
		return "CalendarConfig", l, err
	case 5:
		l, err = made(NewLeaky(LeakyConfig{Rate: rate, WarmUp: e, Cold: float64(extra), MaxKeys: keys}))
		return "LeakyConfig", l, err
	case 6:
		l, err = made(NewConcurrency(ConcurrencyConfig{Limit: limit, AskAgain: d, MaxKeys: keys}))
		return "ConcurrencyConfig", l, err
	case 7:
		l, err = made(NewQuota(QuotaConfig{Limit: limit, Per: d, Margin: e, MaxKeys: keys}))
		return "QuotaConfig", l, err
	}
	l, err = made(NewBucket(BucketConfig{Rate: rate, Burst: limit, MaxKeys: keys}))
	return "BucketConfig", l, err
}

func TestConfigsNameWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		which     uint8
		limit     int
		d, e      time.Duration
		rate      float64
		extra     int
		keys      int
		want      string
		alsoWrong []uint8 // others with the same error
	}{
		{0, 0, 1, 0, 1, 0, 0, "Limit is 0, want 1 up to 1<<40", []uint8{1, 2, 3, 4, 6, 7}},
		{0, -7, 1, 0, 1, 0, 0, "Limit is -7,", []uint8{1, 2, 3, 4, 6, 7}},
		{0, 1<<40 + 1, 1, 0, 1, 0, 0, "Limit is 1099511627777,", []uint8{1, 2, 3, 4, 6, 7}},
		{0, 1, 0, 0, 1, 0, 0, "Period is 0s, want 1ns up to a century", nil},
		{0, 1, century + 1, 0, 1, 0, 0, "Period is 876000h0m0.000000001s,", nil},
		{1, 1, -1, 0, 1, 0, 0, "Window is -1ns,", []uint8{2, 3}},
		{0, 1, 1, -1, 1, 0, 0, "MaxWait is -1ns, want 0s up", nil},
		{1, 1, 1, -time.Second, 1, 0, 0, "Margin is -1s,", nil},
		{7, 1, 0, 0, 1, 0, 0, "Per is 0s, want 1ns up to a century", nil},
		{7, 1, century + 1, 0, 1, 0, 0, "Per is", nil},
		{7, 1, 1, century + 1, 1, 0, 0, "Margin is 876000h0m0.000000001s, want no more than a century", nil},
		{2, 1, 1, 0, 1, -1, 0, "Segments is -1, want 0 up to 10,000", nil},
		{2, 1, 1, 0, 1, 10_001, 0, "Segments is 10001,", nil},
		{4, 1, 1, 0, 1, 4, 0, "Cycle is 4, want Daily,", nil},
		{5, 1, 1, 0, 0, 0, 0, "Rate is 0, want one per century", []uint8{8}},
		{5, 1, 1, 0, math.Inf(1), 0, 0, "Rate is +Inf,", []uint8{8}},
		{5, 1, 1, 0, math.NaN(), 0, 0, "Rate is NaN,", []uint8{8}},
		{8, -1, 1, 0, 1, 0, 0, "Burst is -1,", nil},
		{6, 1, -1, 0, 1, 0, 0, "AskAgain is -1ns,", nil},
		{0, 1, 1, 0, 1, 0, -1, "MaxKeys is -1, want 0 up to 1<<30", []uint8{1, 2, 3, 4, 5, 6, 7, 8}},
		{0, 1, 1, 0, 1, 0, 1<<30 + 1, "MaxKeys is 1073741825,", []uint8{1, 2, 3, 4, 5, 6, 7, 8}},
	} {
		for _, which := range append(c.alsoWrong, c.which) {
			name, _, err := config(which, c.limit, c.d, c.e, c.rate, c.extra, c.keys)
			if want := "limiter: " + name + "." + c.want; err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
		}
	}
}

// FuzzConfig makes limiters of any numbers: there is an error that names a field, or
// a limiter that keeps its word.
func FuzzConfig(f *testing.F) {
	for which := range uint8(9) {
		f.Add(which, 3, int64(time.Second), int64(time.Millisecond), 10.0, 2, 0, 1, int64(5))
		f.Add(which, 1<<40, int64(century), int64(century), 1e9, 10_000, 1, 1<<40, int64(1)<<62)
	}
	f.Fuzz(func(t *testing.T, which uint8, limit int, d, e int64, rate float64, extra, keys, n int, later int64) {
		name, l, err := config(which, limit, time.Duration(d), time.Duration(e), rate, extra, keys)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "limiter: "+name+".") {
				t.Fatal(err)
			}
			return
		}
		n = max(1, n)
		now := epoch
		if d := l.Wait(now, "k", n); d != 0 && d != Never {
			t.Fatalf("%s: %d of a fresh limiter in %v", name, n, d)
		}
		for range 3 {
			d := l.Wait(now, "k", n)
			if d < 0 {
				t.Fatalf("%s: Wait = %v", name, d)
			}
			if d == Never || d > Never/4 || now.Sub(epoch) > Never/4 {
				return
			}
			if _, ok := l.(*Concurrency); ok && d > 0 {
				l.(*Concurrency).Release(now, "k", max(n, extra))
				d = 0
			}
			if d > 0 && l.Wait(now.Add(d-1), "k", n) == 0 {
				t.Fatalf("%s: Wait(%d) = %v, but also earlier", name, n, d)
			}
			now = now.Add(d)
			if again := l.Wait(now, "k", n); again != 0 {
				t.Fatalf("%s: Wait(%d) = %v, and then %v", name, n, d, again)
			}
			l.Take(now, "k", n)
			l.Settle(now, "k", n, extra)
			if c, ok := l.(Counter); ok {
				c.SetRemaining(now, now, "k", limit-n)
			}
			now = now.Add(time.Duration(max(0, later) / 8))
		}
	})
}
