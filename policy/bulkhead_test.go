package policy

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
)

func TestBulkheadDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := must(NewBulkhead(BulkheadConfig{}))
		p := Chain(b)
		for range 25 {
			go func() { _ = Run(t.Context(), p, sleep(time.Minute)) }()
		}
		synctest.Wait()
		want(t, "Max", b.InUse(), 25)
		got := took(func() {
			err := Run(t.Context(), p, func(context.Context) error { t.Error("called"); return nil })
			wantErr(t, "error", err, ErrFull)
			e, ok := errors.AsType[*FullError](err)
			if !ok || e.Max != 25 || e.Waited != 0 || !e.Refused() {
				t.Errorf("%#v", err)
			}
		})
		want(t, "MaxWait", got, 0)
		time.Sleep(time.Minute)
		synctest.Wait()
		want(t, "in use", b.InUse(), 0)
		// MaxQueue: any number.
		b = must(NewBulkhead(BulkheadConfig{MaxWait: -1, Max: 1}))
		for range 1000 {
			go func() { _ = Run(t.Context(), Chain(b), sleep(time.Second)) }()
		}
		synctest.Wait()
		want(t, "MaxQueue", b.Waiting(), 999)
		time.Sleep(1000 * time.Second)
	})
}

func TestBulkheadSetMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := must(NewBulkhead(BulkheadConfig{Max: 1}))
		go func() { _ = Run(t.Context(), Chain(b), sleep(10*time.Second)) }()
		synctest.Wait()
		refusedAfter := func(d time.Duration) {
			t.Helper()
			want(t, "refused", took(func() { wantErr(t, "error", b.Acquire(t.Context()), ErrFull) }), d)
		}
		refusedAfter(0)
		b.SetMaxWait(3 * time.Second)
		want(t, "String", b.String(), "bulkhead(1 at once, waits 3s)")
		early := make(chan error)
		go func() { early <- b.Acquire(t.Context()) }()
		synctest.Wait()
		b.SetMaxWait(time.Second)
		refusedAfter(time.Second) // and who waited before
		want(t, "waiting", b.Waiting(), 1)
		e, _ := errors.AsType[*FullError](<-early)
		want(t, "early", e.Waited, 3*time.Second)
		b.SetMaxWait(-1)
		wantErr(t, "let in", b.Acquire(t.Context()))
		want(t, "in use", b.InUse(), 1)
	})
}

func TestBulkheadWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		b := must(NewBulkhead(BulkheadConfig{Name: "b", Max: 1, MaxWait: 3 * time.Second, OnEvent: l.hear}))
		p := Chain(b, around(func(c *Call, next Handler) error {
			if time.Since(c.Now()) > 1 {
				t.Error("the call's reading of the clock is from before its wait")
			}
			return next(c)
		}))
		early := Chain(around(func(c *Call, next Handler) error { c.Now(); return p.handler(c) }))
		go func() { _ = Run(t.Context(), p, sleep(2*time.Second)) }()
		synctest.Wait()
		want(t, "let in", took(func() { wantErr(t, "error", Run(t.Context(), early, sleep(0))) }), 2*time.Second)
		go func() { _ = Run(t.Context(), p, sleep(3*time.Second+1)) }()
		synctest.Wait()
		var err error
		want(t, "refused", took(func() { err = Run(t.Context(), p, sleep(0)) }), 3*time.Second)
		const text = "policy: b: full (1 at once) after waiting 3s"
		wantErr(t, "error", err, ErrFull)
		want(t, "error", err.Error(), text)
		want(t, "events", l.take(), "[bulkhead full b 3s "+text+"]")
		want(t, "waiting", b.Waiting(), 0)
		time.Sleep(time.Second)
		wantErr(t, "later", Run(t.Context(), p, sleep(0)))
	})
}

func TestBulkheadQueueIsFirstInFirstOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := must(NewBulkhead(BulkheadConfig{Max: 2, MaxWait: -1}))
		var order []int
		var mu sync.Mutex
		for i := range 10 {
			go func() {
				_ = Run(t.Context(), Chain(b), func(ctx context.Context) error {
					mu.Lock()
					order = append(order, i)
					mu.Unlock()
					time.Sleep(time.Second + time.Duration(i))
					return nil
				})
			}()
			synctest.Wait()
		}
		want(t, "try", b.TryAcquire(), false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if !slices.IsSorted(order) || len(order) != 10 {
			t.Error(order)
		}
	})
}

func TestBulkheadQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := must(NewBulkhead(BulkheadConfig{Max: 1, MaxWait: time.Minute, MaxQueue: 2}))
		for range 3 {
			go func() { _ = Run(t.Context(), Chain(b), sleep(time.Second)) }()
		}
		synctest.Wait()
		want(t, "waiting", b.Waiting(), 2)
		want(t, "time", took(func() { wantErr(t, "error", b.Acquire(t.Context()), ErrFull) }), 0)
		time.Sleep(time.Second)
		synctest.Wait()
		want(t, "waiting", b.Waiting(), 1)
		wantErr(t, "room again", b.Acquire(t.Context()))
		b.Release()
		time.Sleep(time.Minute)
	})
}

