package clustertest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"github.com/flyball-go/flyball/internal/faultproxy"
)

// stretch has faults until one of ends.
func (s *soak) stretch(ends ...time.Time) {
	faults := s.faults()
	for s.well() && !slices.ContainsFunc(ends, time.Now().After) {
		f := faults[rand.IntN(len(faults))]
		if f.only != "" && f.only != s.result.Store {
			continue
		}
		s.result.Faults[f.name]++
		f.do(s.members[rand.IntN(len(s.members))])
		over := time.Now()
		if err := s.allCall(); err != nil {
			s.wrong(fmt.Errorf("after %q: %w", f.name, err))
		}
		s.result.Slowest[f.name] = max(s.result.Slowest[f.name], time.Since(over).Seconds())
		time.Sleep(rand.N(2 * time.Second))
	}
}

type soakFault struct {
	name string
	only string
	do   func(m *member)
}

func (s *soak) faults() []soakFault {
	cut := func(f faultproxy.Fault) func(*member) {
		return func(m *member) {
			m.proxy.Set(f)
			time.Sleep(rand.N(800 * time.Millisecond))
			m.proxy.Set(faultproxy.Fault{})
			m.proxy.Cut()
		}
	}
	redis := func(args ...string) func(*member) {
		return func(*member) { s.server.redis.Must(args...) }
	}
	return []soakFault{
		{name: "delay", do: cut(faultproxy.Fault{Delay: 30 * time.Millisecond, Jitter: 50 * time.Millisecond})},
		{name: "swallowed answers", do: cut(faultproxy.Fault{DropAnswers: true})},
		{name: "lost requests", do: cut(faultproxy.Fault{DropRequests: true})},
		{name: "cut answers", do: cut(faultproxy.Fault{CutAfter: 1000})},
		{name: "refused connections", do: cut(faultproxy.Fault{Refuse: true})},
		{name: "reset", do: func(m *member) { m.proxy.Reset() }},
		{name: "cut off, all", do: func(*member) {
			s.fault(faultproxy.Fault{DropRequests: true})
			time.Sleep(rand.N(per))
			s.fault(faultproxy.Fault{})
			s.cut()
		}},
		{name: "stop", do: func(m *member) {
			m.signal(syscall.SIGSTOP)
			time.Sleep(rand.N(soakTTL + 2*time.Second))
			m.signal(syscall.SIGCONT)
		}},
		{name: "kill", do: func(*member) { s.wrong(s.killOne()) }},
		{name: "restart", do: func(*member) { s.server.restart() }},
		{name: "pause", do: func(*member) { s.vendors[rand.IntN(len(s.vendors))].Pause(500 * time.Millisecond) }},
		{name: "flush", only: "redis", do: redis("FLUSHALL")},
		{name: "script flush", only: "redis", do: redis("SCRIPT", "FLUSH")},
	}
}

// killOne kills a replica, but for the first, of which the memory is measured from begin
// to end; waits for its slots to be the others'; and starts another.
func (s *soak) killOne() error {
	i := 1 + rand.IntN(len(s.members)-1)
	took, err := s.slotsBack(s.vendors[len(s.vendors)-1], i, soakTTL)
	if err != nil {
		return err
	}
	s.result.SlotsBack = max(s.result.SlotsBack, took.Seconds())
	s.replace(i)
	if err := s.calls(s.members[i], clock()); err != nil {
		return err
	}
	return s.usageOf(s.members[i])
}
