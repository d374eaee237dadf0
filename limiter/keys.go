package limiter

// keyTable holds the state of up to max keys. What it does is O(1) but for the
// removal of a key, which is O(log max), amortised over the takes.
type keyTable struct {
	max     int
	index   map[string]int32 // into entries
	entries []entry
	heap    []int32 // of entries, the smallest due on top

	// lost is the most that any forgotten key might still have had given back.
	// A key that returns may be that one.
	lost uint64
}

// entry is one key.
type entry struct {
	key  string
	full span // when the bucket is full again if nothing is taken
	back giveback

	// due is no later than full, in nanoseconds: takes move full on and leave
	// due, which is put right when the entry gets to the top of the heap.
	due uint64
	pos int32 // in heap
}

// find returns the entry of key, nil if there is none. It is valid until the
// next add.
func (k *keyTable) find(key string) *entry {
	if i, ok := k.index[key]; ok {
		return &k.entries[i]
	}
	return nil
}

// room returns when there is room for one more key: now or earlier when there
// is already. It forgets nothing.
func (k *keyTable) room(now uint64) uint64 {
	if len(k.entries) < k.max {
		return now
	}
	for {
		e := &k.entries[k.heap[0]]
		due := e.full.ceil()
		if e.due >= due {
			return due
		}
		e.due = due
		k.down(0)
	}
}

// add returns a new entry of key, a full bucket. When there is no room it
// forgets a key whose bucket is full, which no one can tell from a key never
// seen; nil when all are in use.
func (k *keyTable) add(now uint64, key string) *entry {
	if k.room(now) > now {
		return nil
	}
	var i int32
	if len(k.entries) < k.max {
		i = int32(len(k.entries))
		k.entries = append(k.entries, entry{pos: i})
		k.heap = append(k.heap, i)
	} else {
		i = k.heap[0]
		k.lost = max(k.lost, k.entries[i].back.open)
		delete(k.index, k.entries[i].key)
	}
	k.index[key] = i
	e := &k.entries[i]
	*e = entry{key: key, pos: e.pos, due: now, back: giveback{open: k.lost, void: k.lost}}
	if e.back.void == 0 {
		e.back.first = e.back.open
	}
	k.down(int(e.pos))
	k.up(int(e.pos))
	return e
}

// earlier must be called after e.full has moved to an earlier time.
func (k *keyTable) earlier(e *entry) {
	if due := e.full.ceil(); due < e.due {
		e.due = due
		k.up(int(e.pos))
	}
}

func (k *keyTable) due(pos int) uint64 { return k.entries[k.heap[pos]].due }

func (k *keyTable) swap(a, b int) {
	k.heap[a], k.heap[b] = k.heap[b], k.heap[a]
	k.entries[k.heap[a]].pos, k.entries[k.heap[b]].pos = int32(a), int32(b)
}

func (k *keyTable) up(pos int) {
	for pos > 0 {
		parent := (pos - 1) / 2
		if k.due(parent) <= k.due(pos) {
			return
		}
		k.swap(parent, pos)
		pos = parent
	}
}

func (k *keyTable) down(pos int) {
	for {
		child := 2*pos + 1
		if child >= len(k.heap) {
			return
		}
		if child+1 < len(k.heap) && k.due(child+1) < k.due(child) {
			child++
		}
		if k.due(pos) <= k.due(child) {
			return
		}
		k.swap(pos, child)
		pos = child
	}
}
