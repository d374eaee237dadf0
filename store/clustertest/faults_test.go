package clustertest

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/faultproxy"
	"github.com/flyball-go/flyball/internal/judge"
	"github.com/flyball-go/flyball/store"
)

const (
	per     = 2 * time.Second
	quota   = 400
	transit = 200 * time.Millisecond // how late calls may be on a machine that is busy
	span    = 4 * per
)

func window() *store.Limit {
	return &store.Limit{Kind: store.Window, Quota: quota, Per: per, Transit: transit}
}

func allowed(l *store.Limit) judge.Limit {
	return judge.Limit{Quota: l.Quota, Per: l.Per, Aligned: l.Kind == store.Window}
}

// scenario is a fault, and what has to be true all the same.
type scenario struct {
	name     string
	template replica
	tune     func(i int, r *replica)
	vendor   judge.Config
	during   func(c *cluster) error
	after    func(c *cluster, h *judge.History) error
	controls []control
	only     string // one kind of store; "": redis and mysql
}

// errUntested is of a run in which what its scenario is about did not come about.
var errUntested = errors.New("nothing was tested")

// control is a way to break what a scenario is about, that the judge has to catch: at
// the first try, so nothing of it may need luck.
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
	limited := replica{Limit: window(), Every: 16 * time.Millisecond} // 250/s of four, for 200/s
	busy := limited
	busy.Every = 8 * time.Millisecond // so that what is granted beside the quota is used beside all of it
	return []scenario{
		{name: "no fault", template: limited, during: func(c *cluster) error {
			time.Sleep(span)
			return nil
		}, after: used(0.75), controls: with(leaks)}, // of what 9/10 of a window may be used for
		stopped(),
		{name: "killed", template: limited, controls: with(alone), during: func(c *cluster) error {
			for i := range 6 {
				time.Sleep(span / 6)
				c.replace(i % len(c.members))
			}
			return nil
		}},
		{name: "swallowed answers", template: busy, controls: with(onRetry), during: func(c *cluster) error {
			for i, end := 0, time.Now().Add(span); time.Now().Before(end); i++ {
				m := c.members[i%len(c.members)]
				before := m.proxy.Swallowed()
				m.proxy.Set(faultproxy.Fault{DropAnswers: true})
				for late := time.Now().Add(per); m.proxy.Swallowed() == before; time.Sleep(time.Millisecond) {
					if time.Now().After(late) {
						return fmt.Errorf("%w: no answer to %s is swallowed", errUntested, m.name)
					}
				}
				time.Sleep(rand.N(200 * time.Millisecond))
				m.proxy.Set(faultproxy.Fault{})
				m.proxy.Cut()
				time.Sleep(rand.N(100 * time.Millisecond))
			}
			return nil
		}},
		{name: "delays, cuts and resets", template: limited, controls: with(alone), during: func(c *cluster) error {
			for end := time.Now().Add(span); time.Now().Before(end); {
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
			}
			return nil
		}},
		{name: "restarted server", template: steady(), during: lost((*server).restart, false), after: goesOn,
			controls: []control{{name: "said to be unused", breaks: func(s *scenario) { s.during = lost((*server).restart, true) }}}},
		{name: "emptied store", only: "redis", template: steady(), during: lost((*server).flush, false), after: goesOn,
			controls: []control{{name: "said to be unused", breaks: func(s *scenario) { s.during = lost((*server).flush, true) }}}},
		{name: "forgotten scripts", only: "redis", template: limited, controls: with(alone), during: func(c *cluster) error {
			for end := time.Now().Add(span); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				c.server.redis.Must("SCRIPT", "FLUSH")
			}
			return nil
		}, after: used(0.6)},
		limitsThatChange(),
		{name: "clocks that go astray", template: limited, controls: with(mine), tune: func(i int, r *replica) { r.Astray = i },
			during: func(c *cluster) error {
				time.Sleep(span + per)
				return nil
			}, after: used(0.5)},
		{name: "cancelled", template: replica{Limit: window(), Every: 8 * time.Millisecond, Cancel: true}, controls: with(leaks), during: func(c *cluster) error {
			time.Sleep(span)
			return nil
		}, after: used(0.75)},
		slotsOfTheKilled(),
		cooldown(),
		slotThatMoves(),
		primaryThatDies(),
	}
}

