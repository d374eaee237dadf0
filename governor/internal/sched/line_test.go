package sched

import (
	"fmt"
	"testing"
	"time"

	"github.com/flyball-go/flyball/governor/internal/heap"
	"github.com/flyball-go/flyball/throttle"
)

// What an ended scope lets go comes back a part in each round, those who were first in
// turn first; the owner has other things to do meanwhile.
func TestLanesOfAnEndedScopeComeBackInParts(t *testing.T) {
	s := &Scheduler{Count: func(int) {}}
	scope := throttle.Scope{Level: throttle.Bucket, Key: "b"}
	const lanes = 5000
	for i := range uint64(lanes) {
		q := newLineup(Kind{Tenant: fmt.Sprint(i)})
		q.add(s, i+1)
		if sc := (Scopes{3: scope}); !s.Join(&q.Lane, &sc) {
			s.WaitForScope(&q.Lane, scope, heap.Forever)
		}
		if s.Next(false) != nil {
			t.Fatal("a lane is in turn that waits for its scope")
		}
	}
	s.Budget = lanes
	if s.TryLines(1 << 60) {
		t.Fatal("a line is tried whose scope has not changed")
	}
	s.ScopeChanged(scope, true)
	for rounds := 1; s.Awaited(scope); rounds++ {
		const most = 1000
		before := s.Steps()
		s.Budget = most
		s.TryLines(0)
		if n := s.Steps() - before; n > most || rounds > lanes/most+1 {
			t.Fatalf("%d lanes came back in round %d, want %d at most", n, rounds, most)
		}
	}
	for i := range uint64(lanes) {
		l := s.Next(false)
		if l == nil || l.line != nil || l.seq != i+1 {
			t.Fatalf("the lane of number %d is %+v", i+1, l)
		}
		l.Owner().(*lineup).start(s)
	}
	if s.levels != [4]int32{} || s.lineTimes.Len() > 0 {
		t.Errorf("%v lines are left, %d of them timed", s.levels, s.lineTimes.Len())
	}
}

// Who needs two limits keeps others from the first while it waits for the second, but
// only when that is no longer than it waited for the first, and until it starts or goes.
func TestWhoWaitsForTwoLimitsKeepsTheFirst(t *testing.T) {
	tenant := throttle.Scope{Level: throttle.Tenant, Key: "t"}
	bucket := throttle.Scope{Level: throttle.Bucket, Key: "b"}
	for _, c := range []struct {
		name  string
		wait  time.Duration // for the second, after 10 for the first
		keeps bool
		then  func(s *Scheduler, q *lineup) // what ends that
	}{
		{"a longer wait", 11, false, nil},
		{"and starts", 10, true, func(s *Scheduler, q *lineup) {
			s.TryLines(20)
			if s.Next(false) != &q.Lane {
				t.Error("who waited for both is not next when the second is there")
			}
			q.start(s)
		}},
		{"and goes", 10, true, func(s *Scheduler, q *lineup) { q.remove(s, 0) }},
		{"and finds it paused", 10, true, func(s *Scheduler, q *lineup) {
			s.TryLines(20)
			s.WaitForScope(&q.Lane, bucket, heap.Forever)
		}},
		{"and finds the first used up again", 10, true, func(s *Scheduler, q *lineup) {
			s.TryLines(20)
			s.WaitInLine(&q.Lane, tenant, 21, 1)
			if k := q.keeps(); k == nil || k.scope != bucket || k.also != nil {
				t.Errorf("it keeps %+v, want the line of the second limit alone", k)
			}
			s.TryLines(21)
			q.start(s)
		}},
	} {
		s := &Scheduler{Count: func(int) {}, Budget: 100}
		first, second := newLineup(Kind{Tenant: "t"}), newLineup(Kind{Tenant: "t", Priority: -1})
		first.add(s, 1)
		s.WaitInLine(&first.Lane, tenant, 10, 10)
		second.add(s, 2)
		if !s.Join(&second.Lane, &Scopes{throttle.Tenant: tenant, throttle.Bucket: bucket}) {
			t.Fatalf("%s: the second passed those who wait for the tenant's limit", c.name)
		}
		s.TryLines(10)
		s.WaitInLine(&first.Lane, bucket, 20, c.wait)
		s.TryLines(10)
		if kept := s.Next(false) == nil; kept != c.keeps || kept != (first.keeps() != nil) {
			t.Errorf("%s: the first keeps the second from the tenant's limit: %t, want %t", c.name, kept, c.keeps)
		}
		if c.then != nil {
			c.then(s, first)
			s.TryLines(21)
			if l := s.Next(false); l != &second.Lane || first.keeps() != nil {
				t.Errorf("%s: the next is %+v, want the second", c.name, l)
			}
		}
	}
}