func TestBulkheadCancelledWaiterLeavesNoTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := must(NewBulkhead(BulkheadConfig{Max: 1, MaxWait: -1}))
		wantErr(t, "first", b.Acquire(t.Context()))
		ctx, cancel := context.WithCancelCause(t.Context())
		var done [5]error
		for i := range done { // 1 and 3 are cancelled: in the middle of the queue
			who := t.Context()
			if i%2 == 1 {
				who = ctx
			}
			go func() {
				if done[i] = b.Acquire(who); done[i] == nil {
					b.Release()
				}
			}()
			synctest.Wait()
		}
		want(t, "waiting", b.Waiting(), 5)
		cancel(errBoom)
		synctest.Wait()
		want(t, "waiting", b.Waiting(), 3)
		for i, err := range done {
			if i%2 == 1 {
				wantErr(t, "cancelled", err, context.Canceled, errBoom)
				want(t, "refused", refused(err), true)
				want(t, "error", err.Error(), "policy: no permit: boom")
			}
		}
		want(t, "in use", b.InUse(), 1)
		b.Release()
		synctest.Wait()
		want(t, "waiting", b.Waiting(), 0)
		want(t, "in use", b.InUse(), 0)
	})
}

func TestBulkheadTakesNothingForAnEndedContext(t *testing.T) {
	b := must(NewBulkhead(BulkheadConfig{}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := Run(ctx, Chain(b), func(context.Context) error { t.Error("called"); return nil })
	wantErr(t, "error", err, context.Canceled)
	want(t, "in use", b.InUse(), 0)
	var none context.Context
	wantErr(t, "nil", b.Acquire(none), ErrInvalid)
}

// A permit that comes at the moment in which the context ends goes to the next.
func TestBulkheadContextHasTheLastWord(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			b := must(NewBulkhead(BulkheadConfig{Max: 1, MaxWait: time.Second}))
			_ = b.Acquire(t.Context())
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			var first, second error
			go func() { first = b.Acquire(ctx) }()
			synctest.Wait()
			go func() { second = b.Acquire(t.Context()) }()
			synctest.Wait()
			b.mu(func() { cancel(); b.seats.word.Add(^uint64(0)); b.seats.admit() }) // both are ready when the waiter wakes
			synctest.Wait()
			wantErr(t, "first", first, context.Canceled)
			wantErr(t, "second", second)
			want(t, "in use", b.InUse(), 1)
		})
	}
}

func (b *Bulkhead) mu(fn func()) {
	b.seats.mu.Lock()
	defer b.seats.mu.Unlock()
	fn()
}

func TestBulkheadSetMax(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := must(NewBulkhead(BulkheadConfig{Max: 2, MaxWait: -1}))
		for range 6 {
			go func() { _ = Run(t.Context(), Chain(b), sleep(time.Minute)) }()
		}
		synctest.Wait()
		wantErr(t, "raise", b.SetMax(5))
		synctest.Wait()
		want(t, "raised", b.InUse(), 5) // at once
		want(t, "waiting", b.Waiting(), 1)
		wantErr(t, "lower", b.SetMax(1))
		want(t, "lowered", b.InUse(), 5) // those that run go on
		time.Sleep(time.Minute)
		synctest.Wait()
		want(t, "the last", b.InUse(), 1)
		want(t, "waiting", b.Waiting(), 0)
		want(t, "try", b.TryAcquire(), false)
		time.Sleep(time.Minute)
		synctest.Wait()
		want(t, "in use", b.InUse(), 0)
		want(t, "String", b.String(), "bulkhead(1 at once, waits)")
		for _, n := range []int{0, -1} {
			if err := b.SetMax(n); err == nil || b.Max() != 1 {
				t.Error(n, err)
			}
		}
		want(t, "error", b.SetMax(-1).Error(), "policy: invalid: Bulkhead.SetMax is -1, want 1 to 2147483647")
	})
}

func TestBulkheadWithoutAChain(t *testing.T) {
	b := must(NewBulkhead(BulkheadConfig{Max: 2}))
	b.Release() // of none
	want(t, "one", b.TryAcquire(), true)
	wantErr(t, "two", b.Acquire(t.Context()))
	want(t, "three", b.TryAcquire(), false)
	wantErr(t, "four", b.Acquire(t.Context()), ErrFull)
	b.Release()
	want(t, "again", b.TryAcquire(), true)
	b.Release()
	b.Release()
	b.Release()
	want(t, "in use", b.InUse(), 0)
}

// What may happen between a look at the word and the lock.
func TestSeatsThatChangedMeanwhile(t *testing.T) {
	var s seats
	s.max.Store(1)
	e, granted := s.queue(0)
	want(t, "a permit came back", e == nil && granted, true)
	s.handOver() // nobody waits any more
	want(t, "word", s.word.Load(), 1)
	e, _ = s.queue(0)
	s.word.Add(^uint64(0)) // the permit comes back, and before mu is had
	want(t, "another takes it", s.take(), false)
	second, granted := s.queue(0)
	want(t, "another queues behind", second != nil && !granted, true)
	s.handOver()
	want(t, "the first has it", e.granted && !second.granted, true)
	want(t, "word", s.word.Load(), oneWaits+1)
	want(t, "the second leaves", s.leave(second), false)
	s.giveBack()
	want(t, "word", s.word.Load(), 0)
}

