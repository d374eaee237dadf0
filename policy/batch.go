package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flyball-go/flyball/event"
)

// batch is one call for many keys. Until it is sent its fields are under
// Collapse.mu; values and err are set before done is closed, and then stay.
type batch[K comparable, R any] struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	window *time.Timer
	keys   []K
	seats  map[K]int // how many wait for each key, under mu to the end
	wanted int       // keys that somebody waits for
	calls  int       // how many wait, under mu to the end
	size   int       // how many waited when it was sent

	done   chan struct{}
	values map[K]R
	err    error
}

// errLeft is the cause of a batch's context when nobody waits for it any more.
var errLeft = errors.New("policy: all calls have left the batch")

// join gets a place for key in the batch that is open; nil when there are to be
// no more batches.
func (x *Collapse[K, R]) join(ctx context.Context, key K) *batch[K, R] {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return nil
	}
	b := x.open
	if b == nil {
		b = &batch[K, R]{seats: make(map[K]int), done: make(chan struct{})}
		b.ctx, b.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
		b.window = time.AfterFunc(x.cfg.Window, func() { x.send(b) })
		x.open = b
	}
	if _, known := b.seats[key]; !known {
		b.keys = append(b.keys, key)
	}
	if b.seats[key]++; b.seats[key] == 1 {
		b.wanted++
	}
	b.calls++
	if b.wanted == x.cfg.MaxBatch {
		x.detach(b)
		go x.run(b)
	}
	return b
}

// leave gives up a place. It reports whether the batch has been sent.
func (x *Collapse[K, R]) leave(b *batch[K, R], key K) (sent bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if b.seats[key]--; b.seats[key] == 0 {
		b.wanted--
	}
	b.calls--
	sent = x.open != b
	if b.calls == 0 {
		b.cancel(errLeft)
		if !sent {
			b.window.Stop()
			x.open = nil
		}
	}
	return sent
}

// send is called when the window ends.
func (x *Collapse[K, R]) send(b *batch[K, R]) {
	x.mu.Lock()
	open := x.open == b
	if open {
		x.detach(b)
	}
	x.mu.Unlock()
	if open {
		x.run(b)
	}
}

// detach makes b the one that runs next, under mu.
func (x *Collapse[K, R]) detach(b *batch[K, R]) {
	b.window.Stop()
	x.open = nil
	x.running++
	b.size = b.calls
	b.keys = slices.DeleteFunc(b.keys, func(key K) bool { return b.seats[key] == 0 })
}

// run makes the call. However that ends, those who wait hear of it.
func (x *Collapse[K, R]) run(b *batch[K, R]) {
	guard(func() (err error) {
		if b.size > 1 {
			report(x.cfg.OnEvent, event.Event{Kind: event.Collapsed, Name: x.cfg.Name, Attempt: b.size})
		}
		b.values, err = x.cfg.Batch(b.ctx, b.keys)
		return err
	}, func(e ending) {
		b.err = e.error()
		close(b.done)
		b.cancel(errLost)
		x.mu.Lock()
		defer x.mu.Unlock()
		x.running--
		x.finish()
	})
}

// result returns what there is for a key, when the batch is done.
func (b *batch[K, R]) result(key K) (R, error) {
	r, ok := b.values[key]
	if ok {
		return r, nil
	}
	if own, is := errors.AsType[KeyErrors[K]](b.err); is && own[key] != nil {
		return r, own[key]
	}
	if b.err != nil {
		return r, b.err
	}
	return r, ErrNoResult
}

// closed is a refusal that stands.
type closed string

func (e closed) Error() string   { return string(e) }
func (e closed) Refused() bool   { return true }
func (e closed) Permanent() bool { return true }

// ErrClosed answers calls to a Collapse that is closed. It is permanent.
var ErrClosed error = closed("policy: closed")

// ErrNoResult is the error of a key that a batch has neither a result nor an error
// for.
var ErrNoResult = errors.New("policy: no result in the batch")

// KeyErrors is the error of a batch in which some keys failed for reasons of their
// own.
type KeyErrors[K comparable] map[K]error

// Error says how many keys failed, and of one how.
func (e KeyErrors[K]) Error() string {
	for key, err := range e {
		return fmt.Sprintf("policy: %d keys failed, %v: %v", len(e), key, err)
	}
	return "policy: 0 keys failed"
}
