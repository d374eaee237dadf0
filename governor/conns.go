package governor

import (
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/pool"
)

// connPool is a pool without its type parameters.
type connPool interface {
	idle(sel any) bool
	lend(sel any) (lease, bool)
	reserve(sel any) (lease, bool)
	displaces(sel any) (victim any, ok bool)
	notBefore(sel any) time.Time
	earliest(sel any) time.Time
	refusal(sel any) error
	full(sel any) bool
	isBad(err error) bool
	onFree(fn func())
	end() <-chan struct{}
	stats() pool.Stats
}

// lease is a reservation without its type parameters.
type lease interface {
	Ready() bool
	Release()
	Discard(cause error)
}

// unused gives back a lease of which nothing was used.
func unused(ls lease) {
	if l, ok := ls.(interface{ Unused() }); ok {
		l.Unused()
	} else if ls != nil {
		ls.Release() // a Reservation knows
	}
}

// pooled makes a pool a connPool.
type pooled[S comparable, C any] struct{ p *pool.Pool[S, C] }

// of unboxes a selector. A nil interface is the zero S, an interface, too.
func (p pooled[S, C]) of(sel any) S {
	s, _ := sel.(S)
	return s
}

func (p pooled[S, C]) idle(sel any) bool           { return p.p.Idle(p.of(sel)) }
func (p pooled[S, C]) notBefore(sel any) time.Time { return p.p.NotBefore(p.of(sel)) }
func (p pooled[S, C]) earliest(sel any) time.Time  { return p.p.Earliest(p.of(sel)) }
func (p pooled[S, C]) refusal(sel any) error       { return p.p.Refusal(p.of(sel)) }
func (p pooled[S, C]) full(sel any) bool           { return p.p.Full(p.of(sel)) }
func (p pooled[S, C]) isBad(err error) bool        { return p.p.IsBad(err) }
func (p pooled[S, C]) onFree(fn func())            { p.p.OnFree(fn) }
func (p pooled[S, C]) stats() pool.Stats           { return p.p.Stats() }

// lend is reserve for an idle connection that needs no check, without an allocation.
func (p pooled[S, C]) lend(sel any) (lease, bool) {
	l, ok := p.p.Lend(p.of(sel))
	return l, ok
}

func (p pooled[S, C]) reserve(sel any) (lease, bool) {
	r, ok := p.p.Reserve(p.of(sel))
	return r, ok
}

func (p pooled[S, C]) displaces(sel any) (victim any, ok bool) {
	return p.p.Displaces(p.of(sel))
}

func (p pooled[S, C]) end() <-chan struct{} {
	p.p.Shutdown()
	return p.p.Done()
}

// poolEvents passes the pool's events on, under the governor's name.
func (c *core) poolEvents(users func(event.Event)) func(event.Event) {
	return func(e event.Event) {
		c.emit(e)
		if users != nil {
			users(e)
		}
	}
}
