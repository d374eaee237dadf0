package governor

// elders finds the request that goes first when a queue is full and its rule is to drop
// something that waits: the oldest of the lowest priority. Which lane that is in costs
// O(log n), however many there are. Under other rules it is nil.
type elders struct {
	ranks map[int32]*rank
	order heap[*rank] // lowest priority first
}

func newElders() *elders { return &elders{ranks: make(map[int32]*rank)} }

// rank is the lanes of a priority by their first requests, the oldest first. What a
// lane is sorted by may be older than that is: it is put right when the lane comes
// first, so that a start costs nothing.
type rank struct {
	priority int32
	idx      int32 // in elders.order
	lanes    heap[*elder]
}

func (k *rank) when() int64   { return int64(k.priority) }
func (k *rank) index() *int32 { return &k.idx }

// elder is a lane in rank.lanes.
type elder lane

func (l *elder) when() int64   { return int64(l.eldest) }
func (l *elder) index() *int32 { return &l.eldestIdx }

// older sees to it that l is in, and no older than what it is sorted by.
func (e *elders) older(l *lane) {
	if e == nil || l.eldestIdx != 0 && l.first().seq >= l.eldest {
		return
	}
	k := e.ranks[l.priority]
	if k == nil {
		k = &rank{priority: l.priority}
		e.ranks[l.priority] = k
		e.order.fix(k)
	}
	l.eldest = l.first().seq
	k.lanes.fix((*elder)(l))
}

// remove forgets l.
func (e *elders) remove(l *lane) {
	if l.eldestIdx == 0 {
		return
	}
	k := e.ranks[l.priority]
	if k.lanes.remove((*elder)(l)); k.lanes.len() == 0 {
		e.order.remove(k)
		delete(e.ranks, l.priority)
	}
}

// eldest returns the oldest request of the lowest priority, of those that are first in
// their lanes; nil when nothing waits.
func (e *elders) eldest() *request {
	if e.order.len() == 0 {
		return nil
	}
	k := e.order.s[0]
	for {
		l := (*lane)(k.lanes.s[0])
		r := l.first()
		if r.seq <= l.eldest {
			return r
		}
		l.eldest = r.seq // what it was sorted by is gone
		k.lanes.fix((*elder)(l))
	}
}
