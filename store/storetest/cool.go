package storetest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/flyball-go/flyball/store"
)

// cool is an item by which the vendor's word about a scope is told.
func cool(scope string, d time.Duration) store.Item {
	return store.Item{Cool: []store.Cool{{Scope: scope, For: d}}}
}

// leftOf is the cooldown of scope, as a node that knows nothing yet is told.
func (c *check) leftOf(scope string) (cd store.Cooldown) {
	c.Helper()
	for _, cd := range c.ask(store.NewNode(), store.Item{}).Cooldowns {
		if cd.Scope == scope {
			return cd
		}
	}
	return cd
}

// near reports whether d is about want, of which time has passed meanwhile.
func near(d, want time.Duration) bool { return d <= want+want/100 && d >= want-want/10 }

// onlyExtended has many nodes tell of cooldowns of random length, in any order.
func onlyExtended(c *check) {
	ns := nodes(8)
	end, gen := time.Time{}, uint64(0)
	writes := 500
	for i := range writes {
		d := time.Duration(rand.Int64N(int64(time.Hour)))
		if i == writes/2 {
			d = time.Hour + time.Minute
		}
		a := c.ask(ns[pick(len(ns))], cool("", max(1, d)))
		received := time.Now()
		if a.Gen != gen+1 {
			c.Errorf("a cooldown has Gen %d after %d", a.Gen, gen)
		}
		gen = a.Gen
		if e := received.Add(d); e.After(end) {
			end = e
		}
		if i%50 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	if cd := c.leftOf(""); !near(cd.Left, time.Until(end)) {
		c.Errorf("%v are left, want the longest, %v", cd.Left, time.Until(end))
	}
}

func toldOnce(c *check) {
	n := nodes(2)
	a := c.ask(n[0], store.Item{})
	b := c.ask(n[1], cool("a", time.Minute))
	if len(b.Cooldowns) != 1 || b.Gen != b.Cooldowns[0].Gen || b.Gen == 0 {
		c.Fatalf("who tells of a cooldown is told of %+v, Gen %d", b.Cooldowns, b.Gen)
	}
	know := store.Item{Seen: a.Gen, Epoch: a.Epoch}
	a = c.ask(n[0], know)
	if len(a.Cooldowns) != 1 || a.Cooldowns[0].Scope != "a" || !near(a.Cooldowns[0].Left, time.Minute) || a.Gen != b.Gen {
		c.Errorf("another node is told of %+v, Gen %d", a.Cooldowns, a.Gen)
	}
	know.Seen = a.Gen
	if a := c.ask(n[0], know); len(a.Cooldowns) != 0 {
		c.Errorf("it is told again of %+v", a.Cooldowns)
	}
	if a := c.ask(n[0], store.Item{Seen: a.Gen, Epoch: "another"}); len(a.Cooldowns) != 1 {
		c.Errorf("who was in another epoch is told of %+v", a.Cooldowns)
	}
}

func nothingGranted(c *check) {
	l := long(10)
	n := nodes(2)
	c.ask(n[0], cool("", 5*time.Minute))
	for range 4 {
		a := c.ask(n[1], limited(10, l))
		if a.Granted != 0 || a.Probe != store.ProbeCooling {
			c.Errorf("in a cooldown %d are granted, probe %d", a.Granted, a.Probe)
		}
		if a.RetryAfter <= 0 || a.RetryAfter > 5*time.Minute {
			c.Errorf("in a cooldown of five minutes: come again in %v", a.RetryAfter)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func scopeAlone(c *check) {
	l := long(10)
	n := store.NewNode()
	c.ask(n, cool("tenant:a", time.Minute))
	if a := c.ask(n, limited(1, l)); a.Granted != 1 || a.Probe != store.ProbeOver {
		c.Errorf("the cooldown of a scope keeps the key back: %+v", a)
	}
}

// anyScope has scopes of any bytes: they may come from whoever a vendor's limits are by.
func anyScope(c *check) {
	n := nodes(2)
	for i, scope := range []string{"tenant:", "tenant:a b:c 5:d", "tenant:a\x00b", "\x00", "tenant:\xff\r\n%s\"'\\", strings.Repeat("\x00", 256), strings.Repeat(" ", 256)} {
		c.ask(n[0], cool(scope, time.Duration(i+1)*time.Hour))
		if left := c.leftOf(scope).Left; !near(left, time.Duration(i+1)*time.Hour) {
			c.Errorf("%q cools for %v, want %d hours", scope, left, i+1)
		}
	}
	a := c.ask(n[1], store.Item{})
	for _, cd := range a.Cooldowns {
		c.ask(n[1], store.Item{Clear: []store.Cleared{{Scope: cd.Scope, Gen: cd.Gen}}})
		if left := c.leftOf(cd.Scope).Left; left != 0 {
			c.Errorf("%q cools for %v after it was cleared", cd.Scope, left)
		}
	}
	if len(a.Cooldowns) != 7 {
		c.Errorf("%d scopes cool, want 7: %+v", len(a.Cooldowns), a.Cooldowns)
	}
}

func scopesBounded(c *check) {
	n := store.NewNode()
	c.ask(n, cool("", time.Second*30))
	for i := range 2 * store.MaxScopes {
		c.ask(n, cool(fmt.Sprint("tenant:", i), time.Duration(i+1)*time.Minute))
	}
	a := c.ask(store.NewNode(), store.Item{})
	if len(a.Cooldowns) > store.MaxScopes {
		c.Errorf("%d cooldowns", len(a.Cooldowns))
	}
	if c.leftOf("").Left == 0 || c.leftOf(fmt.Sprint("tenant:", 2*store.MaxScopes-1)).Left == 0 {
		c.Errorf("the key's own cooldown, or the longest, had to go")
	}
}

func clearEnds(c *check) {
	l := long(10)
	n := nodes(2)
	c.ask(n[0], cool("", time.Minute))
	a := c.ask(n[1], limited(1, l))
	c.ask(n[0], store.Item{Clear: []store.Cleared{{Gen: a.Gen}, {Scope: "unknown", Gen: a.Gen}}})
	b := c.ask(n[1], store.Item{Limits: []store.Limit{l}, Version: 1, Want: 1, Seen: a.Gen, Epoch: a.Epoch})
	if len(b.Cooldowns) != 1 || b.Cooldowns[0].Left != 0 || b.Gen <= a.Gen {
		c.Errorf("of a cleared cooldown another node hears %+v, Gen %d after %d", b.Cooldowns, b.Gen, a.Gen)
	}
	if b.Granted != 1 || b.Probe != store.ProbeOver {
		c.Errorf("after it, %d are granted, probe %d", b.Granted, b.Probe)
	}
}

// Who clears a cooldown may not have heard of the next one.
func clearLeavesNewer(c *check) {
	n := nodes(2)
	first := c.ask(n[0], cool("tenant:a", time.Minute))
	cleared := []store.Cleared{{Scope: "tenant:a", Gen: first.Gen}}
	second := c.ask(n[1], cool("tenant:a", 5*time.Minute))
	c.ask(n[0], store.Item{Clear: cleared})
	if left := c.leftOf("tenant:a").Left; !near(left, 5*time.Minute) {
		c.Errorf("the end of a cooldown ended the next one: %v are left", left)
	}
	long := c.ask(n[0], cool("tenant:b", time.Hour))
	c.ask(n[1], cool("tenant:b", time.Minute)) // of somebody who has not heard of it
	c.ask(n[0], store.Item{Clear: []store.Cleared{{Scope: "tenant:b", Gen: long.Gen}}})
	if c.leftOf("tenant:b").Left == 0 {
		c.Errorf("the end of a cooldown ended a shorter one that was said meanwhile")
	}
	cleared[0].Gen = second.Gen
	c.ask(n[0], store.Item{Clear: cleared, Epoch: "another"})
	if left := c.leftOf("tenant:a").Left; !near(left, 5*time.Minute) {
		c.Errorf("by numbers of another epoch a cooldown was ended: %v are left", left)
	}
	c.ask(n[0], store.Item{Clear: cleared, Seen: first.Gen, Epoch: first.Epoch})
	if left := c.leftOf("tenant:a").Left; left != 0 {
		c.Errorf("%v are left of a cooldown that was ended", left)
	}
}

func knownBringsBack(c *check) {
	if c.Lose == nil {
		c.Skip("the engine cannot lose its state")
	}
	n := nodes(2)
	a := c.ask(n[0], cool("", time.Minute))
	known := store.Item{Known: []store.Cooldown{{Left: 2 * time.Minute, Gen: a.Gen}}}
	if c.ask(n[1], known); c.leftOf("").Left > time.Minute {
		c.Errorf("a cooldown that the store knows is extended by who was told of it")
	}
	c.Lose()
	known.Known[0].Left = 50 * time.Second
	if c.ask(n[1], known); !near(c.leftOf("").Left, 50*time.Second) || c.leftOf("").Gen < a.Gen {
		c.Errorf("after the loss, the store has %+v of a cooldown of 50s", c.leftOf(""))
	}
	if a := c.ask(n[0], cool("", 2*time.Minute)); a.Gen <= known.Known[0].Gen {
		c.Errorf("the next cooldown has Gen %d, not more than before the loss, %d", a.Gen, known.Known[0].Gen)
	}
}

// What a node brings back is news for those who have seen the same Gen, and not it.
func broughtBackIsTold(c *check) {
	n := nodes(3)
	c.ask(n[0], cool("tenant:a", time.Minute))
	seen := c.ask(n[1], store.Item{})
	c.ask(n[2], store.Item{Known: []store.Cooldown{{Scope: "tenant:b", Left: time.Minute, Gen: seen.Gen}}})
	a := c.ask(n[1], store.Item{Seen: seen.Gen, Epoch: seen.Epoch})
	if len(a.Cooldowns) != 1 || a.Cooldowns[0].Scope != "tenant:b" || a.Cooldowns[0].Gen <= seen.Gen {
		c.Errorf("who has seen Gen %d is told of %+v, want what was brought back since", seen.Gen, a.Cooldowns)
	}
}

// probing is a key whose cooldown has just ended.
func (c *check) probing(node store.Node) {
	c.Helper()
	c.ask(node, cool("", 50*time.Millisecond))
	time.Sleep(60 * time.Millisecond)
}

func oneProbes(c *check) {
	l := long(10)
	n := nodes(3)
	c.probing(n[0])
	wants := limited(5, l)
	if a := c.ask(n[1], wants); a.Granted != 0 || a.Probe != store.ProbeOpen {
		c.Errorf("before the probe: %d granted, probe %d", a.Granted, a.Probe)
	}
	wants.Probe = store.ProbeWanted
	a := c.ask(n[1], wants)
	if a.Probe != store.ProbeYours || a.ProbeFor <= 0 || a.ProbeFor > c.Store.TTL() || a.Granted != 1 {
		c.Errorf("the first to ask for the probe gets %+v", a)
	}
	for range 3 {
		if a := c.ask(n[2], wants); a.Granted != 0 || a.Probe != store.ProbeOther || a.RetryAfter <= 0 {
			c.Errorf("beside it, another node gets %+v", a)
		}
	}
	passed := store.Item{Probe: store.ProbePassed}
	if c.ask(n[2], passed); c.ask(n[0], wants).Granted != 0 {
		c.Errorf("the probe passed by the word of who does not probe")
	}
	c.ask(n[1], passed)
	if a := c.ask(n[2], limited(1, l)); a.Granted != 1 || a.Probe != store.ProbeOver {
		c.Errorf("after the probe, another node gets %+v", a)
	}
	c.ask(n[1], cool("", 50*time.Millisecond))
	time.Sleep(60 * time.Millisecond)
	if a := c.ask(n[2], limited(1, l)); a.Granted != 0 || a.Probe != store.ProbeOpen {
		c.Errorf("after the next cooldown, a node gets %+v", a)
	}
}

func lostProbe(c *check) {
	l := long(10)
	n := nodes(3)
	c.probing(n[0])
	wants := limited(5, l)
	wants.Probe = store.ProbeWanted
	c.ask(n[1], wants)
	c.ask(n[1], store.Item{Bye: true})
	if a := c.ask(n[2], wants); a.Probe != store.ProbeYours {
		c.Errorf("the prober has left, and the next gets probe %d", a.Probe)
	}
	for end := time.Now().Add(c.Store.TTL()); time.Now().Before(end); {
		time.Sleep(c.Store.TTL() / 10)
		c.ask(n[2], store.Item{}) // it lives, but its probe does not come back
	}
	if a := c.ask(n[0], wants); a.Probe != store.ProbeYours {
		c.Errorf("a TTL later, the next gets probe %d", a.Probe)
	}
}
