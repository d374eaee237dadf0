// Package fair decides which of many queues is served next: the highest priority
// first, but so that what has waited for long is not starved, and within a priority
// so that tenants share by cost and weight, however many queues each has.
//
//	var turns fair.Turns
//	turns.Add(q, ageing, 0)
//	for q := turns.Next(); q != nil; q = turns.Next() {
//		serve(q)                   // and set what is now first in it: q.Cost, q.Since
//		turns.Started(q)           // its tenant pays for the next
//	}
//
// It knows nothing of what is in a queue but the cost and the age of what comes first,
// which whoever owns the queue says, and of no time: its virtual time is what has been
// served. A start costs O(1) when all have one priority, cost and weight, and O(log n)
// at most, with n queues.
//
// A Turns and its queues are for one goroutine at a time. Nothing here blocks or calls
// anything of others.
//
// It is no limit: it says who is next, not when. That somebody has to stay away for a
// time is for package sched, which takes him out of turn.
package fair
