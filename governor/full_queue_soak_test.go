package governor

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
)

// crush is a governor with a tiny queue, and everybody at its door at once.
type crush struct {
	t   *testing.T
	g   *Governor[string, struct{}]
	mu  sync.Mutex
	all []interface {
		Done() <-chan struct{}
		State() State
	}
	told map[uint64][]event.Kind // of each request, in order
}

var errCrush = errors.New("crush failure")

// closure is what a request runs. deep is how many of its kind it may be called in.
func (s *crush) closure(g *Governor[string, struct{}], rnd *rand.Rand, deep int) func(context.Context, struct{}) (int, error) {
	polls, busy := rnd.IntN(4), new(atomic.Int32)
	what, d := rnd.IntN(20), time.Duration(1+rnd.IntN(30))*time.Millisecond
	return Func(func(ctx context.Context) (int, error) {
		if busy.Add(1) > 1 {
			s.t.Error("a closure runs twice at once")
		}
		defer busy.Add(-1)
		switch {
		case what < 6:
			return 1, nil
		case what < 9:
			select {
			case <-time.After(d):
			case <-ctx.Done():
			}
			return 1, ctx.Err()
		case what < 12 && polls > 0:
			polls--
			return 0, Again(d)
		case what < 14 && polls > 0:
			polls--
			return 0, &soakRefusal{[]throttle.Signal{{Scope: throttle.Scope{Level: throttle.Level(d % 5), Key: "t1"}, Delay: d}}}
		case what < 16 && polls > 0:
			polls--
			return 0, errCrush
		case what == 16:
			panic("crush")
		case what == 17:
			runtime.Goexit()
		case what > 17 && deep > 0:
			inner := g.With(Ask{Tenant: fmt.Sprint("t", d%4)})
			fn := s.closure(inner, rand.New(rand.NewPCG(uint64(d), 9)), deep-1)
			if polls%2 == 0 {
				_, err := Do(ctx, inner, "", fn)
				return 0, err
			}
			r := Submit(ctx, inner, "", fn)
			s.keep(r)
			_, err := r.Result(ctx)
			return 0, err
		}
		return 1, nil
	})
}

func (s *crush) keep(r interface {
	Done() <-chan struct{}
	State() State
}) {
	s.mu.Lock()
	s.all = append(s.all, r)
	s.mu.Unlock()
}

// visit makes one call, in any of the ways there are.
func (s *crush) visit(rnd *rand.Rand) {
	ask := Ask{
		Tenant: fmt.Sprint("t", rnd.IntN(4)), Priority: rnd.IntN(3) - 1, Cost: rnd.IntN(2),
		NoRetry: rnd.IntN(5) == 0, KeepConn: rnd.IntN(8) == 0,
	}
	if rnd.IntN(6) == 0 {
		ask.StartBy = time.Now().Add(time.Duration(rnd.IntN(40)) * time.Millisecond)
	}
	g, sel := s.g.With(ask), [...]string{"", "s"}[rnd.IntN(2)]
	ctx, cancel := s.t.Context(), context.CancelFunc(func() {})
	switch d := time.Duration(rnd.IntN(60)) * time.Millisecond; rnd.IntN(5) {
	case 0:
		ctx, cancel = context.WithTimeout(ctx, d)
	case 1:
		ctx, cancel = context.WithCancel(ctx)
		time.AfterFunc(d, cancel)
	}
	fn := s.closure(g, rnd, 2)
	switch rnd.IntN(10) {
	case 0:
		defer cancel()
		for range Stream(ctx, g, sel, func(ctx context.Context, _ struct{}) iter.Seq2[int, error] {
			return func(yield func(int, error) bool) { yield(fn(ctx, struct{}{})) }
		}) {
		}
	case 1:
		defer cancel()
		for range Map(ctx, g, sel, slices.Values([]int{1, 2, 3, 4}), func(ctx context.Context, _ struct{}, in int) (int, error) {
			return in, nil
		}, &MapConfig[string, int]{Window: 1 + rnd.IntN(3), Unordered: rnd.IntN(2) == 0, StopOnError: rnd.IntN(2) == 0}) {
		}
	case 2, 3, 4:
		defer cancel()
		Do(ctx, g, sel, fn) // may end this goroutine
	default:
		r := Submit(ctx, g, sel, fn)
		s.keep(r)
		switch rnd.IntN(4) {
		case 0:
			r.Cancel()
		case 1:
			r.Result(ctx)
		default: // left alone
		}
	}
}

