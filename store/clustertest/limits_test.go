package clustertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/flyball-go/flyball/internal/judge"
	"github.com/flyball-go/flyball/store"
)

// operator changes the limit in the store, as somebody with a Syncer of a higher
// Version does, and knows when: between the request and its answer.
type operator struct {
	c       *cluster
	store   store.Store
	node    store.Node
	version uint64
}

func (c *cluster) operator() *operator {
	return &operator{c: c, store: openStore(c.t, c.server, c.server.addr, ttl), node: store.NewNode(), version: 1}
}

// say sets the quota.
func (o *operator) say(quota int64) error {
	o.version++
	limit := *o.c.template.Limit
	limit.Quota = quota
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	as, err := o.store.Exchange(ctx, o.node, []store.Item{{Key: o.c.template.key(), Seq: o.version, Limits: []store.Limit{limit}, Version: o.version}})
	if err == nil {
		err = as[0].Err
	}
	return err
}

// note has the judge go by quota from at on.
func (o *operator) note(at, quota int64) {
	o.c.note(judge.Record{At: at, Kind: judge.Change, Quota: quota})
}

// set sets the quota, and tells all replicas of it. A raise is judged from before it was
// said, a lowering from when the store has answered: exactly, but for that round trip.
func (o *operator) set(from, to int64) error {
	before := clock()
	if err := o.say(to); err != nil {
		return err
	}
	at := before
	if to < from {
		at = clock()
	}
	o.note(at, to)
	o.c.tell(fmt.Sprintf("limit %d %d", to, o.version))
	return nil
}

// limitsThatChange has another quota every 300ms.
func limitsThatChange() scenario {
	var o *operator
	have := int64(quota)
	return scenario{
		name: "limits that change", template: replica{job: demanding(window())},
		rounds: 20,
		round: func(c *cluster) error {
			if o == nil {
				o = c.operator()
			}
			next := have
			for next == have {
				next = quota / 4 * (1 + rand.Int64N(4))
			}
			if err := o.set(have, next); err != nil {
				return err
			}
			have = next
			time.Sleep(300 * time.Millisecond)
			return nil
		},
		after:    (*cluster).allCall,
		controls: []control{{name: "lowered too late", breaks: loweredLate}, {name: "raised too early", breaks: raisedEarly}},
	}
}

// loweredLate lowers the limit in the store when the window is about to be over. Until
// then as much is granted as before: no window has more calls than its limit at its
// begin, but there are grants that no limit has room for.
func loweredLate(s *scenario) {
	var o *operator
	s.template.job = steady(window())
	s.round = func(c *cluster) error {
		if o == nil {
			o = c.operator()
		}
		if err := c.allDone(); err != nil {
			return err
		}
		within(0.05, 0.1)
		c.tell("submit 10")
		time.Sleep(per / 10)
		o.note(clock(), quota/2)
		c.tell("submit 13")
		within(0.93, 0.98)
		if err := o.say(quota / 2); err != nil {
			return err
		}
		time.Sleep(2 * per)
		if err := o.set(quota/2, quota); err != nil {
			return err
		}
		time.Sleep(per)
		return nil
	}
}

// raisedEarly raises the limit in the store a window before it is said to.
func raisedEarly(s *scenario) {
	var o *operator
	s.round = func(c *cluster) error {
		if o == nil {
			o = c.operator()
		}
		within(0.25, 0.3)
		if err := o.set(quota, quota/2); err != nil {
			return err
		}
		time.Sleep(per)
		if err := o.say(quota); err != nil {
			return err
		}
		o.note(clock()+int64(per), quota)
		time.Sleep(3 * per)
		return nil
	}
}