func TestBulkheadAllocations(t *testing.T) {
	b := must(NewBulkhead(BulkheadConfig{MaxWait: time.Second, OnEvent: new(log).hear, OnError: func(err error) error { return err }}))
	p := Chain(b)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	allocs(t, "call", 0, func() { _, _ = Do(ctx, p, five) })
	allocs(t, "Acquire", 0, func() { _ = b.Acquire(ctx); b.Release() })
}

func TestBulkheadConfig(t *testing.T) {
	for want, cfg := range map[string]BulkheadConfig{
		"policy: invalid: BulkheadConfig.Max is -1, want 0 to 2147483647":              {Max: -1},
		"policy: invalid: BulkheadConfig.Max is 2147483648, want 0 to 2147483647":      {Max: 1 << 31},
		"policy: invalid: BulkheadConfig.MaxQueue is -2, want 0 to 2147483647":         {MaxQueue: -2},
		"policy: invalid: BulkheadConfig.MaxQueue is 2147483648, want 0 to 2147483647": {MaxQueue: 1 << 31},
	} {
		if _, err := NewBulkhead(cfg); err == nil || err.Error() != want {
			t.Errorf("%v, want %v", err, want)
		}
	}
	for want, cfg := range map[string]BulkheadConfig{
		"bulkhead(25 at once)":                            {},
		"bulkhead b(3 at once, waits 1s, 7 in its queue)": {Name: "b", Max: 3, MaxWait: time.Second, MaxQueue: 7},
		"bulkhead(3 at once, waits)":                      {Max: 3, MaxWait: -1},
	} {
		if got := must(NewBulkhead(cfg)).String(); got != want {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

// Random callers, limits and cancellations: there are never more at once than the
// largest limit, and in the end every permit is back and nobody waits.
func TestBulkheadKeepsItsPermits(t *testing.T) {
	const most = 4
	b := must(NewBulkhead(BulkheadConfig{Max: most, MaxWait: time.Millisecond, MaxQueue: 5}))
	p := Chain(b)
	var running, over, ran atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 12_500 {
				ctx, cancel := context.WithCancel(t.Context())
				switch rand.IntN(8) {
				case 0:
					go cancel()
				case 1:
					_ = b.SetMax(1 + rand.IntN(most))
				}
				see(func() error {
					return Run(ctx, p, func(context.Context) error {
						if running.Add(1) > most {
							over.Add(1)
						}
						defer running.Add(-1)
						ran.Add(1)
						if rand.IntN(16) == 0 {
							panic("x")
						}
						return nil
					})
				})
				cancel()
			}
		})
	}
	wg.Wait()
	want(t, "beyond the limit", over.Load(), 0)
	want(t, "in use", b.InUse(), 0)
	want(t, "waiting", b.Waiting(), 0)
	if b.seats.first != nil || b.seats.last != nil || ran.Load() == 0 {
		t.Error("somebody is left in the queue, or nobody ran")
	}
	wantErr(t, "healthy", Run(t.Context(), p, sleep(0)))
}

// Hand-overs and newcomers, where the number of permits shows any mistake.
func TestBulkheadHandsOverUnderLoad(t *testing.T) {
	b := must(NewBulkhead(BulkheadConfig{Max: 2, MaxWait: -1}))
	var running, over atomic.Int64
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			for range effort.Times(2000) {
				if b.Acquire(t.Context()) != nil {
					t.Error("refused")
				}
				if running.Add(1) > 2 {
					over.Add(1)
				}
				running.Add(-1)
				b.Release()
			}
		})
	}
	wg.Wait()
	want(t, "beyond the limit", over.Load(), 0)
	want(t, "word", b.seats.word.Load(), 0)
}

func BenchmarkBulkhead(b *testing.B) {
	p := Chain(must(NewBulkhead(BulkheadConfig{Max: 1000})))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Do(context.Background(), p, five); err != nil {
			b.Fatal(err)
		}
	}
}

func TestBulkheadLivesOnAfterReleasesTooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := must(NewBulkhead(BulkheadConfig{Max: 1, MaxWait: -1}))
		p := Chain(b)
		for range 3 {
			var wg sync.WaitGroup
			for range 4 { // one runs, and others wait
				wg.Go(func() {
					_, _ = Do(t.Context(), p, func(context.Context) (int, error) {
						b.Release() // of nobody else's permit, so that the call's own is one too many
						time.Sleep(time.Second)
						return 0, nil
					})
				})
			}
			wg.Wait()
			want(t, "in use", b.InUse(), 0)
			want(t, "waiting", b.Waiting(), 0)
		}
		_, err := Do(t.Context(), p, five)
		wantErr(t, "call", err)
	})
}
