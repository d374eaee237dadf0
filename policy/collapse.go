package policy

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/flyball-go/flyball/event"
)

// CollapseConfig says how calls for single keys become one for many.
type CollapseConfig[K comparable, R any] struct {
	// Name appears in events.
	Name string

	// Batch returns the results for keys, which are all different and in the
	// order in which they were first asked for. A key in the map has its result,
	// whatever the error; one that is not has its own error when the error is,
	// or wraps, KeyErrors, else the error, else ErrNoResult. Required. It may not
	// change the map afterwards. ctx has the values of that of the first call,
	// and ends when all calls have left.
	Batch func(ctx context.Context, keys []K) (map[K]R, error)

	// Window is how long after the first call for it a batch is made. 0 means
	// 10 ms.
	Window time.Duration

	// MaxBatch makes a batch before its Window is over, when somebody waits for so many
	// keys. 0 means any number.
	MaxBatch int

	// OnError replaces the error of a call; nil as a replacement is success. What
	// panics in it passes through to the caller. nil: errors stay as they are.
	OnError func(error) error

	// OnEvent hears of Collapsed, on the goroutine of the batch before it is made.
	// It is called under no lock, and waited for. A panic in it is dropped. nil:
	// nobody does.
	OnEvent func(event.Event)
}

// Collapse makes one call for many keys of the calls for single keys that come
// within a short time of each other. Its Do is a function like another: Wrap1 puts
// layers around it, and around Batch those for the one call.
//
// Each caller waits as long as its own context lasts. A key that everybody has
// left before its batch is made is not asked for. A panic in Batch is a
// *PanicError to all who wait, runtime.Goexit is ErrGoexit. A Batch runs on a
// goroutine of its own, which ends when it does.
type Collapse[K comparable, R any] struct {
	cfg CollapseConfig[K, R]

	// mu is held to join, leave and send a batch. No function of the user runs
	// under it.
	mu      sync.Mutex
	open    *batch[K, R] // the one that takes keys; nil before the first key
	running int          // batches that were sent
	closed  bool
	done    chan struct{} // closed when closed and nothing is running
}

// NewCollapse returns a Collapse. The error names a field that is out of range.
func NewCollapse[K comparable, R any](cfg CollapseConfig[K, R]) (*Collapse[K, R], error) {
	if cfg.Batch == nil {
		return nil, outOfRange("CollapseConfig.Batch", "nil", "a function")
	}
	if cfg.Window < 0 {
		return nil, outOfRange("CollapseConfig.Window", cfg.Window, "0 or more")
	}
	if err := inRange("CollapseConfig.MaxBatch", cfg.MaxBatch, 0); err != nil {
		return nil, err
	}
	if cfg.Window == 0 {
		cfg.Window = 10 * time.Millisecond
	}
	return &Collapse[K, R]{cfg: cfg, done: make(chan struct{})}, nil
}

// String describes the collapse: "collapse(10ms, up to 100)".
func (x *Collapse[K, R]) String() string {
	settings := []string{x.cfg.Window.String()}
	if x.cfg.MaxBatch > 0 {
		settings = append(settings, "up to "+strconv.Itoa(x.cfg.MaxBatch))
	}
	return describe("collapse", x.cfg.Name, settings...)
}

// Do returns the result for key, from the next batch.
func (x *Collapse[K, R]) Do(ctx context.Context, key K) (R, error) {
	r, err := x.do(ctx, key)
	return r, mapError(err, x.cfg.OnError)
}

func (x *Collapse[K, R]) do(ctx context.Context, key K) (r R, err error) {
	switch {
	case ctx == nil:
		return r, fmt.Errorf("%w: nil context", ErrInvalid)
	case key != key:
		return r, fmt.Errorf("%w: a key that is not equal to itself", ErrInvalid)
	case ctx.Err() != nil:
		return r, endOf(ctx, "no batch", false)
	}
	b := x.join(ctx, key)
	if b == nil {
		return r, ErrClosed
	}
	select {
	case <-b.done:
		return b.result(key)
	case <-ctx.Done():
		return r, endOf(ctx, "no result of a batch", x.leave(b, key))
	}
}

// Close sends what waits for its window to end. Calls that come later are
// answered with ErrClosed. It does not wait for the batches that run; see Done.
// Further calls do nothing.
func (x *Collapse[K, R]) Close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return
	}
	x.closed = true
	if b := x.open; b != nil {
		x.detach(b)
		go x.run(b)
	}
	x.finish()
}

// Done returns a channel that is closed when the Collapse is, and no batch runs.
func (x *Collapse[K, R]) Done() <-chan struct{} { return x.done }

// finish closes done when it is time to, under mu.
func (x *Collapse[K, R]) finish() {
	if x.closed && x.running == 0 {
		close(x.done)
	}
}
