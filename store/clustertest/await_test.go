package clustertest

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/flyball-go/flyball/internal/judge"
)

// patience bounds a hang, and nothing else: what has to happen at all is waited for,
// however slow the machine is. What has to happen in time says so itself.
const patience = 2 * time.Minute

// await waits until done.
func await(what string, done func() bool) error {
	for end := time.Now().Add(patience); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("%w: in %v it does not come about that %s", errUntested, patience, what)
		}
	}
	return nil
}

// notes is what somebody has written down so far, of which part bytes are read.
type notes struct {
	judge.History
	read int64
}

// written is what name has written down so far, of the first job.
func (c *cluster) written(name string) *judge.History { return c.writtenOf(c.vendor.job, name) }

func (c *cluster) writtenOf(j *job, name string) *judge.History {
	c.t.Helper()
	file := c.file(name, j)
	n := c.notes[file]
	if n == nil {
		n = new(notes)
		c.notes[file] = n
	}
	f, err := os.Open(file)
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, n.read, 1<<40))
	if err == nil {
		text = text[:bytes.LastIndexByte(text, '\n')+1] // a line may be under way
		n.read += int64(len(text))
		err = n.Read(bytes.NewReader(text))
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return &n.History
}

// history is what everybody has written down so far, of the first job.
func (c *cluster) history() *judge.History { return c.historyOf(c.vendor.job) }

// historyOf is that of a job. The vendor's comes first: so what came before a call is there
// if the call is.
func (c *cluster) historyOf(j *job) *judge.History {
	h := new(judge.History)
	h.Records = append(h.Records, c.writtenOf(j, "vendor").Records...)
	for i := range c.born {
		h.Records = append(h.Records, c.writtenOf(j, name(i+1)).Records...)
	}
	return h
}

// forget has nothing be written down, of those who write nothing just now.
func (c *cluster) forget() {
	c.t.Helper()
	for file := range c.notes {
		if err := os.Truncate(file, 0); err != nil { // who appends to it begins anew
			c.t.Fatal(err)
		}
	}
	clear(c.notes)
}

// allCall waits until each replica has made a call of each job from now on.
func (c *cluster) allCall() error {
	from := clock()
	for _, m := range c.members {
		if m.dead {
			continue
		}
		if err := c.calls(m, from); err != nil {
			return err
		}
	}
	return nil
}

// calls waits until m has made a call of each job from from on.
func (c *cluster) calls(m *member, from int64) error {
	for _, v := range c.vendors {
		err := await(m.name+" makes a call of "+v.job.host(), func() bool { return c.writtenOf(v.job, "vendor").Arrived(m.name, from, 1<<62) > 0 })
		if err != nil {
			return err
		}
	}
	return nil
}

// allDone waits until no replica has more than a few requests that wait.
func (c *cluster) allDone() error {
	for _, m := range c.members {
		if m.dead {
			continue
		}
		err := await(m.name+" has done what it was asked for", func() bool {
			open := 0
			for _, r := range c.written(m.name).Records {
				switch r.Kind {
				case judge.Submit:
					open++
				case judge.Settle:
					open--
				}
			}
			return open <= 2
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// calmWindows is how many windows, in which neither the machine nor the store was slow, uses
// waits for.
const calmWindows = 8

// uses waits until the part of the quota is used of two windows in a row, both whole,
// that begin from now on, with at most so many round trips a call in them, if that is not
// 0: a slow machine may need some time for that, but none that is calm. A store that is
// broken has four windows.
func (c *cluster) uses(part, most float64) error {
	per, quota := c.template.Limit.Per, c.template.Limit.Quota
	first := clock()/int64(per) + 2 // what is new may count as used for one
	windows := int64(patience / per)
	if c.control {
		windows = 4
	}
	best, fewest, tried, calm, slow := 0.0, math.Inf(1), int64(0), 0, time.Duration(0)
	for before := late.sum(); tried < windows-1 && calm < calmWindows; tried++ {
		w := first + tried
		time.Sleep(time.Duration((w+2)*int64(per)-clock()) + transit)
		calls := float64(c.written("vendor").Arrived("", w*int64(per), (w+2)*int64(per)))
		trips, slowest := c.trips(w*int64(per), (w+2)*int64(per))
		got, asked := calls/float64(2*quota), float64(trips)/max(1, calls)
		if best = max(best, got); got >= part && (most == 0 || asked <= most) {
			c.t.Logf("%.3f of the quota used, of the windows %d and %d, with %.3f round trips a call", got, w-first+1, w-first+2, asked)
			return nil
		}
		fewest = min(fewest, asked)
		now := late.sum()
		if now-before < per/20 && slowest < per/20 {
			calm++
		}
		slow = max(slow, slowest)
		before = now
	}
	return fmt.Errorf("%.3f of the quota used in the best two of %d windows, %d of them calm, want at least %v; at least %.3f round trips a call, want at most %v, if not 0; a permit was up to %v on its way",
		best, tried+1, calm, part, fewest, most, slow)
}

// trips is how often replicas asked the store from from to before to, and how long what was
// granted then was on its way at most.
func (c *cluster) trips(from, to int64) (n int, slowest time.Duration) {
	for i := range c.born {
		for _, r := range c.written(name(i + 1)).Records {
			switch {
			case r.At < from || r.At >= to:
			case r.Kind == judge.Trip:
				n++
			case r.Kind == judge.Grant:
				slowest = max(slowest, time.Duration(r.At-r.Sent))
			}
		}
	}
	return n, slowest
}

// goesOn waits until a third of the quota is used of a whole window that begins from
// now on.
func (c *cluster) goesOn() error {
	from := (clock()/int64(per) + 1) * int64(per)
	return await("a third of a window is used", func() bool {
		now := clock()
		return now >= from && c.written("vendor").Arrived("", now/int64(per)*int64(per), now) >= quota/3
	})
}
