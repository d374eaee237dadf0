package storetest

import (
	"context"
	"sync"
	"time"

	"github.com/flyball-go/flyball/store"
)

func answersNameTheirRequests(c *check) {
	n := store.NewNode()
	items := []store.Item{c.next(n, store.Item{}), c.next(n, store.Item{Key: newKey()}), c.next(n, store.Item{Key: newKey()})}
	items[1].Seq = 7
	as, err := c.Store.Exchange(c.Context(), n, items)
	if err != nil || len(as) != len(items) {
		c.Fatalf("%d answers to %d items, %v", len(as), len(items), err)
	}
	for i, a := range as {
		if a.Node != n || a.Key != items[i].Key || a.Seq != items[i].Seq || a.Epoch == "" || a.Nodes != 1 {
			c.Errorf("item %s %d of %s is answered by %+v", items[i].Key, items[i].Seq, n, a)
		}
	}
}

func repeatedOnce(c *check) {
	l := long(10)
	n := nodes(2)
	it := c.next(n[0], limited(4, l))
	first := c.repeat(n[0], it)
	if first.Granted < 1 {
		c.Fatalf("nothing is granted: %+v", first)
	}
	for range 5 {
		if again := c.repeat(n[0], it); again.Granted != first.Granted || again.Stale {
			c.Errorf("the first answer grants %d, a repeated one %d", first.Granted, again.Granted)
		}
	}
	if rest := c.drain(limited(10, l), n[1]); first.Granted+rest != 10 {
		c.Errorf("%d granted, and %d are left of 10 after it was repeated", first.Granted, rest)
	}
	debt := limited(0, l)
	debt.Returned = first.Granted
	it = c.next(n[0], debt)
	for range 3 {
		c.repeat(n[0], it)
	}
	if back := c.drain(limited(10, l), n[1]); back != first.Granted {
		c.Errorf("%d returned once, in three requests, give %d back", first.Granted, back)
	}
}

func repeatedShorter(c *check) {
	l := long(10)
	n := store.NewNode()
	it := c.next(n, limited(1, l))
	it.Slots, it.WantSlots = 3, 1
	first := c.repeat(n, it)
	time.Sleep(200 * time.Millisecond)
	again := c.repeat(n, it)
	if again.ValidFor > first.ValidFor-200*time.Millisecond || again.SlotsFor > first.SlotsFor-200*time.Millisecond {
		c.Errorf("200ms later %v and %v are left of %v and %v", again.ValidFor, again.SlotsFor, first.ValidFor, first.SlotsFor)
	}
}

func olderIsStale(c *check) {
	l := long(10)
	n := nodes(2)
	c.ask(n[0], limited(1, l))
	old := c.next(n[0], limited(1, l))
	c.ask(n[0], limited(1, l))
	if a := c.repeat(n[0], old); !a.Stale || a.Granted != 0 || a.Seq != old.Seq {
		c.Errorf("a request that is older than the last is answered by %+v", a)
	}
	if rest := c.drain(limited(10, l), n[1]); rest != 8 {
		c.Errorf("%d are left of 10 after two grants of 1 and a stale request, want 8", rest)
	}
}

func endedContext(c *check) {
	ctx, cancel := context.WithCancel(c.Context())
	cancel()
	n := store.NewNode()
	l := long(10)
	if _, err := c.Store.Exchange(ctx, n, []store.Item{c.next(n, limited(10, l))}); err == nil {
		c.Errorf("a context that has ended: no error")
	}
	if rest := c.drain(limited(10, l), store.NewNode()); rest != 10 {
		c.Errorf("%d of 10 are left, though nothing was executed", rest)
	}
}

func wantBounds(c *check) {
	for _, kind := range []store.Kind{store.Window, store.Sliding, store.Bucket} {
		l := store.Limit{Kind: kind, Quota: 100, Per: time.Second}
		n := store.NewNode()
		for want := range int64(5) {
			a := c.ask(n, store.Item{Key: store.KeyFor(c.key, kind.String()), Limits: []store.Limit{l}, Version: 1, Want: want})
			if a.Granted > want || a.Granted > 0 && a.ValidFor <= 0 || a.ValidFor > l.Per {
				c.Errorf("%s: %d wanted, %d granted for %v", kind, want, a.Granted, a.ValidFor)
			}
		}
	}
}

