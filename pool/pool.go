package pool

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/puddle/v2"
)

// Pool lends out connections of type C by selectors of type S. Make one with
// New; it is safe for use by any number of goroutines.
//
// A place is the right to have one connection open, there are Max. A place is
// held by an idle connection, by one that is lent or being closed, by an Open
// until it returns, and by a reservation that has yet to open.
//
// To puddle all our connections stay acquired, from Open to Close: checkout is
// served by idle lists of our own, because puddle's does not know selectors.
// What puddle does is to create, to destroy, to keep its own count of Max, and
// the join of Close. Two things of puddle are never used: TryAcquire, after
// which a Close may hang, and an Acquire that can be cancelled, which would leave
// its connection in puddle's idle list, for any selector to find.
type Pool[S comparable, C any] struct {
	cfg    Config[S, C] // with defaults; not changed after New
	timed  bool         // whether a connection's times matter, so that reading the clock does
	puddle *puddle.Pool[*conn[S, C]]

	ending context.Context // ended with cause ErrClosed by Shutdown
	end    context.CancelCauseFunc
	done   chan struct{}  // closed when nothing is left
	tasks  sync.WaitGroup // our goroutines; see begin and destruct for why Add never races with Wait

	shelf  atomic.Pointer[shelf[S, C]] // nil until a Loan is given back
	onFree atomic.Pointer[[]func()]    // copied on write, under mu
	panics atomic.Uint64               // see Stats.HookPanics

	// mu guards everything below, and the fields of entries, connections and
	// waiters that say so. Under it nothing blocks, no hook is called and no
	// other lock is taken. A Reservation's state is atomic and decides by itself
	// who owns the connection; what follows from that is done under mu.
	mu      sync.Mutex
	closed  bool
	used    int                // places held, at most cfg.Max
	sels    map[S]*entry[S, C] // the selectors that there is something to know about
	lru     lru[S, C]          // all idle connections
	uses    uint64             // numbers the uses of connections, see conn.last
	waiters waiters[S, C]      // of Acquire, in the order of coming
	failing []*entry[S, C]     // those whose failures are remembered, and some whose no longer are
	timer   *time.Timer        // runs tick; made when first needed
	tickAt  time.Time          // when it will, zero: it is not set
	n       counts
}

// entry is what a pool knows about one selector. It is in Pool.sels while places
// are held for the selector, somebody waits for it or its failures matter; so
// the map is bounded by what is open and waits, and by how many selectors fail
// within failureMemory. The fields are guarded by Pool.mu.
type entry[S comparable, C any] struct {
	pool    *Pool[S, C] // not changed
	sel     S           // not changed
	places  int
	oldest  *waiter[S, C] // who waits for it, and newest
	newest  *waiter[S, C]
	idle    []*conn[S, C] // ordered by last; the next to be lent is at the end
	blocked uint64        // the last pass of grantLocked that found no way to serve it
	failures
}

// New returns a pool. It opens nothing yet. The error names the field of cfg
// that is wrong, and its value.
func New[S comparable, C any](cfg Config[S, C]) (*Pool[S, C], error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Pool[S, C]{
		cfg:   cfg,
		timed: cfg.MaxAge > 0 || cfg.IdleTimeout > 0 || cfg.Check != nil && cfg.CheckAfter > 0,
		done:  make(chan struct{}),
		sels:  make(map[S]*entry[S, C]),
	}
	p.ending, p.end = context.WithCancelCause(context.Background())
	p.puddle, err = puddle.NewPool(&puddle.Config[*conn[S, C]]{Constructor: p.construct, Destructor: p.destruct, MaxSize: int32(cfg.Max)})
	return p, err
}

// Max returns how many connections there may be.
func (p *Pool[S, C]) Max() int { return p.cfg.Max }

// IsBad reports whether Config.IsBad takes err for the sign of a broken
// connection. It is false for nil, and true when IsBad panics.
func (p *Pool[S, C]) IsBad(err error) (bad bool) {
	if err == nil || p.cfg.IsBad == nil {
		return false
	}
	defer func() {
		if recover() != nil {
			p.panics.Add(1)
			bad = true
		}
	}()
	return p.cfg.IsBad(err)
}

// now returns the time where it matters to a connection, else zero.
func (p *Pool[S, C]) now() time.Time {
	if p.timed {
		return time.Now()
	}
	return time.Time{}
}

// sane reports whether sel can be a map's key and be found again. NaN cannot, nor
// a value that holds one, and an interface may hold a type without equality,
// where comparing panics just as hashing would.
func sane[S comparable](sel S) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	again := sel
	return sel == again
}

// entryLocked returns the entry of sel, a new one if there is none.
func (p *Pool[S, C]) entryLocked(sel S) *entry[S, C] {
	e := p.sels[sel]
	if e == nil {
		e = &entry[S, C]{pool: p, sel: sel}
		p.sels[sel] = e
	}
	return e
}

// forgetLocked removes e when there is nothing left to know about it.
func (p *Pool[S, C]) forgetLocked(e *entry[S, C]) {
	if e.places == 0 && e.oldest == nil && !e.remembered() && p.sels[e.sel] == e {
		delete(p.sels, e.sel)
	}
}
