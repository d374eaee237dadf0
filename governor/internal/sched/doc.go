// Package sched is the governor's scheduler as a value: which lane is next, and which
// wait for what. A lane is a queue of one selector, tenant, bucket and priority; of the
// requests in it the scheduler knows how many there are and what the first is like.
//
//	l.Begin(mine, name)                 // once there is something in it
//	l.SetHead(head)                     // and whenever what comes first has changed
//	s.Add(l, first, counted)
//	for s.Budget = 1000; s.Budget > 0; s.Budget-- {
//		s.Hurry(now)
//		l := s.Next(full)
//		...                         // s.Started(l, cost), or what keeps it back:
//		...                         // s.Park, s.WaitInLine, s.WaitForScope, s.Join
//	}
//
// Lanes in turn are served by priority, age and fair share; see package fair. One that
// has to wait leaves its turn: in a List of whatever holds it until Wake, until a time,
// or in the line of a scope that is paused or whose limit is used up. A lane that waits
// keeps no other from its turn but those of its scope that are behind it.
//
// A Scheduler and its lanes are for one goroutine at a time. It is pure: it takes the
// time, in nanoseconds since some moment, knows no clock, lock, channel, context or
// closure of users, calls nothing but Count, and tells by NextTimed and NextLine when it
// wants to be asked again. What it does costs O(log n) at most with n lanes, but for
// WakeAll, Tick, WakeTimed and TryLines, which do that for each lane that they move.
//
// It is no gate: whether a request may start is for whoever asks for the next lane, and
// so are the requests themselves.
package sched
