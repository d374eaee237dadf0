package limiter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
)

// slowShared is the slow exact model of a Shared: one list of calls, looked through
// at each millisecond.
type slowShared struct {
	limiters, whole []Limiter
	waiting         []*slowCall // oldest first
	max             int
	newest          bool
	timeout         time.Duration
}

type slowCall struct {
	key     string
	n       int
	until   time.Time
	decided bool
	answer  string
}

func (m *slowShared) longest(ls []Limiter, now time.Time, key string, n int) (d time.Duration) {
	for _, l := range ls {
		d = max(d, l.Wait(now, key, n))
	}
	return d
}

func (m *slowShared) decide(c *slowCall, answer string) {
	c.decided, c.answer = true, answer
	m.waiting = slices.DeleteFunc(m.waiting, func(w *slowCall) bool { return w == c })
}

// pump admits one after the other, looking at everything anew each time.
func (m *slowShared) pump(now time.Time) {
	for m.one(now) {
	}
}

func (m *slowShared) one(now time.Time) bool {
	calls := slices.Clone(m.waiting)
	if m.newest {
		slices.Reverse(calls)
	}
	seen := map[string]bool{}
	for _, c := range calls {
		if seen[c.key] {
			continue // not the first of its key
		}
		seen[c.key] = true
		switch d := m.longest(m.limiters, now, c.key, c.n); {
		case d == Never:
			m.decide(c, Impossible.String())
			return true
		case d > 0:
			continue
		}
		switch d := m.longest(m.whole, now, "", c.n); {
		case d == Never:
			m.decide(c, Impossible.String())
			return true
		case d > 0:
			seen = nil
		default:
			m.take(now, c.key, c.n)
			m.decide(c, "<nil>")
			return true
		}
		break
	}
	if len(m.waiting) > 0 && m.timeout >= 0 && !now.Before(m.waiting[0].until) {
		m.decide(m.waiting[0], TooLate.String())
		return true
	}
	return false
}

func (m *slowShared) take(now time.Time, key string, n int) {
	for _, l := range m.limiters {
		l.Take(now, key, n)
	}
	for _, l := range m.whole {
		l.Take(now, "", n)
	}
}

func (m *slowShared) enter(now time.Time, key string, n int) *slowCall {
	c := &slowCall{key: key, n: n, until: now.Add(m.timeout)}
	hard := max(m.longest(m.limiters, now, key, n), m.longest(m.whole, now, "", n))
	// It waits if it must, or if one that waits comes before it: then pump does
	// not admit it. So let it, and look.
	m.waiting = append(m.waiting, c)
	room := len(m.waiting) <= m.max
	if hard == 0 {
		m.pump(now)
		if c.decided {
			return c
		}
	}
	switch {
	case hard == Never:
		m.decide(c, Impossible.String())
	case m.max == 0:
		m.decide(c, NoPermits.String())
	case m.timeout >= 0 && hard > m.timeout:
		m.decide(c, TooLate.String())
	case !room && !m.newest:
		m.decide(c, QueueFull.String())
	case !room:
		m.decide(m.waiting[0], Displaced.String())
	}
	m.pump(now)
	return c
}

