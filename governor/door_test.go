package governor

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Room and the end of the context come at the same moment, again and again:
// whichever comes first, no room is lost and none is made up.
func TestRoomForASubmitterThatLeavesIsTheNextOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := New(PlainConfig{Name: "test", Workers: 1, MaxQueue: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		g.Pause()
		none := Func(func(context.Context) (int, error) { return 0, nil })
		fills := Submit(t.Context(), g, "", none)
		for range 200 {
			ctx, cancel := context.WithCancel(t.Context())
			first, second := make(chan *Request[int], 1), make(chan *Request[int], 1)
			go func() { first <- Submit(ctx, g, "", none) }()
			synctest.Wait()
			go func() { second <- Submit(t.Context(), g, "", none) }()
			synctest.Wait()
			if len(first)+len(second) > 0 {
				t.Fatal("a submitter was let go though the queue is full")
			}
			go cancel()
			go fills.Cancel()
			synctest.Wait()
			if r := <-first; r.State() != Done {
				t.Fatal("whose context has ended still waits")
			}
			fills = <-second
			g.door.mu.Lock()
			if d := &g.door; d.waiting != 1 || !d.blocked.empty() || len(d.blocked.of) != 0 {
				t.Fatalf("%d waiting, nobody blocked: %v; want the second alone", d.waiting, d.blocked.empty())
			}
			g.door.mu.Unlock()
		}
		g.Resume()
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
