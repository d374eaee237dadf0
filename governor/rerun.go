package governor

import "context"

// settle ends any other call as that of a worker is ended, with t for what may
// follow. Later attempts run on workers.
func (i *inlined[S, C]) settle(t task, r **request, out outcome) {
	a := i.attempt(out)
	*r = a.r
	a.r.mu.Lock() // Close may have abandoned it
	a.r.task = t
	a.r.mu.Unlock()
	a.core.settleFor(a)
}

// attempt returns the attempt that the call is, with all that it has, to be settled.
func (i *inlined[S, C]) attempt(out outcome) *attempt {
	a := i.in.attempt()
	i.in.extend().cell = i.cell
	a.lax, a.charged, a.out = i.lax, i.charged, out
	if i.conn {
		a.lease = i.loan
	}
	a.permit, a.permitted = i.permit, i.core.breaker != nil
	i.stage = settled
	return a
}

// settleFor settles an attempt that ran on the goroutine of Do. What reads errors is
// the user's, and may end its goroutine, which is not to be the caller's.
func (c *core) settleFor(a *attempt) *attempt {
	if !(a.out.kind == ran && a.out.err != nil || a.out.kind == polled) {
		return c.settle(a)
	}
	return c.settleApart(a)
}

// settleApart settles on a goroutine of its own.
func (c *core) settleApart(a *attempt) (next *attempt) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { next = c.settle(a) }()
		if l := a.key; a.life.in != nil && c.weight != nil && l != a.r.sel().plain { // it may go back into the queue
			l.weight = c.weigh(l.tenant)
		}
	}()
	<-done
	return next
}

// rerun is the task of a request that began inline.
type rerun[C, R any] struct {
	request *request
	fn      func(context.Context, C) (R, error)
	val     R // as that of a Request
}

func (t *rerun[C, R]) open(ctx context.Context, l lease) error { return dial[C](ctx, l) }

func (t *rerun[C, R]) run(a *attempt) error { return call(a, t.request, t.fn, &t.val) }

func (t *rerun[C, R]) completed() {}

func (t *rerun[C, R]) awaited() bool { return false }

func (t *rerun[C, R]) room() *attempt { return nil }

func (t *rerun[C, R]) clear() {
	var none R
	t.val = none
}

// result waits for the request to be complete.
func (t *rerun[C, R]) result() (v R, err error) {
	if t.request.status.state() != Done {
		<-t.request.Done()
	}
	if err = t.request.failure(); !t.request.status.has(abandoned) {
		v = t.val
	}
	return v, err
}
