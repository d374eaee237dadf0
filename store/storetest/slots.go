package storetest

import (
	"time"

	"github.com/flyball-go/flyball/store"
)

func slots(capacity, held, want int64) store.Item {
	return store.Item{Slots: capacity, Held: held, WantSlots: want}
}

// slotsBounded has nodes come and go, with more slots and with fewer, and adds up
// what they may hold.
func slotsBounded(c *check) {
	ns := nodes(5)
	held, heard := make([]int64, len(ns)), make([]time.Time, len(ns))
	for range 400 {
		i := pick(len(ns))
		keep := int64(pick(int(held[i]) + 1))
		if pick(10) == 0 {
			c.ask(ns[i], store.Item{Bye: true})
			held[i] = 0
			continue
		}
		sent := time.Now()
		a := c.ask(ns[i], slots(10, keep, int64(pick(12))))
		if a.Held > 0 && (a.SlotsFor <= 0 || a.SlotsFor > c.Store.TTL()) {
			c.Errorf("%d slots for %v", a.Held, a.SlotsFor)
		}
		if sent.Sub(heard[i]) >= c.Store.TTL()/2 {
			keep = 0 // it may have counted as dead, and what it had be another's
		}
		held[i], heard[i] = max(keep, a.Held), sent // one that is asked back runs until it is over
		sum, now := int64(0), time.Now()
		for j, h := range held {
			if now.Sub(heard[j]) < c.Store.TTL() { // else it may count as dead
				sum += h
			}
		}
		if sum > 10 {
			c.Fatalf("nodes hold %v, together more than 10", held)
		}
		time.Sleep(time.Millisecond / 2)
	}
	for _, n := range ns {
		c.ask(n, store.Item{Bye: true})
	}
	sum := int64(0)
	for held := int64(0); ; held = sum {
		if sum = c.ask(ns[0], slots(10, held, 10)).Held; sum == held {
			break
		}
	}
	if sum != 10 {
		c.Errorf("one node alone gets %d slots of 10", sum)
	}
}

func slotsComeBack(c *check) {
	n := nodes(2)
	var heard time.Time // at the earliest
	for held := int64(0); held < 4; {
		heard = time.Now()
		held = c.ask(n[0], slots(4, held, 4)).Held
	}
	dies := time.Now()
	for time.Since(dies) < c.Store.TTL()-c.Store.TTL()/4 {
		if a := c.ask(n[1], slots(4, 0, 4)); a.Held != 0 && time.Since(heard) < c.Store.TTL() {
			c.Fatalf("%d slots are given %v after a node with all of them was heard, TTL is %v", a.Held, time.Since(dies), c.Store.TTL())
		}
		time.Sleep(c.Store.TTL() / 8)
	}
	time.Sleep(time.Until(dies.Add(c.Store.TTL() + 50*time.Millisecond)))
	if a := c.ask(n[1], slots(4, 0, 4)); a.Held != 4 || a.Nodes != 1 {
		c.Errorf("%d slots of 4 are given, %d nodes, a TTL after the other was heard last", a.Held, a.Nodes)
	}
}

func slotsNotClaimed(c *check) {
	n := nodes(2)
	for held := int64(0); held < 4; {
		held = c.ask(n[0], slots(4, held, 4)).Held
	}
	if a := c.ask(n[1], slots(4, 4, 0)); a.Held != 0 {
		c.Errorf("a node that claims 4 slots, all another's, has %d", a.Held)
	}
	c.ask(n[0], slots(4, 1, 0))
	if a := c.ask(n[1], slots(4, 0, 4)); a.Held != 3 {
		c.Errorf("3 slots are given back, and %d given to who asks", a.Held)
	}
	c.ask(n[1], slots(2, 3, 0)) // the capacity shrinks
	if a := c.ask(n[0], slots(4, 1, 4)); a.Held > 1 {
		c.Errorf("%d slots are given of 2, when another holds 3", a.Held)
	}
}

