package store

import (
	"context"
	"errors"
	"time"
)

// Store is an engine through which processes, its nodes, share limits and
// cooldowns. It is the only arbiter: what a node knows is what the store granted it
// for a time. All methods may be called by any number of goroutines at once.
//
// An implementation is right when storetest.Run says so. What it must keep:
//
// # Time
//
// The store's clock is the only one. Nodes and store exchange durations, never
// times; a node counts them from the moment at which it sent, so that whatever
// happens on the way makes them shorter. The store's time never goes back: it takes
// the largest it has seen.
//
// # Lost state
//
// Answers carry an Epoch, which changes when the store may have forgotten anything:
// a restart, a failover, an emptied database. A key that is absent is not one that
// is unused. Unless the engine knows that nothing was granted under it, all
// permits of its limits count as taken at that moment; and for one TTL it hands out
// no slots, but believes nodes what they hold. So lost state never enlarges a
// quota; it costs one period of it.
//
// # Repetition
//
// Each node numbers its requests for a key by Seq, from 1. An item that was
// executed is not executed again: a repeated one gets the answer of the first, with
// the durations that are left of it, and one with a smaller Seq is Stale. So a node
// may repeat what it has no answer to, and requests may come late, twice, or in
// another order. A node has one request for a key under way at a time.
//
// # What may be lost
//
// A grant whose answer never arrives is charged and unused. A hint may be lost,
// repeated, late, or be about nothing. Nodes that are silent for TTL are forgotten
// with all that they held.
type Store interface {
	// Exchange executes each item by itself, all at once or one after the other,
	// and returns an answer for each, in their order. An error is about all of
	// them: one that matches ErrNotExecuted or ErrInvalid says that none was
	// executed; after any other, each may have been or not. Where some have an answer
	// the others have Answer.Err, as those for which there is no room.
	Exchange(ctx context.Context, node Node, items []Item) ([]Answer, error)

	// Meta reads and changes metadata, which is apart from everything else.
	Meta(ctx context.Context, op MetaOp) ([]Record, error)

	// Watch calls hint, from any goroutine but one call at a time, when there may
	// be news about a key: for keys that were exchanged through this Store, at
	// least. It is called until stop is, or the store is closed; stop does not wait
	// for a call that is under way. Hints only save time: what there is to know is
	// in the next Answer.
	Watch(ctx context.Context, hint func(Hint)) (stop func(), err error)

	// TTL is how long a node that is silent keeps its slots, and its probe.
	TTL() time.Duration

	// Close ends what the Store began. It does not change what nodes share. What
	// is called later returns ErrClosed. It may be called again.
	Close() error
}

// Attentive is a Store that knows when it has missed no hint. It is optional: a Syncer
// does not ask for what a hint would have told of, once per SyncerConfig.Interval and
// host, as long as its Store is one.
//
// A Store that wraps another one and changes Watch is to answer for itself, or not to
// be Attentive.
type Attentive interface {
	Store

	// HeardUntil returns a moment of this process's clock, in the past. Of all that was
	// executed before it, by whichever node and of whatever key, the hints were given
	// to each watch of this Store that began before: its hint has returned. The zero
	// Time says that nothing is known; so does a moment that is too long ago, and it
	// should seldom be more than three quarters of a second. HeardUntil does not wait
	// for the server.
	HeardUntil() time.Time
}

var (
	// ErrNotExecuted is matched by errors of requests that had no effect, so that
	// they may be repeated under a new Seq.
	ErrNotExecuted = errors.New("store: not executed")

	// ErrInvalid is matched by errors of requests, or of state, that make no
	// sense: a key that is none, a limit out of range, garbage where state should
	// be. Nothing was executed, and a repetition ends the same way.
	ErrInvalid = errors.New("store: invalid")

	// ErrClosed is what a closed Store returns. It matches ErrNotExecuted.
	ErrClosed error = closed{}

	// ErrConflict is matched by errors of a Put or a Delete that found another
	// version.
	ErrConflict = errors.New("store: another version")

	// ErrTooMany is matched by errors of requests for which the store has no room: too
	// many keys, or too many nodes under one. What it has room for is executed, also in
	// the same Exchange. It matches ErrNotExecuted.
	ErrTooMany error = tooMany{}
)

type closed struct{}

func (closed) Error() string { return "store: closed" }

func (closed) Is(target error) bool { return target == ErrNotExecuted }

type tooMany struct{}

func (tooMany) Error() string { return "store: no room for another key or node" }

func (tooMany) Is(target error) bool { return target == ErrNotExecuted }
