package breaker_test

import (
	"testing"
	"time"

	"github.com/flyball-go/flyball/breaker"
)

// BenchmarkHealthyCall measures calls of a function that does nothing through a
// closed breaker: by Do, and with a clock reading that the caller has anyway.
func BenchmarkHealthyCall(b *testing.B) {
	for _, bb := range []struct {
		name string
		cfg  breaker.Config
	}{
		{"consecutive", breaker.Config{Consecutive: 5}},
		{"calls", breaker.Config{}},
		{"calls, none slow", breaker.Config{SlowCall: -1}},
		{"seconds", breaker.Config{WindowTime: 10 * time.Second}},
		{"seconds, none slow", breaker.Config{WindowTime: 10 * time.Second, SlowCall: -1}},
	} {
		br := newBreaker(b, bb.cfg)
		fn, ctx, now := returns(nil), b.Context(), time.Now()
		b.Run(bb.name+"/Do", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = breaker.Do(ctx, br, fn)
			}
		})
		b.Run(bb.name+"/permit", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p, _ := br.Acquire(now)
				br.Report(p, now, breaker.Success, 0)
			}
		})
	}
}