// slotsAskedBack has a node that keeps all slots, as long as it may.
func slotsAskedBack(c *check) {
	n := nodes(2)
	held := int64(0)
	for held < 8 {
		held = c.ask(n[0], slots(8, held, 8)).Held
	}
	other := int64(0)
	for range 4 {
		other = c.ask(n[1], slots(8, other, 8)).Held
		held = c.ask(n[0], slots(8, held, 8)).Held
	}
	if other < 3 || held < 3 || other+held > 8 {
		c.Errorf("of 8 slots, who had all keeps %d, and who came later has %d", held, other)
	}
}

// slotsOfTheContent has a node that keeps all slots, as long as it may, and wants no more.
func slotsOfTheContent(c *check) {
	n := nodes(2)
	held, other := int64(0), int64(0)
	for held < 8 {
		held = c.ask(n[0], slots(8, held, 8-held)).Held
	}
	for range 4 {
		if other = c.ask(n[1], slots(8, other, 2-other)).Held; other+held > 8 {
			c.Fatalf("two nodes hold %d and %d slots of 8", held, other)
		}
		held = c.ask(n[0], slots(8, held, 0)).Held
	}
	if other != 2 || held != 6 {
		c.Errorf("a node that wants 2 slots of 8 has %d, beside one that holds %d and wants no more", other, held)
	}
}

// slotsInLine has nodes whose calls take more than their part, and one whose calls take one
// each, of so few slots that not all can have one.
func slotsInLine(c *check) {
	type caller struct {
		node        store.Node
		least       int64 // of a call
		held, inUse int64
		calls       int
		waits       int // rounds without one
		turn        int // rounds that are left of it
	}
	all := []*caller{{least: 3}, {least: 2}, {least: 3}, {least: 1}, {least: 1}}
	for i, n := range nodes(len(all)) {
		all[i].node = n
	}
	ask := func(k *caller) {
		it := slots(3, max(k.held, k.inUse), max(0, k.inUse+k.least-max(k.held, k.inUse)))
		it.LeastSlots = k.inUse + k.least
		if k.turn > 0 {
			it.Line = store.LineTurn
		} else if k.inUse == 0 && k.waits > 1 {
			it.Line = store.LineWaits
		}
		k.held = c.ask(k.node, it).Held
		if it.Line == store.LineWaits && k.held >= it.LeastSlots {
			k.turn = 3
		}
		for k.inUse+k.least <= k.held {
			k.inUse += k.least
			k.calls++
			k.waits = 0
		}
	}
	const rounds = 100
	for range rounds {
		sum := int64(0)
		for _, k := range all {
			k.waits++
			k.turn--
			ask(k)
		}
		for _, k := range all {
			if k.held < k.inUse {
				ask(k) // what it is to give back it does not hold
			}
			sum += max(k.held, k.inUse)
		}
		if sum > 3 {
			c.Fatalf("nodes hold %d slots of 3", sum)
		}
		for _, k := range all {
			k.inUse = 0 // the calls are over
		}
	}
	for _, k := range all {
		if k.calls < rounds/20 {
			c.Errorf("a node whose calls take %d slots of 3 has made %d in %d rounds of all", k.least, k.calls, rounds)
		}
	}
}

