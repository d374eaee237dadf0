// Package heap is a binary heap of things that are due at a time, each of which knows
// where it is in the heap, so that any of them can be moved or removed:
//
//	var h heap.Heap[*alarm]
//	h.Fix(a)              // adds it, or moves it when its time has changed
//	a, ok := h.Due(now)   // takes the earliest out, if it is due
//
// A heap is for one goroutine at a time. Fix, Remove and Due cost O(log n), all else
// O(1), and nothing is allocated but room for one more.
//
// It is no timer: nobody is woken. Whoever owns it asks Next when to look again.
package heap

import "math"

// Timed is something that wants attention at a time.
type Timed interface {
	When() int64   // any number that sorts as the time does
	Index() *int32 // its index in the heap plus 1, which the heap keeps; 0: in none
}

// Forever is later than everything.
const Forever = math.MaxInt64

// Heap has the earliest first. The zero Heap is empty.
type Heap[T Timed] struct{ s []T }

// Len returns how many are in the heap.
func (h *Heap[T]) Len() int { return len(h.s) }

// First returns the earliest. It panics when the heap is empty.
func (h *Heap[T]) First() T { return h.s[0] }

// All returns everything in the heap in no particular order but that the first is the
// earliest. It is the heap's own, and good until the heap changes.
func (h *Heap[T]) All() []T { return h.s }

// Next returns when the earliest is due, or Forever.
func (h *Heap[T]) Next() int64 {
	if len(h.s) == 0 {
		return Forever
	}
	return h.s[0].When()
}

// Due removes and returns the earliest if it is due at now.
func (h *Heap[T]) Due(now int64) (t T, ok bool) {
	if len(h.s) == 0 || h.s[0].When() > now {
		return t, false
	}
	t = h.s[0]
	h.Remove(t)
	return t, true
}

// Fix adds t, or moves it to where its time belongs.
func (h *Heap[T]) Fix(t T) {
	if *t.Index() == 0 {
		h.s = append(h.s, t)
		*t.Index() = int32(len(h.s))
	}
	i := int(*t.Index()) - 1
	if !h.up(i) {
		h.down(i)
	}
}

// Remove takes t out, if it is in.
func (h *Heap[T]) Remove(t T) {
	i := int(*t.Index()) - 1
	if i < 0 {
		return
	}
	last := len(h.s) - 1
	h.swap(i, last)
	var none T
	h.s[last] = none
	h.s = h.s[:last]
	*t.Index() = 0
	if i < last && !h.up(i) {
		h.down(i)
	}
	if cap(h.s) > 64 && len(h.s) < cap(h.s)/4 {
		h.s = append(make([]T, 0, cap(h.s)/2), h.s...) // memory follows what waits
	}
}

func (h *Heap[T]) up(i int) (moved bool) {
	for i > 0 {
		p := (i - 1) / 2
		if h.s[p].When() <= h.s[i].When() {
			break
		}
		h.swap(i, p)
		i, moved = p, true
	}
	return moved
}

func (h *Heap[T]) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(h.s) {
			return
		}
		if c+1 < len(h.s) && h.s[c+1].When() < h.s[c].When() {
			c++
		}
		if h.s[i].When() <= h.s[c].When() {
			return
		}
		h.swap(i, c)
		i = c
	}
}

func (h *Heap[T]) swap(i, j int) {
	h.s[i], h.s[j] = h.s[j], h.s[i]
	*h.s[i].Index() = int32(i + 1)
	*h.s[j].Index() = int32(j + 1)
}
