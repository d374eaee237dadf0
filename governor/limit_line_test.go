package governor_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
)

// Those of one selector and one bucket went from the line for the one to the line for
// the other and back without end, when half of them waited in each and those who kept
// the two lines were through at the same moment.
func TestLanesThatNeedTwoLimitsEndInOneLine(t *testing.T) {
	selectors, buckets := newBucket(t, 1, 1), newBucket(t, 1, 1)
	bubble(t, func(c *governor.PlainConfig) {
		c.NoPace, c.Limits = true, []governor.Limit{{Per: throttle.Selector, Limiter: selectors}, {Per: throttle.Bucket, Limiter: buckets}}
	}, func(t *testing.T, g *governor.Plain) {
		var reqs []*governor.Request[int]
		submit := func(selector, bucket string) {
			view := g.With(governor.Ask{Tenant: fmt.Sprint(len(reqs)), Bucket: bucket})
			reqs = append(reqs, governor.Submit(t.Context(), view, selector, sleep(0)))
			synctest.Wait() // one after the other
		}
		submit("x", "other")
		submit("v", "y")
		submit("u", "y") // the first in the line for the bucket
		submit("x", "y")
		submit("x", "y")
		submit("x", "another") // the first in the line for the selector
		submit("x", "y")
		submit("x", "y")
		start := time.Now()
		for _, r := range reqs {
			if _, err := r.Result(t.Context()); err != nil {
				t.Error(err)
			}
		}
		since(t, "the last", start, time.Now(), 5*time.Second)
	})
}

// What needs two limits, for each of which others wait all the time, went to the end
// of the one line when its turn came in the other, and never started.
func TestLaneThatNeedsTwoBusyLimitsIsNotStarved(t *testing.T) {
	for _, rates := range [][2]float64{{1, 1}, {1, 0.83}, {0.83, 1}, {3, 1}, {1, 3}, {1.7, 0.9}, {5, 0.1}} {
		for _, others := range []int{1, 9} {
			t.Run(fmt.Sprint(rates, others), func(t *testing.T) {
				tenants, buckets := newBucket(t, rates[0], 1), newBucket(t, rates[1], 1)
				bubble(t, func(c *governor.PlainConfig) {
					c.NoPace, c.Limits = true, []governor.Limit{{Per: throttle.Tenant, Limiter: tenants}, {Per: throttle.Bucket, Limiter: buckets}}
				}, func(t *testing.T, g *governor.Plain) {
					var tenant, bucket, both int
					const seconds = 250
					for i := range int(1.5 * seconds * max(rates[0], rates[1])) { // more than can start
						name := fmt.Sprint(i % others)
						governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "x", Bucket: name}), "", counting(&tenant))
						governor.Submit(t.Context(), g.With(governor.Ask{Tenant: name, Bucket: "y"}), "", counting(&bucket))
					}
					for range int(1.5 * seconds * min(rates[0], rates[1])) {
						governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "x", Bucket: "y"}), "", counting(&both))
					}
					time.Sleep(seconds * time.Second)
					synctest.Wait()
					g.Pause()
					// Each bucket of the tenant, and each tenant of the bucket, could have as much.
					if part := seconds * min(rates[0], rates[1]) / float64(others+1); float64(both) < 0.35*part {
						t.Errorf("%d started that need both limits, of %.0f", both, part)
					}
					own := min(rates[0], float64(others)*rates[1]) // a bucket of x's has no more than rates[1]
					if n, most := float64(tenant+both), seconds*own; n < 0.75*most {
						t.Errorf("%.0f of the tenant's started, %.0f could", n, most)
					}
					own = min(rates[1], float64(others)*rates[0])
					if n, most := float64(bucket+both), seconds*own; n < 0.75*most {
						t.Errorf("%.0f of the bucket's started, %.0f could", n, most)
					}
				})
			})
		}
	}
}

// What is less urgent, and waits for its turn at the host after its turn in a line,
// keeps nobody in that line who is more urgent.
func TestUrgentInLineNeedNotWaitForWhatIsHeldByTheHostsLimit(t *testing.T) {
	host, buckets := newBucket(t, 1, 1), newBucket(t, 0.2, 1)
	bubble(t, func(c *governor.PlainConfig) {
		c.NoPace, c.Ageing, c.Limits = true, -1, []governor.Limit{{Per: throttle.Host, Limiter: host}, {Per: throttle.Bucket, Limiter: buckets}}
	}, func(t *testing.T, g *governor.Plain) {
		submit := func(a governor.Ask) *governor.Request[int] {
			defer synctest.Wait()
			return governor.Submit(t.Context(), g.With(a), "", sleep(0))
		}
		for range 3 { // one starts, the next waits in line and then for the host
			submit(governor.Ask{Tenant: "low", Bucket: "b"})
		}
		for i := range 300 {
			submit(governor.Ask{Tenant: "middle", Bucket: fmt.Sprint("free", i), Priority: 1})
		}
		time.Sleep(10 * time.Second)
		start := time.Now()
		<-submit(governor.Ask{Tenant: "urgent", Bucket: "b", Priority: 2}).Done()
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("the most urgent started after %v", d)
		}
	})
}