// slotsByTheRules has nodes say what they hold and want, and knows what that comes to.
func slotsByTheRules(c *check) {
	type says struct {
		node                     int
		slots, held, want, least int64
		line                     store.LineWord
		answer                   int64
	}
	const line, turn = store.LineWaits, store.LineTurn
	for _, tt := range []struct {
		what string
		says []says
	}{
		{"who says so leaves the line", []says{
			{0, 4, 0, 4, 0, 0, 4}, {1, 4, 0, 4, 4, line, 0}, {0, 4, 4, 0, 0, 0, 0},
			{1, 4, 0, 0, 0, 0, 0}, {0, 4, 4, 0, 0, 0, 4},
		}},
		{"who wants no slots leaves the line", []says{
			{0, 4, 0, 4, 0, 0, 4}, {1, 4, 0, 4, 4, line, 0}, {2, 4, 0, 4, 4, line, 0}, {1, 0, 0, 0, 0, 0, 0},
			{0, 4, 0, 0, 0, 0, 0}, {2, 4, 0, 4, 4, line, 4},
		}},
		{"who has its turn is kept nothing from, up to its part, nor asked for any", []says{
			{0, 5, 0, 5, 0, 0, 5}, {1, 5, 0, 4, 1, line, 0}, {2, 5, 0, 5, 5, line, 0}, {0, 5, 5, 0, 0, 0, 4},
			{0, 5, 2, 0, 0, 0, 2}, {1, 5, 0, 4, 1, line, 3}, {1, 5, 3, 1, 4, turn, 3}, {0, 5, 2, 3, 3, 0, 2}, {1, 5, 3, 1, 4, turn, 3},
		}},
		{"when its turn is over the next has one", []says{
			{0, 5, 0, 5, 0, 0, 5}, {1, 5, 0, 1, 1, line, 0}, {2, 5, 0, 5, 5, line, 0}, {0, 5, 0, 0, 0, 0, 0},
			{1, 5, 0, 1, 1, line, 1}, {2, 5, 0, 5, 5, line, 0}, {1, 5, 1, 0, 1, turn, 1}, {1, 5, 1, 0, 1, 0, 0},
			{1, 5, 0, 1, 1, 0, 0}, {2, 5, 0, 5, 5, line, 5},
		}},
		{"who waits again in its turn is the last", []says{
			{0, 5, 0, 5, 0, 0, 5}, {1, 5, 0, 1, 1, line, 0}, {2, 5, 0, 5, 5, line, 0}, {0, 5, 0, 0, 0, 0, 0},
			{1, 5, 0, 1, 1, line, 1}, {1, 5, 0, 1, 1, line, 0}, {2, 5, 0, 5, 5, line, 5},
		}},
		{"there is no turn without the line", []says{
			{0, 5, 0, 5, 0, 0, 5}, {1, 5, 0, 3, 3, 0, 0}, {0, 5, 5, 0, 0, turn, 5}, {1, 5, 0, 3, 3, line, 0}, {0, 5, 5, 0, 0, turn, 2},
		}},
		{"nothing is given that is of no use", []says{
			{0, 5, 0, 3, 0, 0, 3}, {1, 5, 0, 3, 3, 0, 0}, {1, 5, 0, 2, 2, 0, 2},
		}},
		{"nothing is asked back that is of no use", []says{
			{0, 5, 0, 5, 0, 0, 5}, {1, 5, 0, 3, 3, 0, 0}, {0, 5, 5, 0, 0, 0, 5},
			{1, 5, 0, 3, 2, 0, 0}, {0, 5, 5, 0, 0, 0, 3},
		}},
		{"the first in line keeps what it has got so far", []says{
			{0, 5, 0, 5, 0, 0, 5}, {1, 5, 0, 4, 4, line, 0}, {0, 5, 2, 0, 0, 0, 1}, {1, 5, 0, 4, 4, line, 3},
			{2, 5, 0, 1, 1, 0, 0}, {1, 5, 3, 1, 4, line, 3},
		}},
		{"the others in line hold nothing", []says{
			{0, 5, 0, 3, 0, 0, 3}, {1, 5, 0, 5, 5, line, 2}, {2, 5, 0, 4, 4, line, 0}, {0, 5, 3, 1, 4, line, 0},
		}},
		{"no more is asked back than is not there", []says{
			{0, 6, 0, 3, 0, 0, 3}, {2, 6, 0, 3, 0, 0, 3}, {1, 6, 0, 3, 3, line, 0}, {2, 6, 1, 0, 0, 0, 0},
			{0, 6, 3, 0, 0, 0, 2},
		}},
		{"what is kept for the first in line is not asked back again", []says{
			{0, 5, 0, 4, 0, 0, 4}, {2, 5, 0, 1, 0, 0, 1}, {1, 5, 0, 1, 1, line, 0}, {2, 5, 0, 0, 0, 0, 0},
			{0, 5, 4, 0, 0, 0, 4},
		}},
		{"nobody waits for who needs more than there are", []says{
			{0, 3, 0, 3, 0, 0, 3}, {1, 5, 0, 5, 5, line, 0}, {0, 3, 3, 0, 0, 0, 3},
			{2, 5, 0, 1, 1, line, 0}, {0, 3, 3, 0, 0, 0, 2},
		}},
		{"of fewer than are held who has more than an equal part gives back", []says{
			{0, 6, 0, 3, 0, 0, 3}, {1, 6, 0, 2, 0, 0, 2}, {2, 6, 0, 1, 0, 0, 1}, {0, 3, 3, 0, 0, 0, 1}, {1, 3, 2, 0, 0, 0, 1},
			{2, 3, 1, 0, 0, 0, 1}, {0, 3, 1, 0, 0, 0, 1}, {1, 3, 1, 0, 0, 0, 1},
		}},
		{"no more is given back than are too many", []says{
			{0, 9, 0, 6, 0, 0, 6}, {1, 9, 0, 2, 0, 0, 2}, {0, 7, 6, 0, 0, 0, 5}, {1, 7, 2, 0, 0, 0, 2}, {0, 7, 5, 0, 0, 0, 5},
		}},
		{"of fewer than nodes hold one each all give back", []says{
			{0, 3, 0, 1, 0, 0, 1}, {1, 3, 0, 1, 0, 0, 1}, {2, 3, 0, 1, 0, 0, 1}, {0, 1, 1, 0, 0, 0, 0}, {1, 1, 1, 0, 0, 0, 0},
			{2, 1, 1, 0, 0, 0, 0}, {0, 1, 0, 1, 0, 0, 0}, {1, 1, 0, 0, 0, 0, 0}, {2, 1, 0, 1, 0, 0, 1}, {0, 1, 0, 1, 0, 0, 0},
		}},
		{"a call that had its turn may begin", []says{
			{0, 4, 0, 4, 0, 0, 4}, {1, 4, 0, 3, 3, line, 0}, {0, 4, 1, 3, 0, 0, 1}, {1, 4, 0, 3, 3, line, 3},
			{0, 4, 1, 3, 0, 0, 1}, {1, 4, 3, 0, 3, line, 3}, {1, 4, 3, 0, 0, 0, 2},
		}},
	} {
		key, ns := newKey(), nodes(3)
		for i, s := range tt.says {
			it := slots(s.slots, s.held, s.want)
			it.Key, it.LeastSlots, it.Line = key, s.least, s.line
			if a := c.ask(ns[s.node], it); a.Held != s.answer {
				c.Errorf("%s: answer %d is %d slots, want %d", tt.what, i, a.Held, s.answer)
				break
			}
		}
	}
}

