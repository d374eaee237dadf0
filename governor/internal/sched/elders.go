package sched

import "github.com/flyball-go/flyball/governor/internal/heap"

// Elders finds the request that goes first when a queue is full and its rule is to drop
// something that waits: the oldest of the lowest priority. Which lane that is in costs
// O(log n), however many there are. Under other rules it is nil.
type Elders struct {
	ranks map[int32]*rank
	order heap.Heap[*rank] // lowest priority first
}

// NewElders returns the Elders of a Scheduler with nothing in it.
func NewElders() *Elders { return &Elders{ranks: make(map[int32]*rank)} }

// rank is the lanes of a priority by Head.Seq, the oldest first. What a lane is sorted
// by may be older than that is: it is put right when the lane comes first, so that a
// start costs nothing.
type rank struct {
	priority int32
	idx      int32 // in Elders.order
	lanes    heap.Heap[*elder]
}

func (k *rank) When() int64   { return int64(k.priority) }
func (k *rank) Index() *int32 { return &k.idx }

// elder is a lane in rank.lanes.
type elder Lane

func (l *elder) When() int64   { return int64(l.seq) }
func (l *elder) Index() *int32 { return &l.eldestIdx }

// older sees to it that l is in, and no older than what it is sorted by.
func (e *Elders) older(l *Lane) {
	if e == nil {
		return
	}
	if l.seq == Never {
		e.remove(l)
		return
	}
	k := e.ranks[l.Priority]
	if l.eldestIdx != 0 && int64(l.seq) >= k.lanes.At((*elder)(l)) {
		return
	}
	if k == nil {
		k = &rank{priority: l.Priority}
		e.ranks[l.Priority] = k
		e.order.Fix(k)
	}
	k.lanes.Fix((*elder)(l))
}

// remove forgets l.
func (e *Elders) remove(l *Lane) {
	if l.eldestIdx == 0 {
		return
	}
	k := e.ranks[l.Priority]
	if k.lanes.Remove((*elder)(l)); k.lanes.Len() == 0 {
		e.order.Remove(k)
		delete(e.ranks, l.Priority)
	}
}

// Eldest returns the lane of the lowest priority that has the oldest request of those
// that may make room in such lanes; nil when there is none.
func (e *Elders) Eldest() *Lane {
	if e.order.Len() == 0 {
		return nil
	}
	k := e.order.First()
	for {
		l := (*Lane)(k.lanes.First())
		if int64(l.seq) <= k.lanes.Next() {
			return l
		}
		k.lanes.Fix((*elder)(l)) // what it was sorted by is gone
	}
}
