package storetest

import (
	"errors"
	"time"

	"github.com/flyball-go/flyball/store"
)

func nonsense(c *check) {
	l := long(10)
	n := store.NewNode()
	bad := func(change func(*store.Item)) store.Item {
		it := c.next(n, limited(10, l))
		change(&it)
		return it
	}
	good := c.next(n, limited(10, l))
	for i, items := range [][]store.Item{
		{bad(func(it *store.Item) { it.Key = "" })},
		{bad(func(it *store.Item) { it.Key = "a b" })},
		{bad(func(it *store.Item) { it.Key = "0123456789012345678901234567890123456" })},
		{bad(func(it *store.Item) { it.Key = "a\n" })},
		{bad(func(it *store.Item) { it.Key = "{a}" })},
		{bad(func(it *store.Item) { it.Seq = 0 })},
		{bad(func(it *store.Item) { it.Want = -1 })},
		{bad(func(it *store.Item) { it.Want = 1e9 + 1 })},
		{bad(func(it *store.Item) { it.Returned = -1 })},
		{bad(func(it *store.Item) { it.Debt = -1 })},
		{bad(func(it *store.Item) { it.Slots = -1 })},
		{bad(func(it *store.Item) { it.Held = 1<<20 + 1 })},
		{bad(func(it *store.Item) { it.LeastSlots = it.Held + it.WantSlots + 1 })},
		{bad(func(it *store.Item) { it.Probe = 9 })},
		{bad(func(it *store.Item) { it.Cool = []store.Cool{{For: 0}} })},
		{bad(func(it *store.Item) { it.Cool = []store.Cool{{For: -1}} })},
		{bad(func(it *store.Item) { it.Cool = make([]store.Cool, 17) })},
		{bad(func(it *store.Item) { it.Known = []store.Cooldown{{Left: -1}} })},
		{bad(func(it *store.Item) { it.Clear = []store.Cleared{{Scope: string(make([]byte, 257))}} })},
		{bad(func(it *store.Item) { it.Limits = []store.Limit{{}} })},
		{bad(func(it *store.Item) { it.Limits = make([]store.Limit, 9) })},
		{bad(func(it *store.Item) { it.Limits = []store.Limit{{Kind: 9, Quota: 1, Per: time.Second}} })},
		{bad(func(it *store.Item) { it.Limits = []store.Limit{{Quota: 1, Per: time.Second, Burst: 1}} })},
		{bad(func(it *store.Item) { it.Limits = []store.Limit{{Quota: 1, Per: time.Microsecond}} })},
		{bad(func(it *store.Item) {
			it.Limits = []store.Limit{{Kind: store.Window, Quota: 1, Per: time.Second / 3}}
		})},
		{good, bad(func(it *store.Item) { it.Want = -1 })},
		make([]store.Item, store.MaxItems+1),
	} {
		if _, err := c.Store.Exchange(c.Context(), n, items); !errors.Is(err, store.ErrInvalid) {
			c.Errorf("nonsense %d: %v, want an error that matches ErrInvalid", i, err)
		}
	}
	for _, name := range []store.Node{"", "A", "a b", "012345678901234567890123456789012"} {
		if _, err := c.Store.Exchange(c.Context(), name, []store.Item{good}); !errors.Is(err, store.ErrInvalid) {
			c.Errorf("node %q: %v, want an error that matches ErrInvalid", name, err)
		}
	}
	if rest := c.drain(limited(10, l), store.NewNode()); rest != 10 {
		c.Errorf("%d of 10 are left, though nothing was executed", rest)
	}
}

func lowered(c *check) {
	c.inWindows(func(per time.Duration) bool {
		l := store.Limit{Kind: store.Window, Quota: 10, Per: per}
		n := nodes(2)
		end := next(per)
		if got := c.ask(n[0], limited(5, l)).Granted; got != 5 {
			c.Fatalf("%d granted of 10, want 5", got)
		}
		lower := l
		lower.Quota = 7
		low := limited(10, lower)
		low.Version = 2
		got := c.drainBy(end, low, n...)
		if !time.Now().Before(end) {
			return false
		}
		if got != 2 {
			c.Errorf("%d granted after the limit was lowered to 7, of which 5 are taken", got)
		}
		end = next(per)
		got = c.drainBy(end, low, n...)
		if !time.Now().Before(end) {
			return false
		}
		if got != 7 {
			c.Errorf("%d granted in the next window, want 7", got)
		}
		return true
	})
}

// inWindows calls f with a key of its own and longer and longer windows, until it
// reports that its requests were answered in those in which they were to be: otherwise
// it has found out nothing.
func (c *check) inWindows(f func(per time.Duration) bool) {
	c.Helper()
	for per := time.Second; ; per *= 2 {
		if per > 16*time.Second {
			c.Fatalf("the engine takes longer for a few requests than any window")
		}
		if c.key = newKey(); f(per) {
			return
		}
	}
}

