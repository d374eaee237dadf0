package limiter

import (
	"math/bits"
	"sync/atomic"
)

// cell is the bucket of one key: the hash by which the key is known, 0 in a cell
// that has never been used, and tat.
//
// Whoever finds a key's cell takes from it without a lock. Meanwhile the holder
// of the shard's mutex may give the cell to another key, or move its key to
// another table. Three rules keep a take from a cell that is not the key's:
//
//   - A cell is given away, or left, only after its tat is frozen. A frozen tat is
//     never swapped, so no take gets lost on the way.
//   - The new owner's hash is stored before its tat. A take loads tat and after
//     that the hash once more: when it is still the key's, so was the tat.
//   - The tat of a cell only grows, whoever owns it: a cell is given away only when
//     its tat has passed, and the new owner's lies ahead. So where a take finds the
//     tat that it loaded, nothing has happened since.
type cell struct {
	hash atomic.Uint64
	tat  atomic.Int64
}

// frozen is set in a tat that must not be swapped: who holds the mutex is about to
// put another key here, or has put this one elsewhere. Such a tat is negative.
const frozen = -1 << 63

// take takes n permits of the key with that hash, or returns how long they have
// to wait. It is not ok when the cell is not, or may soon not be, the key's.
func (c *cell) take(g *gcra, hash uint64, now int64, n int) (wait int64, ok bool) {
	for {
		tat := c.tat.Load()
		if tat < 0 || c.hash.Load() != hash {
			return 0, false
		}
		wait = g.wait(tat, now, n)
		if wait > 0 || c.tat.CompareAndSwap(tat, g.next(tat, now, n)) {
			return wait, true
		}
	}
}

// claim freezes the cell if its tat has passed at now, and returns that; it is
// not ok if a take was faster. The caller holds the mutex, and gives the cell
// away.
func (c *cell) claim(now int64) (tat int64, ok bool) {
	tat = c.tat.Load()
	return tat, tat <= now && c.tat.CompareAndSwap(tat, tat|frozen)
}

func (c *cell) give(hash uint64, tat int64) {
	c.hash.Store(hash)
	c.tat.Store(tat)
}

// cells is a hash table with open addressing and linear probing. Once used, a
// cell stays in use, so no search ends too early; and at least one has never been
// used, so every search ends.
type cells []cell

// home returns where the search for hash begins. The upper bits decide it; the
// lower ones have decided on the shard.
func (t cells) home(hash uint64) int {
	i, _ := bits.Mul64(hash, uint64(len(t)))
	return int(i)
}

func (t cells) after(i int) int {
	if i++; i < len(t) {
		return i
	}
	return 0
}

// find returns the cell of hash; nil when there is none, to one who holds the
// mutex. To others that is a hint.
func (t cells) find(hash uint64) *cell {
	for i := t.home(hash); ; i = t.after(i) {
		switch t[i].hash.Load() {
		case hash:
			return &t[i]
		case 0:
			return nil
		}
	}
}

// free returns a cell for hash, which has none: the first one on its way whose
// tat has passed at now, or else the unused one at its end, and whether it is
// that. The caller holds the mutex.
func (t cells) free(hash uint64, now int64) (c *cell, unused bool) {
	for i := t.home(hash); ; i = t.after(i) {
		switch {
		case t[i].hash.Load() == 0:
			if c == nil {
				return &t[i], true
			}
			return c, false
		case c == nil && t[i].tat.Load() <= now:
			c = &t[i]
		}
	}
}

// live returns how many cells have a tat that has not passed at now, and the
// earliest of those tats.
func (t cells) live(now int64) (n int, earliest int64) {
	earliest = 1<<63 - 1
	for i := range t {
		if tat := t[i].tat.Load(); tat > now {
			n++
			earliest = min(earliest, tat)
		}
	}
	return n, earliest
}

// freeze freezes all cells and returns how many are live at now. Who finds a
// frozen cell comes to wait for the mutex, which the caller holds.
func (t cells) freeze(now int64) (live int) {
	for i := range t {
		if t[i].tat.Or(frozen) > now {
			live++
		}
	}
	return live
}

// thaw copies the live cells of a frozen table to t, which no one else has yet,
// and returns the largest tat that it has left behind. Homes are in the order of
// hashes in any table, so that it goes through both from end to end.
func (t cells) thaw(from cells, now int64) (lost int64) {
	for i := range from {
		hash, tat := from[i].hash.Load(), from[i].tat.Load()&^frozen
		if tat <= now {
			lost = max(lost, tat)
			continue
		}
		j := t.home(hash)
		for t[j].hash.Load() != 0 {
			j = t.after(j)
		}
		t[j].give(hash, tat)
	}
	return lost
}
