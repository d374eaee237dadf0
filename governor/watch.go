package governor

import (
	"context"
	"sync/atomic"
)

// watch tells the actor that a context ended. All requests that wait with the
// same context share one, so that a batch costs one registration. It belongs to
// the actor; only fire runs elsewhere.
//
// The actor calls methods of the user's contexts, here as elsewhere: contexts are
// made to be asked from anywhere at any time.
type watch struct {
	stop func() bool
	head atomic.Pointer[request] // linked by wnext; atomic because of fire
}

type watches map[<-chan struct{}]*watch

// maxShared is how many contexts are remembered so that a further request can
// share their watch. With more than that, sharing is rare, and a map of them
// would be most of what they cost.
const maxShared = 1024

// fire is called on a goroutine of its own when the context ends, or had ended.
func (w *watch) fire() {
	if r := w.head.Load(); r != nil { // else nobody waits with it any more
		c := r.core()
		c.door.post(message{kind: msgWatch, w: w})
		c.wakeUp()
	}
}

// add makes r's context known.
func (ws watches) add(r *request) {
	done := r.ctx.Done()
	if done == nil {
		return
	}
	w := ws[done]
	fresh := w == nil
	if fresh {
		w = new(watch)
		if len(ws) >= maxShared {
			clear(ws) // each lives on with its requests
		}
		ws[done] = w
	}
	head := w.head.Load()
	r.watch, r.wprev, r.wnext = w, nil, head
	if head != nil {
		head.wprev = r
	}
	w.head.Store(r)
	if fresh {
		w.stop = context.AfterFunc(r.ctx, w.fire) // now that fire finds somebody
	}
}

// remove forgets r, and its context with the last request that has it.
func (ws watches) remove(r *request) {
	w := r.watch
	if w == nil {
		return
	}
	if r.wprev == nil {
		w.head.Store(r.wnext)
	} else {
		r.wprev.wnext = r.wnext
	}
	if r.wnext != nil {
		r.wnext.wprev = r.wprev
	}
	r.watch, r.wprev, r.wnext = nil, nil, nil
	if w.head.Load() == nil {
		w.stop()
		if done := r.ctx.Done(); ws[done] == w {
			delete(ws, done)
		}
	}
}
