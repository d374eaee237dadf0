package governor

import (
	"context"
	"testing"
	"testing/synctest"
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
