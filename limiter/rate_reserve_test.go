package limiter

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
)

// TestReservationsCancelledInAnyOrderLeaveNothing puts cancelled reservations
// behind a bucket in any state and looks whether it is in the same afterwards.
func TestReservationsCancelledInAnyOrderLeaveNothing(t *testing.T) {
	for seed := range uint64(effort.Times(10)) {
		rnd := rand.New(rand.NewPCG(seed, 4))
		burst := 1 + rnd.IntN(5)
		r := newRate(t, 1, burst)
		now := r.time.base.Add(time.Minute)
		for range rnd.IntN(2 * burst) {
			r.ReserveAt(now.Add(-time.Duration(rnd.Int64N(int64(10*time.Second)))), 1)
		}
		full := func() time.Duration {
			v := r.ReserveAt(now, burst)
			defer v.Cancel()
			return v.Delay()
		}
		before := full()
		var some []RateReservation
		for range 1 + rnd.IntN(20) {
			some = append(some, r.ReserveAt(now, 1+rnd.IntN(burst)))
		}
		rnd.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
		for i := range some {
			some[i].Cancel()
			some[i].Cancel()
			if some[i].OK() {
				t.Fatal("cancelled and OK")
			}
		}
		if after := full(); after != before {
			t.Fatalf("seed %d: a full bucket comes in %v, without %d cancelled reservations in %v", seed, after, len(some), before)
		}
		if n := len(r.undone.places); n != 0 {
			t.Fatalf("seed %d: %d places left", seed, n)
		}
	}
}

func TestReservationPlaceGoesToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRate(t, 1, 2)
		reserve := func(n int, want time.Duration) RateReservation {
			t.Helper()
			v := r.Reserve(n)
			if !v.OK() || v.Delay() != want {
				t.Fatalf("Reserve(%d) is OK: %v, after %v, want %v", n, v.OK(), v.Delay(), want)
			}
			return v
		}
		reserve(2, 0)
		one, two := reserve(1, time.Second), reserve(2, 3*time.Second)
		reserve(1, 4*time.Second)
		two.Cancel()
		one.Cancel()
		if r.AllowN(1) {
			t.Error("a place in the future is there now")
		}
		reserve(1, time.Second)
		reserve(1, 5*time.Second) // not the place of 2
		time.Sleep(500 * time.Millisecond)
		two = reserve(2, 2500*time.Millisecond)
		two.Cancel()
		time.Sleep(2500 * time.Millisecond) // its very moment
		reserve(2, 0)
		one = reserve(1, 3*time.Second) // 6 s
		reserve(1, 4*time.Second)
		one.Cancel()
		time.Sleep(3*time.Second + 1)
		reserve(1, 2*time.Second-1) // too late for 6 s
		var some []RateReservation
		for i := range 9 {
			some = append(some, reserve(1, time.Duration(3+i)*time.Second-1))
		}
		for i := range 8 {
			some[i].Cancel()
		}
		for i := range 8 { // the earliest first
			reserve(1, time.Duration(3+i)*time.Second-1)
		}
		reserve(1, 12*time.Second-1)
	})
}

// TestReservationsRollOn has one reservation at any time, and the next before it
// cancels the last.
func TestReservationsRollOn(t *testing.T) {
	r := newRate(t, 1, 1)
	now := r.time.base
	r.AllowAt(now, 1)
	last := r.ReserveAt(now, 1)
	for i := range 10_000 {
		next := r.ReserveAt(now, 1)
		if next.Delay() > 2*time.Second {
			t.Fatalf("after %d rolls the delay is %v", i, next.Delay())
		}
		last.Cancel()
		last = next
	}
}

// TestReservationsAreConserved races reservations and their cancelling.
func TestReservationsAreConserved(t *testing.T) {
	r := newRate(t, 1, 5)
	now := r.time.base
	var wg sync.WaitGroup
	for g := range uint64(8) {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(g, 5))
			for range effort.Times(1000) {
				v := r.ReserveAt(now, 1+rnd.IntN(5))
				v.Cancel()
			}
		})
	}
	wg.Wait()
	if d := r.Try(now, 5); d != 0 {
		t.Errorf("the bucket is full in %v", d)
	}
}

// TestReservationPlacesAreForgotten cancels reservations that are not the last
// ones for a long time.
func TestReservationPlacesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRate(t, 1, 10)
		for range effort.Times(1000) {
			v := r.Reserve(1)
			r.Reserve(1)
			v.Cancel()
			if n := len(r.undone.places); n > 40 {
				t.Fatalf("%d places are kept, of which 10 have a time to come", n)
			}
			time.Sleep(2 * time.Second)
		}
	})
}

func TestReservationOfAnOldLimitIsNotGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRate(t, 1, 1)
		v, w := r.Reserve(1), r.Reserve(1)
		v.Cancel() // keeps a place
		if err := r.SetRate(2); err != nil {
			t.Fatal(err)
		}
		w.Cancel()
		if d := r.Reserve(1).Delay(); d != 1500*time.Millisecond {
			t.Errorf("the next one comes after %v", d)
		}
	})
}
