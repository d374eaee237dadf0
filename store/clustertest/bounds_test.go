package clustertest

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/flyball-go/flyball/internal/faultproxy"
	"github.com/flyball-go/flyball/internal/judge"
)

// late is how late timers of this process are: the machine's part of what takes too
// long. What is promised within a time is asked of a machine that is as late as that.
var late lateness

type lateness struct {
	mu    sync.Mutex
	total time.Duration // guarded by mu
}

// begin measures from now on, until what it returns is called.
func (l *lateness) begin() (end func()) {
	const tick = 5 * time.Millisecond
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			from := time.Now()
			select {
			case <-time.After(tick):
			case <-stop:
				return
			}
			if by := time.Since(from) - tick; by > tick { // else it is a timer's usual
				l.mu.Lock()
				l.total += by
				l.mu.Unlock()
			}
		}
	}()
	return func() {
		close(stop)
		<-done
	}
}

// sum is by how much all timers were late, from begin on.
func (l *lateness) sum() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

// tries is how often what has to happen in time may be asked again of a machine that
// stalls. Who is always too late is caught at the last of them.
const tries = 5

const (
	slots  = 6
	hold   = 100 * time.Millisecond // how long a call has its slot, at the vendor
	prompt = 100 * time.Millisecond // how late a call may be that has one, and counts as it arrives
)

// slotsOfTheKilled has one of three replicas killed that hold all slots.
func slotsOfTheKilled() scenario {
	const ttl = 3 * time.Second // a replica may stall for half of it
	return scenario{
		name:     "slots of the killed",
		controls: append(with(slotsForMe), control{name: "kept for a minute", breaks: func(s *scenario) { s.template.TTL = time.Minute }}),
		template: replica{job: job{Slots: slots, Every: 5 * time.Millisecond}, TTL: ttl},
		round: func(c *cluster) error {
			took, err := c.slotsBack(c.vendor, 0, ttl)
			if took > 0 && err == nil {
				c.t.Logf("all slots are used %v after one replica was killed", took)
			}
			return err
		},
	}
}

// slotsOfTheStopped has one of three replicas stopped that hold all slots, until the others
// use them.
func slotsOfTheStopped() scenario {
	return scenario{
		name: "slots of the stopped", controls: with(forever),
		template: replica{job: job{Slots: slots, Every: 5 * time.Millisecond}, TTL: 3 * time.Second},
		round: func(c *cluster) error {
			m := c.members[0]
			if err := c.stopWithSlots(c.vendor, m); err != nil {
				return err
			}
			from := clock()
			err := await("the others make six calls at once", func() bool { return c.most(c.vendor, from) >= slots })
			goOnAlone(m)
			if err != nil {
				return err
			}
			return c.calls(m, clock())
		},
	}
}

// stopWithSlots stops m at a time at which it uses some slots of v, when all have been
// used: a new store believes first what nodes say they hold.
func (c *cluster) stopWithSlots(v *vendor, m *member) error {
	from := clock()
	return await("replicas make six calls at once, "+m.name+" among them", func() bool {
		if c.most(v, from) < slots {
			return false
		}
		m.stop()
		if c.underWay(v, m) > 0 {
			return true
		}
		m.signal(syscall.SIGCONT)
		return false
	})
}

// underWay is how many calls to v m has not finished.
func (c *cluster) underWay(v *vendor, m *member) (n int) {
	for _, r := range c.writtenOf(v.job, m.name).Records {
		switch r.Kind {
		case judge.Begin:
			n++
		case judge.Finish:
			n--
		}
	}
	return n
}

