package clustertest

import (
	"cmp"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/judge"
	"github.com/flyball-go/flyball/store"
)

// scenario is a fault, and what has to be true all the same. Its rounds begin when all
// replicas have made a call.
type scenario struct {
	name     string
	template replica
	tune     func(i int, r *replica)
	replicas int // 0: 4, or 3 with slots
	rounds   int // 0: 1
	round    func(c *cluster) error
	after    func(c *cluster) error // when the rounds are over
	controls []control
	control  bool
	own      bool                         // it does something to its server that others are not to notice
	judge    func(h *judge.History) error // nil: the template's
	finally  func(c *cluster) error       // when the replicas have ended
	only     string                       // one kind of store; "": redis and mysql
	kinds    []store.Kind                 // of its limit, on MySQL usually the first alone; nil: Window
	timeout  time.Duration                // of a Cluster's nodes
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

// verdict is what is wrong with a run of a scenario.
func (s scenario) verdict(t *testing.T, srv *server) error {
	if s.astray() && (runtime.GOOS != "linux" || runtime.GOARCH != "amd64") {
		t.Skip("a process has a wall clock of its own on Linux on amd64 alone")
	}
	n := cmp.Or(s.replicas, 4)
	if s.template.Slots > 0 {
		n = 3
	}
	before := late.sum()
	c := begin(t, srv, n, s.template, s.tune, judge.Config{})
	c.control = s.control
	err := s.run(c)
	h, ended := c.end()
	t.Logf("%d calls, %d of them late, %+v, timers late by %v", h.Arrived("", 0, 1<<62), h.Late(transit), c.vendor.Tally(), late.sum()-before)
	if err == nil && s.finally != nil {
		err = s.finally(c)
	}
	return errors.Join(s.wrong(h), err, ended, h.Ledger(c.alive()...))
}

// wrong is what is wrong with a history, which need not be over.
func (s scenario) wrong(h *judge.History) error {
	if s.judge != nil {
		return s.judge(h)
	}
	return s.template.judge(h)
}

// judge is what is wrong with a history of a job, which need not be over. A call is late
// with the limit's Transit.
func (j *job) judge(h *judge.History) error {
	errs := []error{h.Pauses(50 * time.Millisecond)}
	if j.Limit != nil {
		l := allowed(j.Limit)
		errs = append(errs, h.Windows(l, j.Limit.Fill().Transit))
		if l.Aligned {
			errs = append(errs, h.Grants(l))
		}
	}
	if j.Slots > 0 {
		errs = append(errs, h.Slots(j.Slots, hold, prompt))
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
		if s.wrong(c.history()) != nil {
			break
		}
	}
	return nil
}

// server starts what s needs.
func (s scenario) server(t *testing.T, kind string) *server {
	t.Helper()
	if s.own {
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

// testScenario runs what again makes, and its controls.
func testScenario(t *testing.T, kind, name string, again func() scenario) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		s := again()
		if err := s.verdict(t, s.server(t, kind)); err != nil {
			t.Error(err)
		}
	})
	if kind == "mysql" {
		return // the controls are of the judge, and not of the server
	}
	for j, c := range again().controls {
		t.Run(name+", control, "+c.name, func(t *testing.T) {
			t.Parallel()
			s := again()
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
