package governor

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
)

// soakVendor reads the errors that soak closures make up.
type soakVendor struct{}

type soakRefusal struct{ sigs []throttle.Signal }

func (e *soakRefusal) Error() string { return "refused" }

func (soakVendor) DelayError(error) (time.Duration, bool) { panic("not asked: it is a Signaler") }

func (soakVendor) Signals(err error, _ time.Time) []throttle.Signal {
	if e, ok := errors.AsType[*soakRefusal](err); ok {
		return e.sigs
	}
	return nil
}

// soakConn counts that it is used by one closure at a time.
type soakConn struct {
	sel  int
	busy atomic.Bool
	open *atomic.Int64
}

// soak is one governor under everything that can go wrong.
type soak struct {
	t        *testing.T
	g        *Governor[int, *soakConn]
	open     atomic.Int64 // connections
	running  atomic.Int64
	attempts atomic.Int64
	early    atomic.Int64 // starts in a cooldown
	over     atomic.Int64 // more closures at once than slots
	shared   atomic.Int64 // connections used twice at once
	direct   atomic.Int64 // attempts on the caller's goroutine
	alone    int          // percent of the requests that are Do's, and one at a time; 0: an ordinary mixture
}

var errSoak = errors.New("soak failure")

func newSoak(t *testing.T, workers, conns int) *soak {
	s := &soak{t: t}
	g, err := New(Config[int, *soakConn]{
		Name: "soak", Vendor: soakVendor{}, Workers: workers, MaxQueue: 500, MaxWait: time.Minute,
		MinCooldown: time.Microsecond, Guess: soakGuess{}, ProbePatience: 3 * time.Millisecond,
		StuckAfter: 5 * time.Millisecond, CloseGrace: time.Minute, LimitedAttempts: -1, OpenAttempts: 4,
		Retry: &retry.Config{Attempts: 3, Backoff: soakGuess{}},
		Pool: &pool.Config[int, *soakConn]{
			Max: conns, OpenTimeout: 20 * time.Millisecond, OpenBackoff: soakGuess{}, MaxPerSelector: max(1, conns/2),
			Open:  s.dial,
			Close: func(int, *soakConn) { s.open.Add(-1) },
			IsBad: func(err error) bool { return errors.Is(err, errSoak) && rand.IntN(4) == 0 },
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.g = g
	return s
}

func (s *soak) dial(ctx context.Context, sel int) (*soakConn, error) {
	switch rand.IntN(60) {
	case 0:
		return nil, errors.New("dial failed")
	case 1:
		<-ctx.Done() // hangs
		return nil, ctx.Err()
	case 2:
		panic("dial panicked")
	}
	time.Sleep(time.Duration(rand.IntN(50)) * time.Microsecond)
	s.open.Add(1)
	return &soakConn{sel: sel, open: &s.open}, nil
}

// closure is what every request runs.
func (s *soak) closure(ctx context.Context, c *soakConn, sel int, tenant string) (int, error) {
	s.attempts.Add(1)
	s.check(ctx, sel, tenant)
	if s.running.Add(1) > int64(s.g.slots) {
		s.over.Add(1)
	}
	defer s.running.Add(-1)
	if c.sel != sel || !c.busy.CompareAndSwap(false, true) {
		s.shared.Add(1)
	}
	defer c.busy.Store(false)
	switch p := rand.IntN(1000); {
	case p < 20:
		level := throttle.Level(rand.IntN(5))
		d := time.Duration(rand.IntN(2000)) * time.Microsecond
		if p < 4 {
			d = throttle.Unknown
		}
		return 0, &soakRefusal{[]throttle.Signal{{Scope: throttle.Scope{Level: level}, Delay: d, NoRetry: p == 19}}}
	case p < 30:
		return 0, errSoak
	case p < 33:
		panic("soak")
	case p < 36:
		runtime.Goexit()
	case p < 60:
		time.Sleep(time.Duration(rand.IntN(200)) * time.Microsecond)
	}
	return sel, nil
}

// check finds starts that the gate must not have let through: the attempt drew
// its number after a signal was received that still has its scope cool. It is the
// latest signal that counts: one that came late from before an episode can have the
// scope cool again while this attempt, which began in between, is on its way here.
func (s *soak) check(ctx context.Context, sel int, tenant string) {
	if _, direct := ctx.(*inlineCall); direct {
		s.direct.Add(1)
		return // it has no number of its own; see TestInlineCallLooksLast
	}
	a := attemptOf(ctx, s.g.core)
	g := &s.g.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, sc := range a.scopes() {
		if st := g.table[sc]; st != nil && st.phase == cooling && a.seq > st.heard {
			s.early.Add(1)
		}
	}
}

type soakGuess struct{}

func (soakGuess) Next(backoff.Step) (time.Duration, bool) {
	return time.Duration(rand.IntN(1000)) * time.Microsecond, true
}

// submit sends n requests from several goroutines and checks that every one
// completes exactly once.
func (s *soak) submit(n int) {
	var wg sync.WaitGroup
	clients := 8
	if s.alone > 0 {
		clients = 3
	}
	for c := range clients {
		wg.Go(func() {
			for i := range n / clients {
				s.one(c, i)
			}
		})
	}
	wg.Wait()
}

func (s *soak) one(c, i int) {
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	switch rand.IntN(10) {
	case 0:
		ctx, cancel = context.WithCancel(ctx)
		time.AfterFunc(time.Duration(rand.IntN(500))*time.Microsecond, cancel)
	case 1:
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rand.IntN(2000))*time.Microsecond)
	}
	end := cancel // for the last use of ctx, which may be on another goroutine
	sel, tenant := rand.IntN(6), strconv.Itoa(rand.IntN(20))
	g := s.g.With(Ask{Tenant: tenant, Bucket: strconv.Itoa(rand.IntN(3)), KeepConn: rand.IntN(20) == 0, Cost: rand.IntN(2)})
	fn := func(ctx context.Context, c *soakConn) (int, error) { return s.closure(ctx, c, sel, tenant) }
	p := rand.IntN(100)
	if s.alone > 0 && rand.IntN(100) < s.alone {
		p = 20
	}
	switch {
	case p < 5:
		for v, err := range Stream(ctx, g, sel, func(ctx context.Context, c *soakConn) iter.Seq2[int, error] {
			return func(yield func(int, error) bool) {
				for range rand.IntN(4) {
					v, err := s.closure(ctx, c, sel, tenant)
					if !yield(v, err) || err != nil {
						return
					}
				}
			}
		}) {
			_ = v
			if err != nil || rand.IntN(3) == 0 {
				break
			}
		}
		end()
	case p < 30:
		done := make(chan struct{})
		go func() { // which the closure may end
			defer close(done)
			if v, err := Do(ctx, g, sel, fn); err == nil && v != sel {
				s.t.Errorf("the result is %d, want %d", v, sel)
			}
		}()
		<-done
		end()
	case p < 35:
		r := Submit(ctx, g, sel, func(ctx context.Context, c *soakConn) (int, error) {
			release := Hold(ctx)
			time.AfterFunc(time.Duration(rand.IntN(300))*time.Microsecond, func() { release(nil); release(errSoak) })
			return 1, nil
		})
		<-r.Done()
	default:
		r := Submit(ctx, g, sel, fn)
		if rand.IntN(20) == 0 {
			r.Cancel()
		}
		if rand.IntN(2) == 0 {
			go func() { <-r.Done(); end() }()
			return
		}
		<-r.Done()
		end()
	}
}

func (s *soak) verify() {
	s.t.Helper()
	if n := s.early.Load(); n > 0 {
		s.t.Errorf("%d of %d attempts started in a cooldown", n, s.attempts.Load())
	}
	if n := s.over.Load(); n > 0 {
		s.t.Errorf("%d times more closures ran than there are slots", n)
	}
	if n := s.shared.Load(); n > 0 {
		s.t.Errorf("%d times a connection was shared or of another selector", n)
	}
	st := s.g.Stats()
	if st.Submitted != st.Succeeded+st.Failed+st.Dropped {
		s.t.Errorf("%d submitted, but %d succeeded + %d failed + %d dropped", st.Submitted, st.Succeeded, st.Failed, st.Dropped)
	}
	if st.InFlight != 0 || st.Queued != 0 {
		s.t.Errorf("at rest %d in flight, %d queued", st.InFlight, st.Queued)
	}
	if n := s.g.gate.word.queued(); n != 0 {
		s.t.Errorf("at rest the word counts %d queued", n)
	}
	if n := len(s.g.gate.opening); n != 0 {
		s.t.Errorf("at rest a cost of %d is still opening", n)
	}
	if n := len(s.g.watches) + s.g.timers.Len() + s.g.queue.lanes.len(); n != 0 {
		s.t.Errorf("at rest %d watches, %d timers, %d lanes", len(s.g.watches), s.g.timers.Len(), s.g.queue.lanes.len())
	}
	if n := s.g.door.waiting; n != 0 {
		s.t.Errorf("at rest %d count as waiting at the door", n)
	}
	for sel, x := range s.g.names.m {
		if n := x.refs.Load(); n != 0 {
			s.t.Errorf("at rest selector %v has %d references", sel, n)
		}
	}
}

// TestSoak sends FLYBALL_SOAK requests, 3,000 by default, twice through governors
// under random signals, panics, Goexit, cancellation, failing and hanging dials,
// and Close in mid-flight. Every request completes exactly once and nothing is
// left behind.
func TestSoak(t *testing.T) {
	total := 3000
	if v := os.Getenv("FLYBALL_SOAK"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil {
			t.Fatalf("FLYBALL_SOAK: %v", err)
		}
		total = n
	}
	before := runtime.NumGoroutine()
	sizes := []struct{ workers, conns int }{{1, 1}, {4, 2}, {8, 8}, {64, 16}}
	direct := int64(0)
	most := min(10_000, (total+len(sizes)-1)/len(sizes)) // of one governor: each size has its turn
	for i := 0; total > 0 && !t.Failed(); i++ {
		n := min(total, most)
		total -= n
		soakOne(t, n, sizes[i%len(sizes)].workers, sizes[i%len(sizes)].conns, 0, i%2 == 1)
		direct += soakOne(t, n, sizes[i%len(sizes)].workers, sizes[i%len(sizes)].conns, 95, i%2 == 1)
	}
	// How many find a healthy governor is up to chance.
	for i := 0; direct < 10 && !actorOnly && !t.Failed(); i++ {
		if direct += soakOne(t, most, 8, 8, 95, false); i == 10 {
			t.Errorf("%d attempts were inline", direct)
		}
	}
	noneLeft(t, before)
}

func soakOne(t *testing.T, n, workers, conns, alone int, closeMidway bool) (direct int64) {
	s := newSoak(t, workers, conns)
	s.alone = alone
	stop := make(chan struct{})
	var operator, clients sync.WaitGroup
	operator.Go(func() { s.operate(stop) })
	sent := make(chan struct{})
	clients.Go(func() { s.submit(n); close(sent) })
	if closeMidway {
		s.await(sent, rand.Uint64N(uint64(n)/2+1))
		if err := s.g.Close(); err != nil {
			t.Error(err)
		}
	}
	clients.Wait()
	close(stop)
	operator.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.g.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	s.verify()
	if n := s.open.Load(); n != 0 {
		t.Errorf("%d connections are left", n)
	}
	return s.direct.Load()
}

// await waits until so many are submitted, or all are sent.
func (s *soak) await(sent <-chan struct{}, submitted uint64) {
	for s.g.Stats().Submitted < submitted {
		select {
		case <-sent:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// operate does what an operator might, all the time.
func (s *soak) operate(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(1+rand.IntN(1000)) * time.Microsecond):
		}
		switch rand.IntN(6) {
		case 0:
			s.g.Pause()
			s.g.Resume()
		case 1:
			s.g.Clear(throttle.Scope{Level: throttle.Tenant, Key: strconv.Itoa(rand.IntN(20))})
			s.g.Clear(throttle.Scope{})
		case 2:
			s.g.Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Level(rand.IntN(5)), Key: "1"}, Delay: time.Millisecond})
		case 3:
			s.g.Stats()
		case 4:
			_ = s.g.SetMaxQueue(1 + rand.IntN(500))
		}
	}
}
