package limiter

import (
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
)

// TestAdaptiveInTheZoo drives an Adaptive that knows the vendor's window against
// vendors that count in windows, and others that do not. Every bound holds for the
// worst of the seeds.
func TestAdaptiveInTheZoo(t *testing.T) {
	const s = time.Second
	sliding := minute.with(func(w *world) { w.calls, w.pace = 9000, AdaptiveConfig{Start: 1, Window: time.Minute} })
	short := world{burst: 100, window: s, pause: 500 * time.Millisecond, longest: 30 * s, grace: 50 * time.Millisecond,
		latency: 50 * time.Millisecond, late: 2 * time.Millisecond, calls: 12_000, workers: 32, pace: AdaptiveConfig{Start: 20, Window: s}}
	for _, c := range []struct {
		name    string
		w       world
		goodput float64 // of the quota, at least
		refused float64 // of the calls sent, at most
	}{
		{"300 in any minute", sliding, 0.87, 0.002},
		{"the same, no start", sliding.with(func(w *world) { w.pace.Start = 0 }), 0.78, 0.002},
		{"the same, four times the start", sliding.with(func(w *world) { w.pace.Start = 20 }), 0.80, 0.004},
		{"the same in windows that follow one another", sliding.with(func(w *world) { w.fixed = true }), 0.75, 0.003},
		{"100 in any second", short, 0.88, 0.002},
		{"the same with calls of 1 s", short.with(func(w *world) { w.latency, w.workers, w.grace = s, 200, s }), 0.80, 0.002},
		{"the same in windows that follow one another", short.with(func(w *world) { w.fixed = true }), 0.75, 0.003},
		{"the same, late timers", short.with(func(w *world) { w.late = 20 * time.Millisecond }), 0.85, 0.002},
		{"the same, a fifth of it used by others", short.with(func(w *world) { w.others = 0.2 }), 0.68, 0.002},
		{"the same, halved for a minute", short.with(func(w *world) { w.change, w.after, w.back = 0.5, 20*s, 80*s }), 0.65, 0.002},
		{"the same, doubled after a minute", short.with(func(w *world) { w.change, w.after, w.calls = 2, 60*s, 30_000 }), 1.3, 0.001},
		{"5 in any minute", minute.with(func(w *world) {
			w.burst, w.calls, w.pace = 5, 200, AdaptiveConfig{Start: 1.0 / 60, Window: time.Minute}
		}), 0.70, 0.03},
		{"1 in any minute", minute.with(func(w *world) {
			w.burst, w.calls, w.pace = 1, 60, AdaptiveConfig{Start: 1.0 / 60, Window: time.Minute}
		}), 0.9, 0.06},
		{"a bucket of 20", demo.with(func(w *world) { w.calls, w.pace.Window = 10_000, s }), 0.72, 0.002},
		{"a bucket of 1000", demo.with(func(w *world) { w.burst, w.calls, w.pace.Window = 1000, 20_000, s }), 0.85, 0.002},
		{"half of it wanted", short.with(func(w *world) { w.demand = 50 }), 0.95, 0.001},
	} {
		t.Run(c.name, func(t *testing.T) {
			seeds := effort.Times(1)
			worst, mean := many(c.w, seeds)
			t.Logf("goodput %.3f (mean %.3f), refused %d of %d (mean %d)", worst.goodput, mean.goodput, worst.refused, worst.sent, mean.refused/seeds)
			if worst.done < c.w.calls || worst.goodput < c.goodput {
				t.Errorf("%d done, goodput %.3f; want all and %.3f", worst.done, worst.goodput, c.goodput)
			}
			if got := float64(worst.refused) / float64(c.w.calls); got > c.refused {
				t.Errorf("%.4f of the calls refused, want %.4f at most", got, c.refused)
			}
			if worst.escalated != 0 {
				t.Errorf("%d escalations", worst.escalated)
			}
		})
	}
}
