package main

import (
	"fmt"
	"runtime"
	"sync"
	"time"
)

// slice is about how long one side of a pass runs.
const slice = 60 * time.Millisecond

// side is one of the two things that a row in nanoseconds compares. It makes
// what it measures afresh for every pass: op does the operation n times, on as
// many goroutines at once as the row says, and stop, if any, ends it.
type side func() (op func(n int) error, stop func(), err error)

// timed measures ours and peer in turn, submitters goroutines sharing the
// operations. Nanoseconds are wall time over all operations, so that the latency
// of one is about submitters times that.
func timed(submitters int, ours, peer side) func(passes int) ([]sample, error) {
	return func(passes int) ([]sample, error) {
		n, err := calibrate(submitters, ours)
		if err != nil {
			return nil, err
		}
		m, err := calibrate(submitters, peer)
		if err != nil {
			return nil, fmt.Errorf("peer: %w", err)
		}
		samples := make([]sample, passes)
		for i := range samples {
			s := &samples[i]
			mine := func() (err error) {
				s.ours, s.allocs, err = ours.time(submitters, n)
				return err
			}
			other := func() (err error) {
				if s.peer, _, err = peer.time(submitters, m); err != nil {
					err = fmt.Errorf("peer: %w", err)
				}
				return err
			}
			halves := [...]func() error{mine, other}
			for j := range halves { // the other order in every second pass
				if err := halves[(i+j)%2](); err != nil {
					return nil, err
				}
			}
		}
		return samples, nil
	}
}

// time does n operations after a warm-up and returns nanoseconds and allocations
// of one.
func (s side) time(submitters, n int) (ns, mallocs float64, err error) {
	op, stop, err := s()
	if err != nil {
		return 0, 0, err
	}
	if stop != nil {
		defer stop()
	}
	if _, err := share(submitters, max(1, n/10), op); err != nil {
		return 0, 0, err
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	took, err := share(submitters, n, op)
	runtime.ReadMemStats(&after)
	return float64(took) / float64(n), float64(after.Mallocs-before.Mallocs) / float64(n), err
}

// calibrate returns how many operations take a slice.
func calibrate(submitters int, s side) (int, error) {
	op, stop, err := s()
	if err != nil {
		return 0, err
	}
	if stop != nil {
		defer stop()
	}
	for n := submitters; ; {
		took, err := share(submitters, n, op)
		if err != nil {
			return 0, err
		}
		if took >= slice/2 {
			return max(submitters, int(float64(n)*float64(slice)/float64(took))), nil
		}
		n = min(100*n, int(float64(n)*float64(slice)/float64(max(took, 1)))+1)
	}
}

// share has the submitters do n operations together and returns how long it
// took.
func share(submitters, n int, op func(n int) error) (time.Duration, error) {
	if submitters == 1 {
		start := time.Now()
		err := op(n)
		return time.Since(start), err
	}
	var wg sync.WaitGroup
	errs := make(chan error, submitters)
	gate := make(chan struct{})
	for i := range submitters {
		part := n / submitters
		if i < n%submitters {
			part++
		}
		wg.Go(func() {
			<-gate
			if err := op(part); err != nil {
				errs <- err
			}
		})
	}
	start := time.Now()
	close(gate)
	wg.Wait()
	took := time.Since(start)
	select {
	case err := <-errs:
		return 0, err
	default:
		return took, nil
	}
}

// each makes an operation that does one call a repeated one.
func each(one func() error) func(n int) error {
	return func(n int) error {
		for range n {
			if err := one(); err != nil {
				return err
			}
		}
		return nil
	}
}
