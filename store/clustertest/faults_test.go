package clustertest

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"syscall"
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
	slack    int64 // calls that a stop may catch between their permit and what is written of them
	during   func(c *cluster) error
	after    func(c *cluster, h *judge.History) error
	broken   string            // the store that has to be caught,
	breaks   func(s *scenario) // or what else makes it go wrong
	only     string            // one kind of store
}

// scenarios are made anew for each run, since some count.
func scenarios() []scenario {
	limited := replica{Limit: window(), Every: 16 * time.Millisecond} // 250/s of four, for 200/s
	return []scenario{
		{name: "no fault", template: limited, during: func(c *cluster) error {
			time.Sleep(span)
			return nil
		}, after: used(0.75), broken: leaks}, // of what 9/10 of a window may be used for
		stopped(),
		{name: "killed", template: limited, broken: alone, during: func(c *cluster) error {
			for i := range 6 {
				time.Sleep(span / 6)
				c.replace(i % len(c.members))
			}
			return nil
		}},
		{name: "swallowed answers", template: limited, broken: onRetry, during: func(c *cluster) error {
			for end := time.Now().Add(span); time.Now().Before(end); {
				m := c.members[rand.IntN(len(c.members))]
				m.proxy.Set(faultproxy.Fault{DropAnswers: true})
				time.Sleep(rand.N(300 * time.Millisecond))
				m.proxy.Set(faultproxy.Fault{})
				m.proxy.Cut()
				time.Sleep(rand.N(200 * time.Millisecond))
			}
			for _, m := range c.members {
				if m.proxy.Swallowed() == 0 {
					return fmt.Errorf("no answer to %s was swallowed: nothing was tested", m.name)
				}
			}
			return nil
		}},
		{name: "delays, cuts and resets", template: limited, broken: alone, during: func(c *cluster) error {
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
		{name: "restarted server", template: limited, broken: alone, during: func(c *cluster) error {
			for range 3 {
				time.Sleep(span/4 + rand.N(per))
				c.server.restart()
			}
			time.Sleep(per)
			return nil
		}},
		{name: "emptied store", only: "redis", template: limited, during: emptied(false),
			breaks: func(s *scenario) { s.during = emptied(true) }},
		{name: "forgotten scripts", only: "redis", template: limited, broken: alone, during: func(c *cluster) error {
			for end := time.Now().Add(span); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				c.server.redis.Must("SCRIPT", "FLUSH")
			}
			return nil
		}, after: used(0.6)},
		{name: "limits that change", template: limited, broken: raises, during: func(c *cluster) error {
			for version := uint64(2); version < 2+uint64(span/(300*time.Millisecond)); version++ {
				q := int64(quota / 2)
				if version%2 == 1 {
					// A higher one counts from when it is said, at the earliest; a lower
					// one when all have heard.
					q = quota
					c.note(judge.Record{Kind: judge.Change, Quota: q})
				}
				c.tell(fmt.Sprintf("limit %d %d", q, version))
				time.Sleep(300 * time.Millisecond)
				if q < quota {
					c.note(judge.Record{Kind: judge.Change, Quota: q})
				}
			}
			return nil
		}},
		{name: "cancelled", template: replica{Limit: window(), Every: 8 * time.Millisecond, Cancel: true}, broken: leaks, during: func(c *cluster) error {
			time.Sleep(span)
			return nil
		}, after: used(0.75)},
		slotsOfTheKilled(),
		cooldown(),
	}
}

// stopped has two replicas stopped when they have permits at hand, and go on when the
// others have used all of a later window.
func stopped() scenario {
	return scenario{
		name: "stopped between grant and use", broken: forever, slack: 4,
		template: replica{Limit: window(), Every: 3 * time.Millisecond},
		tune: func(i int, r *replica) {
			if i <= 2 {
				r.Every = 20 * time.Millisecond
			}
		},
		during: func(c *cluster) error {
			time.Sleep(per)
			for range 2 {
				time.Sleep(per - time.Duration(time.Now().UnixNano())%per + per/8 + rand.N(per/8))
				for _, m := range c.members[:2] {
					m.signal(syscall.SIGSTOP)
				}
				time.Sleep(per + per/4)
				for _, m := range c.members[:2] {
					m.signal(syscall.SIGCONT)
				}
			}
			return nil
		},
	}
}

// emptied loses all that the store knows, at times. A careless operator says that
// nothing was used, each time.
func emptied(careless bool) func(c *cluster) error {
	return func(c *cluster) error {
		for range 4 {
			// In the middle of a window: most of it has been used, and as much could be.
			time.Sleep(per + per - time.Duration(time.Now().UnixNano())%per + per/3 + rand.N(per/4))
			c.server.redis.Must("FLUSHALL")
			for range 10 { // a replica may have come first
				if careless {
					c.server.unused()
					c.server.redis.Must("FLUSHALL")
					c.server.unused()
				}
			}
		}
		return nil
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
			return errors.New("no whole window was seen")
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
		name: "slots of the killed", broken: slotsForMe,
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
		name: "a pause without hints", broken: unheard,
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
		l.Quota += s.slack
		errs = append(errs, h.Windows(l, transit))
	}
	if s.after != nil {
		errs = append(errs, s.after(c, h))
	}
	t.Logf("%d calls, %d of them late, %+v", h.Arrived("", 0, 1<<62), h.Late(transit), c.vendor.Tally())
	return errors.Join(errs...)
}

func TestFaults(t *testing.T) {
	for _, kind := range []string{"redis", "mysql"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			for i, s := range scenarios() {
				if s.only != "" && s.only != kind {
					continue
				}
				t.Run(s.name, func(t *testing.T) {
					t.Parallel()
					srv := startServer(t, kind)
					if err := s.verdict(t, srv); err != nil {
						t.Error(err)
					}
				})
				if kind != "redis" {
					continue // the controls are of the judge, and not of the server
				}
				t.Run(s.name+", control", func(t *testing.T) {
					t.Parallel()
					for range 8 { // some need luck to go wrong
						s := scenarios()[i]
						if s.template.Broken = s.broken; s.breaks != nil {
							s.breaks(&s)
						}
						if err := s.verdict(t, startServer(t, kind)); err != nil {
							t.Logf("caught: %s", short(err))
							return
						}
					}
					t.Errorf("a store that is broken (%q) passes", s.broken)
				})
			}
		})
	}
}
