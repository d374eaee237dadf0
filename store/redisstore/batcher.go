package redisstore

import (
	"context"
	"errors"
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
	batch *batch        // nil: it waits; guarded by batcher.mu
	done  chan struct{} // of one; gets a value when cmd, which is in a batch, has its reply
	late  *time.Timer   // of patience
}

// batch is what goes together. batcher.mu guards what may change.
type batch struct {
	waiters []*waiter
	left    int                // of them, whose contexts have not ended
	cancel  context.CancelFunc // nil until it goes
}

// do sends cmd, and returns nil when it has its reply, or error. It returns an error when
// ctx ends before that, which matches store.ErrNotExecuted if nothing was sent; then cmd is
// not to be looked at, as the reply may still come.
//
// Where ctx is cancelled while cmd is under way, do returns when there is a reply, or the
// deadline has passed, as the client does once it has written. So what follows a cancelled
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
		if err := b.underWay(w); err != nil {
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
func (b *batcher) underWay(w *waiter) error {
	select {
	case <-w.done:
		return nil
	case <-w.ctx.Done():
	}
	b.giveUp(w.batch)
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

// giveUp notes that one context of a batch has ended. With the last the client gives it up,
// if it has not written it yet.
func (b *batcher) giveUp(of *batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if of.left--; of.left == 0 && of.cancel != nil {
		of.cancel()
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
	w.ctx, w.cmd, w.batch = nil, nil, nil
	b.spare.Put(w)
}

// withdraw takes w out of those that wait, if it is one of them.
func (b *batcher) withdraw(w *waiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.batch != nil {
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
	next := &batch{waiters: slices.Clone(b.waiting[:n]), left: n}
	b.waiting = slices.Delete(b.waiting, 0, n)
	for _, w := range next.waiters {
		w.batch = next
	}
	b.work.Go(func() { b.run(next) })
}

// errNoReply is of commands that the client left without a reply or an error.
var errNoReply = errors.New("no reply")

// run sends what is in of, on a goroutine of its own: a caller of do returns when his
// context ends, though the others wait on.
func (b *batcher) run(of *batch) {
	defer b.next()
	cmds := make([]*redis.StringCmd, len(of.waiters))
	for i, w := range of.waiters {
		cmds[i] = w.cmd
	}
	defer func() { // also when a Config.Password ends the goroutine
		missing(cmds, errNoReply)
		for _, w := range of.waiters {
			w.done <- struct{}{}
		}
	}()
	ctx, cancel := of.context()
	defer cancel()
	b.mu.Lock()
	if of.cancel = cancel; of.left == 0 {
		cancel()
	}
	b.mu.Unlock()
	b.all(ctx, cmds)
}

// context returns one that ends with the last deadline.
func (of *batch) context() (context.Context, context.CancelFunc) {
	ctx := context.WithoutCancel(of.waiters[0].ctx)
	var last time.Time
	for _, w := range of.waiters {
		at, ok := w.ctx.Deadline()
		if !ok {
			return context.WithCancel(ctx)
		}
		if at.After(last) {
			last = at
		}
	}
	return context.WithDeadline(ctx, last)
}

// missing sets an error for those that have neither that nor a reply, of which none is "".
func missing(cmds []*redis.StringCmd, err error) {
	for _, c := range cmds {
		if c.Err() == nil && c.Val() == "" {
			c.SetErr(err)
		}
	}
}
