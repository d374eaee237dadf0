package limiter

import (
	"context"
	"math"
	"sync/atomic"
	"time"
)

// Wait takes a permit as soon as there is one.
func (r *Rate) Wait(ctx context.Context) error { return r.WaitN(ctx, 1) }

// WaitN takes n permits as soon as they are there, in the order of the calls,
// and returns nil. Where it does not, it has taken nothing, and returns at once:
//
//   - a *LimitedError, when ctx's deadline would not be met, or n is more than
//     Burst, or the wait would be longer than ten years;
//   - an error that matches ctx.Err() and context.Cause(ctx), when ctx is done
//     before;
//   - an error that matches ErrInvalid, when ctx is nil.
//
// Only the first in line has reserved its permits. So whoever gives up in line
// leaves no trace: those behind move up. n below 1 waits for nothing. An Allow
// or Reserve does not stand in line, but neither does it delay the first one.
func (r *Rate) WaitN(ctx context.Context, n int) error {
	if ctx == nil {
		return errNil
	}
	if ctx.Err() != nil {
		return endOf(ctx)
	}
	if r.line.permits.Load() == 0 {
		if _, _, wait := r.take(r.time.now(), n, 0); wait == 0 {
			return nil
		}
	}
	_, err := r.stand(ctx, n)
	return err
}

// waitingLine is the line of those who wait. The first one has the turn.
type waitingLine struct {
	// turn is full while somebody has the turn. Who sends to it stands in line:
	// a channel serves its senders first come, first served.
	turn chan struct{}

	// permits is how many those in line want who do not have the turn. It falls
	// before one who has the turn reserves, so that nobody is counted both here
	// and in tat: who adds them up may find too short a wait, and look again
	// when it has the turn, but never too long a one.
	permits atomic.Int64

	// free is the instant at which the last one who had the turn was, or should
	// have been, ready to pass it on. It belongs to who has the turn.
	free int64
}

// lateness is how late those in line may come without losing permits. Timers are 1
// to 2 ms late, on a busy machine more.
const lateness = int64(10 * time.Millisecond)

// stand is WaitN for who has to wait.
func (r *Rate) stand(ctx context.Context, n int) (v RateReservation, err error) {
	var came int64
	deadline := int64(math.MaxInt64)
	if d, ok := ctx.Deadline(); ok {
		came, deadline = r.time.until(d)
	} else {
		came = r.time.now()
	}
	alone, behind := r.ahead(came, n, r.line.permits.Load())
	if deadline-came <= behind || alone > farthest {
		err := refuse(TooLate, time.Duration(alone), "")
		err.deadline = alone <= farthest
		return v, err
	}
	r.line.permits.Add(int64(n))
	select {
	case r.line.turn <- struct{}{}:
		r.line.permits.Add(-int64(n))
	case <-ctx.Done():
		r.line.permits.Add(-int64(n))
		return v, endOf(ctx)
	}

	// It stood here when the turn became free, or came then. That the one before
	// woke up late costs nothing, as far as timers are late; that it gave up after
	// a while does, or that the process stood still, for what came back meanwhile
	// may be more than the bucket holds.
	now := max(came, r.line.free, r.time.now()-lateness)
	v = r.reserveInTurn(now, n)
	use := now + v.delay
	switch {
	case !v.OK(): // the limit was changed
		err = refuse(TooLate, v.Delay(), "")
	case deadline <= use: // a Reserve came first, or the limit was changed
		err = &LimitedError{Reason: TooLate, After: time.Duration(max(0, use-r.time.now())), deadline: true}
	case !sleep(ctx, use-r.time.now()):
		err = endOf(ctx)
	}
	if r.leaveTurn(err == nil); err != nil {
		v, use = RateReservation{}, r.time.now()
	}
	r.line.free = use
	<-r.line.turn
	return v, err
}

// ahead returns how long n permits would have to wait if nobody stood in line,
// and how long behind those who do, who want line permits.
func (r *Rate) ahead(now int64, n int, line int64) (alone, behind int64) {
	s := r.cur.Load()
	tat := s.tat.Load()
	for tat == moved {
		s = r.settled()
		tat = s.tat.Load()
	}
	if int64(n) > s.burst {
		return int64(Never), int64(Never)
	}
	tat = max(tat, now)
	return s.wait(tat, now, n), s.wait(tat+min(line, farthest/s.interval)*s.interval, now, n)
}

// sleep sleeps for ns, and reports false if ctx was done before.
func sleep(ctx context.Context, ns int64) bool {
	if ns <= 0 {
		return true
	}
	timer := time.NewTimer(time.Duration(ns))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
