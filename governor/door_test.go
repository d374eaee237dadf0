package governor

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Room and the end of the context come at the same moment, again and again:
// whichever the submitter sees first, no room is lost and none is made up.
func TestRoomForASubmitterThatLeavesIsTheNextOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &door{most: 1, word: new(word)}
		submitter := func(ctx context.Context) *request {
			r := &request{ctx: ctx}
			r.class.Store(&class{lane: new(lane)})
			return r
		}
		var left, entered int
		for i := range 200 {
			d.waiting = 1 // full
			ctx, cancel := context.WithCancel(t.Context())
			first, second := make(chan error, 1), make(chan error, 1)
			go func() { first <- d.block(submitter(ctx)) }()
			synctest.Wait()
			go func() { second <- d.block(submitter(t.Context())) }()
			synctest.Wait()
			if i%2 == 0 { // who parks in a select sees what comes first
				cancel()
				d.left(1, false)
			} else {
				d.left(1, false)
				cancel()
			}
			synctest.Wait()
			if err := <-first; err == nil { // it has the room, and leaves it now
				entered++
				d.left(1, false)
			} else {
				left++
			}
			if err := <-second; err != nil {
				t.Fatal(err)
			}
			if d.waiting != 1 || !d.blocked.empty() {
				t.Fatalf("%d waiting, nobody blocked: %v; want the second alone", d.waiting, d.blocked.empty())
			}
		}
		if left == 0 || entered == 0 {
			t.Errorf("%d left and %d entered: the race was not tried", left, entered)
		}
	})
}

// Where the actor makes room in a full queue, submitters that are faster than it wait
// until it has: what they have in the inbox is bounded, too. There is no bubble, for it
// would wait for who waits for a mutex.
func TestSubmittersDoNotRunAwayFromTheActorThatDrops(t *testing.T) {
	for _, rule := range []Overflow{DropOldest, DropLower} {
		t.Run(rule.String(), func(t *testing.T) {
			const submitters, most, each = 4, 10, 5 * mostAhead // each more than the inbox may have: all have to wait
			g, err := New(PlainConfig{Name: "test", MaxQueue: most, Overflow: rule})
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			g.Pause() // what is submitted waits
			g.turn.Lock()
			let := sync.OnceFunc(g.turn.Unlock)
			defer let()
			done := make(chan struct{})
			var wg sync.WaitGroup
			for range submitters {
				wg.Go(func() {
					for range each {
						Submit(context.Background(), g, "", Func(func(context.Context) (int, error) { return 0, nil }))
					}
				})
			}
			go func() { wg.Wait(); close(done) }()
			for asleep, inbox := 0, 0; asleep < submitters; {
				select {
				case <-done:
					t.Fatalf("the actor has done nothing, and all %d are in", submitters*each)
				case <-time.After(time.Millisecond):
				}
				g.door.mu.Lock()
				asleep, inbox = len(g.door.msgs), g.door.inbox
				g.door.mu.Unlock()
				if inbox > mostAhead {
					t.Fatalf("%d are in the inbox, want at most %d", inbox, mostAhead)
				}
			}
			let()
			<-done
			if s := g.Stats(); s.Queued != most || s.Overflow != submitters*each-most {
				t.Errorf("%d wait, %d were dropped; want %d and the rest", s.Queued, s.Overflow, most)
			}
		})
	}
}
