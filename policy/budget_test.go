package policy

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/flyball-go/flyball/internal/effort"
)

func TestBudgetDefaults(t *testing.T) {
	b := must(NewBudget(BudgetConfig{}))
	for _, c := range []struct{ calls, most int }{{0, 3}, {1, 3}, {15, 3}, {19, 3}, {20, 4}, {24, 4}, {25, 5}, {1000, 200}} {
		for b.State().Calls < c.calls {
			b.Begin()
		}
		n := 0
		for b.Take() {
			n++
		}
		if n != c.most || b.State() != (BudgetState{c.calls, c.most, c.most}) {
			t.Errorf("%d calls: %d repetitions, %+v; want %d", c.calls, n, b.State(), c.most)
		}
		for range n {
			b.GiveBack()
		}
	}
	want(t, "String", b.String(), "20% of calls, at least 3")
}

func TestBudgetConfig(t *testing.T) {
	for _, c := range []struct {
		cfg         BudgetConfig
		calls, most int
		text        string
	}{
		{BudgetConfig{Ratio: 0.29}, 100, 29, "29% of calls, at least 3"}, // 0.29*100 < 29
		{BudgetConfig{Ratio: 0.07, Min: 1}, 10, 1, "7% of calls, at least 1"},
		{BudgetConfig{Ratio: -1}, 100, 3, "0% of calls, at least 3"},
		{BudgetConfig{Min: -1}, 4, 0, "20% of calls, at least 0"},
		{BudgetConfig{Ratio: -1, Min: -1}, 100, 0, "0% of calls, at least 0"},
		{BudgetConfig{Ratio: 2}, 10, 20, "200% of calls, at least 3"},
		{BudgetConfig{Ratio: math.Inf(-1)}, 100, 3, "0% of calls, at least 3"},
	} {
		b := must(NewBudget(c.cfg))
		for range c.calls {
			b.Begin()
		}
		want(t, "most", b.State().Most, c.most)
		want(t, "String", b.String(), c.text)
	}
	for want, cfg := range map[string]BudgetConfig{
		"policy: invalid: BudgetConfig.Ratio is NaN, want 100 or less":             {Ratio: math.NaN()},
		"policy: invalid: BudgetConfig.Ratio is +Inf, want 100 or less":            {Ratio: math.Inf(1)},
		"policy: invalid: BudgetConfig.Min is 2147483648, want 2147483647 or less": {Min: 1 << 31},
	} {
		if _, err := NewBudget(cfg); err == nil || err.Error() != want {
			t.Errorf("%v, want %v", err, want)
		}
	}
}

func TestBudgetIgnoresWhatWasNotTaken(t *testing.T) {
	b := must(NewBudget(BudgetConfig{}))
	b.GiveBack()
	b.End()
	want(t, "nothing", b.State(), BudgetState{Most: 3})
	b.Begin()
	b.GiveBack()
	want(t, "a call", b.State(), BudgetState{Calls: 1, Most: 3})
	b.End()
	b.Take()
	b.End()
	want(t, "a repetition", b.State(), BudgetState{Repetitions: 1, Most: 3})
}

func TestNilBudgetHasNoLimit(t *testing.T) {
	var b *Budget
	b.Begin()
	b.End()
	want(t, "Take", b.Take(), true)
	b.GiveBack()
	want(t, "State", b.State(), BudgetState{Most: math.MaxInt})
	want(t, "String", b.String(), "any number")
	if err := Run(t.Context(), Chain(counting(b)), sleep(0)); err != nil {
		t.Error(err)
	}
}

// counting is a layer that counts calls and repeats nothing.
func counting(b *Budget) layer {
	return layer{name: "counting", wrap: b.Around}
}

func TestBudgetCountsACallOnce(t *testing.T) {
	b, other := must(NewBudget(BudgetConfig{})), must(NewBudget(BudgetConfig{}))
	fork := around(func(c *Call, next Handler) error {
		f := c.Fork(c.Context())
		err := next(f)
		c.Adopt(f)
		return err
	})
	var seen, seenOther int
	note := func(context.Context) (int, error) {
		seen, seenOther = b.State().Calls, other.State().Calls
		return 5, nil
	}
	for name, c := range map[string]struct {
		p           *Pipeline
		seen, other int
	}{
		"one":             {Chain(counting(b)), 1, 0},
		"two":             {Chain(counting(b), counting(b)), 1, 0},
		"forked":          {Chain(counting(b), fork, counting(b)), 1, 0},
		"another":         {Chain(counting(b), counting(other)), 1, 1},
		"another between": {Chain(counting(b), counting(other), counting(b)), 2, 1}, // anew
	} {
		_, _ = Do(t.Context(), c.p, note)
		want(t, name, seen, c.seen)
		want(t, name, seenOther, c.other)
		for _, fn := range []func(context.Context) (int, error){five, fails, panics, goexit} {
			see(func() error { _, err := Do(t.Context(), c.p, fn); return err })
			want(t, name, b.State(), BudgetState{Most: 3})
			want(t, name, other.State(), BudgetState{Most: 3})
		}
	}
	p := Chain(counting(b))
	allocs(t, "Around", 0, func() { _, _ = Do(t.Context(), p, five) })
}

func TestBudgetUnderLoad(t *testing.T) {
	b := must(NewBudget(BudgetConfig{Min: 2}))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range effort.Times(2000) {
				b.Begin()
				if rand.IntN(2) == 0 && b.Take() {
					// Of eight calls none has more than Min for its share.
					if n := b.State().Repetitions; n > 2 {
						t.Error("repetitions:", n)
					}
					b.GiveBack()
				}
				b.End()
			}
		})
	}
	wg.Wait()
	want(t, "in the end", b.State(), BudgetState{Most: 2})
}

func BenchmarkBudget(b *testing.B) {
	p := Chain(counting(must(NewBudget(BudgetConfig{}))))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Do(context.Background(), p, five); err != nil {
			b.Fatal(err)
		}
	}
}
