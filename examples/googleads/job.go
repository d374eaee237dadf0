package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/flyball-go/flyball/examples/internal/adsclient"
	"github.com/flyball-go/flyball/examples/internal/adspb"
	"github.com/flyball-go/flyball/examples/internal/fakeads"
)

// call is one call to make: which service, for whose sake, and what.
type call struct {
	service adsclient.Service
	tenant  string // the account; empty: none
	run     func(context.Context, *adsclient.Client) error
}

// driver decides when calls are made, and makes those again that are refused for
// their rate. When ctx ends it begins no more calls, and waits for those that
// run.
type driver interface {
	// one makes one call and returns how it ended.
	one(ctx context.Context, c call) error

	// all makes calls at once, and returns when all have ended. ended is called
	// for each of them, from any goroutine.
	all(ctx context.Context, calls []call, ended func(i int, err error))

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
	calls := make([]call, len(accounts))
	for i, a := range accounts {
		calls[i] = call{adsclient.GoogleAds, a.Customer, func(ctx context.Context, c *adsclient.Client) error {
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

// report fetches the report of one account. Rows are added up as they come, and
// count when the stream has ended well.
func (j *job) report(ctx context.Context, c *adsclient.Client, a adsclient.Access) error {
	var sum fakeads.Totals
	err := c.SearchStream(ctx, a, j.o.query, func(rows []*adspb.GoogleAdsRow) {
		for _, r := range rows {
			m := r.GetMetrics()
			sum.Add(fakeads.Totals{Rows: 1, Impressions: m.GetImpressions(), Clicks: m.GetClicks(),
				CostMicros: m.GetCostMicros(), Conversions: m.GetConversions()})
		}
	})
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

const findClients = "SELECT customer_client.id FROM customer_client WHERE customer_client.manager = FALSE AND customer_client.status = ENABLED"

// discover finds the accounts to report, and the manager that each is reached
// through: the managers that the credentials open, then the accounts below them.
func (j *job) discover(ctx context.Context) ([]adsclient.Access, error) {
	var found []adsclient.Access
	if j.o.customers != nil {
		for _, id := range j.o.customers {
			found = append(found, adsclient.Access{Customer: id, Login: j.o.login})
		}
		return found, nil
	}
	var tops []string
	if j.o.login != "" {
		tops = []string{j.o.login}
	} else if err := j.driver.one(ctx, call{adsclient.Customers, "", func(ctx context.Context, c *adsclient.Client) (err error) {
		tops, err = c.ListAccessibleCustomers(ctx)
		return err
	}}); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, top := range tops {
		var below []string
		if err := j.driver.one(ctx, call{adsclient.GoogleAds, top, func(ctx context.Context, c *adsclient.Client) error {
			below = nil
			return c.SearchStream(ctx, adsclient.Access{Customer: top, Login: top}, findClients, func(rows []*adspb.GoogleAdsRow) {
				for _, r := range rows {
					below = append(below, strconv.FormatInt(r.GetCustomerClient().GetId(), 10))
				}
			})
		}}); err != nil {
			return nil, fmt.Errorf("account %s: %w", top, err)
		}
		for _, id := range below {
			if !seen[id] {
				seen[id] = true
				found = append(found, adsclient.Access{Customer: id, Login: top})
			}
		}
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