// Who was refused in a line remains the first of it, whoever joins meanwhile.
func TestWhoIsRefusedKeepsItsTurnInTheLine(t *testing.T) {
	bucket := throttle.Scope{Level: throttle.Bucket, Key: "b"}
	s := &Scheduler{Count: func(int) {}, Budget: 100}
	var all []*lineup
	for i := range uint64(3) {
		q := newLineup(Kind{Tenant: fmt.Sprint(i)})
		q.add(s, i+1)
		if sc := (Scopes{throttle.Bucket: bucket}); !s.Join(&q.Lane, &sc) {
			s.WaitInLine(&q.Lane, bucket, 10, 10)
		}
		all = append(all, q)
	}
	for at := int64(10); at < 15; at++ {
		s.TryLines(at)
		if l := s.Next(false); l != &all[0].Lane {
			t.Fatalf("at %d the next is %+v, want the first", at, l)
		}
		s.WaitInLine(&all[0].Lane, bucket, at+1, 1)
	}
}

// Who waits in line for a scope behind somebody who waits for a limit of it leaves that
// one its time.
func TestWaitingForAScopeLeavesTheTimeToWhoIsBefore(t *testing.T) {
	s := &Scheduler{Count: func(int) {}}
	scope := throttle.Scope{Level: throttle.Selector, Key: "s"}
	first, second := newLineup(Kind{Tenant: "a", Priority: 1}), newLineup(Kind{Tenant: "b"})
	first.add(s, 1)
	second.add(s, 2)
	s.WaitInLine(&first.Lane, scope, 5, 5)
	s.WaitForScope(&second.Lane, scope, heap.Forever)
	if at := s.NextLine(); at != 5 {
		t.Errorf("the line is tried at %d, want 5", at)
	}
}

// Who keeps others from a limit that it had waited for, and then goes to wait behind
// somebody else, lets them go: two that did not could wait for each other.
func TestWhoWaitsBehindOthersKeepsNobody(t *testing.T) {
	sc := Scopes{}
	for level := throttle.Selector; level <= throttle.Bucket; level++ {
		sc[level] = throttle.Scope{Level: level, Key: "x"}
	}
	for _, c := range []struct {
		name string
		then func(t *testing.T, s *Scheduler, first *lineup)
	}{
		{"in another line", func(t *testing.T, s *Scheduler, first *lineup) {
			other := newLineup(Kind{Tenant: "o"})
			other.add(s, 3)
			s.WaitInLine(&other.Lane, sc[throttle.Bucket], 1000, 1000)
			s.TryLines(20)
			if s.Next(false) != &first.Lane || !s.Join(&first.Lane, &sc) {
				t.Error("the first need not wait behind the other")
			}
		}},
		{"in the same line", func(t *testing.T, s *Scheduler, first *lineup) {
			s.TryLines(20)
			urgent := newLineup(Kind{Tenant: "o", Priority: 1})
			urgent.add(s, 3)
			if !s.Join(&urgent.Lane, &Scopes{throttle.Selector: sc[throttle.Selector]}) || urgent.Parked() {
				t.Error("what is urgent is not tried")
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &Scheduler{Count: func(int) {}, Budget: 100}
			first, second := newLineup(Kind{Tenant: "x"}), newLineup(Kind{Tenant: "x"})
			first.add(s, 1)
			s.WaitInLine(&first.Lane, sc[throttle.Tenant], 10, 10)
			second.add(s, 2)
			s.Join(&second.Lane, &Scopes{throttle.Tenant: sc[throttle.Tenant]})
			s.TryLines(10)
			s.WaitInLine(&first.Lane, sc[throttle.Selector], 20, 10)
			if s.TryLines(10); first.keeps() == nil || !second.Parked() {
				t.Fatal("the first does not keep the second from the tenant's limit")
			}
			c.then(t, s, first)
			if s.TryLines(20); !first.Parked() || second.Parked() {
				t.Errorf("the first waits: %t, and so does the second: %t; want the first alone", first.Parked(), second.Parked())
			}
		})
	}
}

// Two that need the same two limits, and have each waited for another of them first, do
// not wait for each other for ever.
func TestTwoThatNeedTheSameLimitsDoNotWaitForEachOther(t *testing.T) {
	s := &Scheduler{Count: func(int) {}, Budget: 100}
	var lanes [2]*lineup
	var sc [2]Scopes
	for i, tenant := range []string{"a", "b"} {
		sc[i] = Scopes{
			throttle.Selector: {Level: throttle.Selector, Key: "s"},
			throttle.Tenant:   {Level: throttle.Tenant, Key: tenant},
			throttle.Bucket:   {Level: throttle.Bucket, Key: "b"},
		}
		lanes[i] = newLineup(Kind{Tenant: tenant})
	}
	for i, first := range []throttle.Level{throttle.Bucket, throttle.Selector} {
		lanes[i].add(s, uint64(i+1))
		s.WaitInLine(&lanes[i].Lane, sc[i][first], 10, 10)
	}
	s.TryLines(10)
	for i, q := range lanes {
		s.WaitInLine(&q.Lane, sc[i][throttle.Tenant], 20, 10)
	}
	s.TryLines(20)
	for i, q := range lanes {
		s.Join(&q.Lane, &sc[i]) // the line that the other has left
	}
	for s.TryLines(30) {
		s.Budget = 100
		for l := s.Next(false); l != nil; l = s.Next(false) {
			if q := l.Owner().(*lineup); !s.Join(l, &sc[q.seqs[0]-1]) {
				q.start(s)
			}
		}
	}
	if s.Len() > 0 {
		t.Errorf("%d never start", s.Len())
	}
}
