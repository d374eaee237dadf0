package governor

import "sync/atomic"

// word is the part of the gate that every path reads: one 64-bit atomic
//
//	closed:1 | hold:1 | want:1 | queued:32 | used:20
//
// used counts slots taken; queued counts requests in the inbox and in lanes that
// could go (parked lanes are subtracted); hold says that the table of cooling
// scopes has entries; want, that the actor waits for a slot; closed, that it
// waits for the end.
//
// Invariants:
//  1. queued rises before what it counts is visible to the actor, and falls only
//     in the granting CAS, on parking, or on removal.
//  2. hold is set and cleared only under the gate's mutex, together with the
//     table: who sees hold takes the mutex and finds the table complete.
//  3. The load in open is the last thing before the closure.
//  4. release comes after everything else has gone back, the connection before it;
//     only the request's result and the end of its tracking come later.
//  5. want is set only by a CAS that saw every slot taken. So a later release
//     sees it, and no wake-up is lost.
//  6. Only the actor ends a hold.
type word struct{ v atomic.Uint64 }

const (
	usedBits = 20
	usedMask = 1<<usedBits - 1
	queueOne = 1 << usedBits
	queueMax = 1<<32 - 1
	wantBit  = 1 << 61
	holdBit  = 1 << 62
	shutBit  = 1 << 63
)

func (w *word) used() int      { return int(w.v.Load() & usedMask) }
func (w *word) queued() int    { return int(w.v.Load() >> usedBits & queueMax) }
func (w *word) shutting() bool { return w.v.Load()&shutBit != 0 }
func (w *word) held() bool     { return w.v.Load()&holdBit != 0 }

// queue adds n, which may be negative, to the requests counted as queued.
func (w *word) queue(n int) { w.v.Add(uint64(int64(n) * queueOne)) }

// grant turns one queued request into a used slot. It fails when all slots are
// used, and then want is set.
func (w *word) grant(slots int) bool {
	for {
		old := w.v.Load()
		if old&usedMask >= uint64(slots) {
			if old&wantBit != 0 || w.v.CompareAndSwap(old, old|wantBit) {
				return false
			}
			continue
		}
		if w.v.CompareAndSwap(old, old+1-queueOne) {
			return true
		}
	}
}

// full reports whether no slot is free, and if so asks to be woken when one is.
func (w *word) full(slots int) bool {
	for {
		old := w.v.Load()
		if old&usedMask < uint64(slots) {
			return false
		}
		if old&wantBit != 0 || w.v.CompareAndSwap(old, old|wantBit) {
			return true
		}
	}
}

// release gives a slot back and reports whether the actor must be woken.
func (w *word) release() bool {
	now := w.v.Add(^uint64(0))
	if now&(wantBit|shutBit) == 0 {
		return false
	}
	w.v.And(^uint64(wantBit))
	return true
}

func (w *word) hold()   { w.v.Or(holdBit) }
func (w *word) unhold() { w.v.And(^uint64(holdBit)) }
func (w *word) shut()   { w.v.Or(shutBit) }

// retire shuts when nothing is counted and nothing held, and reports whether it
// did.
func (w *word) retire() bool {
	for {
		old := w.v.Load()
		if old&^wantBit != 0 {
			return false
		}
		if w.v.CompareAndSwap(old, old|shutBit) {
			return true
		}
	}
}
