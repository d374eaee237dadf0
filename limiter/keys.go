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

	// gone is what keys had still open when they were forgotten, as far as that is more
	// than lost: at least the most that any of those had for which there was no place. A
	// key that returns and is not in gone may be that one.
	gone map[string]uint64
	lost uint64
}

// mostGone bounds the forgotten keys that are remembered for what is open. Those whose
// owner never settles fill it, and cost no more than that.
const mostGone = 1024

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
	open := t.lost
	if had, ok := t.gone[key]; ok {
		open = had
		delete(t.gone, key)
	}
	*e = slot[S]{key: key, due: now, pos: len(t.heap), back: giveback{open: open, void: open}}
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
	t.note(e)
	delete(t.index, e.key)
	last := len(t.heap) - 1
	t.swap(0, last)
	t.heap[last] = nil
	t.heap = t.heap[:last]
	t.down(0)
	return e
}

// note remembers what e, which is forgotten, has still open.
func (t *keyTable[S]) note(e *slot[S]) {
	switch {
	case e.back.open <= t.lost:
	case len(t.gone) >= min(mostGone, t.max):
		t.lost = e.back.open
	default:
		if t.gone == nil {
			t.gone = make(map[string]uint64)
		}
		t.gone[e.key] = e.back.open
	}
}

// missed is for a take of n permits of a key that has found no room: it will be settled
// as those are that were made before the key was forgotten.
func (t *keyTable[S]) missed(key string, n int) {
	if open, ok := t.gone[key]; ok {
		t.gone[key] = open + uint64(permits(n))
	}
}

// settleGone ends a take of n permits of a key that is not in the table.
func (t *keyTable[S]) settleGone(key string, n int) {
	switch open := t.gone[key]; {
	case open == 0:
	case open <= uint64(n)+t.lost: // as who is not in gone
		delete(t.gone, key)
	default:
		t.gone[key] = open - uint64(n)
	}
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
