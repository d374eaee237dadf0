package clustertest

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/flyball-go/flyball/internal/faultproxy"
	"github.com/flyball-go/flyball/internal/judge"
	"github.com/flyball-go/flyball/store"
)

// within waits until it is a time of a window between two parts of it.
func within(from, to float64) {
	for {
		part := float64(clock()%int64(per)) / float64(per)
		if part >= from && part < to {
			return
		}
		if part = from - part; part < 0 {
			part++
		}
		time.Sleep(time.Duration(part * float64(per)))
	}
}

// stop stops a replica, and returns when it is: a signal takes its time.
func (m *member) stop() {
	m.signal(syscall.SIGSTOP)
	for range 1000 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.cmd.Process.Pid))
		if err == nil && strings.Contains(string(stat), ") T ") {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// stopWithPermits stops replicas at a time at which each has some permits that it has not
// used; or one has one, if they last for no longer than a step of a window.
func (c *cluster) stopWithPermits(ms []*member) error {
	long := c.template.Limit.Kind == store.Window
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if long {
			within(0.1, 0.5)
		}
		least, most := int64(1<<62), int64(0)
		for _, m := range ms {
			m.stop()
			n := c.unused(m.name)
			least, most = min(least, n), max(most, n)
		}
		if least >= 3+1 || most >= 1+1 && !long { // one may be on its way to a call
			return nil
		}
		for _, m := range ms {
			m.signal(syscall.SIGCONT)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("%w: replicas are never stopped with permits", errUntested)
}

// unused is how many permits name has, as far as is written down, or some more.
func (c *cluster) unused(name string) (n int64) {
	if l := c.template.Limit; l.Kind == store.Window {
		return c.written(name).Granted(name, clock(), l.Per)
	}
	now, from := clock(), int64(1<<62)
	rs := c.written(name).Records
	for _, r := range rs {
		if r.Kind == judge.Grant && r.Until > now+int64(c.template.Limit.Fill().Transit) {
			n += r.Quota
			from = min(from, r.Sent)
		}
	}
	for _, r := range rs {
		if r.Kind == judge.Begin && r.Taken >= from {
			n--
		}
	}
	return n
}

// awaitUsed waits until the vendor has seen more than n calls: in a later aligned window,
// well before its end; or within a Per that began later.
func (c *cluster) awaitUsed(l *store.Limit, n int64) error {
	begin, per := clock(), int64(l.Per)
	return await(fmt.Sprintf("the others make %d calls in %v", n, l.Per), func() bool {
		now := clock()
		from := now - per
		if l.Kind == store.Window {
			if from = now / per * per; now > from+per*3/4 {
				return false
			}
		}
		return from > begin && c.written("vendor").Arrived("", from, now) > n
	})
}

// goOnAlone has those who were stopped go on, and not reach the store for a while: what
// they begin meanwhile they begin with what they had.
func goOnAlone(ms ...*member) {
	for _, m := range ms {
		m.proxy.Set(faultproxy.Fault{DropRequests: true})
	}
	for _, m := range ms {
		m.signal(syscall.SIGCONT)
	}
	time.Sleep(300 * time.Millisecond)
	for _, m := range ms {
		m.proxy.Set(faultproxy.Fault{})
		m.proxy.Cut()
	}
}

// usesNothingOld returns an error when m has begun a call since at with none of what it
// was granted since. A grant is written down before it may be used.
func (c *cluster) usesNothingOld(m *member, at int64) error {
	var rs []judge.Record
	for _, r := range c.written(m.name).Records {
		if r.Kind == judge.Begin {
			r.At, r.Quota = r.Taken, -1
		}
		if r.At >= at && (r.Kind == judge.Begin || r.Kind == judge.Grant) {
			rs = append(rs, r)
		}
	}
	slices.SortStableFunc(rs, func(a, b judge.Record) int { return cmp.Compare(a.At, b.At) })
	have := int64(0)
	for _, r := range rs {
		if have += r.Quota; have < 0 {
			return fmt.Errorf("%s, which was stopped, has its permit for call %d from before that", m.name, r.ID)
		}
	}
	return nil
}

// stopped has two replicas stopped when they have permits at hand, and go on when those
// have ended, and the others have used what there is of a later window: all but a few of
// what is there at once, or a good part of what is spread. If ttl is not 0, the store has
// forgotten them by then.
func stopped(l *store.Limit, kinds []store.Kind, ttl time.Duration) scenario {
	l.Quota *= 2 // so that there is something at hand of it
	slow, rounds, used := 40*time.Millisecond, 2, l.Quota-2*3
	if l.Kind != store.Window { // of which no more is at hand than for a step
		slow, rounds, used = 20*time.Millisecond, 1, l.Quota/4
	}
	name := "stopped between grant and use"
	if ttl > 0 {
		name, rounds = "stopped until they are forgotten", 1
	}
	return scenario{
		name: name, kinds: kinds, controls: with(forever),
		template: replica{job: job{Limit: l, Every: 4 * time.Millisecond}, TTL: ttl},
		tune: func(i int, r *replica) {
			if i <= 2 {
				r.Every = slow
			}
		},
		rounds: rounds,
		round: func(c *cluster) error {
			ms := c.members[:2]
			err := c.stopWithPermits(ms)
			time.Sleep(2 * ttl)
			if err == nil {
				err = c.awaitUsed(l, used)
			}
			at := clock()
			goOnAlone(ms...)
			if err != nil {
				return err
			}
			time.Sleep(per / 2)
			if err := c.allCall(); err != nil {
				return err
			}
			return errors.Join(c.usesNothingOld(ms[0], at), c.usesNothingOld(ms[1], at))
		},
	}
}

// steady is a job of which four replicas do not use all of the quota, so that none of them
// has been told to come again with the next window.
func steady(l *store.Limit) job { return job{Limit: l, Every: 160 * time.Millisecond} }

// lose has something be lost at a time when a window is half used, and much more is
// wanted of it afterwards: whatever is forgotten is granted again.
func (c *cluster) lose(lose func() error) error {
	if err := c.allDone(); err != nil {
		return err
	}
	within(0.05, 0.1)
	c.tell("submit 17")
	time.Sleep(per / 5)
	if err := lose(); err != nil {
		return err
	}
	c.tell("submit 22")
	return c.allDone()
}

// lost has what the store knows be lost, as it may be by how. A careless operator says
// that nothing was used, before anybody can ask.
func lost(how func(*server), careless bool) func(c *cluster) error {
	return func(c *cluster) error {
		return c.lose(func() error {
			if !careless {
				how(c.server)
				return nil
			}
			c.fault(faultproxy.Fault{Refuse: true, DropRequests: true})
			c.cut()
			time.Sleep(20 * time.Millisecond) // what was on its way has arrived
			how(c.server)
			err := c.server.unused()
			c.fault(faultproxy.Fault{})
			c.cut()
			return err
		})
	}
}

func (s *server) flush() { s.redis.Must("FLUSHALL") }

// cut closes all connections to the store.
func (c *cluster) cut() {
	for _, m := range c.members {
		m.proxy.Cut()
	}
}