// noWindowHoldsMore has nodes ask as often as they can, and use what they got as
// late as they may.
func noWindowHoldsMore(c *check) {
	const per = 320 * time.Millisecond
	var all []*hammered
	for _, kind := range []store.Kind{store.Window, store.Sliding, store.Bucket} {
		for _, quota := range []int64{1, 7, 200} {
			l := store.Limit{Kind: kind, Quota: quota, Per: per, Transit: -1}
			// Of a Bucket each request gets a permit or two, if it did not come too early:
			// who is slow is to make as many.
			all = append(all, &hammered{limit: l, key: store.KeyFor(c.key, kind.String(), string(rune(quota))), nodes: nodes(4), least: 80 + int(quota)})
		}
	}
	next(per)
	start := time.Now()
	for busy := true; busy; {
		busy = time.Since(start) < 4*per
		for _, h := range all {
			if h.asked < h.least || time.Since(start) < 4*per {
				h.ask(c)
				busy = true
			}
		}
		time.Sleep(time.Duration(pick(5)) * time.Millisecond)
	}
	for _, h := range all {
		if err := h.uses.Check(h.limit); err != nil {
			c.Errorf("%s of %d: %v", h.limit.Kind, h.limit.Quota, err)
		}
		if h.granted < h.limit.Quota {
			c.Errorf("%s of %d: %d granted in four windows or more", h.limit.Kind, h.limit.Quota, h.granted)
		}
	}
}

// hammered is a limit for which several nodes ask, and what they did with what they got.
type hammered struct {
	limit   store.Limit
	key     string
	nodes   []store.Node
	least   int // requests
	asked   int
	granted int64
	uses    History
}

func (h *hammered) ask(c *check) {
	c.Helper()
	sent := time.Now()
	it := limited(1+int64(pick(int(h.limit.Quota))), h.limit)
	it.Key = h.key
	a := c.ask(h.nodes[pick(len(h.nodes))], it)
	h.uses.used(sent, a)
	h.granted += a.Granted
	h.asked++
}

// used notes that what a grants is used: as soon as it is there, or at the last moment,
// which is 1 ns before its end by the clock of who asked.
func (h *History) used(sent time.Time, a store.Answer) {
	now, last := time.Now(), sent.Add(a.ValidFor-1)
	switch {
	case a.Granted == 0 || now.After(last): // it came too late
	case pick(2) == 0:
		h.Use(now, a.Granted)
	default:
		h.Use(last, a.Granted)
	}
}

func bucketSpreads(c *check) {
	l := store.Limit{Kind: store.Bucket, Quota: 1000, Per: 4 * time.Second, Burst: 5}
	start := time.Now()
	ns := nodes(2)
	got := int64(0)
	for i := range 20 {
		got += c.ask(ns[i%2], limited(100, l)).Granted
	}
	// With what has come back since then: 250 a second at most.
	if most := 5 + int64(time.Since(start)/(4*time.Millisecond)); got < 5 || got > most {
		c.Errorf("a bucket of 5 gave %d at once, want 5 to %d", got, most)
	}
	a := c.ask(ns[0], limited(1, l))
	if a.Granted == 0 && (a.RetryAfter <= 0 || a.RetryAfter > time.Second) {
		c.Errorf("an empty bucket says to come again in %v", a.RetryAfter)
	}
}

