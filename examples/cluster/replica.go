package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/examples/internal/adsclient"
	"github.com/flyball-go/flyball/examples/internal/adsreport"
	"github.com/flyball-go/flyball/examples/internal/fakeads"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/throttle"
	"github.com/flyball-go/flyball/vendors"
)

// setup is the first line that a process reads: what it is to do.
type setup struct {
	Name      string // the governor's, the same in all processes
	Place     place
	Endpoint  string
	Query     string
	Workers   int
	Conns     int
	MaxWait   time.Duration
	StartRate float64       // of a governor that does not know the quota, or
	Quota     []store.Limit // the quota
}

// task is a further line: an account to report. The zero task is to find them.
type task struct{ Account adsclient.Access }

// told is a line that a process writes.
type told struct {
	Account string             // the task's customer
	Found   []adsclient.Access // of the zero task
	Sum     fakeads.Totals
	Error   string
	Fatal   bool // every other call would meet the error, too

	Last        bool      // nothing follows
	Since       time.Time // its first call
	DuringPause int64     // calls that it began in a pause that it knew of, so far
}

type (
	client    = adsclient.Client
	adsGovern = governor.Governor[adsclient.Service, *client]
)

// replica is a process under way.
type replica struct {
	setup
	g     *adsGovern
	meter *adsclient.Meter

	mu  sync.Mutex // guards out; nothing else is done while it is held
	out *json.Encoder
}

// drainTime is how long calls that run may take when the program is to end.
const drainTime = 10 * time.Second

// runReplica does the tasks that come from in, until in ends: then it lets run what
// runs, and drops what waits.
func runReplica(in io.Reader, out io.Writer) (err error) {
	lines := json.NewDecoder(bufio.NewReader(in))
	r := &replica{meter: adsclient.NewMeter(0), out: json.NewEncoder(out)}
	if err := lines.Decode(&r.setup); err != nil {
		return fmt.Errorf("setup: %w", err)
	}
	ctx := context.Background()
	starting, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	tokens, err := adsclient.NewTokens(adsclient.Credentials{ClientID: fakeads.ClientID, ClientSecret: fakeads.ClientSecret,
		RefreshToken: fakeads.RefreshToken, TokenURL: "http://" + r.Endpoint + "/token"}, nil)
	if err != nil {
		return err
	}
	defer tokens.Close()
	conns, err := adsclient.Dial(starting, adsclient.Config{Endpoint: r.Endpoint, Version: "v25", Plaintext: true, Conns: r.Conns, Tokens: tokens, Meter: r.meter})
	if err != nil {
		return err
	}
	defer conns.Close()
	engine, err := r.Place.open(starting)
	if err != nil {
		return err
	}
	defer engine.Close()
	shared, err := store.NewSyncer(store.SyncerConfig{Store: engine})
	if err != nil {
		return err
	}
	defer shared.Close()
	limit, err := r.limit(shared)
	if err != nil {
		return err
	}
	heard, err := r.govern(conns, shared, limit)
	if err != nil {
		return err
	}
	r.work(ctx, lines)
	if r.g.Close() == nil { // nothing runs any more
		<-heard
	}
	return r.tell(told{Last: true})
}

// limit is the shared quota, or a rate of this process's own that it learns.
func (r *replica) limit(shared *store.Syncer) (limiter.Limiter, error) {
	if r.Quota == nil {
		return limiter.NewAdaptive(limiter.AdaptiveConfig{Start: r.StartRate})
	}
	return shared.Share(store.ShareConfig{Name: r.Name + ", calls", Limits: r.Quota})
}

// govern makes the governor: that of examples/googleads, with a store. heard is closed
// when the meter has heard of every pause.
func (r *replica) govern(conns *adsclient.Conns, shared *store.Syncer, limit limiter.Limiter) (heard chan struct{}, err error) {
	var next atomic.Int64
	r.g, err = governor.New(governor.Config[adsclient.Service, *client]{
		Name:   r.Name,
		Vendor: vendors.GoogleAds(),
		Store:  shared,
		Pool: &pool.Config[adsclient.Service, *client]{
			Open: func(_ context.Context, s adsclient.Service) (*client, error) {
				return conns.Client(s, int(next.Add(1))), nil
			},
			Max: r.Workers,
		},
		Workers:      r.Workers,
		Retry:        &retry.Config{Attempts: 5, RetryIf: adsclient.Transient},
		Limits:       []governor.Limit{{Per: throttle.Host, Limiter: limit}},
		MaxWait:      r.MaxWait,
		CloseGrace:   drainTime,
		ShutdownDrop: true,
	})
	if err != nil {
		return nil, err
	}
	heard = make(chan struct{})
	r.g.Listen(func(e event.Event) {
		if e.Kind == event.Closed {
			close(heard)
			return
		}
		r.meter.Received(e.Scope, time.Now(), e.Until) // e.Time is from before the gate has it: calls may begin in between
	}, event.Cooling, event.Extended, event.Closed)
	return heard, nil
}

// work does tasks until there is none to come.
func (r *replica) work(ctx context.Context, lines *json.Decoder) {
	var tasks sync.WaitGroup
	for {
		var t task
		if lines.Decode(&t) != nil { // the end, or whoever writes is no more
			break
		}
		tasks.Go(func() { r.tell(r.do(ctx, t)) }) // nobody is left to be told of an error
	}
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	r.g.Shutdown(ctx) // the requests tell
	tasks.Wait()
}

func (r *replica) do(ctx context.Context, t task) told {
	answer := told{Account: t.Account.Customer}
	var err error
	if t.Account.Customer == "" {
		answer.Found, err = adsreport.Find(ctx, "", r.one)
	} else {
		err = r.one(ctx, adsreport.Call{Service: adsclient.GoogleAds, Tenant: t.Account.Customer, Run: func(ctx context.Context, c *client) (err error) {
			answer.Sum, err = adsreport.Fetch(ctx, c, t.Account, r.Query)
			return err
		}})
	}
	if err != nil {
		answer.Error, answer.Fatal = adsclient.Describe(err), adsclient.Hopeless(err)
	}
	return answer
}

// one makes one call through the governor.
func (r *replica) one(ctx context.Context, c adsreport.Call) error {
	g := r.g.With(governor.Ask{Tenant: c.Tenant})
	_, err := governor.Submit(ctx, g, c.Service, func(ctx context.Context, client *client) (struct{}, error) {
		return struct{}{}, c.Run(ctx, client)
	}).Result(ctx)
	return err
}

func (r *replica) tell(t told) error {
	t.Since, t.DuringPause = r.meter.Counts().Since, r.meter.DuringPause()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.Encode(t)
}
