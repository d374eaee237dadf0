package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/flyball-go/flyball/examples/internal/adsclient"
	"github.com/flyball-go/flyball/examples/internal/adsreport"
	"github.com/flyball-go/flyball/examples/internal/fakeads"
)

// driver decides when calls are made, and makes those again that are refused for
// their rate. When ctx ends it begins no more calls, and waits for those that
// run.
type driver interface {
	// one makes one call and returns how it ended.
	one(ctx context.Context, c adsreport.Call) error

	// all makes calls at once, and returns when all have ended. ended is called
	// for each of them, from any goroutine.
	all(ctx context.Context, calls []adsreport.Call, ended func(i int, err error))

	close()
}

// job is the work: the reports of all accounts that the credentials open.
type job struct {
	o      *options
	driver driver

	mu     sync.Mutex  // guards the fields below
	total  int         // reports wanted
	done   int         // reports there are
	at     []time.Time // when each was there
	failed int
	first  error          // the first failure
	sum    fakeads.Totals // of the reports there are
}

// run does the job, as far as ctx allows. Its error is one of finding the
// accounts; what happened to the reports is in the job. A failure that every
// report would meet ends it.
func (j *job) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	accounts, err := j.discover(ctx)
	if err != nil {
		return err
	}
	j.mu.Lock()
	j.total = len(accounts)
	j.mu.Unlock()
	calls := make([]adsreport.Call, len(accounts))
	for i, a := range accounts {
		calls[i] = adsreport.Call{Service: adsclient.GoogleAds, Tenant: a.Customer, Run: func(ctx context.Context, c *adsclient.Client) error {
			return j.report(ctx, c, a)
		}}
	}
	j.driver.all(ctx, calls, func(i int, err error) {
		if err == nil || ctx.Err() != nil {
			return
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.failed++; j.first == nil {
			j.first = fmt.Errorf("account %s: %w", accounts[i].Customer, err)
		}
		if adsclient.Hopeless(err) {
			stop()
		}
	})
	return nil
}

// report fetches the report of one account.
func (j *job) report(ctx context.Context, c *adsclient.Client, a adsclient.Access) error {
	sum, err := adsreport.Fetch(ctx, c, a, j.o.query)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.done++
	j.at = append(j.at, time.Now())
	j.sum.Add(sum)
	return nil
}

// discover returns the accounts to report.
func (j *job) discover(ctx context.Context) ([]adsclient.Access, error) {
	if j.o.customers != nil {
		var found []adsclient.Access
		for _, id := range j.o.customers {
			found = append(found, adsclient.Access{Customer: id, Login: j.o.login})
		}
		return found, nil
	}
	found, err := adsreport.Find(ctx, j.o.login, j.driver.one)
	if err != nil {
		return nil, err
	}
	if j.o.endpoint != "" && j.o.accountsSet && len(found) > j.o.model.Accounts {
		found = found[:j.o.model.Accounts]
	}
	return found, nil
}

// state is how far the job is.
type state struct {
	total, done, failed int
	first               error
	sum                 fakeads.Totals
}

func (j *job) state() state {
	j.mu.Lock()
	defer j.mu.Unlock()
	return state{j.total, j.done, j.failed, j.first, j.sum}
}

// moments returns when each report was there, in order.
func (j *job) moments() []time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.at)
}