func raised(c *check) {
	for _, kind := range []store.Kind{store.Window, store.Sliding} {
		c.inWindows(func(per time.Duration) bool { return c.raisedIn(kind, per) })
	}
}

// raisedIn reports what inWindows asks for.
func (c *check) raisedIn(kind store.Kind, per time.Duration) bool {
	l := store.Limit{Kind: kind, Quota: 10, Per: per, Transit: -1}
	high := l
	high.Quota = 15
	n := nodes(2)
	at := func(version uint64, l store.Limit) store.Item {
		return store.Item{Limits: []store.Limit{l}, Version: version, Want: 20}
	}
	end := next(per)
	got := c.drainBy(end, at(1, l), n...)
	got += c.drainBy(end, at(2, high), n...)
	changed := time.Now()
	if !changed.Before(end) {
		return false
	}
	if got != 10 {
		c.Errorf("%s: %d granted in the window in which 10 was raised to 15", kind, got)
	}
	// A Sliding one comes back when the segment of its takes has been over for a Per,
	// and the higher limit counts by then.
	time.Sleep(time.Until(changed.Add(per + per/10)))
	end = time.Now().Add(per - per/10)
	if kind == store.Window {
		end = next(per)
	}
	got = c.drainBy(end, at(2, high), n...)
	if !time.Now().Before(end) {
		return false
	}
	if got != 15 {
		c.Errorf("%s: %d granted in the window after the raise, want 15", kind, got)
	}
	return true
}

// changedBucket changes Burst and Lease, and not the quota, while all is taken that there
// is, and used at once, or when it is worst: at the change.
func changedBucket(c *check) {
	bucket := func(burst int64, lease time.Duration) store.Limit {
		return store.Limit{Kind: store.Bucket, Quota: 100, Per: time.Second, Burst: burst, Lease: lease, Transit: -1}
	}
	short, long := 50*time.Millisecond, time.Second
	changes := []struct {
		name    string
		limits  [2]store.Limit
		key     string
		granted []grant
	}{
		{name: "a larger Burst", limits: [2]store.Limit{bucket(2, short), bucket(90, short)}},
		{name: "a smaller Burst", limits: [2]store.Limit{bucket(90, short), bucket(2, short)}},
		{name: "a longer Lease", limits: [2]store.Limit{bucket(50, short), bucket(50, long)}},
		{name: "a shorter Lease", limits: [2]store.Limit{bucket(2, long), bucket(2, short)}},
		{name: "a shorter Lease, of a Burst", limits: [2]store.Limit{bucket(50, long), bucket(50, short)}},
	}
	n := store.NewNode()
	for i := range changes {
		changes[i].key = newKey()
	}
	begun, changed := time.Now(), time.Time{}
	for time.Since(begun) < 5*time.Second {
		version := 0
		if time.Since(begun) > 3*time.Second/2 {
			if version = 1; changed.IsZero() {
				changed = time.Now()
			}
		}
		for i := range changes {
			ch := &changes[i]
			it := limited(100, ch.limits[version])
			it.Key, it.Version = ch.key, uint64(1+version)
			sent := time.Now()
			a := c.ask(n, it)
			g := grant{a.Granted, time.Now(), sent.Add(a.ValidFor - 1)}
			if a.Granted > 0 && g.from.Before(g.to) {
				ch.granted = append(ch.granted, g)
			}
		}
		time.Sleep(time.Millisecond)
	}
	for _, ch := range changes {
		var atOnce, late History
		for _, g := range ch.granted {
			atOnce.Use(g.from, g.n)
			at := g.from
			if at.Before(changed) { // at the change, if it may
				if at = changed; at.After(g.to) {
					at = g.to
				}
			}
			late.Use(at, g.n)
		}
		for _, h := range []*History{&atOnce, &late} {
			if err := h.Check(ch.limits[0]); err != nil {
				c.Errorf("%s: %v", ch.name, err)
			}
		}
	}
}

// grant is permits that may be used from when they arrived to their end.
type grant struct {
	n        int64
	from, to time.Time
}

// changesDoNotAddUp changes a Burst there and back: who waits does not wait for longer
// each time.
func changesDoNotAddUp(c *check) {
	l := store.Limit{Kind: store.Bucket, Quota: 100, Per: time.Second, Burst: 2}
	high := l
	high.Burst = 90
	n := store.NewNode()
	for version := range uint64(20) {
		it := limited(100, l)
		if version%2 == 1 {
			it.Limits[0] = high
		}
		it.Version = 1 + version
		c.ask(n, it)
		if a := c.ask(n, it); a.RetryAfter > high.Fill().Depth()+l.Per {
			c.Errorf("after %d changes of a Burst there is nothing for %v", version, a.RetryAfter)
			return
		}
	}
}

