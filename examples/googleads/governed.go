package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/examples/internal/adsclient"
	"github.com/flyball-go/flyball/examples/internal/adsreport"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
	"github.com/flyball-go/flyball/vendors"
)

// governedDriver makes every call through one governor.
type governedDriver struct {
	g     *governor.Governor[adsclient.Service, *adsclient.Client]
	heard chan struct{} // closed when the meter has heard all there is to hear
	stop  func()        // ends being measured
}

// newGoverned returns a driver whose calls limit lets through: one that learns
// the quota, or one that knows it.
func newGoverned(o *options, m mode, sess *session, limit limiter.Limiter, p *page) (*governedDriver, error) {
	var next atomic.Int64
	g, err := governor.New(governor.Config[adsclient.Service, *adsclient.Client]{
		Name:   "googleads, " + string(m),
		Vendor: vendors.GoogleAds(),
		Pool: &pool.Config[adsclient.Service, *adsclient.Client]{
			Open: func(_ context.Context, s adsclient.Service) (*adsclient.Client, error) {
				return sess.conns.Client(s, int(next.Add(1))), nil
			},
			Max: o.workers,
		},
		Workers:      o.workers,
		Retry:        &retry.Config{Attempts: 5, RetryIf: adsclient.Transient},
		Limits:       []governor.Limit{{Per: throttle.Host, Limiter: limit}},
		MaxWait:      o.maxWait,
		CloseGrace:   drainTime,
		ShutdownDrop: true,
	})
	if err != nil {
		return nil, err
	}
	p.show(g)
	d := &governedDriver{g, make(chan struct{}), func() {}}
	if o.watch != nil {
		if d.stop, err = o.watch(g); err != nil {
			g.Close()
			return nil, err
		}
	}
	g.Listen(func(e event.Event) {
		if e.Kind == event.Closed {
			close(d.heard)
			return
		}
		sess.meter.Received(e.Scope, time.Now(), e.Until) // e.Time is from before the gate has it: calls may begin in between
	}, event.Cooling, event.Extended, event.Closed)
	return d, nil
}

// learning is a limit that finds out the quota, beginning with -start-rate.
func learning(o *options) (limiter.Limiter, error) {
	return limiter.NewAdaptive(limiter.AdaptiveConfig{Start: o.startRate})
}

// known is a limit a little below a quota that is known.
func known(o *options) (limiter.Limiter, error) {
	q := o.model.Quota
	return limiter.NewBucket(limiter.BucketConfig{Rate: 0.99 * q.Rate, Burst: max(1, q.Burst/2)})
}

// submit hands a call to the governor. Calls of one account are that tenant's:
// what Google says of the account pauses it alone.
func (d *governedDriver) submit(ctx context.Context, c adsreport.Call) *governor.Request[struct{}] {
	g := d.g.With(governor.Ask{Tenant: c.Tenant})
	return governor.Submit(ctx, g, c.Service, func(ctx context.Context, client *adsclient.Client) (struct{}, error) {
		return struct{}{}, c.Run(ctx, client)
	})
}

func (d *governedDriver) one(ctx context.Context, c adsreport.Call) error {
	var result error
	d.all(ctx, []adsreport.Call{c}, func(_ int, err error) { result = err })
	return result
}

// all submits everything at once: what waits costs no goroutine. The end of ctx
// shuts the governor down, which drops what waits and lets run what runs.
func (d *governedDriver) all(ctx context.Context, calls []adsreport.Call, ended func(int, error)) {
	running := context.WithoutCancel(ctx)
	stop := context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(running, drainTime)
		defer cancel()
		d.g.Shutdown(ctx) // the requests tell
	})
	defer stop()
	requests := make([]*governor.Request[struct{}], len(calls))
	for i, c := range calls {
		requests[i] = d.submit(running, c)
	}
	for i, r := range requests {
		_, err := r.Result(running)
		ended(i, err)
	}
}

func (d *governedDriver) close() {
	if d.g.Close() == nil { // nothing runs any more
		<-d.heard
	}
	d.stop()
}
