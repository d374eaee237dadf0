package storetest

import (
	"time"

	"github.com/flyball-go/flyball/store"
)

// lostGrants takes all there is, and asks again after the store has lost it.
func lostGrants(c *check) {
	if c.Lose == nil {
		c.Skip("the engine cannot lose its state")
	}
	const per = 500 * time.Millisecond
	type taken struct {
		limit store.Limit
		item  store.Item
		uses  History
		again int64 // granted a Per after the loss
	}
	var all []*taken
	for _, kind := range []store.Kind{store.Window, store.Sliding, store.Bucket} {
		l := store.Limit{Kind: kind, Quota: 50, Per: per, Transit: -1}
		if kind == store.Bucket {
			l.Burst = 5 // for engines that take a while to answer
		}
		it := limited(50, l)
		it.Key = store.KeyFor(c.key, kind.String())
		all = append(all, &taken{limit: l, item: it})
	}
	n := nodes(2)
	var lost time.Time
	take := func(k *taken) (epoch string) {
		sent := time.Now()
		a := c.ask(n[pick(2)], k.item)
		k.uses.used(sent, a)
		if !lost.IsZero() && sent.Sub(lost) > per+per/5 {
			k.again += a.Granted
		}
		return a.Epoch
	}
	next(per)
	start := time.Now()
	for rest := true; rest; time.Sleep(time.Millisecond) {
		rest = time.Since(start) < 4*per
		epochs := make([]string, len(all))
		for i, k := range all {
			epochs[i] = take(k)
			rest = rest || k.again < 40 && time.Since(start) < 30*time.Second
		}
		if lost.IsZero() && time.Since(start) > 3*per/2 {
			c.Lose()
			lost = time.Now()
			for i, k := range all {
				if take(k) == epochs[i] {
					c.Errorf("%s: lost state has the epoch of before", k.limit.Kind)
				}
			}
		}
	}
	for _, k := range all {
		if err := k.uses.Check(k.limit); err != nil {
			c.Errorf("%s: %v", k.limit.Kind, err)
		}
		if k.again < 40 {
			c.Errorf("%s: a Per after the loss %d were granted in another, want 50 again", k.limit.Kind, k.again)
		}
	}
}

func lostSlots(c *check) {
	if c.Lose == nil {
		c.Skip("the engine cannot lose its state")
	}
	n := nodes(2)
	held := int64(0)
	for held < 4 {
		held = c.ask(n[0], slots(4, held, 4)).Held
	}
	c.Lose()
	if a := c.ask(n[1], slots(4, 0, 4)); a.Held != 0 {
		c.Errorf("%d slots are given, when all may be held", a.Held)
	}
	c.ask(n[1], slots(4, 0, 0)) // else its part would be asked back
	if a := c.ask(n[0], slots(4, 4, 0)); a.Held != 4 {
		c.Errorf("after the loss, who held 4 slots has %d", a.Held)
	}
	for end := time.Now().Add(c.Store.TTL()); time.Now().Before(end); {
		time.Sleep(c.Store.TTL() / 4)
		c.ask(n[0], slots(4, 2, 0))
	}
	if a := c.ask(n[1], slots(4, 0, 4)); a.Held != 2 {
		c.Errorf("a TTL after the loss, %d of 2 slots are given", a.Held)
	}
}
