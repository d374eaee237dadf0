package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flyball-go/flyball/examples/internal/adsclient"
	"github.com/flyball-go/flyball/examples/internal/adsreport"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/vendors"
)

// naiveDriver is what people write first: goroutines that each sleep as long as
// their own refusal told them to, and then call again. None of them knows what
// the others were told meanwhile.
type naiveDriver struct {
	conns   *adsclient.Conns
	meter   *adsclient.Meter
	workers int
	next    atomic.Int64

	// watch, if there is a page to show it on, is a governor that only looks on: it
	// delays and refuses nothing.
	watch *governor.Governor[adsclient.Service, *adsclient.Client]
}

func newNaive(o *options, s *session, p *page) (*naiveDriver, error) {
	d := &naiveDriver{conns: s.conns, meter: s.meter, workers: o.workers}
	if p == nil {
		return d, nil
	}
	var err error
	d.watch, err = governor.New(governor.Config[adsclient.Service, *adsclient.Client]{
		Name: "googleads, naive", Vendor: vendors.GoogleAds(), Workers: o.workers, Observe: true, NoPace: true, CloseGrace: drainTime,
	})
	if err != nil {
		return nil, err
	}
	p.show(d.watch)
	return d, nil
}

// run makes one call.
func (d *naiveDriver) run(ctx context.Context, c adsreport.Call, client *adsclient.Client) error {
	if d.watch == nil {
		return c.Run(ctx, client)
	}
	watched := d.watch.With(governor.Ask{Tenant: c.Tenant})
	_, err := governor.Do(ctx, watched, c.Service, func(ctx context.Context, _ *adsclient.Client) (struct{}, error) {
		return struct{}{}, c.Run(ctx, client)
	})
	return err
}

func (d *naiveDriver) client(s adsclient.Service) *adsclient.Client {
	return d.conns.Client(s, int(d.next.Add(1)))
}

func (d *naiveDriver) one(ctx context.Context, c adsreport.Call) error {
	running, cancel := drain(ctx)
	defer cancel()
	for client := d.client(c.Service); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := d.run(running, c, client)
		delay, limited := vendors.GoogleAds().DelayError(err)
		if !limited {
			return err
		}
		d.meter.Heard(c.Tenant, err)
		select {
		case <-time.After(max(delay, time.Millisecond)):
		case <-ctx.Done():
		}
	}
}

func (d *naiveDriver) all(ctx context.Context, calls []adsreport.Call, ended func(int, error)) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range d.workers {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(calls)); i = next.Add(1) - 1 {
				ended(int(i), d.one(ctx, calls[i]))
			}
		})
	}
	workers.Wait()
}

func (d *naiveDriver) close() {
	if d.watch != nil {
		d.watch.Close() // nothing runs any more
	}
}

// drainTime is how long calls that run may go on after the job was stopped.
const drainTime = 5 * time.Second

// drain returns a context for calls that run: it ends some time after ctx.
func drain(ctx context.Context) (context.Context, context.CancelFunc) {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(drainTime):
			cancel()
		case <-running.Done():
		}
	})
	return running, func() {
		stop()
		cancel()
	}
}
