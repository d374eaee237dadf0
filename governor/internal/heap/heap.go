// Package heap is a heap of things that are due at a time, each of which knows where it
// is in the heap, so that any of them can be moved or removed:
//
//	var h heap.Heap[*alarm]
//	h.Fix(a)              // adds it, or moves it when its time has changed
//	a, ok := h.Due(now)   // takes the earliest out, if it is due
//
// A heap is for one goroutine at a time. Fix, Remove and Due cost O(log n), Refresh O(n),
// all else O(1), and nothing is allocated but room for one more.
//
// It is no timer: nobody is woken. Whoever owns it asks Next when to look again.
package heap

import (
	"iter"
	"math"
)

// Timed is something that wants attention at a time.
type Timed interface {
	When() int64   // any number that sorts as the time does; asked for by Fix and Refresh alone
	Index() *int32 // its index in the heap plus 1, which the heap keeps; 0: in none
}

// Forever is later than everything.
const Forever = math.MaxInt64

// Heap has the earliest first. The zero Heap is empty.
//
// Times are kept beside the things, so that only those are touched that move, which are
// few since each has eight below it.
type Heap[T Timed] struct{ s []slot[T] }

type slot[T Timed] struct {
	at int64
	t  T
}

const arity = 8

// Len returns how many are in the heap.
func (h *Heap[T]) Len() int { return len(h.s) }

// First returns the earliest. It panics when the heap is empty.
func (h *Heap[T]) First() T { return h.s[0].t }

// All yields everything in the heap in no particular order but that the earliest comes
// first. The heap must not be changed meanwhile.
func (h *Heap[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for i := range h.s {
			if !yield(h.s[i].t) {
				return
			}
		}
	}
}

// Next returns when the earliest is due, or Forever.
func (h *Heap[T]) Next() int64 {
	if len(h.s) == 0 {
		return Forever
	}
	return h.s[0].at
}

// At returns the time by which t, which is in the heap, is sorted.
func (h *Heap[T]) At(t T) int64 { return h.s[*t.Index()-1].at }

// Due removes and returns the earliest if it is due at now.
func (h *Heap[T]) Due(now int64) (t T, ok bool) {
	if len(h.s) == 0 || h.s[0].at > now {
		return t, false
	}
	t = h.s[0].t
	h.Remove(t)
	return t, true
}

// Fix adds t, or moves it to where its time belongs.
func (h *Heap[T]) Fix(t T) {
	i := int(*t.Index()) - 1
	if i < 0 {
		i = len(h.s)
		h.s = append(h.s, slot[T]{})
	}
	h.settle(i, slot[T]{t.When(), t})
}

// Remove takes t out, if it is in.
func (h *Heap[T]) Remove(t T) {
	i := int(*t.Index()) - 1
	if i < 0 {
		return
	}
	*t.Index() = 0
	n := len(h.s) - 1
	last := h.s[n]
	h.s[n] = slot[T]{}
	h.s = h.s[:n]
	if i < n {
		h.settle(i, last)
	}
	if cap(h.s) > 64 && len(h.s) < cap(h.s)/4 {
		h.s = append(make([]slot[T], 0, cap(h.s)/2), h.s...) // memory follows what waits
	}
}

// Refresh asks everything for its time again. No two may have changed places by it.
func (h *Heap[T]) Refresh() {
	for i := range h.s {
		h.s[i].at = h.s[i].t.When()
	}
}

// settle puts x into the place i, which nothing is in, or where it belongs instead.
func (h *Heap[T]) settle(i int, x slot[T]) {
	s := h.s
	for i > 0 {
		p := (i - 1) / arity
		if s[p].at <= x.at {
			break
		}
		h.put(i, s[p])
		i = p
	}
	for {
		c := arity*i + 1
		if c >= len(s) {
			break
		}
		for j, end := c+1, min(c+arity, len(s)); j < end; j++ {
			if s[j].at < s[c].at {
				c = j
			}
		}
		if x.at <= s[c].at {
			break
		}
		h.put(i, s[c])
		i = c
	}
	h.put(i, x)
}

func (h *Heap[T]) put(i int, x slot[T]) {
	h.s[i] = x
	*x.t.Index() = int32(i + 1)
}
