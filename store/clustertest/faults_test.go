package clustertest

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/faultproxy"
	"github.com/flyball-go/flyball/internal/judge"
	"github.com/flyball-go/flyball/store"
)

const (
	per     = 2 * time.Second
	quota   = 100
	transit = 200 * time.Millisecond // how late calls may be on a machine that is busy
)

func window() *store.Limit {
	return &store.Limit{Kind: store.Window, Quota: quota, Per: per, Transit: transit}
}

func allowed(l *store.Limit) judge.Limit {
	return judge.Limit{Quota: l.Quota, Per: l.Per, Aligned: l.Kind == store.Window}
}

// scenario is a fault, and what has to be true all the same. Its rounds begin when all
// replicas have made a call.
type scenario struct {
	name     string
	template replica
	tune     func(i int, r *replica)
	vendor   judge.Config
	rounds   int // 0: 1
	round    func(c *cluster) error
	after    func(c *cluster) error // when the rounds are over
	last     func(c *cluster) error // when the replicas have ended
	controls []control
	control  bool
	only     string        // one kind of store; "": redis and mysql
	timeout  time.Duration // of a Cluster's nodes
}

// errUntested is of a run in which what its scenario is about did not come about.
var errUntested = errors.New("nothing was tested")

// control is a way to break what a scenario is about, that the judge has to catch. There
// are rounds until it does, as a slow machine may do too little in one of them.
type control struct {
	store  string            // breaks a promise, as breakIt does,
	breaks func(s *scenario) // or something else does
	name   string            // then
}

func with(stores ...string) (cs []control) {
	for _, s := range stores {
		cs = append(cs, control{store: s, name: s})
	}
	return cs
}

// scenarios are made anew for each run, since some count.
func scenarios() []scenario {
	limited := replica{Limit: window(), Every: 32 * time.Millisecond} // 125/s of four, for 50/s
	busy := limited
	busy.Every = 8 * time.Millisecond // so that what is granted beside the quota is used beside all of it
	uses := func(part float64) func(c *cluster) error {
		return func(c *cluster) error { return c.uses(part) }
	}
	return []scenario{
		{name: "no fault", template: limited, round: uses(0.75), controls: with(leaks)}, // of what 9/10 of a window may be used for
		stopped(),
		{name: "killed", template: limited, controls: with(alone), rounds: 6, round: func(c *cluster) error {
			time.Sleep(rand.N(per / 2))
			c.replace(c.born % len(c.members))
			return c.allCall()
		}},
		{name: "swallowed answers", template: busy, controls: with(onRetry), rounds: 24, round: func(c *cluster) error {
			m := c.next()
			before := m.proxy.Swallowed()
			m.proxy.Set(faultproxy.Fault{DropAnswers: true})
			if err := await("an answer to "+m.name+" is swallowed", func() bool { return m.proxy.Swallowed() > before }); err != nil {
				return err
			}
			time.Sleep(rand.N(200 * time.Millisecond))
			m.proxy.Set(faultproxy.Fault{})
			m.proxy.Cut()
			time.Sleep(rand.N(100 * time.Millisecond))
			return nil
		}, after: (*cluster).allCall},
		{name: "delays, cuts and resets", template: limited, controls: with(alone), rounds: 20, round: func(c *cluster) error {
			m := c.members[rand.IntN(len(c.members))]
			m.proxy.Set(faultproxy.Fault{Delay: rand.N(50 * time.Millisecond), Jitter: 20 * time.Millisecond, CutAfter: rand.Int64N(20_000)})
			time.Sleep(rand.N(300 * time.Millisecond))
			if rand.IntN(2) == 0 {
				m.proxy.Reset()
			}
			m.proxy.Set(faultproxy.Fault{DropRequests: rand.IntN(4) == 0})
			time.Sleep(rand.N(300 * time.Millisecond))
			m.proxy.Cut()
			m.proxy.Set(faultproxy.Fault{})
			return nil
		}, after: (*cluster).allCall},
		{name: restarts, template: steady(), rounds: 2, round: lost((*server).restart, false), after: (*cluster).goesOn,
			controls: []control{{name: "said to be unused", breaks: func(s *scenario) { s.round = lost((*server).restart, true) }}}},
		{name: "emptied store", only: "redis", template: steady(), rounds: 2, round: lost((*server).flush, false), after: (*cluster).goesOn,
			controls: []control{{name: "said to be unused", breaks: func(s *scenario) { s.round = lost((*server).flush, true) }}}},
		{name: "forgotten scripts", only: "redis", template: limited, controls: with(alone), round: func(c *cluster) error {
			ctx, stop := context.WithCancel(c.t.Context())
			var forgetting sync.WaitGroup
			forgetting.Go(func() {
				var took time.Duration // which says how slow the machine is
				for ; ctx.Err() == nil; time.Sleep(10*time.Millisecond + 10*took) {
					begin := time.Now()
					if _, err := c.server.redis.Do("SCRIPT", "FLUSH"); err != nil {
						c.t.Error(err)
						return
					}
					took = time.Since(begin)
				}
			})
			defer forgetting.Wait()
			defer stop()
			return c.uses(0.6)
		}},
		limitsThatChange(),
		{name: "clocks that go astray", template: limited, controls: with(mine), tune: func(i int, r *replica) { r.Astray = i },
			rounds: 2, round: func(c *cluster) error {
				time.Sleep(per)
				return nil
			}, after: uses(0.5)},
		{name: "cancelled", template: replica{Limit: window(), Every: 16 * time.Millisecond, Cancel: true}, controls: with(leaks), round: uses(0.75)},
		slotsOfTheKilled(),
		cooldown(),
		slotThatMoves(),
		primaryThatDies(),
	}
}