// meddle changes what can be changed from outside, and leaves nothing paused.
func (s *crush) meddle(rnd *rand.Rand) {
	sc := throttle.Scope{Level: throttle.Level(rnd.IntN(4)), Key: fmt.Sprint("t", rnd.IntN(4))}
	switch rnd.IntN(8) {
	case 0, 1, 2:
		s.g.Learn(throttle.Signal{Scope: sc, Delay: time.Duration(rnd.IntN(100)) * time.Millisecond})
	case 3, 4:
		s.g.Clear(sc)
	case 5:
		s.g.SetMaxQueue(1 + rnd.IntN(5))
	case 6:
		s.g.Pause()
		time.Sleep(time.Duration(rnd.IntN(30)) * time.Millisecond)
		s.g.Resume()
	case 7:
		s.g.Stats()
	}
}

func (s *crush) hear(e event.Event) {
	switch e.Kind {
	case event.Submitted, event.Started, event.Completed:
		if e.Request != 0 {
			s.told[e.Request] = append(s.told[e.Request], e.Kind)
		}
	}
}

// settle looks at what is left when all is over: nothing.
func (s *crush) settle(name string) {
	g := s.g
	for i := 0; ; i++ {
		s.mu.Lock()
		if i == len(s.all) { // those that run may submit more
			s.mu.Unlock()
			break
		}
		r := s.all[i]
		s.mu.Unlock()
		select {
		case <-r.Done():
		case <-time.After(time.Hour):
			s.t.Errorf("%s: request %d is %v for ever", name, i, r.State())
		}
	}
	synctest.Wait()
	st := g.Stats()
	if done := st.Succeeded + st.Failed + st.Dropped; st.Submitted != done || st.Queued != 0 {
		s.t.Errorf("%s: %d were submitted, %d completed, %d wait", name, st.Submitted, done, st.Queued)
	}
	g.core.ask(func() {
		if g.left != 0 || g.minding != 0 || g.backoffs != 0 || g.timers.Len() != 0 || len(g.watches) != 0 || g.queue.lanes.len() != 0 {
			s.t.Errorf("%s: left %d, minding %d, backoffs %d, timers %d, watches %d, lanes %d",
				name, g.left, g.minding, g.backoffs, g.timers.Len(), len(g.watches), g.queue.lanes.len())
		}
	})
	d := &g.door
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting != 0 || d.inbox != 0 || d.head != nil || !d.blocked.empty() {
		s.t.Errorf("%s: %d waiting, %d in the inbox, somebody blocked: %t", name, d.waiting, d.inbox, !d.blocked.empty())
	}
	if b := &d.blocked; len(b.tenants) != 0 || b.turns.Len() != 0 {
		s.t.Errorf("%s: %d tenants have turns, %d are in turn", name, len(b.tenants), b.turns.Len())
	}
	if p := &d.places; len(p.of) != 0 || len(p.by) != 0 || !p.owed.empty() {
		s.t.Errorf("%s: %d places of %d lanes are taken, %d are owed", name, len(p.of), len(p.by), len(p.owed.of))
	}
	if n := d.word.queued(); n != 0 {
		s.t.Errorf("%s: %d are queued", name, n)
	}
	if c := d.common; c != nil && c.waiting.Load() != 0 {
		s.t.Errorf("%s: %d wait in the group", name, c.waiting.Load())
	}
}

// Random calls, pauses, and changes of a queue for one to five, under each rule: every
// Submit returns, every request completes, and nothing is counted in the end.
func TestFullQueueUnderEverythingAtOnce(t *testing.T) {
	for seed := range uint64(effort.Times(6)) {
		for rule := Block; rule <= DropLower; rule++ {
			for end := range 3 { // all is over, or Shutdown, or Close comes before
				name := fmt.Sprintf("seed %d, %v, end %d", seed, rule, end)
				synctest.Test(t, func(t *testing.T) { crushed(t, name, seed, rule, end) })
				if t.Failed() {
					return
				}
			}
		}
	}
}