// What keeps the only slot went to the end of a line whose first waited for that slot.
func TestKeptSlotIsNotWaitedForInLine(t *testing.T) {
	b := newBucket(t, 1, 1)
	bubble(t, func(c *governor.PlainConfig) {
		c.NoPace, c.Workers, c.Limits = true, 1, []governor.Limit{{Per: throttle.Bucket, Limiter: b}}
		c.Retry = &retry.Config{Backoff: backoff.Constant(3 * time.Second)}
	}, func(t *testing.T, g *governor.Plain) {
		var reqs []*governor.Request[int]
		script := governortest.NewScript(errors.New("once"))
		for _, fn := range []func(context.Context, struct{}) (int, error){sleep(0), sleep(0), script.Call, sleep(0), sleep(0)} {
			reqs = append(reqs, governor.Submit(t.Context(), g.With(governor.Ask{Tenant: fmt.Sprint(len(reqs)), Bucket: "b", KeepConn: true}), "", fn))
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		for i, r := range reqs {
			if r.State() != governor.Done {
				t.Errorf("number %d is %v", i, r.State())
				r.Cancel()
			}
		}
	})
}

// Whatever is cancelled, paused, limited and cooling meanwhile, all end that can.
func TestLinesForSeveralLimitsComeToAnEnd(t *testing.T) {
	for seed := range uint64(effort.Times(3)) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		var limits []governor.Limit
		for _, per := range []throttle.Level{throttle.Host, throttle.Selector, throttle.Tenant, throttle.Bucket} {
			if rnd.IntN(4) > 0 {
				rate := float64(1 + rnd.IntN(30))
				if per == throttle.Host {
					rate *= 5
				}
				limits = append(limits, governor.Limit{Per: per, Limiter: newBucket(t, rate, 3+rnd.IntN(3))})
			}
		}
		bubble(t, func(c *governor.PlainConfig) {
			c.NoPace, c.Workers, c.Limits, c.MinCooldown, c.LimitedAttempts = true, 1+rnd.IntN(8), limits, time.Millisecond, -1
			c.Ageing = []time.Duration{-1, 1, time.Second, 0}[rnd.IntN(4)]
		}, func(t *testing.T, g *governor.Plain) {
			var reqs []*governor.Request[int]
			for i := range 600 {
				ask := governor.Ask{
					Tenant: fmt.Sprint(rnd.IntN(3)), Bucket: fmt.Sprint(rnd.IntN(3)), Cost: 1 + rnd.IntN(3), KeepConn: rnd.IntN(20) == 0,
					Priority: []int{0, 0, 0, 1, math.MinInt32, math.MaxInt32}[rnd.IntN(6)],
				}
				refused := rnd.IntN(10) == 0
				reqs = append(reqs, governor.Submit(t.Context(), g.With(ask), fmt.Sprint(rnd.IntN(3)), governor.Func(func(context.Context) (int, error) {
					if refused {
						refused = false
						return 0, governortest.Limited(10 * time.Millisecond)
					}
					return 1, nil
				})))
				switch rnd.IntN(12) {
				case 0:
					reqs[rnd.IntN(i+1)].Cancel()
				case 1:
					time.Sleep(time.Duration(rnd.IntN(300)) * time.Millisecond)
				case 2:
					sc := throttle.Scope{Level: throttle.Level(rnd.IntN(4)), Key: fmt.Sprint(rnd.IntN(3))}
					g.Learn(throttle.Signal{Scope: sc, Delay: time.Duration(rnd.IntN(100)) * time.Millisecond})
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			for _, r := range reqs {
				if _, err := r.Result(ctx); err != nil && !errors.Is(err, context.Canceled) {
					t.Fatalf("seed %d: %v, %+v", seed, err, g.Stats())
				}
			}
		})
	}
}

// A tenant of one lane was never in the line when the next was chosen there, so that
// neither its weight nor its cost counted.
func TestTenantsOfOneLaneShareALimitByWeightAndCost(t *testing.T) {
	weights := map[string]int{"one": 1, "two": 2, "four": 4}
	costs := map[string]int{"one": 7, "two": 1, "four": 3}
	b := newBucket(t, 70, 10)
	bubble(t, func(c *governor.PlainConfig) {
		c.NoPace, c.MaxQueue = true, 100_000
		c.Weight = func(tenant string) int { return weights[tenant] }
		c.Limits = []governor.Limit{{Per: throttle.Bucket, Limiter: b}}
	}, func(t *testing.T, g *governor.Plain) {
		got := map[string]*int{"one": new(int), "two": new(int), "four": new(int)}
		for range 3000 {
			for name, n := range got {
				governor.Submit(t.Context(), g.With(governor.Ask{Tenant: name, Bucket: "b", Cost: costs[name]}), "", counting(n))
			}
		}
		time.Sleep(100 * time.Second)
		synctest.Wait()
		g.Pause()
		for name, n := range got {
			part := float64(*n*costs[name]) / 7000
			if want := float64(weights[name]) / 7; math.Abs(part/want-1) > 0.02 {
				t.Errorf("%s of weight %d got %.4f of it all, want %.4f within 2 %%", name, weights[name], part, want)
			}
		}
	})
}

// What waits for a slow limit of its own keeps nobody from a quick one meanwhile.
func TestSlowLimitOfATenantKeepsNoBucketBack(t *testing.T) {
	tenants, buckets := newBucket(t, 0.05, 1), newBucket(t, 1, 1)
	bubble(t, func(c *governor.PlainConfig) {
		c.NoPace, c.Limits = true, []governor.Limit{{Per: throttle.Tenant, Limiter: slowTenant{tenants}}, {Per: throttle.Bucket, Limiter: buckets}}
	}, func(t *testing.T, g *governor.Plain) {
		n := 0
		for i := range 1000 {
			governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "slow", Bucket: []string{"y", "z"}[i%2]}), "", sleep(0))
			governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "free", Bucket: "y"}), "", counting(&n))
		}
		time.Sleep(500 * time.Second)
		synctest.Wait()
		g.Pause()
		if n < 425 {
			t.Errorf("%d of the others started in 500 s at 1/s", n)
		}
	})
}

