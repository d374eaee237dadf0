package clustertest

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/flyball-go/flyball/internal/faultproxy"
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

// stopWithPermits stops replicas at a time at which each has permits that it has not
// used.
func (c *cluster) stopWithPermits(ms []*member) error {
	for end := time.Now().Add(patience); time.Now().Before(end); {
		within(0.1, 0.5)
		least := int64(1 << 62)
		for _, m := range ms {
			m.stop()
			least = min(least, c.written(m.name).Granted(m.name, clock(), per))
		}
		if least >= 3+1 { // one may be on its way to a call
			return nil
		}
		for _, m := range ms {
			m.signal(syscall.SIGCONT)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("%w: replicas are never stopped with permits", errUntested)
}

// awaitFull waits until the vendor has seen all calls of a later window but fewer than
// some, well before its end.
func (c *cluster) awaitFull(quota, some int64) error {
	later := clock()/int64(per) + 1
	return await(fmt.Sprintf("the others use all but %d of a window", some), func() bool {
		now := clock()
		window := now / int64(per)
		return window >= later && now < window*int64(per)+int64(per)*3/4 &&
			c.written("vendor").Arrived("", window*int64(per), now) > quota-some
	})
}

// stopped has two replicas stopped when they have permits at hand, and go on when the
// others have used all of a later window.
func stopped() scenario {
	l := window()
	l.Quota *= 2 // so that there is something at hand of it
	return scenario{
		name: "stopped between grant and use", controls: with(forever),
		template: replica{Limit: l, Every: 4 * time.Millisecond},
		tune: func(i int, r *replica) {
			if i <= 2 {
				r.Every = 40 * time.Millisecond
			}
		},
		rounds: 2,
		round: func(c *cluster) error {
			err := c.stopWithPermits(c.members[:2])
			if err == nil {
				err = c.awaitFull(l.Quota, 2*3)
			}
			for _, m := range c.members[:2] {
				m.signal(syscall.SIGCONT)
			}
			if err != nil {
				return err
			}
			time.Sleep(per / 2)
			return c.allCall()
		},
	}
}

// steady is replicas that do not use all of the quota, so that none of them has been told
// to come again with the next window.
func steady() replica { return replica{Limit: window(), Every: 160 * time.Millisecond} }

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
