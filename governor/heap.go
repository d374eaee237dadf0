package governor

// timed is something that wants the actor's attention at a time. when is in
// nanoseconds of the governor's clock.
type timed interface {
	when() int64
	index() *int32 // its index in the heap plus 1; 0: in none
}

// heap is a binary heap of timed things, earliest first, that can remove any of
// them: each knows its index. The zero heap is empty.
type heap[T timed] struct{ s []T }

func (h *heap[T]) len() int { return len(h.s) }

// next returns when the earliest is due, or forever.
func (h *heap[T]) next() int64 {
	if len(h.s) == 0 {
		return forever
	}
	return h.s[0].when()
}

// due removes and returns the earliest if it is due at now.
func (h *heap[T]) due(now int64) (t T, ok bool) {
	if len(h.s) == 0 || h.s[0].when() > now {
		return t, false
	}
	t = h.s[0]
	h.remove(t)
	return t, true
}

// fix adds t, or moves it to where its time belongs.
func (h *heap[T]) fix(t T) {
	if *t.index() == 0 {
		h.s = append(h.s, t)
		*t.index() = int32(len(h.s))
	}
	i := int(*t.index()) - 1
	if !h.up(i) {
		h.down(i)
	}
}

// remove takes t out, if it is in.
func (h *heap[T]) remove(t T) {
	i := int(*t.index()) - 1
	if i < 0 {
		return
	}
	last := len(h.s) - 1
	h.swap(i, last)
	var none T
	h.s[last] = none
	h.s = h.s[:last]
	*t.index() = 0
	if i < last && !h.up(i) {
		h.down(i)
	}
	if cap(h.s) > 64 && len(h.s) < cap(h.s)/4 {
		h.s = append(make([]T, 0, cap(h.s)/2), h.s...) // memory follows what waits
	}
}

func (h *heap[T]) up(i int) (moved bool) {
	for i > 0 {
		p := (i - 1) / 2
		if h.s[p].when() <= h.s[i].when() {
			break
		}
		h.swap(i, p)
		i, moved = p, true
	}
	return moved
}

func (h *heap[T]) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(h.s) {
			return
		}
		if c+1 < len(h.s) && h.s[c+1].when() < h.s[c].when() {
			c++
		}
		if h.s[i].when() <= h.s[c].when() {
			return
		}
		h.swap(i, c)
		i = c
	}
}

func (h *heap[T]) swap(i, j int) {
	h.s[i], h.s[j] = h.s[j], h.s[i]
	*h.s[i].index() = int32(i + 1)
	*h.s[j].index() = int32(j + 1)
}