// slowTenant limits the tenant "slow" alone.
type slowTenant struct{ limiter.Limiter }

func (l slowTenant) Wait(now time.Time, key string, n int) time.Duration {
	if key != "slow" {
		return 0
	}
	return l.Limiter.Wait(now, key, n)
}

// free is a limiter of everything but the key "".
type free struct{ limiter.Limiter }

func (l free) Wait(now time.Time, key string, n int) time.Duration {
	if key == "" {
		return 0
	}
	return l.Limiter.Wait(now, key, n)
}

// What waited in line for a limit, or for a scope that had been paused, was not tried
// as long as there was anything else to start: for hours, when slots were short.
func TestLineIsNotPutOffWhileSlotsAreShort(t *testing.T) {
	for _, paused := range []bool{false, true} {
		t.Run(fmt.Sprint(paused), func(t *testing.T) {
			b := newBucket(t, 0.1, 1)
			bubble(t, func(c *governor.PlainConfig) {
				c.NoPace, c.Workers = true, 1
				if !paused {
					c.Limits = []governor.Limit{{Per: throttle.Bucket, Limiter: free{b}}}
				}
			}, func(t *testing.T, g *governor.Plain) {
				if paused {
					g.Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Bucket, Key: "b"}, Delay: 10 * time.Second})
				}
				start := time.Now()
				for i := range 1000 {
					governor.Submit(t.Context(), g.With(governor.Ask{Tenant: fmt.Sprint(i % 2)}), "", sleep(time.Second))
				}
				at := make([]time.Time, 10)
				for i := range at {
					governor.Submit(t.Context(), g.With(governor.Ask{Tenant: fmt.Sprint("b", i), Bucket: "b"}), "", stamp(&at[i]))
				}
				time.Sleep(150 * time.Second)
				synctest.Wait()
				for i, at := range at {
					want := time.Duration(10*i) * time.Second // at each permit
					if paused {
						want = 10 * time.Second // they take no time themselves
					}
					most := want + time.Duration(i+1)*4*time.Second // each may have to wait for its turn
					if d := at.Sub(start); d < want || d > most {
						t.Errorf("number %d started after %v, want %v to %v", i, d, want, most)
					}
				}
			})
		})
	}
}