// reshaped has limits of another shape follow while what the first granted can be used: no
// window is to have permits of both.
func reshaped(c *check) {
	per := time.Second / 4
	for _, l := range []store.Limit{
		{Kind: store.Window, Quota: 10, Per: time.Second, Transit: -1},
		{Kind: store.Sliding, Quota: 10, Per: 16 * time.Second, Transit: -1},
		{Kind: store.Bucket, Quota: 10, Per: time.Second, Lease: time.Second / 2, Transit: -1},
	} {
		for _, other := range []store.Limit{
			{Kind: store.Sliding, Quota: 10, Per: per, Transit: -1},
			{Kind: store.Window, Quota: 10, Per: per, Transit: -1},
			{Kind: store.Bucket, Quota: 10, Per: per, Lease: per / 5, Transit: -1},
		} {
			if other.Kind == l.Kind && l.Kind == store.Bucket {
				other = store.Limit{Kind: store.Sliding, Quota: 10, Per: 2 * per, Transit: -1}
			}
			c.key = newKey()
			n := nodes(2)
			sent := time.Now()
			a := c.ask(n[0], limited(10, l))
			for range 10 { // it was the end of a step
				if a.Granted > 0 {
					break
				}
				time.Sleep(a.RetryAfter)
				sent = time.Now()
				a = c.ask(n[0], limited(10, l))
			}
			if a.Granted == 0 {
				c.Fatalf("%s: nothing is granted", l.Kind)
			}
			came := time.Now()
			it := limited(10, other)
			it.Version = 2
			if other.Kind == store.Bucket { // which changes once more, to a faster pace
				it.Limits[0].Burst = 8
				c.ask(n[1], it)
				it.Limits, it.Version = []store.Limit{other}, 3
			}
			both := sent.Add(a.ValidFor + other.Per) // a window that ends before has permits of the first
			if other.Kind == store.Window {
				both = sent.Add(a.ValidFor)
			}
			late := came.Add(a.ValidFor + 3*other.Per + 2*time.Second)
			got := int64(0)
			for time.Now().Before(late) {
				more := c.drainBy(time.Now().Add(time.Millisecond), it, n...)
				if got += more; more > 0 && time.Now().Before(both) {
					c.Errorf("%d granted by a %s %v before it has a window for itself, after a %s", more, other.Kind, time.Until(both), l.Kind)
					break
				}
				if got >= 5 {
					break
				}
				time.Sleep(5 * time.Millisecond)
			}
			if got < 5 {
				c.Errorf("%d granted by a %s, long after a %s", got, other.Kind, l.Kind)
			}
		}
	}
}

func olderVersion(c *check) {
	l := long(10)
	n := nodes(2)
	it := limited(0, l)
	it.Version = 5
	c.ask(n[0], it)
	larger := l
	larger.Quota = 100
	old := limited(100, larger)
	old.Version = 4
	a := c.ask(n[1], old)
	if a.Version != 5 || len(a.Limits) != 1 || a.Limits[0] != l {
		c.Errorf("who has an older version is told of %+v of version %d", a.Limits, a.Version)
	}
	if got := a.Granted + c.drain(old, n[1]); got != 10 {
		c.Errorf("%d granted to who has an older version with 100, want 10", got)
	}
	if a := c.ask(n[0], it); a.Limits != nil || a.Version != 5 {
		c.Errorf("who has the limits in force is told of %+v of version %d", a.Limits, a.Version)
	}
}

// equalShares has nodes always want more than there is.
func equalShares(c *check) {
	c.inWindows(func(per time.Duration) bool {
		return c.equalIn(store.Limit{Kind: store.Window, Quota: 400, Per: per / 5})
	})
}

// equalIn reports what inWindows asks for.
func (c *check) equalIn(l store.Limit) bool {
	ns := nodes(4)
	got := make([]int64, len(ns))
	for _, n := range ns {
		c.ask(n, limited(400, l)) // who is alone gets all
	}
	for windows, tries := 0, 0; windows < 10; tries++ {
		if tries == 30 {
			return false
		}
		next(l.Per)
		begun, some := time.Now(), make([]int64, len(ns))
		for none := 0; none < len(ns); {
			none = 0
			for i, n := range ns {
				a := c.ask(n, limited(400, l))
				if some[i] += a.Granted; a.Granted == 0 && a.RetryAfter > 10*time.Millisecond {
					none++
				}
			}
			time.Sleep(time.Millisecond)
		}
		if time.Since(begun) > l.Per*3/4 {
			continue // into the next window, where who is asked first has an advantage
		}
		windows++
		for i := range got {
			got[i] += some[i]
		}
	}
	for i := range got {
		if d := got[i] - got[0]; d > got[0]/20 || d < -got[0]/20 {
			c.Errorf("nodes that want the same got %d", got)
			break
		}
	}
	return true
}