// TestSharedIsItsModel compares every decision, at the millisecond at which it is
// made, under random calls, cancellations, settlements, drains and changes of limits.
func TestSharedIsItsModel(t *testing.T) {
	const ms = time.Millisecond
	answers, seeds := map[string]int{}, effort.Times(8)
	for seed := range uint64(seeds) {
		r := rand.New(rand.NewPCG(seed, 30))
		limits := func() (each, whole []Limiter) {
			r := rand.New(rand.NewPCG(seed, 31))
			window := newFixedWindow(t, FixedWindowConfig{Limit: 2 + r.IntN(4), Period: time.Duration(3+r.IntN(20)) * ms})
			bucket := newBucket(t, BucketConfig{Rate: []float64{100, 250, 500}[r.IntN(3)], Burst: 2 + r.IntN(3)})
			log, err := NewSlidingLog(SlidingLogConfig{Limit: 3 + r.IntN(5), Window: time.Duration(5+r.IntN(20)) * ms})
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range []Limiter{window, bucket, log} {
				if r.IntN(2) == 0 {
					each = append(each, l)
				} else {
					whole = append(whole, l)
				}
			}
			return each, whole
		}
		m := slowShared{max: r.IntN(8), newest: r.IntN(2) == 0, timeout: time.Duration(r.IntN(60)-10) * ms}
		m.limiters, m.whole = limits()
		cfg := SharedConfig{MaxQueue: m.max, Newest: m.newest, MaxWait: m.timeout}
		cfg.Limiters, cfg.Whole = limits()
		if m.timeout == 0 {
			m.timeout = 10 * time.Second
		}
		bubble(t, func(t *testing.T) {
			s := newShared(t, cfg)
			type pair struct {
				r *Reservation
				c *slowCall
			}
			var all []pair
			for step := range 400 {
				key, n := fmt.Sprint(r.IntN(4)), 1+r.IntN(3)
				now := time.Now()
				switch a := r.IntN(12); {
				case a < 7:
					all = append(all, pair{s.Reserve(key, n), m.enter(now, key, n)})
				case a < 8 && len(all) > 0:
					p := all[max(0, len(all)-1-r.IntN(10))]
					if p.c.decided {
						break
					}
					p.r.Cancel()
					m.decide(p.c, textOf(p.r.Err()))
					m.pump(now)
				case a < 9:
					used := r.IntN(4)
					s.Settle(key, n, used)
					for _, l := range m.limiters {
						l.Settle(now, key, n, used)
					}
					for _, l := range m.whole {
						l.Settle(now, "", n, used)
					}
					m.pump(now)
				case a == 9:
					limit := 3 + r.IntN(6) // lower ones could make a call impossible, which is found out when it is looked at
					set := func(ls []Limiter, now time.Time) {
						for _, l := range ls {
							if c, ok := l.(Counter); ok {
								c.SetLimit(now, limit)
								c.SetRemaining(now, now, key, 5)
							}
						}
					}
					s.Update(func(now time.Time) { set(s1(s.limiters), now); set(s1(s.whole), now) })
					set(m.limiters, now)
					set(m.whole, now)
					m.pump(now)
				default:
					for range r.IntN(10) {
						time.Sleep(ms)
						synctest.Wait()
						m.pump(time.Now())
						for i, p := range all {
							check(t, seed, step, i, p.r, p.c)
						}
					}
				}
				for i, p := range all {
					check(t, seed, step, i, p.r, p.c)
				}
				if t.Failed() {
					t.FailNow()
				}
				all = slices.DeleteFunc(all, func(p pair) bool {
					if p.c.decided {
						answers[p.c.answer]++
					}
					return p.c.decided
				})
			}
			for _, p := range all {
				p.r.Cancel()
			}
		})
	}
	for _, why := range []Reason{NoPermits, QueueFull, Displaced, TooLate, Impossible} {
		if answers[why.String()] < max(1, seeds/8) {
			t.Errorf("the test tests little: %v", answers)
		}
	}
}

func s1(parts []part) (ls []Limiter) {
	for _, p := range parts {
		ls = append(ls, p.Limiter)
	}
	return ls
}

func check(t *testing.T, seed uint64, step, i int, r *Reservation, c *slowCall) {
	t.Helper()
	select {
	case <-r.Done():
		if got := textOf(r.Err()); !c.decided || got != c.answer {
			t.Errorf("seed %d step %d call %d: %s, the model: %v %s", seed, step, i, got, c.decided, c.answer)
		}
	default:
		if c.decided {
			t.Errorf("seed %d step %d call %d: it waits, the model: %s", seed, step, i, c.answer)
		}
	}
}

// audited is a Concurrency that counts what is taken against the rules.
type audited struct {
	*Concurrency
	asked map[string]int // the n for which Wait said 0 last
	wrong atomic.Int64
	held  atomic.Int64
}

func (a *audited) Wait(now time.Time, key string, n int) time.Duration {
	d := a.Concurrency.Wait(now, key, n)
	if a.asked[key] = 0; d == 0 {
		a.asked[key] = n
	}
	return d
}

func (a *audited) Take(now time.Time, key string, n int) {
	if a.asked[key] != n {
		a.wrong.Add(1)
	}
	a.asked[key] = 0
	a.held.Add(int64(n))
	a.Concurrency.Take(now, key, n)
}

func (a *audited) Release(now time.Time, key string, n int) {
	a.held.Add(-int64(n))
	a.Concurrency.Release(now, key, n)
}

