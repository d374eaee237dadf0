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
// of its server's. Who comes alone does not wait.
type batcher struct {
	one  func(ctx context.Context, cmd *redis.StringCmd)    // returns when it has its reply, or error
	all  func(ctx context.Context, cmds []*redis.StringCmd) // returns when each of them has
	work *sync.WaitGroup                                    // counts batches, beside what calls do

	spare sync.Pool // of waiters that saw their done

	mu      sync.Mutex
	lanes   int       // in use. Somebody waits only while that is mostLanes
	waiting []*waiter // in the order in which they came
}

const (
	mostLanes    = 4  // one that does not answer holds up no more than what it has
	mostTogether = 64 // the first of them is not to wait for long
)

// waiter is a command that waits, and then goes with others.
type waiter struct {
	ctx   context.Context
	cmd   *redis.StringCmd
	taken bool          // it goes now; guarded by batcher.mu
	done  chan struct{} // of one; gets a value when cmd has its reply
}

// do sends cmd, and returns nil when it has its reply, or error. It returns an error when
// ctx ends before that, which matches store.ErrNotExecuted if nothing was sent; then cmd is
// not to be looked at, as the reply may still come.
func (b *batcher) do(ctx context.Context, cmd *redis.StringCmd) error {
	b.mu.Lock()
	if b.lanes < mostLanes {
		b.lanes++
		b.mu.Unlock()
		defer b.next() // also when a hook of the client's panics
		b.one(ctx, cmd)
		return nil
	}
	w, ok := b.spare.Get().(*waiter)
	if !ok {
		w = &waiter{done: make(chan struct{}, 1)}
	}
	w.ctx, w.cmd, w.taken = ctx, cmd, false
	b.waiting = append(b.waiting, w)
	b.mu.Unlock()
	select {
	case <-w.done:
	case <-ctx.Done():
		if err := b.leave(w); err != nil {
			return err
		}
	}
	w.ctx, w.cmd = nil, nil
	b.spare.Put(w)
	return nil
}

// leave gives w up, whose context has ended, unless it has its reply.
func (b *batcher) leave(w *waiter) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !w.taken {
		i := slices.Index(b.waiting, w)
		b.waiting = slices.Delete(b.waiting, i, i+1)
		return fmt.Errorf("%w: %w", store.ErrNotExecuted, w.ctx.Err())
	}
	select {
	case <-w.done:
		return nil
	default:
		return w.ctx.Err() // who runs it has w, for which there is no other use
	}
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