// slotsBack kills the i-th replica, and returns how long it took the others to use all
// slots of v, if they did in time.
func (c *cluster) slotsBack(v *vendor, i int, ttl time.Duration) (took time.Duration, err error) {
	for range tries {
		if c.members[i].dead {
			c.members[i].proxy.Close()
			c.members[i] = c.birth()
		}
		if err := c.stopWithSlots(v, c.members[i]); err != nil {
			return 0, err
		}
		if c.control && v.Tally().Crowded > 0 { // which is worse, and for the judge
			c.members[i].signal(syscall.SIGCONT)
			return 0, nil
		}
		before := late.sum()
		c.kill(c.members[i])
		killed := clock()
		if c.control {
			time.Sleep(2 * (ttl + time.Second))
		} else if err := await("the others make six calls at once", func() bool { return c.most(v, killed) >= slots }); err != nil {
			return 0, err
		}
		most := c.most(v, killed)
		took = time.Duration(clock() - killed)
		if most < slots {
			return took, fmt.Errorf("%d calls at once %v after one replica was killed, want %d", most, took, slots)
		}
		if took <= ttl+time.Second+late.sum()-before {
			return took, nil
		}
	}
	return took, fmt.Errorf("all slots are used %v after one replica was killed, want %v", took, ttl+time.Second)
}

// most is how many calls those who live have had under way at once, that began from
// from on, as far as is written down.
func (c *cluster) most(v *vendor, from int64) (most int) {
	var rs []judge.Record
	for _, m := range c.members {
		if m.dead {
			continue
		}
		began := make(map[int64]bool)
		for _, r := range c.writtenOf(v.job, m.name).Records {
			if r.Kind == judge.Begin && r.At >= from {
				began[r.ID] = true
				rs = append(rs, r)
			} else if r.Kind == judge.Finish && began[r.ID] {
				rs = append(rs, r)
			}
		}
	}
	slices.SortStableFunc(rs, func(a, b judge.Record) int { return cmp.Compare(a.At, b.At) })
	now := 0
	for _, r := range rs {
		if r.Kind == judge.Begin {
			now++
		} else {
			now--
		}
		most = max(most, now)
	}
	return most
}

// cooldown has the vendor ask one replica for a pause, of which no other gets a hint: from
// its begin on, or from when there have been some. They have the default configuration,
// which asks once a second.
func cooldown(later bool) scenario {
	const within, pause = 1100 * time.Millisecond, 6 * time.Second
	name, only := "a pause without hints", ""
	if later { // where they have connections of their own
		name, only = "a pause of which the hints are lost", "redis"
	}
	return scenario{
		name: name, only: only,
		controls: append(with(unheard), control{name: "asked for too rarely", breaks: func(s *scenario) { s.template.Interval = ttl / 3 }}),
		template: replica{job: job{Limit: window()}, Defaults: true, Deaf: !later},
		round: func(c *cluster) error {
			if later {
				c.fault(faultproxy.Fault{Lose: hints})
			}
			var took time.Duration
			tries := tries
			if c.control {
				tries = 1 // who is lucky has another round
			}
			for range tries {
				began, before := clock(), late.sum()
				c.vendor.Pause(pause)
				io.WriteString(c.members[0].stdin, "submit 1\n")
				first, err := c.heard(c.members[0], began)
				if err != nil {
					return err
				}
				took = 0
				for _, m := range c.members[1:] {
					r, err := c.heard(m, began)
					if err != nil {
						return err
					}
					took = max(took, time.Duration(r.At-first.At))
				}
				allow := within + late.sum() - before
				c.tell("submit 5")
				time.Sleep(500 * time.Millisecond)
				if n := c.written("vendor").Arrived("", began, first.Until-int64(50*time.Millisecond)); n != 1 {
					return fmt.Errorf("%d calls arrived in the pause, want the one that was refused", n)
				}
				if took <= allow {
					c.t.Logf("all knew of the pause %v after the first", took)
					return nil
				}
				if err := c.allDone(); err != nil { // what waits for the pause's end
					return err
				}
			}
			return fmt.Errorf("a replica hears of the pause %v after the first, want at most %v", took, within)
		},
	}
}

// heard waits until m knows of a pause, from from on. What is broken has three seconds.
func (c *cluster) heard(m *member, from int64) (heard judge.Record, err error) {
	end := time.Now().Add(3 * time.Second)
	err = await(m.name+" knows of the pause", func() bool {
		for _, r := range c.written(m.name).Records {
			if r.Kind == judge.Cool && r.At >= from {
				heard = r
				return true
			}
		}
		return c.control && time.Now().After(end)
	})
	if err == nil && heard.At == 0 {
		err = fmt.Errorf("%s never hears of the pause", m.name)
	}
	return heard, err
}
