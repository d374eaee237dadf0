package clustertest

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flyball-go/flyball/internal/judge"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/store"
)

// noting writes down when a replica asks, and what it returns and is granted. What returns
// permits is written before it is sent, since who is killed may have sent it.
type noting struct {
	store.Store
	trips *judge.Writer
	logs  map[string]*judge.Writer // by the key of a Share; not changed when there are keys
}

func (n *noting) Exchange(ctx context.Context, node store.Node, items []store.Item) ([]store.Answer, error) {
	sent := clock()
	n.trips.Write(judge.Record{At: sent, Kind: judge.Trip})
	for i := range items {
		if it := &items[i]; it.Returned > 0 {
			n.logs[it.Key].Write(judge.Record{At: sent, Kind: judge.Ask, ID: int64(it.Seq), Returned: it.Returned})
		}
	}
	answers, err := n.Store.Exchange(ctx, node, items)
	got := clock()
	for i := range answers {
		it, a := &items[i], &answers[i]
		if a.Err == nil && (a.Granted > 0 || it.Returned > 0) && len(it.Limits) > 0 {
			until := got + int64(a.ValidFor+it.Limits[0].Fill().Transit)
			n.logs[it.Key].Write(judge.Record{At: got, Kind: judge.Grant, ID: int64(it.Seq), Sent: sent, Quota: a.Granted, Until: until})
		}
	}
	return answers, err
}

// permits notes, as a limiter that lets everything pass, when the permit of each
// request was found good. For that each request has a bucket of its own.
//
// A governor asks all limits and takes from them under one lock; so the time before the
// last Wait of the Share, or the Slots, is that of the permit. A process that is stopped
// has a call that is late after that, however far it had come.
type permits struct {
	asked atomic.Int64 // before the last Wait
	taken sync.Map     // bucket to time
}

// asked is a Share that is asked for permits.
type asked struct {
	*store.Share
	p *permits
}

func (a asked) Wait(now time.Time, key string, n int) time.Duration {
	a.p.asked.Store(clock())
	return a.Share.Wait(now, key, n)
}

// askedSlots is Slots that are asked for permits.
type askedSlots struct {
	*store.Slots
	p *permits
}

func (a askedSlots) Wait(now time.Time, key string, n int) time.Duration {
	a.p.asked.Store(clock())
	return a.Slots.Wait(now, key, n)
}

var (
	_ limiter.Limiter  = (*permits)(nil)
	_ limiter.Releaser = askedSlots{}
)

func (p *permits) Wait(time.Time, string, int) time.Duration { return 0 }

func (p *permits) Take(_ time.Time, key string, _ int) { p.taken.Store(key, p.asked.Load()) }

func (p *permits) Settle(time.Time, string, int, int) {}
func (p *permits) Accepted(_, _ time.Time, _ string)  {}
func (p *permits) Refused(_, _ time.Time, _ string)   {}
func bucket(request int64) string                     { return "r" + strconv.FormatInt(request, 10) }

// of returns when bucket's permit was taken, and forgets it; 0 if there was none.
func (p *permits) of(bucket string) int64 {
	at, _ := p.taken.LoadAndDelete(bucket)
	ns, _ := at.(int64)
	return ns
}
