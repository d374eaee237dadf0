package governor

import "context"

// watch tells the actor that a context ended. All requests that wait with the
// same context share one, so that a batch costs one registration. It belongs to
// the actor; only fire runs elsewhere.
//
// The actor calls the contexts' own Done, Err and AfterFunc here, the only
// methods of the user's that it calls beside limits and breaker: contexts are
// made to be asked from anywhere at any time.
type watch struct {
	core *core
	done <-chan struct{}
	stop func() bool
	head *request // linked by wnext
}

type watches map[<-chan struct{}]*watch

// maxShared is how many contexts are remembered so that a further request can
// share their watch. With more than that, sharing is rare, and a map of them
// would be most of what they cost.
const maxShared = 1024

// fire is called on a goroutine of its own when the context ends, or had ended.
func (w *watch) fire() {
	w.core.door.post(message{kind: msgWatch, w: w})
	w.core.wakeUp()
}

// add makes r's context known.
func (ws watches) add(r *request, c *core) {
	done := r.ctx.Done()
	if done == nil {
		return
	}
	w := ws[done]
	if w == nil {
		w = &watch{core: c, done: done}
		w.stop = context.AfterFunc(r.ctx, w.fire)
		if len(ws) >= maxShared {
			clear(ws) // each lives on with its requests
		}
		ws[done] = w
	}
	r.watch, r.wprev, r.wnext = w, nil, w.head
	if w.head != nil {
		w.head.wprev = r
	}
	w.head = r
}

// remove forgets r, and its context with the last request that has it.
func (ws watches) remove(r *request) {
	w := r.watch
	if w == nil {
		return
	}
	if r.wprev == nil {
		w.head = r.wnext
	} else {
		r.wprev.wnext = r.wnext
	}
	if r.wnext != nil {
		r.wnext.wprev = r.wprev
	}
	r.watch, r.wprev, r.wnext = nil, nil, nil
	if w.head == nil {
		w.stop()
		if ws[w.done] == w {
			delete(ws, w.done)
		}
	}
}