func crushed(t *testing.T, name string, seed uint64, rule Overflow, end int) {
	rnd := rand.New(rand.NewPCG(seed, uint64(rule)<<8|uint64(end)))
	cfg := PlainConfig{
		Name: "crush", Vendor: soakVendor{}, Workers: 1 + rnd.IntN(3), MaxQueue: 1 + rnd.IntN(5), Overflow: rule,
		NoPace: rnd.IntN(2) == 0, MinCooldown: time.Millisecond, Guess: soakGuess{}, ProbePatience: 3 * time.Millisecond,
		ShutdownDrop: rnd.IntN(2) == 0, Observe: rnd.IntN(8) == 0, MaxKeys: rnd.IntN(2) * (6 + rnd.IntN(10)),
	}
	if rnd.IntN(2) == 0 {
		cfg.Retry = &retry.Config{Attempts: 3, Backoff: soakGuess{}}
	}
	if rnd.IntN(2) == 0 {
		cfg.MaxWait = time.Duration(1+rnd.IntN(60)) * time.Millisecond
	}
	if rnd.IntN(3) == 0 {
		b, err := breaker.New(breaker.Config{Consecutive: 2, HalfOpenCalls: 1, OpenFor: backoff.Constant(20 * time.Millisecond)})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Breaker, cfg.BreakerWait = b, rnd.IntN(2) == 0
	}
	if rnd.IntN(2) == 0 {
		cfg.Pool = &pool.Config[string, struct{}]{
			Max: 1 + rnd.IntN(3), OpenBackoff: soakGuess{},
			Open: func(context.Context, string) (struct{}, error) {
				if rand.IntN(8) == 0 {
					return struct{}{}, errCrush
				}
				return struct{}{}, nil
			},
		}
	}
	if rnd.IntN(2) == 0 {
		bucket, err := limiter.NewBucket(limiter.BucketConfig{Rate: 200, Burst: 2})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Limits = append(cfg.Limits, Limit{Per: throttle.Level(rnd.IntN(4)), Limiter: bucket})
	}
	s := &crush{t: t, told: make(map[uint64][]event.Kind)}
	if rnd.IntN(2) == 0 {
		gr, err := NewGroup(GroupConfig[string, struct{}]{
			Config:   func(string) (PlainConfig, error) { return cfg, nil },
			MaxQueue: 1 + rnd.IntN(8), IdleTimeout: -1,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer gr.Close()
		s.g, err = gr.Get("a")
		if err != nil {
			t.Fatal(err)
		}
	} else {
		g, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		s.g = g
	}
	defer s.g.Close()
	s.g.Listen(s.hear)
	var wg sync.WaitGroup
	for w := range uint64(24) {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, w<<16|uint64(rule)<<8|uint64(end)))
			for range 12 {
				one := make(chan struct{})
				go func() {
					defer close(one)
					if w < 2 {
						s.meddle(rnd)
					} else {
						s.visit(rnd)
					}
				}()
				<-one
				if rnd.IntN(3) == 0 {
					time.Sleep(time.Duration(rnd.IntN(10)) * time.Millisecond)
				}
			}
		})
	}
	switch end {
	case 1:
		time.Sleep(time.Duration(rnd.IntN(100)) * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		if err := s.g.Shutdown(ctx); err != nil {
			t.Errorf("%s: Shutdown: %v", name, err)
		}
		cancel()
	case 2:
		time.Sleep(time.Duration(rnd.IntN(100)) * time.Millisecond)
		if err := s.g.Close(); err != nil {
			t.Errorf("%s: Close: %v", name, err)
		}
	}
	over := make(chan struct{})
	go func() { wg.Wait(); close(over) }()
	select {
	case <-over:
	case <-time.After(24 * time.Hour):
		t.Errorf("%s: somebody is kept for ever: %+v", name, s.g.Stats())
		s.g.Close()
		<-over
	}
	s.settle(name)
	if dropped := s.g.Stats().EventsDropped; dropped == 0 {
		for n, kinds := range s.told {
			if kinds[0] != event.Submitted || kinds[len(kinds)-1] != event.Completed || slices.Index(kinds, event.Completed) != len(kinds)-1 {
				t.Errorf("%s: of request %d was told %v", name, n, kinds)
			}
		}
	}
}
