package store

import "container/heap"

// cellHeap is cells by when they are due. A cell's idx is its place, from 1.
type cellHeap []*cell

func (h cellHeap) Len() int           { return len(h) }
func (h cellHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h cellHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].idx, h[j].idx = i+1, j+1
}

// Push is for package heap.
func (h *cellHeap) Push(x any) {
	c := x.(*cell)
	*h = append(*h, c)
	c.idx = len(*h)
}

// Pop is for package heap.
func (h *cellHeap) Pop() any {
	last := len(*h) - 1
	c := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	c.idx = 0
	return c
}

func (h cellHeap) first() *cell {
	if len(h) == 0 {
		return nil
	}
	return h[0]
}

// fix puts c, whose due has changed, into its place. One that is never due has none.
func (h *cellHeap) fix(c *cell) {
	switch {
	case c.due == never:
		h.remove(c)
	case c.idx == 0:
		heap.Push(h, c)
	default:
		heap.Fix(h, c.idx-1)
	}
}

func (h *cellHeap) remove(c *cell) {
	if c.idx > 0 {
		heap.Remove(h, c.idx-1)
	}
}
