package main

import (
	"container/heap"
	"fmt"
	"time"

	"github.com/flyball-go/flyball/limiter"
)

// events are what is to happen at which time. It is all the time that there is in
// a scenario: nothing sleeps, and a seed gives the same run each time.
type events struct {
	now  time.Duration
	heap eventHeap
	n    int
}

type event struct {
	at time.Duration
	n  int // of two at the same time the earlier planned comes first
	do func()
}

func (e *events) in(d time.Duration, do func()) {
	e.n++
	heap.Push(&e.heap, event{e.now + max(0, d), e.n, do})
}

// run lets everything happen, until done or until the time limit.
func (e *events) run(limit time.Duration, done func() bool) error {
	for len(e.heap) > 0 && !done() {
		next := heap.Pop(&e.heap).(event)
		if e.now = next.at; e.now > limit {
			return fmt.Errorf("not done after %v", limit)
		}
		next.do()
	}
	return nil
}

type eventHeap []event

func (h eventHeap) Len() int      { return len(h) }
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].n < h[j].n
}
func (h *eventHeap) Push(x any) { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// gate is what the scenarios' calls pass: a limit, a bound on the calls at once,
// and a cooldown that all share, after which one call goes alone. It is the least
// that a limit that learns needs around it; a governor does the same.
type gate struct {
	events
	*vendor
	limit limiter.Limiter

	waiting, flying, done int
	until                 time.Duration // cooling
	probing               bool          // nothing has been accepted since
	alarm                 int           // the one timer's generation
}

var scenarioEpoch = time.Unix(1e9, 0)

func (g *gate) time(d time.Duration) time.Time { return scenarioEpoch.Add(d) }

// dispatch starts the calls that may start, and sets the timer for the next.
func (g *gate) dispatch() {
	g.alarm++
	for g.waiting > 0 && g.flying < g.concurrent && !(g.probing && g.flying > 0) {
		wait := g.until - g.now
		if wait <= 0 {
			wait = g.limit.Wait(g.time(g.now), "", 1)
		}
		if wait > 0 {
			mine := g.alarm
			g.in(wait, func() {
				if mine == g.alarm {
					g.dispatch()
				}
			})
			return
		}
		g.limit.Take(g.time(g.now), "", 1)
		g.waiting--
		g.flying++
		g.call()
	}
}

// call is one call's way to the vendor and back.
func (g *gate) call() {
	sent := g.now
	up, service, down := g.about(g.up), g.about(g.service), g.about(g.down)
	g.in(up, func() {
		wait, ok := g.arrive(g.now)
		if !ok {
			g.in(down, func() { g.refused(sent, wait) })
			return
		}
		g.in(service, func() {
			g.serving--
			g.in(down, func() { g.accepted(sent) })
		})
	})
}

func (g *gate) accepted(sent time.Duration) {
	g.flying--
	g.done++
	if sent >= g.until {
		g.probing = false
	}
	g.limit.Accepted(g.time(g.now), g.time(sent), "")
	g.dispatch()
}

// refused puts the call back. The wait is counted from when the answer is here.
func (g *gate) refused(sent, wait time.Duration) {
	g.flying--
	g.waiting++
	g.until = max(g.until, g.now+wait)
	g.probing = true
	g.limit.Refused(g.time(g.now), g.time(sent), "")
	g.dispatch()
}

// outcome is what came of a scenario.
type outcome struct {
	Elapsed, Longest time.Duration
	Refused          int

	// Of a governor's calls: the first result, and of the times from submission to
	// result the median and the 99th percentile.
	First, P50, P99 time.Duration
}

const scenarioCalls = 20_000

// drive makes the scenario's calls under a limit.
func drive(v *vendor, limit limiter.Limiter) (outcome, error) {
	g := &gate{vendor: v, limit: limit, waiting: scenarioCalls}
	g.in(0, g.dispatch)
	err := g.run(10*time.Minute, func() bool { return g.done == scenarioCalls })
	return outcome{Elapsed: g.now, Longest: v.longest, Refused: v.refused}, err
}

// oracle makes them as nobody can: they wait at the vendor's door, and each goes
// in at the moment in which it is accepted.
func oracle(v *vendor) (outcome, error) {
	var e events
	left, done, shut := scenarioCalls, 0, false
	var door func()
	door = func() {
		if shut {
			return
		}
		for left > 0 && v.serving < v.concurrent {
			if wait := v.room(e.now); wait > 0 {
				shut = true
				e.in(wait, func() { shut = false; door() })
				return
			}
			v.arrive(e.now)
			left--
			e.in(v.about(v.service), func() {
				v.serving--
				e.in(v.about(v.down), func() { done++ })
				door()
			})
		}
	}
	e.in(v.about(v.up), door)
	err := e.run(10*time.Minute, func() bool { return done == scenarioCalls })
	return outcome{Elapsed: e.now, Longest: v.longest, Refused: v.refused}, err
}
