package limiter

// keyTable holds a state S for each of up to max keys. A key that is not in it is
// one whose state nobody can tell from that of a key never seen: idle. Finding a
// key is one map access; forgetting one is O(log n).
type keyTable[S any] struct {
	max int

	// idle returns from when on a state is that of a key never seen, if nothing is
	// taken. Takes only make it later.
	idle func(*S) uint64

	index map[string]*slot[S]
	heap  []*slot[S] // the smallest due on top

	// lost is the most that any forgotten key had still open. A key that returns
	// may be that one.
	lost uint64
}

// slot is one key.
type slot[S any] struct {
	key   string
	due   uint64 // no later than idle: takes leave it, until the slot gets to the top
	pos   int    // in heap
	back  giveback
	low   uint64 // takes before this were drained with, or lowered by the vendor's count
	state S
}

func newKeyTable[S any](keys int, idle func(*S) uint64) keyTable[S] {
	return keyTable[S]{max: maxKeys(keys), idle: idle, index: make(map[string]*slot[S])}
}

// first returns the slot that is idle first, nil when there is none.
func (t *keyTable[S]) first() *slot[S] {
	if len(t.heap) == 0 {
		return nil
	}
	for {
		e := t.heap[0]
		due := t.idle(&e.state)
		if e.due >= due {
			return e
		}
		e.due = due
		t.down(0)
	}
}

// room returns how long from now it is until there is room for one more key.
func (t *keyTable[S]) room(now uint64) uint64 {
	if len(t.heap) < t.max {
		return 0
	}
	due := t.first().due
	return due - min(now, due)
}

// get returns the slot of key, a new one when there is none; nil when there is
// no room for it. For each new key up to two idle ones are forgotten, so that the
// table has no more keys than have been in use at once.
func (t *keyTable[S]) get(now uint64, key string) *slot[S] {
	if e := t.index[key]; e != nil {
		return e
	}
	e := t.forgetIdle(now) // whose memory is used again
	t.forgetIdle(now)
	if len(t.heap) >= t.max {
		return nil
	}
	if e == nil {
		e = new(slot[S])
	}
	*e = slot[S]{key: key, due: now, pos: len(t.heap), back: giveback{open: t.lost, void: t.lost}}
	t.index[key] = e
	t.heap = append(t.heap, e)
	t.up(e.pos)
	return e
}

// forgetIdle removes a slot that is idle, and returns it; nil when none is.
func (t *keyTable[S]) forgetIdle(now uint64) *slot[S] {
	e := t.first()
	if e == nil || e.due > now {
		return nil
	}
	t.lost = max(t.lost, e.back.open)
	delete(t.index, e.key)
	last := len(t.heap) - 1
	t.swap(0, last)
	t.heap[last] = nil
	t.heap = t.heap[:last]
	t.down(0)
	return e
}

// earlier must be called after e may have become idle earlier.
func (t *keyTable[S]) earlier(e *slot[S]) {
	if due := t.idle(&e.state); due < e.due {
		e.due = due
		t.up(e.pos)
	}
}

// all must be called after any key may have become idle earlier.
func (t *keyTable[S]) all() {
	for _, e := range t.heap {
		e.due = 0 // first puts it right
	}
}

func (t *keyTable[S]) swap(a, b int) {
	t.heap[a], t.heap[b] = t.heap[b], t.heap[a]
	t.heap[a].pos, t.heap[b].pos = a, b
}

func (t *keyTable[S]) up(pos int) {
	for parent := (pos - 1) / 2; pos > 0 && t.heap[pos].due < t.heap[parent].due; parent = (pos - 1) / 2 {
		t.swap(parent, pos)
		pos = parent
	}
}

func (t *keyTable[S]) down(pos int) {
	for {
		child := 2*pos + 1
		if child+1 < len(t.heap) && t.heap[child+1].due < t.heap[child].due {
			child++
		}
		if child >= len(t.heap) || t.heap[pos].due <= t.heap[child].due {
			return
		}
		t.swap(pos, child)
		pos = child
	}
}
