package policy

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/internal/direct"
)

// BulkheadConfig says how many calls may run at once.
type BulkheadConfig struct {
	// Name appears in events and errors.
	Name string

	// Max is how many calls may run at once, at most math.MaxInt32, as MaxQueue. 0
	// means 25.
	Max int

	// MaxWait is how long a call waits for one of them to end. 0: not at all;
	// less than 0: as long as its context lasts.
	MaxWait time.Duration

	// MaxQueue is how many calls may wait at once. 0 means any number.
	MaxQueue int

	// OnError replaces the error that leaves the layer, its own or one from
	// further in; nil as a replacement is success. What panics in it passes
	// through to the caller. nil: errors stay as they are.
	OnError func(error) error

	// OnEvent hears of BulkheadFull. It is called under no lock, and waited for.
	// A panic in it is dropped. nil: nobody does.
	OnEvent func(event.Event)
}

// Bulkhead bounds how many calls run at once. Calls that wait for room are let in
// in the order in which they came; one that leaves, because its context ended or
// MaxWait passed, leaves no trace. No call begins whose context has ended.
//
// A permit comes back when the function has ended, by whatever means. A call
// inside a call of the same Bulkhead needs a permit of its own, and with a
// MaxWait below 0 may wait for itself until its context ends.
//
// Where there is room, a call costs two atomic operations and no allocation.
type Bulkhead struct {
	cfg   BulkheadConfig
	wait  atomic.Int64 // MaxWait, which may change
	seats seats
}

// NewBulkhead returns a Bulkhead. The error names a field that is out of range.
func NewBulkhead(cfg BulkheadConfig) (*Bulkhead, error) {
	if cfg.Max == 0 {
		cfg.Max = 25
	}
	if err := inRange("BulkheadConfig.Max", cfg.Max, 0); err != nil {
		return nil, err
	}
	if err := inRange("BulkheadConfig.MaxQueue", cfg.MaxQueue, 0); err != nil {
		return nil, err
	}
	b := &Bulkhead{cfg: cfg}
	b.SetMaxWait(cfg.MaxWait)
	b.seats.max.Store(uint64(cfg.Max))
	return b, nil
}

func inRange(field string, n, least int) error {
	if n < least || n > math.MaxInt32 {
		return outOfRange(field, n, fmt.Sprintf("%d to %d", least, math.MaxInt32))
	}
	return nil
}

// Layer returns BulkheadLayer.
func (b *Bulkhead) Layer() Layer { return BulkheadLayer }

// String describes the bulkhead: "bulkhead(25 at once, waits 1s)".
func (b *Bulkhead) String() string {
	settings := []string{strconv.Itoa(b.Max()) + " at once"}
	switch {
	case b.maxWait() > 0:
		settings = append(settings, "waits "+b.maxWait().String())
	case b.maxWait() < 0:
		settings = append(settings, "waits")
	}
	if b.cfg.MaxQueue > 0 {
		settings = append(settings, strconv.Itoa(b.cfg.MaxQueue)+" in its queue")
	}
	return describe("bulkhead", b.cfg.Name, settings...)
}

// Direct is for Chain, and not for users: its types are internal. It is the short way
// of calls that there is room for.
func (b *Bulkhead) Direct(of any, _ time.Time) (r direct.Route, ok bool) {
	if of != any(b) {
		return r, false
	}
	return direct.Route{Way: (*seatsWay)(&b.seats)}, true
}

// Wrap puts the bulkhead around next.
func (b *Bulkhead) Wrap(next Handler) Handler {
	return mapped(func(c *Call) error {
		if _, ok := c.Entered(); !ok {
			if err := b.admit(c); err != nil {
				return err
			}
		}
		defer b.seats.giveBack()
		return next(c)
	}, b.cfg.OnError)
}

// Acquire takes a permit, for which it waits as configured. It returns a
// *FullError when there is none, or an error that matches ctx's when ctx ends
// first. Who has one gives it back with Release.
func (b *Bulkhead) Acquire(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("%w: nil context", ErrInvalid)
	}
	return mapError(b.acquire(ctx), b.cfg.OnError)
}

// TryAcquire takes a permit if it can be had without waiting.
func (b *Bulkhead) TryAcquire() bool { return b.seats.take() }

// Release gives a permit back: to whoever has waited longest, if anybody. One
// that nobody has is ignored.
func (b *Bulkhead) Release() { b.seats.giveBackAny() }

// SetMax changes how many calls may run at once. More lets waiting calls in at
// once; less counts for those to come. It returns an error, and changes nothing,
// when max is less than 1.
func (b *Bulkhead) SetMax(max int) error {
	if err := inRange("Bulkhead.SetMax", max, 1); err != nil {
		return err
	}
	b.seats.resize(uint64(max))
	return nil
}

// SetMaxWait changes how long calls wait that begin to wait from now on; 0 and less
// than 0 mean what they do in BulkheadConfig.
func (b *Bulkhead) SetMaxWait(d time.Duration) { b.wait.Store(int64(d)) }

func (b *Bulkhead) maxWait() time.Duration { return time.Duration(b.wait.Load()) }

// Max returns how many calls may run at once.
func (b *Bulkhead) Max() int { return int(b.seats.max.Load()) }

// InUse returns how many permits are taken. It is more than Max for a while after
// Max was lowered.
func (b *Bulkhead) InUse() int { return int(b.seats.word.Load() % oneWaits) }

// Waiting returns how many calls wait.
func (b *Bulkhead) Waiting() int { return int(b.seats.word.Load() / oneWaits) }