// slotsOfTheFirstInLine has one who stands in line first, and is heard no more.
func slotsOfTheFirstInLine(c *check) {
	n := nodes(3)
	held := int64(0)
	for held < 4 {
		held = c.ask(n[0], slots(4, held, 4-held)).Held
	}
	wants := func(n store.Node, least int64) store.Item {
		it := slots(4, 0, least)
		it.LeastSlots, it.Line = least, store.LineWaits
		return it
	}
	c.ask(n[1], wants(n[1], 4))
	c.ask(n[2], wants(n[2], 1))
	if a := c.ask(n[0], slots(4, 4, 0)); a.Held != 0 {
		c.Errorf("%d slots of 4 are not asked back when the first in line waits for all", a.Held)
	}
	c.ask(n[0], slots(4, 2, 2))
	if a := c.ask(n[2], wants(n[2], 1)); a.Held != 0 {
		c.Errorf("%d of 2 free slots are given to the second in line, when the first waits for 4", a.Held)
	}
	if a := c.ask(n[0], slots(4, 2, 2)); a.Held != 0 {
		c.Errorf("%d slots are left with who has more than 2 of 4, when the first in line waits for 4", a.Held)
	}
	dies := time.Now()
	for {
		a := c.ask(n[2], wants(n[2], 1))
		if a.Held == 1 {
			break
		}
		if time.Since(dies) > 2*c.Store.TTL() {
			c.Fatalf("no slot for the second in line %v after the first was heard last, TTL is %v", time.Since(dies), c.Store.TTL())
		}
		c.ask(n[0], slots(4, 2, 0))
		time.Sleep(c.Store.TTL() / 16)
	}
	if d := time.Since(dies); d < c.Store.TTL()/4 {
		c.Errorf("the first in line is passed %v after it was heard, TTL is %v", d, c.Store.TTL())
	}
}
