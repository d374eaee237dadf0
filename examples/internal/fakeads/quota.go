package fakeads

import (
	"sync"
	"time"

	"github.com/flyball-go/flyball/examples/internal/adspb"
	"github.com/flyball-go/flyball/vendors/vendortest"
)

// The names of the rates, as the documentation and captured answers have them.
const (
	rateProject = "Requests per project"
	rateAccount = "Requests per service per method"
	rateDaily   = "Number of operations for explorer access"
)

// quota decides about calls on their arrival: first the project's own limit,
// then that of the account in question, then the operations of a day.
type quota struct {
	project *vendortest.Engine
	account *vendortest.Keyed // nil: none
	daily   *daily            // nil: none
}

func newQuota(cfg *Config) (q quota, err error) {
	if q.project, err = vendortest.NewEngine(cfg.Quota); err != nil {
		return q, err
	}
	if cfg.AccountQuota.Rate != 0 {
		if q.account, err = vendortest.NewKeyed(cfg.AccountQuota, 0); err != nil {
			return q, err
		}
	}
	if cfg.DailyOps > 0 {
		q.daily = &daily{ops: make([]time.Time, cfg.DailyOps)}
	}
	return q, nil
}

// admit judges a call that arrives at now; customer is empty when it concerns
// none.
func (q *quota) admit(now time.Time, customer string) *refusal {
	const temporarily = adspb.QuotaErrorEnum_RESOURCE_TEMPORARILY_EXHAUSTED
	if v := q.project.Admit(now); !v.Accepted {
		return quotaError(temporarily, adspb.QuotaErrorDetails_DEVELOPER, rateProject, v.Delay)
	}
	if q.account != nil && customer != "" {
		if v := q.account.Admit(customer, now); !v.Accepted {
			return quotaError(temporarily, adspb.QuotaErrorDetails_ACCOUNT, rateAccount, v.Delay)
		}
	}
	if q.daily != nil {
		if delay := q.daily.admit(now); delay > 0 {
			return quotaError(adspb.QuotaErrorEnum_RESOURCE_EXHAUSTED, adspb.QuotaErrorDetails_DEVELOPER, rateDaily, delay)
		}
	}
	return nil
}

// totals adds up both limits.
func (q *quota) totals() vendortest.Totals {
	t := q.project.Totals()
	if q.account != nil {
		a := q.account.Totals()
		t.Accepted -= a.Refused
		t.Refused += a.Refused
		t.InPause += a.InPause
		t.Escalations += a.Escalations
		t.LongestPause = max(t.LongestPause, a.LongestPause)
	}
	if q.daily != nil {
		n := q.daily.count()
		t.Accepted -= n
		t.Refused += n
	}
	return t
}

// daily counts the operations of a sliding 24 hours.
type daily struct {
	mu      sync.Mutex // guards the fields below
	ops     []time.Time
	next    int // in ops: the oldest, which the next one replaces
	refused int64
}

// admit returns how long it is until the operation would be accepted, 0 when it
// is.
func (d *daily) admit(now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if oldest := d.ops[d.next]; !oldest.IsZero() {
		if wait := oldest.Add(24 * time.Hour).Sub(now); wait > 0 {
			d.refused++
			return wait
		}
	}
	d.ops[d.next] = now
	d.next = (d.next + 1) % len(d.ops)
	return 0
}

func (d *daily) count() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.refused
}