// A line for a limit that lets everything pass gives each of its tenants as much, when
// slots are short, as those have that are in none.
func TestTenantsInLineShareSlotsWithThoseInNone(t *testing.T) {
	b := newBucket(t, 100, 1)
	bubble(t, func(c *governor.PlainConfig) {
		c.NoPace, c.Workers, c.Limits = true, 1, []governor.Limit{{Per: throttle.Bucket, Limiter: free{b}}}
	}, func(t *testing.T, g *governor.Plain) {
		var in, out [20]int
		run := func(n *int) func(context.Context, struct{}) (int, error) {
			return governor.Func(func(context.Context) (int, error) { *n++; time.Sleep(time.Second); return 0, nil })
		}
		g.Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Bucket, Key: "b"}, Delay: time.Second}) // which puts them in line
		for range 100 {
			for i := range in {
				governor.Submit(t.Context(), g.With(governor.Ask{Tenant: fmt.Sprint("in", i), Bucket: "b"}), "", run(&in[i]))
			}
			for i := range out[:2] {
				governor.Submit(t.Context(), g.With(governor.Ask{Tenant: fmt.Sprint("out", i)}), "", run(&out[i]))
			}
		}
		time.Sleep(220*time.Second - time.Millisecond)
		synctest.Wait()
		for i, n := range append(in[:], out[:2]...) {
			if n < 9 || n > 11 {
				t.Errorf("tenant %d, of whom the last two are in no line, started %d of 220, want 10", i, n)
			}
		}
	})
}

// What waits for a scope goes in the order of turn when that ends: the urgent first,
// and then one of each tenant however many lanes it has.
func TestGrowthAfterACooldownIsSharedByThoseWhoWaited(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.Workers = true, 64 }, func(t *testing.T, g *governor.Plain) {
		g.Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Bucket, Key: "b"}, Delay: 10 * time.Second})
		var order []string
		submit := func(name string, priority, lane int) {
			governor.Submit(t.Context(), g.With(governor.Ask{Tenant: name, Bucket: "b", Priority: priority}), fmt.Sprint(lane), governor.Func(func(context.Context) (int, error) {
				countingMu.Lock()
				order = append(order, name)
				countingMu.Unlock()
				time.Sleep(time.Second)
				return 0, nil
			}))
		}
		for i := range 20 {
			submit("many", 0, i)
			submit("one", 0, 0)
		}
		submit("urgent", 1, 0)
		time.Sleep(14*time.Second - time.Millisecond) // one, two, four and eight
		synctest.Wait()
		got := map[string]int{}
		for _, name := range order {
			got[name]++
		}
		if len(order) != 15 || order[0] != "urgent" || got["many"] != 7 || got["one"] != 7 {
			t.Errorf("they started in the order %v, want the urgent one and 7 of each of the others", order)
		}
		g.Clear(throttle.Scope{Level: throttle.Bucket, Key: "b"})
		synctest.Wait()
		if len(order) != 41 {
			t.Errorf("%d have started after Clear, want all 41", len(order))
		}
		time.Sleep(time.Second)
	})
}

// What waits in the line of a narrower limit goes before one that the host's limit keeps
// back for long, if it is before it: also when nothing else happens until then.
func TestALineIsTriedWhileAnotherWaitsForTheHost(t *testing.T) {
	for _, startBy := range []time.Duration{0, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			host, err := limiter.NewBucket(limiter.BucketConfig{Rate: 0.01, Burst: 100})
			if err != nil {
				t.Fatal(err)
			}
			narrow, err := limiter.NewBucket(limiter.BucketConfig{Rate: 1, Burst: 1})
			if err != nil {
				t.Fatal(err)
			}
			g, err := governor.New(governor.PlainConfig{Name: "a", StuckAfter: -1, Limits: []governor.Limit{
				{Per: throttle.Host, Limiter: host, Unit: "tokens"}, {Per: throttle.Bucket, Limiter: narrow},
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			begun := time.Now()
			ask := governor.Ask{Bucket: "b", Priority: 1}
			if startBy > 0 {
				ask.StartBy = begun.Add(startBy)
			}
			var all []*governor.Request[time.Duration]
			for range 3 {
				all = append(all, governor.Submit(t.Context(), g.With(ask), "", governor.Func(func(context.Context) (time.Duration, error) {
					return time.Since(begun), nil
				})))
			}
			synctest.Wait()
			dear := governor.Submit(t.Context(), g.With(governor.Ask{Bucket: "c", Cost: 100}), "", governor.Func(func(context.Context) (time.Duration, error) {
				return time.Since(begun), nil
			}))
			for i, r := range all {
				if at, err := r.Result(t.Context()); err != nil || at != time.Duration(i)*time.Second {
					t.Errorf("start by %v: the call of number %d began after %v, %v, want %ds", startBy, i, at, err, i)
				}
			}
			// 97 of 100 tokens, less than the rate since: the last of them is there after 300s.
			if at, err := dear.Result(t.Context()); err != nil || at != 300*time.Second {
				t.Errorf("the dear one began after %v, %v, want 5m", at, err)
			}
		})
	}
}