func (a *audited) Settle(now time.Time, key string, n, used int) {
	a.held.Add(int64(used - n))
	a.Concurrency.Settle(now, key, n, used)
}

// TestSharedUnderFire lets many goroutines do everything at once. In the end each
// call has had one answer, nothing is held and nothing waits.
func TestSharedUnderFire(t *testing.T) {
	for seed := range uint64(effort.Times(2)) {
		bubble(t, func(t *testing.T) {
			conc := func(keys int) *audited {
				c, err := NewConcurrency(ConcurrencyConfig{Limit: 6, AskAgain: 5 * time.Millisecond, MaxKeys: keys})
				if err != nil {
					t.Fatal(err)
				}
				return &audited{Concurrency: c, asked: map[string]int{}}
			}
			each, whole := conc(2), conc(1) // there is no room for the third key
			s := newShared(t, SharedConfig{
				Limiters: []Limiter{each, newBucket(t, BucketConfig{Rate: 3000, Burst: 10})}, Whole: []Limiter{whole},
				MaxQueue: 30, Newest: seed%2 == 0, MaxWait: 50 * time.Millisecond,
			})
			var admitted, refused, cancelled, other, inside atomic.Int64
			var wg sync.WaitGroup
			const goroutines, rounds = 40, 100
			for g := range goroutines {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(seed, uint64(g)))
					for range rounds {
						key, n := fmt.Sprint(r.IntN(3)), 1+r.IntN(3)
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(60))*time.Millisecond)
						var err error
						switch r.IntN(4) {
						case 0:
							if err = s.Allow(key, n); err == nil {
								s.Release(key, n)
							}
						case 1:
							p := s.Reserve(key, n)
							select {
							case <-p.Done():
							case <-ctx.Done():
								p.Cancel()
								<-p.Done()
							}
							if err = p.Err(); err == nil {
								p.Cancel()
							}
						default:
							_, err = Do(ctx, s, key, n, func(ctx context.Context) (int, error) {
								if k := inside.Add(int64(n)); k > 6 {
									t.Errorf("%d permits are held, of 6", k)
								}
								defer inside.Add(-int64(n))
								time.Sleep(time.Duration(r.IntN(3)) * time.Millisecond)
								return 0, nil
							})
						}
						cancel()
						switch {
						case err == nil:
							admitted.Add(1)
						case errors.Is(err, ErrLimited):
							refused.Add(1)
						case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
							cancelled.Add(1)
						default:
							other.Add(1)
							t.Errorf("error %v", err)
						}
						if r.IntN(10) == 0 {
							s.Update(func(now time.Time) {})
							time.Sleep(time.Duration(r.IntN(5)) * time.Millisecond)
						}
					}
				})
			}
			wg.Wait()
			if sum := admitted.Load() + refused.Load() + cancelled.Load() + other.Load(); sum != goroutines*rounds {
				t.Errorf("%d answers to %d calls", sum, goroutines*rounds)
			}
			if admitted.Load() < 500 || refused.Load() < 100 || cancelled.Load() < 30 {
				t.Errorf("the test tests little: %d admitted, %d refused, %d cancelled", admitted.Load(), refused.Load(), cancelled.Load())
			}
			for _, a := range []*audited{each, whole} {
				if a.wrong.Load() != 0 || a.held.Load() != 0 || len(a.Concurrency.held) != 0 {
					t.Errorf("%d takes without a Wait of 0; %d permits are held in the end: %v", a.wrong.Load(), a.held.Load(), a.Concurrency.held)
				}
			}
		})
	}
}

// TestSharedCancelRace cancels at the moment at which a call is admitted. Of a
// permit that goes round it must never be lost, nor doubled.
func TestSharedCancelRace(t *testing.T) {
	c, err := NewConcurrency(ConcurrencyConfig{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	s := newShared(t, SharedConfig{Limiters: []Limiter{c}, MaxQueue: 10, MaxWait: -1})
	for i := range 100_000 {
		if err := s.Allow("", 1); err != nil {
			t.Fatalf("round %d: the permit is lost: %v", i, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Wait(ctx, "", 1) }()
		if i%2 == 0 {
			cancel()
			s.Release("", 1)
		} else {
			go cancel()
			s.Release("", 1)
		}
		if err := <-done; err == nil {
			s.Release("", 1)
		} else if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		cancel()
	}
}