const restarts = "restarted server"

// verdict is what is wrong with a run of a scenario.
func (s scenario) verdict(t *testing.T, srv *server) error {
	if s.astray() && (runtime.GOOS != "linux" || runtime.GOARCH != "amd64") {
		t.Skip("a process has a wall clock of its own on Linux on amd64 alone")
	}
	n := 4
	if s.template.Slots > 0 {
		n = 3
	}
	before := late.sum()
	c := begin(t, srv, n, s.template, s.tune, s.vendor)
	c.control = s.control
	err := s.run(c)
	h, ended := c.end()
	t.Logf("%d calls, %d of them late, %+v, timers late by %v", h.Arrived("", 0, 1<<62), h.Late(transit), c.vendor.Tally(), late.sum()-before)
	errs := []error{err, ended, h.Ledger(c.alive()...), s.judge(h)}
	if s.last != nil {
		errs = append(errs, s.last(c))
	}
	return errors.Join(errs...)
}

// judge is what is wrong with a history, which need not be over.
func (s scenario) judge(h *judge.History) error {
	errs := []error{h.Pauses(50 * time.Millisecond)}
	if s.template.Limit != nil {
		l := allowed(s.template.Limit)
		errs = append(errs, h.Windows(l, transit), h.Grants(l))
	}
	return errors.Join(errs...)
}

// run has c go through the rounds.
func (s scenario) run(c *cluster) error {
	c.tell("submit 1") // who submits only what it is told to, too
	if err := c.allCall(); err != nil {
		return err
	}
	if c.control {
		return s.untilCaught(c)
	}
	for range max(1, s.rounds) {
		if err := s.round(c); err != nil {
			return err
		}
	}
	if s.after != nil {
		return s.after(c)
	}
	return nil
}

// untilCaught has rounds until there is something wrong.
func (s scenario) untilCaught(c *cluster) error {
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if err := s.round(c); err != nil {
			return err
		}
		if s.judge(c.history()) != nil || s.last != nil && s.last(c) != nil {
			break
		}
	}
	return nil
}

// server starts what s needs.
func (s scenario) server(t *testing.T, kind string) *server {
	t.Helper()
	if s.name == restarts {
		return ownServer(t, kind)
	}
	return startServer(t, kind, s.timeout)
}

// astray reports whether s needs goAstray.
func (s scenario) astray() bool {
	r := s.template
	if s.tune != nil {
		s.tune(1, &r)
	}
	return r.Astray != 0
}

func TestFaults(t *testing.T) {
	for _, kind := range []string{"redis", "mysql", "cluster"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			for i, s := range scenarios() {
				if s.only == "" && kind == "cluster" || s.only != "" && s.only != kind {
					continue
				}
				t.Run(s.name, func(t *testing.T) {
					t.Parallel()
					if err := s.verdict(t, s.server(t, kind)); err != nil {
						t.Error(err)
					}
				})
				if kind == "mysql" {
					continue // the controls are of the judge, and not of the server
				}
				for j, c := range s.controls {
					t.Run(s.name+", control, "+c.name, func(t *testing.T) {
						t.Parallel()
						s := scenarios()[i] // a new one, since some count
						c := s.controls[j]
						s.control = true
						if s.template.Broken = c.store; c.breaks != nil {
							c.breaks(&s)
						}
						err := s.verdict(t, s.server(t, kind))
						if err == nil || errors.Is(err, errUntested) {
							t.Fatalf("what is broken is not caught: %v", err)
						}
						t.Logf("caught: %s", short(err))
					})
				}
			}
		})
	}
}
