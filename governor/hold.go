package governor

import "context"

// Hold keeps what the running attempt has, its slot, its connection and its
// context, after its closure returns, until release is called: for a result
// that is read later, such as a response's body. ctx is the context that the
// closure was given, or a descendant.
//
// The request completes when the closure returns. release is told how the rest
// went; an error is read by the adapter like a closure's, but the request is
// not repeated. What was held goes back when both the closure has returned and
// release was called, a moment after the later of them. release may be called
// from any goroutine, before or after the closure returned; calls after the first
// do nothing. Several holds of one attempt end with the last. Until then a call with the
// closure's context is one inside the closure, which may get ErrReentrant.
//
// A closure that fails holds nothing: its release functions do nothing. The same
// goes for a ctx that is nil or belongs to no running closure. A hold that lasts
// longer than Config.StuckAfter raises an event; Close waits for it as for a
// closure.
func Hold(ctx context.Context) (release func(error)) {
	var a *attempt
	if ctx != nil {
		a, _ = ctx.Value(token{}).(*attempt)
	}
	if a == nil {
		return func(error) {}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return func(error) {}
	}
	a.holds++
	released := false // guarded by a.mu
	return func(err error) {
		a.mu.Lock()
		if released || a.holds == 0 {
			a.mu.Unlock()
			return
		}
		released = true
		a.holds--
		if err != nil && a.held == nil {
			told := err // so that only an error costs an allocation
			a.held = &told
		}
		last := a.holds == 0 && a.ended
		a.mu.Unlock()
		if last {
			a.core.settleHeld(a)
		}
	}
}
