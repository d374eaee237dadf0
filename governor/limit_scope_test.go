package governor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// steps returns how often lanes have been put in turn, and started.
func (c *core) steps() (n uint64) {
	c.ask(func() { n = c.queue.Steps() })
	return n
}

// crowded runs fn with a governor in which a request of each of so many tenants waits
// for a bucket that is paused for ten seconds.
func crowded(t *testing.T, lanes int, set func(*PlainConfig), fn func(t *testing.T, g *Plain, reqs []*Request[time.Time])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := PlainConfig{Name: "test", Workers: 64, NoPace: true, MaxQueue: 2 * lanes}
		if set != nil {
			set(&cfg)
		}
		g, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		g.Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Bucket, Key: "b"}, Delay: 10 * time.Second})
		reqs := make([]*Request[time.Time], lanes)
		for i := range reqs {
			reqs[i] = Submit(t.Context(), g.With(Ask{Tenant: fmt.Sprint(i), Bucket: "b"}), "", Func(took))
		}
		synctest.Wait()
		fn(t, g, reqs)
	})
}

// took takes a second and returns when it began.
func took(context.Context) (time.Time, error) {
	at := time.Now()
	time.Sleep(time.Second)
	return at, nil
}

// All lanes that waited for a scope were put in turn by each change of it, and all
// but a few were parked again.
func TestChangeOfAScopeCostsAsMuchAsItAdmitsHoweverManyWait(t *testing.T) {
	crowded(t, 5000, nil, func(t *testing.T, g *Plain, reqs []*Request[time.Time]) {
		start := time.Now()
		before := g.core.steps()
		for i := range 100 {
			g.Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Bucket, Key: "b"}, Delay: 10*time.Second + time.Duration(i)})
			synctest.Wait()
		}
		if n := g.core.steps() - before; n > 200 {
			t.Errorf("lanes were put in turn %d times by 100 signals", n)
		}
		for i, want := range []int{0, 1, 2, 4} { // in the first second after it, and so on
			before, first := g.core.steps(), g.Stats().Started
			time.Sleep(10*time.Second + 99 - time.Since(start) + time.Duration(i)*time.Second - 1)
			synctest.Wait()
			started := int(g.Stats().Started - first)
			if n := g.core.steps() - before; started != want || n > 3*uint64(want)+3 {
				t.Errorf("lanes were put in turn %d times for %d starts, want %d", n, started, want)
			}
		}
		bucket := throttle.Scope{Level: throttle.Bucket, Key: "b"}
		at := time.Now()
		g.Clear(bucket)
		synctest.Wait()
		g.core.ask(func() {
			if g.core.queue.Awaited(bucket) || !time.Now().Equal(at) {
				t.Errorf("%v after Clear lanes still wait for the bucket", time.Since(at))
			}
		})
	})
}

// The slow reference: when the actor has come to rest no lane is kept back of which a
// look at its scopes, and at its tenant's limit, says that it may go.
func TestNoLaneWaitsThatMayGo(t *testing.T) {
	for seed := range uint64(effort.Times(3)) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 11))
			limit, err := limiter.NewBucket(limiter.BucketConfig{Rate: 5, Burst: 2})
			if err != nil {
				t.Fatal(err)
			}
			g, err := New(PlainConfig{
				Name: "test", Workers: 1 + rnd.IntN(20), NoPace: true, MinCooldown: time.Millisecond, MaxWait: -1,
				Limits: []Limit{{Per: throttle.Tenant, Limiter: limit}},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			key := func() string { return fmt.Sprint(rnd.IntN(4)) }
			scope := func() throttle.Scope {
				return throttle.Scope{Level: throttle.Level(1 + rnd.IntN(3)), Key: key()}
			}
			var reqs []*Request[int]
			for range 400 {
				switch n := rnd.IntN(20); {
				case n < 10:
					ask := Ask{Tenant: key(), Bucket: key(), Priority: rnd.IntN(3), KeepConn: rnd.IntN(9) == 0}
					lasts, fails := time.Duration(rnd.IntN(1000))*time.Millisecond, rnd.IntN(6) == 0
					reqs = append(reqs, Submit(t.Context(), g.With(ask), key(), Func(func(context.Context) (int, error) {
						time.Sleep(lasts)
						if fails {
							return 0, Again(lasts)
						}
						return 1, nil
					})))
				case n < 12 && len(reqs) > 0:
					reqs[rnd.IntN(len(reqs))].Cancel()
				case n < 15:
					g.Learn(throttle.Signal{Scope: scope(), Delay: time.Duration(rnd.IntN(2000)) * time.Millisecond})
				case n == 15:
					g.Clear(scope())
				default:
					time.Sleep(time.Duration(rnd.IntN(700)) * time.Millisecond)
				}
				synctest.Wait()
				g.core.ask(func() {
					c := g.core
					now := c.now()
					for l := range c.queue.lanes.all {
						sc := l.scopes()
						st, _ := c.gate.look(now, &sc)
						if _, wait := c.gate.limited(now, &sc, 1, false); st == nil && wait == 0 && (l.kept || !c.full()) {
							t.Errorf("seed %d: %+v waits, parked %t", seed, l.laneKey, l.sched.Parked())
						}
					}
				})
				if t.Failed() {
					return
				}
			}
			for _, r := range reqs {
				r.Cancel()
			}
		})
	}
}
