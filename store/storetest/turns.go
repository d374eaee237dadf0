package storetest

import (
	"time"

	"github.com/flyball-go/flyball/store"
)

// costlyTurns has a node whose calls cost all that a bucket holds, beside others that take
// each permit as soon as it is there.
func costlyTurns(c *check) {
	l := store.Limit{Kind: store.Bucket, Quota: 500, Per: time.Second, Burst: 20}
	ns := nodes(4)
	costly := limited(20, l)
	costly.Least = 20
	served, uses := 0, History{}
	var again time.Time
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for _, n := range ns[1:] {
			sent := time.Now()
			uses.used(sent, c.ask(n, limited(3, l)))
		}
		if time.Now().Before(again) {
			continue
		}
		sent := time.Now()
		a := c.ask(ns[0], costly)
		uses.used(sent, a)
		if a.Granted > 0 {
			served++
		}
		again = sent.Add(a.RetryAfter)
	}
	if served < 6 { // a fair part is 375 of 1500
		c.Errorf("a node whose calls cost 20 has had %d in three seconds, beside three that take 1; want 6", served)
	}
	if err := uses.Check(l); err != nil {
		c.Errorf("%v", err)
	}
}

// placesAreKept has nodes that were told when to come again come before that, as they do so
// as not to be forgotten.
func placesAreKept(c *check) {
	it := limited(1, store.Limit{Kind: store.Bucket, Quota: 100, Per: 100 * time.Second, Burst: 1})
	c.drain(it, nodes(1)...)
	ns := nodes(4)
	told := make([]time.Time, len(ns)) // at the latest
	for early := range 3 {
		for i, n := range ns {
			a := c.ask(n, it)
			if a.Granted > 0 {
				c.Fatalf("%d are granted of nothing", a.Granted)
			}
			at := time.Now().Add(a.RetryAfter)
			if early > 0 && at.After(told[i].Add(200*time.Millisecond)) {
				c.Errorf("node %d, that comes early for the %d. time, is to come %v later than it was", i, early, at.Sub(told[i]))
			}
			if i > 0 && at.Before(told[i-1].Add(500*time.Millisecond)) {
				c.Errorf("node %d is to come %v after the one before it, and 1s is what a permit takes", i, at.Sub(told[i-1]))
			}
			told[i] = at
		}
	}
}

// turnsHarmNobody has a node that can have nothing in the turn that it has: it is gone, or
// the bucket cannot hold any more what it needs. The others have to get what there is, all
// but a moment's.
func turnsHarmNobody(c *check) {
	bucket := store.Limit{Kind: store.Bucket, Quota: 500, Per: time.Second, Burst: 20}
	lowered := bucket
	lowered.Burst = 10
	for _, tt := range []struct {
		what    string
		goes    bool
		then    store.Limit // is in force when it has been refused twice
		atLeast int64       // is granted to the others in two seconds from then on
	}{
		{"is gone", true, bucket, 700},
		{"needs more than the Burst", false, lowered, 800},
	} {
		ns := nodes(4)
		others, costly := limited(3, bucket), limited(20, bucket)
		others.Key = newKey()
		costly.Key, costly.Least = others.Key, 20
		uses, granted, refused := History{}, int64(0), 0
		var again, end time.Time
		for now := time.Now(); end.IsZero() || now.Before(end); now = time.Now() {
			for _, n := range ns[1:] {
				sent := time.Now()
				a := c.ask(n, others)
				uses.used(sent, a)
				granted += a.Granted
			}
			if sent := time.Now(); sent.After(again) && (end.IsZero() || !tt.goes) {
				a := c.ask(ns[0], costly)
				uses.used(sent, a)
				again = time.Now().Add(a.RetryAfter)
				if refused++; a.Granted > 0 {
					refused = 0
				}
			}
			if refused == 2 && end.IsZero() {
				end, granted = time.Now().Add(2*time.Second), 0
				others.Limits, others.Version = []store.Limit{tt.then}, 2
			}
			time.Sleep(time.Millisecond)
		}
		if granted < tt.atLeast {
			c.Errorf("a node %s: the others get %d in two seconds, want %d", tt.what, granted, tt.atLeast)
		}
		if err := uses.Check(bucket); err != nil {
			c.Errorf("a node %s: %v", tt.what, err)
		}
	}
}