// allOrNone asks while the narrow limit refuses: the wide one must not be charged
// for that.
func allOrNone(c *check) {
	narrow := store.Limit{Kind: store.Window, Quota: 2, Per: 100 * time.Millisecond, Transit: -1}
	wide := long(12)
	n := nodes(2)
	sum := int64(0)
	for tries := 0; sum < 12 && tries < 300; tries++ {
		began := time.Now()
		got := c.drain(limited(5, narrow, wide), n...)
		windows := int64(time.Since(began)/narrow.Per) + 2 // that may be touched by it
		if sum += got; got > narrow.Quota*windows {
			c.Errorf("%d granted in %d windows of 2", got, windows)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if sum != 12 {
		c.Errorf("%d granted by a limit of 12 in its window, two at a time", sum)
	}
	time.Sleep(100 * time.Millisecond)
	if got := c.drain(limited(5, narrow, wide), n...); got != 0 {
		c.Errorf("%d granted by the narrow limit, when nothing is left of the wide one", got)
	}
}

func returnedAgain(c *check) {
	l := long(10)
	n := nodes(2)
	got := c.drain(limited(10, l), n[0])
	if got != 10 {
		c.Fatalf("%d of 10 granted", got)
	}
	it := limited(0, l)
	it.Returned = 4
	c.ask(n[0], it)
	if back := c.drain(limited(10, l), n[1]); back != 4 {
		c.Errorf("4 returned, %d granted again", back)
	}
}

func returnedOnlyOwn(c *check) {
	c.inWindows(func(per time.Duration) bool {
		l := store.Limit{Kind: store.Window, Quota: 10, Per: per}
		n := nodes(2)
		end := next(per)
		c.drainBy(end, limited(10, l), n[0])
		it := limited(0, l)
		it.Returned = 10
		c.ask(n[1], it)
		back := c.drainBy(end, limited(10, l), n[1])
		if !time.Now().Before(end) {
			return false
		}
		if back != 0 {
			c.Errorf("%d granted again, that another node returned", back)
		}
		end = next(per)
		got := c.drainBy(end, limited(10, l), n[1])
		c.ask(n[0], it)
		back = c.drainBy(end, limited(10, l), n[1])
		if !time.Now().Before(end) {
			return false
		}
		if got != 10 {
			c.Errorf("%d of 10 granted in the next window", got)
		}
		if back != 0 {
			c.Errorf("%d granted again, of an earlier window", back)
		}
		return true
	})
}

func debtIsCharged(c *check) {
	l := long(10)
	n := nodes(2)
	it := limited(0, l)
	it.Debt = 7
	c.ask(n[0], it)
	if got := c.drain(limited(10, l), n...); got != 3 {
		c.Errorf("%d granted of 10, when 7 are owed", got)
	}
	c.ask(n[1], it) // more than there are
	if got := c.drain(limited(10, l), n...); got != 0 {
		c.Errorf("%d granted of 10, when 17 were taken", got)
	}
}

func manyAtOnce(c *check) {
	l := long(100)
	var wg sync.WaitGroup
	var mu sync.Mutex
	sum := int64(0)
	for range 8 {
		wg.Go(func() {
			n := store.NewNode()
			for seq := range uint64(40) {
				it := limited(3, l)
				it.Key, it.Seq = c.key, seq+1
				as, err := c.Store.Exchange(c.Context(), n, []store.Item{it})
				if err != nil {
					c.Errorf("Exchange: %v", err)
					return
				}
				mu.Lock()
				sum += as[0].Granted
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if sum != 100 {
		c.Errorf("8 nodes got %d of 100", sum)
	}
}

func leastOrNothing(c *check) {
	l := long(10)
	n := nodes(2)
	c.ask(n[1], limited(1, l))
	it := limited(9, l)
	it.Least = 9
	if got := c.ask(n[0], it).Granted; got != 9 {
		c.Errorf("%d granted, when less than 9 are of no use and 9 are left", got)
	}
	c.key = newKey() // of which nothing is taken
	c.ask(n[1], limited(2, l))
	a := c.ask(n[0], it)
	if a.Granted != 0 || a.RetryAfter <= 0 {
		c.Errorf("%d granted, when less than 9 are of no use and 8 are left; come again in %v", a.Granted, a.RetryAfter)
	}
	if rest := c.drain(limited(10, l), n[1]); rest != 8 {
		c.Errorf("%d are left of 8 that were not granted", rest)
	}
}
