package redisstore

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/flyball-go/flyball/store"
	"github.com/redis/go-redis/v9"
)

// batcher sends commands to one server. When so many are under way that more of them
// would only keep processors busy with reading and writing, those that come wait until
// one of these has its reply, and then go together: they are written at once, and read
// at once. That takes a third less of the time of a process with much to exchange, and
// of its server's. Who comes alone does not wait, and who has waited for patience, since
// what is under way hangs, or has a long way, goes alone.
type batcher struct {
	one  func(ctx context.Context, cmd *redis.StringCmd)    // returns when it has its reply, or error
	all  func(ctx context.Context, cmds []*redis.StringCmd) // returns when each of them has
	work *sync.WaitGroup                                    // counts batches, beside what calls do

	spare sync.Pool // of waiters that are in no batch any more

	mu      sync.Mutex
	lanes   int       // in use. Somebody waits only while that is mostLanes
	waiting []*waiter // in the order in which they came
}

const (
	mostLanes    = 4
	mostTogether = 64 // the first of them is not to wait for long
	patience     = 5 * time.Millisecond
)

// waiter is a command that waits, and then goes with others.
type waiter struct {
	ctx   context.Context
	cmd   *redis.StringCmd
	taken bool          // it goes now; guarded by batcher.mu
	done  chan struct{} // of one; gets a value when cmd has its reply, of which taken was set
	late  *time.Timer   // of patience
}

// do sends cmd, and returns nil when it has its reply, or error. It returns an error when
// ctx ends before that, which matches store.ErrNotExecuted if nothing was sent; then cmd is
// not to be looked at, as the reply may still come.
//
// Where ctx is cancelled while cmd is under way, do returns no sooner than without
// others: when there is a reply, or the deadline has passed. So what follows a cancelled
// exchange, as a good-bye does, is not overtaken by it.
func (b *batcher) do(ctx context.Context, cmd *redis.StringCmd) error {
	b.mu.Lock()
	if b.lanes < mostLanes {
		b.lanes++
		b.mu.Unlock()
		defer b.next() // also after a panic
		b.one(ctx, cmd)
		return nil
	}
	w := b.waiter()
	w.ctx, w.cmd = ctx, cmd
	b.waiting = append(b.waiting, w)
	b.mu.Unlock()
	select {
	case <-w.done:
		b.free(w)
		return nil
	case <-w.late.C:
	case <-ctx.Done():
	}
	if !b.withdraw(w) {
		if err := w.underWay(); err != nil {
			return err
		}
		b.free(w)
		return nil
	}
	b.free(w)
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", store.ErrNotExecuted, ctx.Err())
	}
	b.one(ctx, cmd)
	return nil
}

// underWay waits for the reply, until the deadline. With an error w stays with its batch.
func (w *waiter) underWay() error {
	var over <-chan time.Time
	if at, ok := w.ctx.Deadline(); ok {
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-w.done:
		return nil
	case <-over:
		return context.DeadlineExceeded
	}
}

// waiter returns one, whose patience begins now.
func (b *batcher) waiter() *waiter {
	w, ok := b.spare.Get().(*waiter)
	if !ok {
		return &waiter{done: make(chan struct{}, 1), late: time.NewTimer(patience)}
	}
	w.late.Reset(patience)
	return w
}

// free has w used again, which nobody knows but the caller.
func (b *batcher) free(w *waiter) {
	w.late.Stop()
	w.ctx, w.cmd, w.taken = nil, nil, false
	b.spare.Put(w)
}

// withdraw takes w out of those that wait, if it is one of them.
func (b *batcher) withdraw(w *waiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.taken {
		return false
	}
	i := slices.Index(b.waiting, w)
	b.waiting = slices.Delete(b.waiting, i, i+1)
	return true
}

// next hands a lane on to those who wait. It is called by what work counts.
func (b *batcher) next() {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.waiting), mostTogether)
	if n == 0 {
		b.lanes--
		return
	}
	batch := slices.Clone(b.waiting[:n])
	b.waiting = slices.Delete(b.waiting, 0, n)
	for _, w := range batch {
		w.taken = true
	}
	b.work.Go(func() { b.run(batch) })
}

// run sends what is in batch, on a goroutine of its own: a caller of do returns when his
// context ends, though the others wait on.
func (b *batcher) run(batch []*waiter) {
	defer b.next()
	ctx, cancel := longest(batch)
	defer cancel()
	cmds := make([]*redis.StringCmd, len(batch))
	for i, w := range batch {
		cmds[i] = w.cmd
	}
	b.all(ctx, cmds)
	for _, w := range batch {
		w.done <- struct{}{}
	}
}

// longest returns a context that ends with the last deadline of a batch.
func longest(batch []*waiter) (context.Context, context.CancelFunc) {
	ctx := context.WithoutCancel(batch[0].ctx)
	var last time.Time
	for _, w := range batch {
		at, ok := w.ctx.Deadline()
		if !ok {
			return ctx, func() {}
		}
		if at.After(last) {
			last = at
		}
	}
	return context.WithDeadline(ctx, last)
}
