package sched

import (
	"fmt"
	"slices"

	"github.com/flyball-go/flyball/throttle"
)

// request is what waits in a lane.
type request struct {
	lane     *modelLane // nil when it does not wait
	seq      uint64
	enqueued int64
	cost     int32
}

// name is what tells a lane from others.
type name struct {
	Kind
	bucket, selector int
}

type modelLane struct {
	l      *Lane
	name   name
	weight float64
	reqs   []*request        // by order
	late   map[*request]bool // those that came back before one that was never away
	inTurn *fairModel        // nil: out of turn
	place  int               // among its tenant's
	paid   paid              // for its head, when it was taken out of turn

	lineState
}

// paid is what a lane has paid for its head.
type paid struct {
	credit float64 // less than 0: it owes
	full   bool    // what the head costs, whatever that is
	ahead  bool    // and it is before all others of its priority
}

func (ml *modelLane) price() float64 { return float64(ml.reqs[0].cost) / ml.weight }

// since is when the oldest of those began to wait that are first, or would be but for
// what came back.
func (ml *modelLane) since() int64 {
	since := ml.reqs[0].enqueued
	if i := slices.IndexFunc(ml.reqs, func(r *request) bool { return !ml.late[r] }); i >= 0 {
		since = min(since, ml.reqs[i].enqueued)
	}
	return since
}

// tell tells the scheduler what is first.
func (ml *modelLane) tell() {
	r := ml.reqs[0]
	ml.l.SetHead(Head{Cost: r.cost, Seq: r.seq, Since: ml.since()})
}

func (ml *modelLane) age(ageing float64) float64 {
	return float64(ml.since()) - float64(ml.name.Priority)*ageing
}

// scopes are what ml belongs to, in the order of the levels.
func (ml *modelLane) scopes() Scopes {
	return Scopes{
		throttle.Selector: {Level: throttle.Selector, Key: fmt.Sprint(ml.name.selector)},
		throttle.Tenant:   {Level: throttle.Tenant, Key: ml.name.Tenant},
		throttle.Bucket:   {Level: throttle.Bucket, Key: fmt.Sprint(ml.name.bucket)},
	}
}

// lane returns the lane of name, a new one if there is none.
func (m *fairModel) lane(name name, weight int32) *modelLane {
	for _, ml := range m.lanes {
		if ml.name == name {
			return ml
		}
	}
	ml := &modelLane{l: new(Lane), name: name, weight: float64(weight), late: make(map[*request]bool)}
	ml.l.Begin(ml, name.Kind)
	ml.l.SetWeight(weight)
	m.lanes = append(m.lanes, ml)
	return ml
}

func (m *fairModel) drop(ml *modelLane) {
	if ml.inTurn == m {
		m.take(ml)
	}
	m.lanes = slices.DeleteFunc(m.lanes, func(o *modelLane) bool { return o == ml })
}
