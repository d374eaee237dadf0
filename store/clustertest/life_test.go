package clustertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/internal/judge"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/throttle"
)

// paused is the vendor's refusal.
type paused struct{ d time.Duration }

func (p paused) Error() string { return "refused for " + p.d.String() }

type adapter struct{}

func (adapter) DelayError(err error) (time.Duration, bool) {
	p, ok := errors.AsType[paused](err)
	return p.d, ok
}

// life is a job under way.
type life struct {
	*job
	name    string        // the replica's
	timeout time.Duration // of a call that has a slot; 0: none
	log     *judge.Writer
	g       *governor.Plain
	client  *http.Client
	calls   atomic.Int64
	permits permits

	now  chan int           // submit so many
	rest chan chan struct{} // submit nothing more, and close that when nothing is under way
	wake chan struct{}      // go on
}

func (p *process) life(j *job, replica string, log *judge.Writer) *life {
	return &life{job: j, name: replica, log: log, client: p.client,
		now: make(chan int), rest: make(chan chan struct{}), wake: make(chan struct{})}
}

// begin has l have a governor.
func (l *life) begin(shared *store.Syncer, ttl time.Duration) error {
	cfg := governor.PlainConfig{Name: l.host(), Vendor: adapter{}, Workers: workers, Store: shared, NoPace: true}
	if l.Limit != nil {
		share, err := shared.Share(store.ShareConfig{Name: l.sharing(), Limits: []store.Limit{*l.Limit}, Version: 1})
		if err != nil {
			return err
		}
		cfg.Limits = append(cfg.Limits, governor.Limit{Limiter: asked{share, &l.permits}})
	}
	if l.Slots > 0 {
		slots, err := shared.Slots(store.SlotsConfig{Name: l.host(), Max: l.Slots})
		if err != nil {
			return err
		}
		l.timeout = ttl / 10 // as Slots says
		cfg.Limits = append(cfg.Limits, governor.Limit{Limiter: askedSlots{slots, &l.permits}})
	}
	cfg.Limits = append(cfg.Limits, governor.Limit{Per: throttle.Bucket, Limiter: &l.permits})
	var err error
	if l.g, err = governor.New(cfg); err != nil {
		return err
	}
	l.listen()
	return nil
}

func (l *life) listen() {
	l.g.Listen(func(e event.Event) {
		if e.Scope != "host" {
			return
		}
		kind := judge.Cool
		if e.Kind == event.Cleared {
			kind = judge.Clear
		}
		// By its distance from now, as the wall clock may be anywhere.
		now, at := both()
		l.log.Write(judge.Record{At: at, Kind: kind, Until: at + int64(e.Until.Sub(now))})
	}, event.Cooling, event.Extended, event.Cleared)
}

// both is the same time by both clocks: by as much as a millisecond, if this process
// can do that without being stopped in between.
func both() (now time.Time, at int64) {
	for range 100 {
		before := clock()
		now, at = time.Now(), clock()
		if at-before < int64(time.Millisecond) {
			break
		}
	}
	return now, at
}

// work submits requests until over, but when it is to rest.
func (l *life) work(over <-chan struct{}) {
	id := int64(0)
	for {
		resting := l.submits(&id, over)
		if resting == nil {
			return
		}
		close(resting)
		select {
		case <-l.wake:
		case <-over:
			return
		}
	}
}

// submits does so, the last with id, until it is to rest, by what it returns, or over; and
// gives up then what waits, and waits for what does not.
func (l *life) submits(id *int64, over <-chan struct{}) (resting chan struct{}) {
	var results sync.WaitGroup
	defer results.Wait()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var ticks <-chan time.Time
	if l.Every > 0 {
		ticks = time.Tick(l.Every)
	}
	for {
		n := 1
		select {
		case n = <-l.now:
		case <-ticks:
			// Not more than a second's work waits: what cannot be done is not asked for.
			if l.g.Stats().Queued >= int(time.Second/l.Every) {
				continue
			}
		case resting := <-l.rest:
			return resting
		case <-over:
			return nil
		}
		for range n {
			*id++
			l.submit(ctx, *id, &results)
		}
	}
}

func (l *life) submit(ctx context.Context, id int64, results *sync.WaitGroup) {
	stop := func() {}
	if l.Cancel && rand.IntN(2) == 0 {
		ctx, stop = context.WithTimeout(ctx, rand.N(300*time.Millisecond))
	}
	l.log.Write(judge.Record{At: clock(), Kind: judge.Submit, ID: id})
	r := governor.Submit(ctx, l.g.With(governor.Ask{Bucket: bucket(id)}), "", governor.Func(func(ctx context.Context) (int, error) { return 0, l.call(ctx, id) }))
	results.Go(func() {
		defer stop()
		_, err := r.Result(context.Background())
		outcome := "ok"
		if err != nil {
			outcome = err.Error()
		}
		l.log.Write(judge.Record{At: clock(), Kind: judge.Settle, ID: id, Outcome: outcome})
	})
}

// call makes one call. A request that is cancelled waits for its call, as what has
// begun is to end before its request does.
func (l *life) call(ctx context.Context, request int64) error {
	id := l.calls.Add(1)
	l.log.Write(judge.Record{At: clock(), Kind: judge.Begin, ID: id, Request: request, Taken: l.permits.of(bucket(request))})
	defer func() { l.log.Write(judge.Record{At: clock(), Kind: judge.Finish, ID: id}) }()
	ctx = context.WithoutCancel(ctx)
	if l.timeout > 0 {
		var stop func()
		ctx, stop = context.WithTimeout(ctx, l.timeout)
		defer stop()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s?node=%s&id=%d", l.Vendor, l.name, id), nil)
	if err != nil {
		return err
	}
	resp, err := l.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)
	if resp.StatusCode == http.StatusTooManyRequests {
		ms, _ := strconv.Atoi(resp.Header.Get("Retry-After-Ms"))
		return paused{time.Duration(ms) * time.Millisecond}
	}
	return nil
}