// used wants a part of the quota to be used, in the windows that are whole.
func used(part float64) func(c *cluster, h *judge.History) error {
	return func(c *cluster, h *judge.History) error {
		first, last := int64(1<<62), int64(0)
		for _, r := range h.Records {
			if r.Kind == judge.Arrive {
				first, last = min(first, r.At), max(last, r.At)
			}
		}
		from := (first/int64(per) + 2) * int64(per) // what is new may count as used for one
		to := last / int64(per) * int64(per)
		if to <= from {
			return fmt.Errorf("%w: no whole window was seen", errUntested)
		}
		got := float64(h.Arrived("", from, to)) / float64((to-from)/int64(per)*quota)
		if c.t.Logf("%.3f of the quota used in %d windows", got, (to-from)/int64(per)); got < part {
			return fmt.Errorf("%.3f of the quota used, want at least %v", got, part)
		}
		return nil
	}
}

// slotsOfTheKilled has one of three replicas killed that hold all slots.
func slotsOfTheKilled() scenario {
	const slots = 6
	return scenario{
		name:     "slots of the killed",
		controls: append(with(slotsForMe), control{name: "kept for a minute", breaks: func(s *scenario) { s.template.TTL = time.Minute }}),
		template: replica{Slots: slots, Every: 5 * time.Millisecond},
		vendor:   judge.Config{Slots: slots, Hold: 100 * time.Millisecond},
		during: func(c *cluster) error {
			time.Sleep(2*ttl + time.Second) // a new store believes first what nodes say they hold
			if most := c.vendor.Tally().Most; most != slots {
				return fmt.Errorf("%d calls at once by three replicas, want %d", most, slots)
			}
			c.kill(c.members[0])
			time.Sleep(ttl + time.Second)
			c.vendor.Recount()
			time.Sleep(time.Second)
			if most := c.vendor.Tally().Most; most != slots {
				return fmt.Errorf("%d calls at once, a TTL and a second after one replica was killed, want %d", most, slots)
			}
			return nil
		},
		after: func(c *cluster, h *judge.History) error {
			if n := c.vendor.Tally().Crowded; n > 0 {
				return fmt.Errorf("%d calls were more than %d at once", n, slots)
			}
			return nil
		},
	}
}

// cooldown has the vendor ask one replica for a pause, of which no other gets a hint.
func cooldown() scenario {
	const within = 1100 * time.Millisecond
	var began int64
	return scenario{
		name: "a pause without hints", controls: with(unheard),
		template: replica{Limit: window(), Deaf: true},
		during: func(c *cluster) error {
			time.Sleep(2 * per)
			began = time.Now().UnixNano()
			c.vendor.Pause(4 * time.Second)
			io.WriteString(c.members[0].stdin, "submit 1\n")
			time.Sleep(within + 100*time.Millisecond)
			c.tell("submit 5")
			time.Sleep(2 * time.Second)
			return nil
		},
		after: func(c *cluster, h *judge.History) error {
			if n := h.Arrived("", began, began+int64(3*time.Second)); n != 1 {
				return fmt.Errorf("%d calls arrived in the pause, want the one that was refused", n)
			}
			first := int64(1 << 62) // when the first knew
			for _, r := range h.Records {
				if r.Kind == judge.Cool && r.At >= began {
					first = min(first, r.At)
				}
			}
			longest, heard := h.Propagation(began)
			if longest -= time.Duration(first - began); heard != len(c.members) || longest > within {
				return fmt.Errorf("%d replicas heard of the pause, the last %v after the first; want all, within %v", heard, longest, within)
			}
			c.t.Logf("all knew of the pause %v after the first", longest)
			return nil
		},
	}
}

// verdict is what is wrong with a run of a scenario.
func (s scenario) verdict(t *testing.T, srv *server) error {
	if s.astray() && (runtime.GOOS != "linux" || runtime.GOARCH != "amd64") {
		t.Skip("a process has a wall clock of its own on Linux on amd64 alone")
	}
	n := 4
	if s.template.Slots > 0 {
		n = 3
	}
	c := begin(t, srv, n, s.template, s.tune, s.vendor)
	err := s.during(c)
	h, ended := c.end()
	if h == nil {
		return ended
	}
	errs := []error{err, ended, h.Pauses(50 * time.Millisecond), h.Ledger(c.alive()...)}
	if s.template.Limit != nil {
		l := allowed(s.template.Limit)
		errs = append(errs, h.Windows(l, transit), h.Grants(l))
	}
	if s.after != nil {
		errs = append(errs, s.after(c, h))
	}
	t.Logf("%d calls, %d of them late, %+v", h.Arrived("", 0, 1<<62), h.Late(transit), c.vendor.Tally())
	return errors.Join(errs...)
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
					if err := s.verdict(t, startServer(t, kind)); err != nil {
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
						if s.template.Broken = c.store; c.breaks != nil {
							c.breaks(&s)
						}
						err := s.verdict(t, startServer(t, kind))
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
