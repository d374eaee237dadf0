package governor

import "sync/atomic"

// word is the part of the gate that every path reads: one 64-bit atomic
//
//	closed:1 | hold:1 | want:1 | waits:1 | queued:32 | used:20
//
// used counts slots taken; queued counts requests in the inbox and in lanes that
// could go (parked lanes are subtracted); waits says that there may be requests in
// lanes, parked ones included; hold, that the table of cooling scopes has entries,
// or that the governor is paused; want, that the actor waits for a slot; closed,
// that nothing is accepted any more.
//
// Invariants:
//  1. queued rises before what it counts is visible to the actor, and falls only
//     in the granting CAS, on parking, or on removal.
//  2. hold is set and cleared only under the gate's mutex, together with the
//     table: who sees hold takes the mutex and finds the table complete.
//  3. The load in commit, and in commits, is the last thing before the closure.
//  4. release comes after everything else has gone back, the connection before it;
//     only the request's result and the end of its tracking come later.
//  5. want is set only by a CAS that saw every slot taken. So a later release
//     sees it, and no wake-up is lost.
//  6. Only the actor ends a hold.
//  7. waits is set before a request's part of queued is taken back for anything
//     but a grant, and before one is handed back; it is cleared when the lanes are
//     empty and nothing is on its way back to them. So who sees neither queued nor
//     waits overtakes nobody.
//  8. A slot counts in used while an inline call has it, or has left it in its
//     cell for the next; see cell.
type word struct{ v atomic.Uint64 }

const (
	usedBits = 20
	usedMask = 1<<usedBits - 1
	queueOne = 1 << usedBits
	queueMax = 1<<32 - 1
	waitsBit = 1 << 60
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

// recount is queue for requests that are, or come, in lanes.
func (w *word) recount(n int) {
	if n < 0 {
		w.waits() // before they count no more
	}
	w.queue(n)
}

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

// likely reports whether what is queued now is probably granted at once. It promises
// nothing.
func (w *word) likely(slots int) bool {
	v := w.v.Load()
	return v&(shutBit|holdBit|wantBit|waitsBit) == 0 && v&usedMask+v>>usedBits&queueMax < uint64(slots)
}

// ample reports whether there is a slot for each request that is queued, and nothing is held,
// waits in lanes or is on its way back to them. As long as anything is queued only the actor
// takes slots, so that for what is queued now it stays so.
func (w *word) ample(slots int) bool {
	v := w.v.Load()
	return v&(shutBit|holdBit|wantBit|waitsBit) == 0 && v&usedMask+v>>usedBits&queueMax <= uint64(slots)
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

// calm reports whether a call may start that has not been queued.
func (w *word) calm() bool { return w.v.Load() < queueOne }

// admitted is an inline call's last look before its closure, which may start if
// nothing has been held or closed since it was let in.
func (w *word) admitted() bool { return w.v.Load()&(holdBit|shutBit) == 0 }

// admit takes a slot for a call that has not been queued. The second result says
// that there is nothing against it but that all slots are used.
func (w *word) admit(slots int) (ok, full bool) {
	for {
		old := w.v.Load()
		switch {
		case old >= queueOne:
			return false, false
		case old >= uint64(slots):
			return false, true
		case w.v.CompareAndSwap(old, old+1):
			return true, false
		}
	}
}

// reclaimed gives back n slots that nobody used, and ends want: the actor, who
// calls it, looks again.
func (w *word) reclaimed(n int) {
	w.v.Add(^uint64(n - 1))
	w.v.And(^uint64(wantBit))
}

// waits and rests say whether there may be requests in lanes.
func (w *word) waits() {
	if w.v.Load()&waitsBit == 0 {
		w.v.Or(waitsBit)
	}
}

func (w *word) rests() {
	if w.v.Load()&waitsBit != 0 {
		w.v.And(^uint64(waitsBit))
	}
}

// minded reports whether the actor has to hear of what becomes free: something
// waits for it, or the end does.
func (w *word) minded() bool { return w.v.Load()&(waitsBit|shutBit|queueMax<<usedBits) != 0 }

func (w *word) hold()   { w.v.Or(holdBit) }
func (w *word) unhold() { w.v.And(^uint64(holdBit)) }
func (w *word) shut()   { w.v.Or(shutBit) }

// retire shuts when nothing is counted, nothing held and nothing on its way back to
// the lanes, and reports whether it did.
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
