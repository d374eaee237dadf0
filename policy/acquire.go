package policy

import (
	"context"
	"time"

	"github.com/flyball-go/flyball/event"
)

// acquire takes a permit.
func (b *Bulkhead) acquire(ctx context.Context) error {
	if ctx.Err() != nil {
		return endOf(ctx, "no permit", false)
	}
	if b.seats.take() {
		return nil
	}
	return b.stand(ctx)
}

// admit takes a permit for c.
func (b *Bulkhead) admit(c *Call) error {
	if c.Err() != nil {
		return endOf(c.ctx, "no permit", false)
	}
	if b.seats.take() {
		return nil
	}
	err := b.stand(c.ctx)
	c.Later()
	return err
}

// stand waits for a permit, if it may.
func (b *Bulkhead) stand(ctx context.Context) error {
	most := b.maxWait()
	if most == 0 {
		return b.full(0)
	}
	e, granted := b.seats.queue(b.cfg.MaxQueue)
	if granted {
		return nil
	}
	if e == nil {
		return b.full(0)
	}
	var expired <-chan time.Time
	if most > 0 {
		timer := time.NewTimer(most)
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case <-e.ready:
	case <-ctx.Done():
	case <-expired:
	}
	// Several may have been ready, and select takes any: ctx has the last word,
	// and a permit is better than none.
	granted = b.seats.leave(e)
	switch {
	case ctx.Err() != nil:
		if granted {
			b.Release()
		}
		return endOf(ctx, "no permit", false)
	case !granted:
		return b.full(most)
	}
	return nil
}

func (b *Bulkhead) full(waited time.Duration) error {
	err := &FullError{Name: b.cfg.Name, Max: b.Max(), Waited: waited}
	report(b.cfg.OnEvent, event.Event{Kind: event.BulkheadFull, Name: b.cfg.Name, Delay: waited, Err: err})
	return err
}
