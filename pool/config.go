package pool

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/event"
)

// Config says how a pool opens, keeps and closes connections. Only Open is
// required. It is copied by New.
//
// The functions are never called under a lock of the pool and must be safe for
// use by several goroutines. They may use the pool, but must not call its Close,
// which would wait for them; Shutdown they may.
type Config[S comparable, C any] struct {
	// Name is the pool's in events; in a governor it is the governor's.
	Name string

	// Open makes a connection. Required. Its ctx has the values of the ctx given
	// to Conn or Acquire but not its end: an Open whose caller has left goes on,
	// and its connection becomes an idle one. The ctx ends after OpenTimeout and
	// when the pool is closed. A connection returned beside an error is ignored,
	// not closed. An error is permanent, so that waiting callers are told at once
	// instead of waiting for another try, when it or one that it wraps has a
	// method Permanent() bool that returns true.
	Open func(ctx context.Context, sel S) (C, error)

	// Close ends a connection. It is called exactly once for every connection
	// that Open returned, however late. nil: nothing.
	Close func(sel S, c C)

	// Max is how many connections there may be, over all selectors, counting
	// those that are being opened or closed. 0 means 16.
	Max int

	// MaxPerSelector is the same for each selector. 0: only Max counts.
	MaxPerSelector int

	// OpenTimeout bounds each Open, the closing of a stolen connection before it
	// included, and each Check, for those who wait for them. One that ignores
	// its ctx holds its place until it returns. 0 means 30 s.
	OpenTimeout time.Duration

	// OpenBackoff is how long a selector gets no new connection after an Open
	// failed; its Attempt is the number of failures in a row, several that ran
	// at once being one. A connection that IsBad finds broken before it was ever
	// given back counts like a failed Open. A selector that was left alone for a
	// minute after its backoff starts from the beginning. A schedule that ends
	// keeps to its last delay. nil means 100 ms, doubling up to 10 s.
	OpenBackoff backoff.Schedule

	// IsBad says whether an error of a call means that its connection is broken.
	// The pool itself asks it about the causes given to Discard. A panic counts as
	// true. nil: no error does.
	IsBad func(err error) bool

	MaxAge      time.Duration // no connection is lent that was opened so long ago. 0: no limit
	MaxUses     int           // nor one that was lent so often. 0: no limit
	IdleTimeout time.Duration // nor one that was idle so long. Idle ones are closed at that time, and at MaxAge. 0: no limit

	// Check examines a connection that was idle for CheckAfter or longer before
	// it is lent again. After an error it is closed and a new one opened in its
	// place. The ctx is like that of Open. nil: no check, whatever CheckAfter.
	Check      func(ctx context.Context, sel S, c C) error
	CheckAfter time.Duration // 0: before every reuse

	// OnEvent hears of connections opened, failed, stolen and discarded. Source
	// is the selector as fmt.Sprint prints it: a selector that holds a secret
	// needs a String method. The pool waits for it to return: it should be
	// quick. Events of several connections may come out of order, and that of
	// a connection after it was lent or its successor opened; Done waits for
	// all. A panic is dropped. nil: nobody does.
	OnEvent func(event.Event)
}

// withDefaults returns cfg with its defaults filled in, or what is wrong with it.
func (cfg Config[S, C]) withDefaults() (Config[S, C], error) {
	if cfg.Open == nil {
		return cfg, fmt.Errorf("pool: Config.Open is nil, want a function")
	}
	for _, n := range []struct {
		field string
		value int
	}{{"Max", cfg.Max}, {"MaxPerSelector", cfg.MaxPerSelector}, {"MaxUses", cfg.MaxUses}} {
		if n.value < 0 || n.value > math.MaxInt32 {
			return cfg, fmt.Errorf("pool: Config.%s is %d, want 0 to %d", n.field, n.value, math.MaxInt32)
		}
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"OpenTimeout", cfg.OpenTimeout}, {"MaxAge", cfg.MaxAge}, {"IdleTimeout", cfg.IdleTimeout}, {"CheckAfter", cfg.CheckAfter}} {
		if d.value < 0 {
			return cfg, fmt.Errorf("pool: Config.%s is %v, want 0 or more", d.field, d.value)
		}
	}
	if cfg.Max == 0 {
		cfg.Max = 16
	}
	if cfg.OpenTimeout == 0 {
		cfg.OpenTimeout = 30 * time.Second
	}
	if cfg.OpenBackoff == nil {
		cfg.OpenBackoff = backoff.Exponential{Initial: 100 * time.Millisecond, Multiplier: 2, Max: 10 * time.Second}
	} else if err := backoff.Validate(cfg.OpenBackoff); err != nil {
		return cfg, fmt.Errorf("pool: Config.OpenBackoff: %w", err)
	}
	return cfg, nil
}
