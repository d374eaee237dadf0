package pool

// Stats is a snapshot of a pool.
type Stats struct {
	Max       int `json:"max"`       // connections there may be
	Open      int `json:"open"`      // there are: Idle + InUse + Closing
	Idle      int `json:"idle"`      // can be lent
	InUse     int `json:"in_use"`    // are lent, reserved or checked
	Closing   int `json:"closing"`   // their Close has not returned
	Opening   int `json:"opening"`   // Opens that have not returned
	Waiting   int `json:"waiting"`   // callers in Acquire without a reservation
	Selectors int `json:"selectors"` // about which something is kept

	// Since New.
	Created    uint64 `json:"created"`     // connections opened
	Failed     uint64 `json:"failed"`      // Opens, and Checks that took too long
	Reused     uint64 `json:"reused"`      // loans of an idle connection, counted from the reservation on
	Stolen     uint64 `json:"stolen"`      // closed in favour of another selector
	Discarded  uint64 `json:"discarded"`   // closed because bad, old or worn
	HookPanics uint64 `json:"hook_panics"` // panics of IsBad, OnEvent and OnFree's functions, and Goexit in the latter two; those of others are errors that somebody gets
}

// counts is the part of it that Pool.mu guards and nothing else depends on.
type counts struct {
	open, closing, opening                     int
	created, failed, reused, stolen, discarded uint64
}

// Stats returns a snapshot. It costs a lock.
func (p *Pool[S, C]) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gatherLocked()
	n := p.n
	n.reused += p.shelf.Load().reused()
	return Stats{
		Max: p.cfg.Max, Open: n.open, Idle: p.lru.len, InUse: n.open - p.lru.len - n.closing, Closing: n.closing, Opening: n.opening,
		Waiting: p.waiters.len, Selectors: len(p.sels),
		Created: n.created, Failed: n.failed, Reused: n.reused, Stolen: n.stolen, Discarded: n.discarded, HookPanics: p.panics.Load(),
	}
}
