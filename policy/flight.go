package policy

import "context"

// flight is a call whose outcome several share. Its leader makes it; value, err
// and again are the leader's until done is closed, and then stay.
type flight[R any] struct {
	leader context.Context
	done   chan struct{}
	value  R
	err    error
	again  bool // nobody can use the outcome but the leader: make the call anew

	// Under Cache.mu.
	followers int  // how many joined
	forgotten bool // its result is not to be stored
	storing   bool // it is being stored, or was; before done is closed
}

// share makes call, or waits for one under way.
func (x *Cache[K, R]) share(ctx context.Context, key K, call func() (R, error)) (r R, err error) {
	for {
		f, leads := x.join(ctx, key)
		if leads {
			return x.lead(ctx, key, f, call)
		}
		if x.follow(ctx, f) {
			return f.value, f.err
		}
		if ctx.Err() != nil {
			return r, endOf(ctx, "no result to share", false)
		}
	}
}

// join finds a call under way, or begins one: also in place of one whose leader is
// gone, which may never end.
func (x *Cache[K, R]) join(ctx context.Context, key K) (f *flight[R], leads bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if f = x.flights[key]; f != nil && (f.storing || f.leader.Err() == nil) {
		f.followers++
		return f, false
	}
	if f != nil {
		f.forgotten = true
	}
	f = &flight[R]{leader: ctx, done: make(chan struct{}), err: ErrGoexit}
	x.flights[key] = f
	return f, true
}

// follow waits for the outcome of f. It returns false when ctx has ended, or when
// the outcome is nobody's but the leader's.
func (x *Cache[K, R]) follow(ctx context.Context, f *flight[R]) bool {
	select {
	case <-f.done:
		return !f.again
	case <-ctx.Done():
		return false
	case <-f.leader.Done():
	}
	select { // the leader's context may have ended with its call, and select takes either
	case <-f.done:
		return !f.again
	default:
	}
	if !x.isStoring(f) {
		return false // join finds the leader gone
	}
	select {
	case <-f.done:
		return true
	case <-ctx.Done():
		return false
	}
}

func (x *Cache[K, R]) isStoring(f *flight[R]) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return f.storing
}

// mayStore is where Invalidate and the leader meet: either it comes first and
// nothing is stored, or it waits and deletes what was.
func (x *Cache[K, R]) mayStore(f *flight[R]) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	f.storing = !f.forgotten
	return f.storing
}

// forget makes a flight for key one that nobody joins any more, and of which
// nothing will be stored once it returns.
func (x *Cache[K, R]) forget(key K) {
	x.mu.Lock()
	f := x.flights[key]
	storing := f != nil && f.storing
	if f != nil {
		f.forgotten = true
		delete(x.flights, key)
	}
	x.mu.Unlock()
	if storing {
		<-f.done
	}
}
