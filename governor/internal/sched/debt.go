package sched

import "github.com/flyball-go/flyball/governor/internal/fair"

// Debt is what a start cost its tenant more than was charged for it, or less.
type Debt struct {
	Tenant   string
	Priority int32
	Kept     bool // as Kind says of the lane
	Cost     int
	Waited   int // what of the charge it had waited for while others started
}

// Owe charges a tenant for what a start turned out to cost: where it is in turn, and,
// unless that is in a line, in the line that its lane joins before its next start. Who
// has nothing that waits owes nothing. l is the lane that the start was of; nil when it
// has nothing in it.
func (s *Scheduler) Owe(d Debt, l *Lane) {
	in := &s.ready
	if d.Kept {
		in = &s.kept
	}
	over := in.Owe(d.Tenant, d.Priority, d.Cost)
	in.Keep(d.Tenant, d.Priority, d.Cost, d.Waited, over)
	switch {
	case l == nil:
	case l.Turns() != nil && l.Turns() != &s.ready && l.Turns() != &s.kept:
		l.owes = max(-fair.MostOwed, l.owes-l.Turns().Owe(d.Tenant, d.Priority, d.Cost))
	default:
		l.owes = max(-fair.MostOwed, min(l.owes+l.Worth(d.Cost), fair.MostOwed))
	}
}
