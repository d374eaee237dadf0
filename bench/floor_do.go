package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// B1floor: the call of B1 beside the same written out by hand for one function; B1bare:
// that beside the peer of B1. It keeps what Do promises, and knows nothing else: a bound
// on the calls that run, a word that keeps them back, a context of each call's own that
// ends with it though the function may keep it, how many calls there were and how long
// they took. That takes an allocation, two readings of the clock and four locked
// operations: what is left that a library could save.
func init() {
	const workers = 64
	for _, c := range []int{1, 64} {
		add(
			row{
				id: fmt.Sprintf("B1floor/%d", c), what: "Do", peer: "written out by hand", unit: "ns",
				target: []bound{{ratio, 1.5}, {allocs, 1}}, measure: timed(c, plainDo(workers), bareDo(workers)),
			},
			row{
				id: fmt.Sprintf("B1bare/%d", c), what: "what B1 takes at least, written out by hand", peer: "reference", unit: "ns",
				measure: timed(c, bareDo(workers), referenceDo(workers)),
			},
		)
	}
}

// bare runs calls on their callers' goroutines. Each of its words has a cache line.
type bare struct {
	base  time.Time
	slots int64
	_     [64]byte
	kept  atomic.Bool // it is closed, or in a pause
	_     [64]byte
	used  atomic.Int64
	_     [64]byte
	took  [8]atomic.Uint64 // calls, by how many units of 8 µs they took; the last has all longer ones
}

var errKept = errors.New("closed, or in a pause")

// bareCall is the context of one call.
type bareCall struct {
	context.Context
	b     *bare
	began int64
	state atomic.Pointer[bareEnd] // nil: nobody has asked for more
}

// bareEnd is what a call has that somebody asked for its Done, or is over.
type bareEnd struct {
	ctx    context.Context
	cancel context.CancelFunc
}

// bareOver stands for that of a call that is over, and that nobody asked.
var bareOver = new(bareEnd)

func (c *bareCall) end() *bareEnd {
	e := c.state.Load()
	if e == nil {
		e = new(bareEnd)
		e.ctx, e.cancel = context.WithCancel(c.Context)
		if !c.state.CompareAndSwap(nil, e) {
			e.cancel()
			e = c.state.Load()
		}
	}
	return e
}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func (c *bareCall) Done() <-chan struct{} {
	if e := c.end(); e != bareOver {
		return e.ctx.Done()
	}
	return closed
}

func (c *bareCall) Err() error {
	switch e := c.state.Load(); e {
	case nil:
		return c.Context.Err()
	case bareOver:
		return context.Canceled
	default:
		return e.ctx.Err()
	}
}

func bareDo(workers int) side {
	return func() (func(int) error, func(), error) {
		ctx, cancel := alive()
		b := &bare{base: time.Now(), slots: int64(workers)}
		return each(func() error {
			_, err := b.do(ctx, noop)
			return err
		}), cancel, nil
	}
}

func (b *bare) do(ctx context.Context, fn func(context.Context, struct{}) (int, error)) (v int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if b.used.Add(1) > b.slots {
		b.used.Add(-1)
		return 0, errFull
	}
	c := &bareCall{Context: ctx, b: b, began: int64(time.Since(b.base))}
	defer c.leave() // also after a panic
	if b.kept.Load() {
		return 0, errKept
	}
	return fn(c, struct{}{})
}

// leave ends c, counts it, and gives its place back.
func (c *bareCall) leave() {
	const unit = int64(8 * time.Microsecond)
	if !c.state.CompareAndSwap(nil, bareOver) {
		c.state.Load().cancel()
	}
	c.b.took[min((int64(time.Since(c.b.base))-c.began)/unit, 7)].Add(1)
	c.b.used.Add(-1)
}
