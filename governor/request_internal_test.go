package governor

import (
	"testing"
	"unsafe"
)

// A million requests may wait, and their size is most of what that costs. A
// field more than these puts each into the next size class of the allocator.
func TestWaitingRequestFitsItsSizeClass(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("the sizes are those of a 64-bit machine")
	}
	if size := unsafe.Sizeof(closure[int, int]{}); size > 144 {
		t.Errorf("a request takes %d B beside its closure, want at most 144", size)
	}
	if size := unsafe.Sizeof(attended[int, int]{}); size > 144 {
		t.Errorf("the request of a Do takes %d B beside its closure, want at most 144", size)
	}
}

func TestAttemptFitsItsSizeClass(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("the sizes are those of a 64-bit machine")
	}
	if size := unsafe.Sizeof(attempt{}); size > 288 {
		t.Errorf("an attempt takes %d B, want at most 288", size)
	}
}

// A hundred thousand lanes may be there, each of them somebody's first request: what is
// asked for is a lane, too.
func TestLaneFitsItsSizeClass(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("the sizes are those of a 64-bit machine")
	}
	if asked, queue := unsafe.Sizeof(lane{}), unsafe.Sizeof(backlog{}); asked > 80 || queue > 320 {
		t.Errorf("a lane takes %d B, and %d when something is in it, want at most 80 and 320", asked, queue)
	}
}

func TestBellIsRungOnlyForWhoSleeps(t *testing.T) {
	c, r, a := new(core), new(attended[int, int]), new(attempt)
	r.task = r
	r.class.Store(&class{att: a})
	_, bell := r.listenFor(c)
	r.send(granted)
	<-bell
	if r.heard(c, bell) != a {
		t.Error("who slept did not get the grant")
	}
	r.send(granted)
	if len(bell) != 0 {
		t.Fatal("a bell was rung that had been given back")
	}
	if got, prompt := r.receive(c); got != a || !prompt {
		t.Errorf("got %p, prompt %t, want the grant that was there", got, prompt)
	}
	r.send(ended)
	if got, prompt := r.receive(c); got != nil || !prompt {
		t.Errorf("got %p, prompt %t, want the end that was there", got, prompt)
	}
}
