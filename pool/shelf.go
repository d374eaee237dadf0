package pool

import (
	"runtime"
	"sync/atomic"
	"unsafe"
)

// shelf is where loans are put that come back in good order, for Lend to take them
// again without Pool.mu. A goroutine mostly finds what it has put there itself, in a
// cache line that no other processor has written since.
//
// What lies there belongs to whoever swaps it out. To what Pool.mu guards it is lent:
// so whoever decides under mu by what is idle first has it gathered, and the lists
// are complete at that moment. Who then finds nothing, and has to be told of what
// becomes free, closes the shelf before he gathers once more, and it stays closed
// until the next connection comes back under mu, and as long as somebody is in
// Acquire. Nothing is overlooked: who gives back puts his connection there and then
// looks whether the shelf is open, who closes it does so and then looks what lies
// there; one of the two sees the other. What is put on a closed shelf is left to who
// put it there, who takes it back and tells of it: were it gathered, nobody would.
//
// It is not for pools whose connections expire or are checked, where idle ones have
// to be looked at when their time comes.
type shelf[S comparable, C any] struct {
	open   atomic.Bool // changed under Pool.mu
	places []shelfPlace[S, C]
}

// shelfPlace fills a cache line.
type shelfPlace[S comparable, C any] struct {
	conn  atomic.Pointer[conn[S, C]]
	taken atomic.Uint64 // how often something was lent from here
	_     [48]byte
}

func newShelf[S comparable, C any]() *shelf[S, C] {
	n := 8
	for n < 2*runtime.GOMAXPROCS(0) {
		n *= 2
	}
	return &shelf[S, C]{places: make([]shelfPlace[S, C], n)}
}

// home is the place of the calling goroutine, by where its stack lies. Others may
// have the same.
func (s *shelf[S, C]) home() int {
	var here byte
	at := uintptr(unsafe.Pointer(&here)) >> 11
	return int((at ^ at>>3 ^ at>>6) & uintptr(len(s.places)-1))
}

// take takes a connection for sel, nil if none lies here.
func (s *shelf[S, C]) take(sel S) *conn[S, C] {
	if s == nil || !s.open.Load() { // after Shutdown there may be one for a moment
		return nil
	}
	home := s.home()
	for i := range s.places {
		at := &s.places[(home+i)&(len(s.places)-1)]
		// Its entry never changes, so that it can be looked at before it is ours; and a
		// selector that was a map's key can be compared with any without a panic.
		if c := at.conn.Load(); c != nil && c.entry.sel == sel && at.conn.CompareAndSwap(c, nil) {
			at.taken.Add(1)
			return c
		}
	}
	return nil
}

// reused is how many loans were made from here.
func (s *shelf[S, C]) reused() (n uint64) {
	if s != nil {
		for i := range s.places {
			n += s.places[i].taken.Load()
		}
	}
	return n
}

// shelve puts c, which comes back after use, on the shelf. It reports false, and has
// done nothing, if c is to go back under mu: because it tells something about its
// selector or is worn, or somebody is to hear of it.
func (p *Pool[S, C]) shelve(c *conn[S, C]) bool {
	if c.uses == 0 || p.timed || p.cfg.Check != nil || p.cfg.MaxUses > 0 && c.uses+1 >= p.cfg.MaxUses {
		return false
	}
	s := p.shelf.Load()
	if s == nil {
		p.shelf.CompareAndSwap(nil, newShelf[S, C]()) // closed
		return false
	}
	if !s.open.Load() {
		return false
	}
	c.uses++
	p.lay(s, c)
	return true
}

// lay puts c, which the caller owns, on s, which was open a moment ago.
func (p *Pool[S, C]) lay(s *shelf[S, C], c *conn[S, C]) {
	at := &s.places[s.home()]
	if old := at.conn.Swap(c); old != nil { // it came back before c
		p.unshelve(old)
	}
	if !s.open.Load() && at.conn.CompareAndSwap(c, nil) {
		p.unshelve(c)
	}
}

// unshelve makes c, which the caller has taken from the shelf, idle.
func (p *Pool[S, C]) unshelve(c *conn[S, C]) {
	now := p.now()
	p.mu.Lock()
	p.touchLocked(c, now)
	p.keepLocked(c, now)
	p.mu.Unlock()
	p.free()
}

// gatherLocked makes what lies on an open shelf idle. Nobody waits for it then.
func (p *Pool[S, C]) gatherLocked() {
	if s := p.shelf.Load(); s != nil && s.open.Load() {
		p.clearLocked(s)
	}
}

// attendLocked closes the shelf for one who found nothing and is to hear of what
// comes back, and reports whether there is something after all.
func (p *Pool[S, C]) attendLocked() bool {
	s := p.shelf.Load()
	if s == nil || !s.open.Load() {
		return false
	}
	s.open.Store(false) // before the look at what is there
	return p.clearLocked(s)
}

func (p *Pool[S, C]) clearLocked(s *shelf[S, C]) (some bool) {
	for i := range s.places {
		at := &s.places[i].conn
		if at.Load() == nil {
			continue
		}
		if c := at.Swap(nil); c != nil {
			p.touchLocked(c, p.now())
			p.idleLocked(c)
			some = true
		}
	}
	return some
}

// reopenLocked opens the shelf, unless somebody waits. Whoever found nothing is told
// after this, and closes it again if he still does.
func (p *Pool[S, C]) reopenLocked() {
	if s := p.shelf.Load(); s != nil && !p.closed && p.waiters.len == 0 && !s.open.Load() {
		s.open.Store(true)
	}
}
