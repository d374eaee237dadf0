package main

import (
	"time"

	"golang.org/x/time/rate"

	"github.com/flyball-go/flyball/limiter"
)

// A3 and A4: a permit of a full bucket, made to be shared by goroutines.
//
//	A3allow, A3wait, A3reserve   the clock read by the limiter
//	A4allow, A4try               the clock read by the caller
func init() {
	allow := xtimeAllow(burst)
	both("A3allow", "Rate.Allow", "x/time/rate Allow", most(0.5), rateSide(burst, rateAllow), allow)
	both("A3wait", "Rate.Wait that need not wait", "x/time/rate Allow", most(0.5), rateSide(burst, rateWait), allow)
	both("A3reserve", "Rate.Reserve", "x/time/rate Allow", most(0.5), rateSide(burst, rateReserve), allow)
	both("A4allow", "Rate.AllowAt, time given", "x/time/rate Allow", most(0.2), rateSide(burst, rateAllowAt), allow)
	both("A4try", "Rate.Try, time given", "x/time/rate Allow", most(0.2), rateSide(burst, rateTry), allow)
}

// rateSide takes permits of a bucket of so many, which come back at a rate at
// which that many do not run out.
func rateSide(permits int, use func(*limiter.Rate) (op func(int) error, stop func())) side {
	return func() (func(int) error, func(), error) {
		r, err := limiter.NewRate(limiter.RateConfig{Rate: rateFor(permits), Burst: permits})
		if err != nil {
			return nil, nil, err
		}
		op, stop := use(r)
		return op, stop, nil
	}
}

// rateFor is next to nothing for the few permits of a test, which counts them.
func rateFor(permits int) float64 {
	if permits == burst {
		return plenty
	}
	return 1e-6
}

func xtimeAllow(permits int) side {
	return func() (func(int) error, func(), error) {
		l := rate.NewLimiter(rate.Limit(rateFor(permits)), permits)
		return each(func() error { return granted(l.Allow()) }), nil, nil
	}
}

func granted(ok bool) error {
	if !ok {
		return errRefused
	}
	return nil
}

func rateAllow(r *limiter.Rate) (func(int) error, func()) {
	return each(func() error { return granted(r.Allow()) }), nil
}

func rateWait(r *limiter.Rate) (func(int) error, func()) {
	ctx, cancel := alive()
	return each(func() error { return r.Wait(ctx) }), cancel
}

func rateReserve(r *limiter.Rate) (func(int) error, func()) {
	return each(func() error {
		v := r.Reserve(1)
		return granted(v.OK() && v.Delay() == 0)
	}), nil
}

func rateAllowAt(r *limiter.Rate) (func(int) error, func()) {
	return given(func(now time.Time) bool { return r.AllowAt(now, 1) }), nil
}

func rateTry(r *limiter.Rate) (func(int) error, func()) {
	return given(func(now time.Time) bool { return r.Try(now, 1) == 0 }), nil
}

// given repeats a take with a time that the caller has.
func given(take func(now time.Time) bool) func(int) error {
	return func(n int) error {
		now := time.Now()
		for range n {
			if !take(now) {
				return errRefused
			}
		}
		return nil
	}
}
