package governor

import (
	"runtime"
	"sync/atomic"
	"unsafe"
)

// cell is the place of one inline call while it runs, by which the actor finds it,
// and the count of those that were over soon and went well. Goroutines that run on
// different processors mostly use different cells, and a cell fills a cache line:
// so they write nothing that another one reads.
//
// The first cells keep the slot of a call that ended for the next one, which then
// need not touch the gate's word. Whoever leaves a slot there looks at the word
// afterwards, and the actor, who needs it, first sets want and then looks into the
// cells: one of the two sees the other. A request that is queued, a hold and the end
// of the governor keep calls from being let in inline, and so from using that slot.
type cell struct {
	call  atomic.Pointer[inlineCall] // nil: free; &spare: free, with a slot
	ended [quick]atomic.Uint64       // by bucket of core.calls
}

// quick is in how many buckets of the histogram a cell counts.
const quick = 7

// spare is no call.
var spare inlineCall

// cells is a list of blocks of cells. The first block is made with the governor,
// a further one, twice as large, when all cells are in use.
type cells struct {
	block []cell // a power of two
	next  atomic.Pointer[cells]
}

func (b *cells) open() {
	n := 8
	for n < 2*runtime.GOMAXPROCS(0) {
		n *= 2
	}
	b.block = make([]cell, n)
}

// further returns the block after b, which it makes if there is none.
func (b *cells) further() *cells {
	if next := b.next.Load(); next != nil {
		return next
	}
	b.next.CompareAndSwap(nil, &cells{block: make([]cell, 2*len(b.block))})
	return b.next.Load()
}

// running yields the calls that are in cells, some of which are about to start,
// or have just ended.
func (b *cells) running(yield func(*inlineCall) bool) {
	for ; b != nil; b = b.next.Load() {
		for i := range b.block {
			if in := b.block[i].call.Load(); in != nil && in != &spare && !yield(in) {
				return
			}
		}
	}
}

// sum returns how many calls the cells have counted.
func (b *cells) sum() (sums [quick]uint64, all uint64) {
	for ; b != nil; b = b.next.Load() {
		for i := range b.block {
			for j := range sums {
				n := b.block[i].ended[j].Load()
				sums[j] += n
				all += n
			}
		}
	}
	return sums, all
}

// claim finds a cell for in, and a slot. It returns nil when in must go by the
// actor. keeps says that the slot may be left in the cell.
func (c *core) claim(in *inlineCall) (cl *cell, keeps bool) {
	w := &c.gate.word
	full, slot := false, false
	for b := &c.cells; ; b = b.further() {
		mask, from := len(b.block)-1, home(unsafe.Pointer(in))
		for i := range b.block {
			cl = &b.block[(from+i)&mask]
			switch p := cl.call.Load(); {
			case p == &spare && !slot:
				if cl.call.CompareAndSwap(p, in) {
					return cl, true
				}
			case p == nil && !full:
				if !slot {
					if slot, full = w.admit(c.slots); !slot {
						if !full {
							return nil, false
						}
						continue // but an idle cell may have a slot
					}
				}
				if cl.call.CompareAndSwap(nil, in) {
					return cl, b == &c.cells
				}
			}
		}
		if full && !slot {
			return nil, false
		}
	}
}

// place finds a cell for in, which has a slot.
func (c *core) place(in *inlineCall) *cell {
	for b := &c.cells; ; b = b.further() {
		mask, from := len(b.block)-1, home(unsafe.Pointer(in))
		for i := range b.block {
			if cl := &b.block[(from+i)&mask]; cl.call.Load() == nil && cl.call.CompareAndSwap(nil, in) {
				return cl
			}
		}
	}
}

// vacate takes a call out of its cell and gives its slot back, or leaves it there.
// It is the call's last act.
func (c *core) vacate(cl *cell, keeps bool) {
	if keeps {
		cl.call.Store(&spare)
		if c.gate.word.calm() || !cl.call.CompareAndSwap(&spare, nil) {
			return
		}
	} else {
		cl.call.Store(nil)
	}
	c.releaseSlot(nil, false)
}

// reclaim takes the slots that idle cells keep, and reports whether there were any.
// Only the actor calls it.
func (c *core) reclaim() bool {
	n := 0
	for i := range c.cells.block {
		cl := &c.cells.block[i]
		if cl.call.Load() == &spare && cl.call.CompareAndSwap(&spare, nil) {
			n++
		}
	}
	if n > 0 {
		c.gate.word.reclaimed(n)
	}
	return n > 0
}

// full reports whether no slot is free, and if so sees to it that the actor is
// woken when one is.
func (c *core) full() bool {
	for c.gate.word.full(c.slots) {
		if !c.reclaim() {
			return true
		}
	}
	return false
}

// taken is how many slots are in use: exactly so in the actor, while no call begins or
// ends; elsewhere it may count those that reclaim has in hand.
func (c *core) taken() int {
	n := c.gate.word.used()
	for i := range c.cells.block {
		if c.cells.block[i].call.Load() == &spare {
			n--
		}
	}
	return max(0, n)
}
