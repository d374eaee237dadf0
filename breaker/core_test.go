package breaker

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
)

// The counter within clean may overflow at any time, and nothing is lost.
func TestCounterOfCleanCallsOverflows(t *testing.T) {
	for _, cfg := range []Config{{Window: 100}, {WindowTime: time.Hour}, {Window: 10}} {
		for before := range uint32(20) {
			b, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			b.lock()
			b.base = math.MaxUint32 - before - 1
			b.unlock()
			for range 15 {
				now := time.Now()
				p, _ := b.Acquire(now)
				b.Report(p, now, Success, 0)
			}
			second := uint32(b.clean.Load() >> 32)
			want := 15
			if cfg.Window == 10 {
				want = 10
			}
			if s := b.Stats(); s.Calls != want || s.State != Closed {
				t.Errorf("%d before the end: %+v", before, s)
			}
			if now := uint32(b.core.window.second); cfg.WindowTime > 0 && second > now {
				t.Errorf("%d before the end: second %d, it is %d", before, second, now)
			}
		}
	}
}

// No value of clean comes back, however often nothing happens.
func TestCleanNeverHasAValueTwice(t *testing.T) {
	b, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[uint64]bool{}
	for i := range 1000 {
		switch i % 3 {
		case 0:
			b.Stats()
		case 1:
			b.Reset()
		case 2:
			p, _ := b.Acquire(time.Now())
			b.Report(p, time.Now(), Success, 0)
		}
		v := b.clean.Load()
		if v == 0 || seen[v] {
			t.Fatalf("step %d: %#x", i, v)
		}
		seen[v] = true
	}
}

// A good call leaves a window that is full of such as it is, and whatever is shared
// with other processors.
func TestGoodCallsInAFullWindowOnlyRead(t *testing.T) {
	const size = 10
	for _, initial := range []State{Closed, MetricsOnly} {
		b, err := New(Config{Window: size, Initial: initial})
		if err != nil {
			t.Fatal(err)
		}
		call := func(o Outcome, took time.Duration) (changed bool) {
			before := b.clean.Load()
			p, _ := b.Acquire(time.Now())
			b.Report(p, time.Now(), o, took)
			return b.clean.Load() != before
		}
		for i := range 3 * size {
			if changed := call(Success, 0); changed != (i < size) {
				t.Fatalf("%v: call %d: changed %v", initial, i, changed)
			}
		}
		if s := b.Stats(); s.Calls != size {
			t.Errorf("%+v", s)
		}
		call(Failure, 0)
		call(Success, time.Hour)
		if s := b.Stats(); s.Calls != size || s.Failed != 1 || s.Slow != 1 {
			t.Errorf("%+v", s)
		}
		for range size {
			call(Success, 0)
		}
		if s := b.Stats(); s.Calls != size || s.Failed+s.Slow != 0 || call(Success, 0) {
			t.Errorf("%+v", s)
		}
	}
}

// The healthy path takes no lock. Here it is held.
func TestHealthyCallsTakeNoLock(t *testing.T) {
	for _, cfg := range []Config{{}, {WindowTime: time.Hour}, {Consecutive: 1}, {Initial: MetricsOnly}, {Initial: Disabled}} {
		b, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		now := b.core.begin.Add(time.Duration(b.core.window.second) * time.Second)
		if cfg.WindowTime == 0 {
			b.core.begin = b.core.begin.Add(-time.Hour) // it is old
		}
		b.mu.Lock()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 10 {
				if err := b.Ready(now); err != nil {
					t.Error(err)
				}
				p, err := b.Acquire(now)
				if err != nil {
					t.Error(err)
				}
				b.Report(p, now, Success, 0)
				if cfg.WindowTime == 0 && cfg.Initial != Disabled {
					_, _ = Do(t.Context(), b, func(context.Context) (int, error) { return 0, nil })
				}
			}
		}()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Fatalf("%+v: blocked", cfg)
		}
		b.mu.Unlock()
	}
}

// A window is what one would count in a list.
func TestWindowsAgreeWithAList(t *testing.T) {
	type entry struct {
		second int64
		m      mark
	}
	for seed := range uint64(effort.Times(15)) {
		r := rand.New(rand.NewPCG(seed, 4))
		size := 1 + r.IntN(12)
		byTime := seed%2 == 0
		w := window{marks: make([]mark, size)}
		now := int64(0)
		if byTime {
			now = r.Int64N(100) - 50
			w = window{seconds: make([]counts, size), second: now}
		}
		var list []entry
		for range 300 {
			switch r.IntN(4) {
			case 0:
				if byTime {
					now += int64(r.IntN(4) * r.IntN(2+r.IntN(2*size)))
				}
			case 1:
				n := r.IntN(2 * size)
				for range n {
					list = append(list, entry{now, 0})
				}
				w.advance(now)
				w.addGood(uint32(n))
			default:
				m := mark(r.IntN(4))
				list = append(list, entry{now, m})
				w.advance(now)
				w.add(m)
			}
			w.advance(now)
			var want counts
			for i, e := range list {
				if byTime && now-e.second < int64(size) || !byTime && i >= len(list)-size {
					want.add(e.m.counts())
				}
			}
			if w.counts != want {
				t.Fatalf("seed %d: %+v, want %+v", seed, w.counts, want)
			}
		}
	}
}

// What is beyond a window in time is soon found to be, however far.
func TestWindowIsQuickToForget(t *testing.T) {
	w := window{seconds: make([]counts, 86400)}
	w.add(failedMark)
	w.advance(math.MaxInt64)
	if w.counts != (counts{}) || w.second != math.MaxInt64 {
		t.Errorf("%+v at %d", w.counts, w.second)
	}
	w.advance(math.MinInt64) // nothing is counted: any second is as good
	w.add(failedMark)
	w.advance(math.MinInt64 + 86399)
	if w.failed != 1 {
		t.Errorf("%+v", w.counts)
	}
	w.advance(math.MinInt64 + 86400)
	if w.failed != 0 {
		t.Errorf("%+v", w.counts)
	}
}

func TestSecondsBeforeTheBeginningAreWhole(t *testing.T) {
	c := core{cfg: Config{WindowTime: time.Second}}
	for d, want := range map[time.Duration]int64{-2 * time.Second: -2, -1999 * time.Millisecond: -2, -time.Second: -1, -1: -1, 0: 0, time.Second - 1: 0, time.Second: 1,
		math.MinInt64: -9223372037, math.MaxInt64: 9223372036} {
		if got := c.secondAt(d); got != want {
			t.Errorf("%v: %d, want %d", d, got, want)
		}
	}
}
