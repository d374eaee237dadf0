package governor_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// counting is a closure that counts its start, for a test that reads n when all
// goroutines are idle. Two of one tenant may start at once.
func counting(n *int) func(context.Context, struct{}) (int, error) {
	return governor.Func(func(context.Context) (int, error) {
		countingMu.Lock()
		defer countingMu.Unlock()
		*n++
		return 0, nil
	})
}

var countingMu sync.Mutex

// jain is the fairness index of what some got over what they should have.
func jain(got []int, fair []float64) float64 {
	var sum, squares float64
	for i, n := range got {
		x := float64(n) / fair[i]
		sum += x
		squares += x * x
	}
	return sum * sum / (float64(len(got)) * squares)
}

// maxMin is the max-min fair share of each: nobody gets more than the demand, and
// what that leaves is for the others.
func maxMin(demand []int, capacity float64) []float64 {
	share := make([]float64, len(demand))
	order := make([]int, len(demand))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return demand[a] - demand[b] })
	for k, i := range order {
		share[i] = min(float64(demand[i]), capacity/float64(len(order)-k))
		capacity -= share[i]
	}
	return share
}

// Many tenants ask for 1 to 100 calls each within a hundred seconds, at quotas from a
// fiftieth of that to more than that, of the host and of a bucket of it. Their requests
// wait for much longer than Ageing, and that gives nobody more. A thousand tenants are dear
// under the race detector: some cases always have them, the others when there is time.
func TestTenantsShareWhatTheVendorAdmits(t *testing.T) {
	for _, per := range []throttle.Level{throttle.Host, throttle.Bucket} {
		for _, part := range []float64{0.02, 0.1, 0.17, 0.3, 0.52, 0.9, 1.6} {
			tenants := min(effort.Times(100), 1000)
			if per == throttle.Host && (part == 0.02 || part == 0.1 || part == 0.3) {
				tenants = 1000
			}
			t.Run(fmt.Sprint(per, part), func(t *testing.T) { shareOut(t, per, part, tenants) })
		}
	}
}

// shareOut has so many tenants ask for more than there is, and each get some five calls at
// least: of fewer an even number is no fair share.
func shareOut(t *testing.T, per throttle.Level, part float64, tenants int) {
	more := max(1, int(math.Round(0.1/part)))
	seconds := 100 * more
	type arrival struct {
		at     time.Duration
		tenant int
	}
	var arrivals []arrival
	demand := make([]int, tenants)
	for i := range demand {
		d := more * (1 + i*99/(tenants-1))
		demand[i] = d
		for k := range d {
			at := time.Duration((2*k+1)*seconds) * time.Second / time.Duration(2*d)
			arrivals = append(arrivals, arrival{at.Round(100 * time.Millisecond), i}) // together, for time is dear
		}
	}
	slices.SortFunc(arrivals, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	rate := part * float64(len(arrivals)) / float64(seconds)
	b := newBucket(t, rate, 1)
	bubble(t, func(c *governor.PlainConfig) {
		c.NoPace, c.Workers, c.MaxQueue = true, 64, len(arrivals)
		c.Limits = []governor.Limit{{Per: per, Limiter: b}}
	}, func(t *testing.T, g *governor.Plain) {
		got := make([]int, tenants)
		views := make([]*governor.Plain, tenants)
		for i := range views {
			views[i] = g.With(governor.Ask{Tenant: fmt.Sprint(i), Bucket: "b"})
		}
		start := time.Now()
		for _, a := range arrivals {
			time.Sleep(a.at - time.Since(start))
			governor.Submit(t.Context(), views[a.tenant], "", counting(&got[a.tenant]))
		}
		time.Sleep(time.Duration(seconds)*time.Second - time.Since(start))
		synctest.Wait()
		g.Pause()
		index := jain(got, maxMin(demand, rate*float64(seconds)))
		t.Logf("at %.0f calls/s the Jain index of %d tenants is %.4f", rate, tenants, index)
		if index < 0.98 {
			t.Errorf("at %.0f calls/s the Jain index of %d tenants is %.3f, want at least 0.98", rate, tenants, index)
		}
	})
}

// Weights count in costs, whether a quota of the host or of a bucket is short.
func TestTenantsShareByWeightAndCost(t *testing.T) {
	weights := map[string]int{"one": 1, "two": 2, "four": 4}
	lanes := [...]string{"0", "1", "2", "3"}
	for _, per := range []throttle.Level{throttle.Host, throttle.Bucket} {
		for _, costs := range []map[string]int{{"one": 1, "two": 1, "four": 1}, {"one": 7, "two": 1, "four": 3}} {
			t.Run(fmt.Sprint(per, costs), func(t *testing.T) {
				b := newBucket(t, 70, 10)
				bubble(t, func(c *governor.PlainConfig) {
					c.NoPace, c.MaxQueue = true, 100_000
					c.Weight = func(tenant string) int { return weights[tenant] }
					c.Limits = []governor.Limit{{Per: per, Limiter: b}}
				}, func(t *testing.T, g *governor.Plain) {
					got := map[string]*int{}
					for name, cost := range costs {
						n := new(int)
						got[name] = n
						for i := range 1000*weights[name]/cost + 500 { // more than the part of 7000 that it should get
							lane := lanes[i%len(name)] // more lanes are no more
							governor.Submit(t.Context(), g.With(governor.Ask{Tenant: name, Bucket: "b", Cost: cost}), lane, counting(n))
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
			})
		}
	}
}

func TestTenantsShareByWhatCallsTrulyCost(t *testing.T) {
	for _, per := range []throttle.Level{throttle.Host, throttle.Bucket} {
		for _, tt := range []struct{ ask, light, heavy, n, want int }{
			{1, 1, 4, 50, 10}, // charged on top
			{1, 1, 4, 51, 10},
			{10, 1, 10, 54, 5},     // given back
			{1, 1, 1 << 30, 40, 1}, // of both the first is started before anything is known
		} {
			b := newBucket(t, 1e6, 1<<30)
			bubble(t, func(c *governor.PlainConfig) {
				c.NoPace, c.Workers = true, 1
				if per == throttle.Bucket {
					b, c.Workers = newBucket(t, float64(tt.ask), tt.ask), 1+tt.n%2
				}
				c.Limits = []governor.Limit{{Per: per, Limiter: unsettled{b}}}
			}, func(t *testing.T, g *governor.Plain) {
				var order []string
				run := func(name string, cost int) {
					view := g.With(governor.Ask{Tenant: name, Bucket: "b", Cost: tt.ask})
					for range tt.n {
						governor.Submit(t.Context(), view, "", governor.Func(func(ctx context.Context) (int, error) {
							countingMu.Lock()
							order = append(order, name)
							countingMu.Unlock()
							return 0, governor.Settle(ctx, cost)
						}))
					}
				}
				g.Pause()
				run("heavy", tt.heavy)
				run("light", tt.light)
				g.Resume()
				time.Sleep(time.Hour)
				synctest.Wait()
				n := 0
				for _, name := range order[:tt.n] {
					if name == "heavy" {
						n++
					}
				}
				if n < tt.want || n > tt.want+1 {
					t.Errorf("%v %+v: heavy has %d of %d, want %d", per, tt, n, tt.n, tt.want)
				}
			})
		}
	}
}

// unsettled is a limiter that takes no notice of true costs.
type unsettled struct{ limiter.Limiter }

func (unsettled) Settle(time.Time, string, int, int) {}

func TestTenantOfManyLanesGetsNoMoreThanAnother(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.Workers = true, 1 }, func(t *testing.T, g *governor.Plain) {
		var many, one int
		run := func(n *int) func(context.Context, struct{}) (int, error) {
			return governor.Func(func(context.Context) (int, error) { *n++; time.Sleep(time.Second); return 0, nil })
		}
		for i := range 200 {
			governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "many", Bucket: fmt.Sprint(i % 10)}), "", run(&many))
			governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "one"}), "", run(&one))
		}
		time.Sleep(100*time.Second - time.Millisecond)
		synctest.Wait()
		if many != 50 || one != 50 {
			t.Errorf("a tenant of ten lanes started %d and one of a single lane %d, want 50 each", many, one)
		}
	})
}

// The heavy tenant's requests cost as much as a hundred of the others'.
func TestHeavyRequestsNeitherBlockLightOnesNorStarve(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.Workers = true, 1 }, func(t *testing.T, g *governor.Plain) {
		g.Pause()
		var order []string
		run := func(name string) func(context.Context, struct{}) (int, error) {
			return governor.Func(func(context.Context) (int, error) { order = append(order, name); return 0, nil })
		}
		var reqs []*governor.Request[int]
		for i := range 1000 {
			if i < 2 {
				reqs = append(reqs, governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "heavy", Cost: 100}), "", run("heavy")))
			}
			reqs = append(reqs,
				governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "a"}), "", run("light")),
				governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "b"}), "", run("light")))
		}
		g.Resume()
		for _, r := range reqs {
			<-r.Done()
		}
		first := slices.Index(order, "heavy")
		if second := first + 1 + slices.Index(order[first+1:], "heavy"); first < 198 || first > 200 || second < first+199 || second > first+201 {
			t.Errorf("the heavy ones started as number %d and %d, want each after 100 of both others", first, second)
		}
	})
}

// A closure of the highest priority is submitted whenever one starts, so one
// waits all the time, and never for long.
func TestAgeingRaisesPriorityByOneEachTime(t *testing.T) {
	for _, tt := range []struct {
		name   string
		high   int
		ageing time.Duration
		want   time.Duration // when the first of priority 0 starts
	}{
		{"one step, by default", 1, 0, 30 * time.Second},
		{"three steps", 3, 10 * time.Second, 30 * time.Second},
		{"from below zero", -2, 20 * time.Second, 0}, // 0 is higher
		{"never", 1, -1, time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.Workers, c.Ageing = true, 1, tt.ageing }, func(t *testing.T, g *governor.Plain) {
				start := time.Now()
				var high func(context.Context) (int, error)
				high = func(context.Context) (int, error) {
					time.Sleep(time.Second)
					if time.Since(start) < time.Hour {
						governor.Submit(context.Background(), g.With(governor.Ask{Tenant: "high", Priority: tt.high}), "", governor.Func(high))
					}
					return 0, nil
				}
				governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "high", Priority: tt.high}), "", governor.Func(high))
				governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "high", Priority: tt.high}), "", governor.Func(high))
				synctest.Wait()
				var at [3]time.Time // one for one with the others from then on
				var low []*governor.Request[int]
				for i := range at {
					low = append(low, governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "low"}), "", stamp(&at[i])))
				}
				for i, r := range low {
					<-r.Done()
					d := at[i].Sub(start)
					// The next of the others has waited for a second, and one runs.
					if most := tt.want + time.Duration(i+2)*time.Second; d < tt.want || tt.ageing >= 0 && d > most {
						t.Errorf("number %d of priority 0 started after %v, want %v to %v", i, d, tt.want, most)
					}
				}
				if err := g.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// What is urgent goes on at half the rate at least when a great deal has aged.
func TestWhatHasAgedSharesWithWhatIsUrgent(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.Workers, c.Ageing = true, 1, time.Second }, func(t *testing.T, g *governor.Plain) {
		for i := range 1000 {
			governor.Submit(t.Context(), g.With(governor.Ask{Tenant: fmt.Sprint("batch", i%10)}), "", sleep(time.Second))
		}
		for range 20 {
			time.Sleep(20*time.Second - time.Millisecond)
			start := time.Now()
			var at time.Time
			<-governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "urgent", Priority: 5}), "", stamp(&at)).Done()
			if d := at.Sub(start); d > 2*time.Second {
				t.Fatalf("the urgent one started after %v, want it to be next but one", d)
			}
		}
	})
}

// What is as costly as a hundred thousand of another tenant's waits for those. What is of
// a lower priority than the two does not.
func TestNoPriorityIsStarvedByWhatAHigherOnePassesOver(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.Workers, c.Ageing = true, 1, time.Second }, func(t *testing.T, g *governor.Plain) {
		var at time.Time
		start := time.Now()
		high := g.With(governor.Ask{Tenant: "light", Priority: 1})
		var light func(context.Context) (int, error)
		light = func(context.Context) (int, error) {
			time.Sleep(10 * time.Millisecond)
			if time.Since(start) < 3*time.Second {
				governor.Submit(context.Background(), high, "", governor.Func(light))
			}
			return 0, nil
		}
		governor.Submit(t.Context(), high, "", governor.Func(light))
		governor.Submit(t.Context(), high, "", governor.Func(light))
		governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "heavy", Priority: 1, Cost: 100_000}), "", sleep(0))
		time.Sleep(100 * time.Millisecond)
		low := time.Now()
		<-governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "low"}), "", stamp(&at)).Done()
		if d := at.Sub(low); d < time.Second || d > time.Second+40*time.Millisecond {
			t.Errorf("the one of priority 0 started after %v, want it when it is older by a second", d)
		}
	})
}

func TestPrioritiesOfOneAgeGoInTheirOrder(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.Workers = true, 1 }, func(t *testing.T, g *governor.Plain) {
		g.Pause()
		var order []int
		var reqs []*governor.Request[int]
		for i := range 100 {
			p := i * 7 % 5
			reqs = append(reqs, governor.Submit(t.Context(), g.With(governor.Ask{Priority: p, Tenant: fmt.Sprint(i % 3)}), "", governor.Func(func(context.Context) (int, error) {
				order = append(order, -p)
				time.Sleep(10 * time.Second) // all together for much longer than Ageing
				return 0, nil
			})))
		}
		g.Resume()
		for _, r := range reqs {
			<-r.Done()
		}
		if !slices.IsSorted(order) {
			t.Errorf("they started in the order %v, want the highest priority first", order)
		}
	})
}

// In a line for a limit of their own, too, the urgent goes first.
func TestPriorityCountsInTheLineForALimit(t *testing.T) {
	b := newBucket(t, 1, 1)
	bubble(t, func(c *governor.PlainConfig) {
		c.NoPace, c.Limits = true, []governor.Limit{{Per: throttle.Bucket, Limiter: b}}
	}, func(t *testing.T, g *governor.Plain) {
		for i := range 100 {
			governor.Submit(t.Context(), g.With(governor.Ask{Tenant: fmt.Sprint(i), Bucket: "b"}), "", sleep(0))
		}
		time.Sleep(time.Second / 2)
		start := time.Now()
		var at time.Time
		<-governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "urgent", Bucket: "b", Priority: 1}), "", stamp(&at)).Done()
		since(t, "the urgent one", start, at, time.Second/2)
	})
}

// A lane that waited for one narrow limit and then for another left the first
// line's others there for ever.
func TestLaneThatIsHeldByTwoLimitsKeepsNobodyInEither(t *testing.T) {
	tenants, buckets := newBucket(t, 1, 1), newBucket(t, 0.25, 1)
	bubble(t, func(c *governor.PlainConfig) {
		c.NoPace, c.Limits = true, []governor.Limit{{Per: throttle.Tenant, Limiter: tenants}, {Per: throttle.Bucket, Limiter: buckets}}
	}, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		var reqs []*governor.Request[int]
		for i := range 30 {
			reqs = append(reqs, governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "t", Bucket: fmt.Sprint(i % 3)}), "", sleep(0)))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, r := range reqs {
			if _, err := r.Result(ctx); err != nil {
				t.Fatalf("after %v: %v", time.Since(start), err)
			}
		}
		if d := time.Since(start); d > 40*time.Second {
			t.Errorf("30 calls at 1/s, and 10 of each bucket at 1/4 s, took %v, want about 36 s", d)
		}
	})
}

func TestWeightThatMisbehavesCountsAsOne(t *testing.T) {
	var g *governor.Plain
	bubble(t, func(c *governor.PlainConfig) {
		c.NoPace, c.Workers = true, 1
		c.Weight = func(tenant string) int {
			switch tenant {
			case "panics":
				panic("weight")
			case "exits":
				runtime.Goexit()
			case "negative":
				return math.MinInt
			case "asks":
				g.Stats() // it may: no goroutine of the governor's waits for it
				return 1
			}
			return 1
		}
	}, func(t *testing.T, governed *governor.Plain) {
		g = governed
		started := map[string]*int{}
		g.Pause()
		for _, name := range []string{"panics", "negative", "asks", "exits"} {
			n := new(int)
			started[name] = n
			go func() {
				for range 100 {
					governor.Submit(t.Context(), g.With(governor.Ask{Tenant: name}), "", governor.Func(func(context.Context) (int, error) { *n++; time.Sleep(time.Second); return 0, nil }))
				}
			}()
		}
		synctest.Wait()
		g.Resume()
		time.Sleep(30*time.Second - time.Millisecond)
		synctest.Wait()
		if *started["panics"] != 10 || *started["negative"] != 10 || *started["asks"] != 10 || *started["exits"] != 0 {
			t.Errorf("%d, %d, %d and %d started of 30, want 10 of each and none of who never came to Submit", *started["panics"], *started["negative"], *started["asks"], *started["exits"])
		}
		if n := g.Stats().HookPanics; n != 100 {
			t.Errorf("%d panics are counted, want 100", n)
		}
	})
}

// What waits in line for many permits does not keep back, until they are there,
// what is more urgent and needs few.
func TestUrgentInLineNeedNotWaitForWhatACostlyOneNeeds(t *testing.T) {
	b := newBucket(t, 1, 10)
	bubble(t, func(c *governor.PlainConfig) {
		c.NoPace, c.Limits = true, []governor.Limit{{Per: throttle.Bucket, Limiter: b}}
	}, func(t *testing.T, g *governor.Plain) {
		ask := governor.Ask{Bucket: "b", Cost: 10}
		governor.Submit(t.Context(), g.With(ask), "", sleep(0)) // takes all there are
		costly := governor.Submit(t.Context(), g.With(ask), "", sleep(0))
		time.Sleep(5 * time.Second)
		start := time.Now()
		var at time.Time
		<-governor.Submit(t.Context(), g.With(governor.Ask{Bucket: "b", Priority: 1}), "", stamp(&at)).Done()
		since(t, "the urgent one", start, at, 0)
		<-costly.Done()
		since(t, "the costly one", start, time.Now(), 6*time.Second)
	})
}

// Tenants that come and go leave nothing behind.
func TestTenantsThatComeAndGoLeaveNothing(t *testing.T) {
	g, err := governor.New(governor.PlainConfig{Name: "test", MaxKeys: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	round := func(k int) {
		for i := range 8000 {
			a := governor.Ask{Tenant: fmt.Sprint("t", k, i), Bucket: fmt.Sprint("b", k, i), Priority: i % 7}
			if _, err := governor.Do(t.Context(), g.With(a), fmt.Sprint("s", k, i%500), sleep(0)); err != nil {
				t.Fatal(err)
			}
		}
	}
	round(0)
	before := heap()
	for k := range 3 {
		round(k + 1)
	}
	if kept := heap() - before; kept > 1<<20 {
		t.Errorf("%d bytes are kept", kept)
	}
	if s := g.Stats(); s.LaneCount != 0 {
		t.Errorf("%d lanes", s.LaneCount)
	}
}

// Who cancels what waits gets no more and no less of a limit than who does not, and who
// returns after having nothing to do gets the part of its weight at once.
func TestCancellingAndReturningNeitherGainNorLose(t *testing.T) {
	for _, per := range []throttle.Level{throttle.Host, throttle.Bucket} {
		b := newBucket(t, 100, 1)
		bubble(t, func(c *governor.PlainConfig) {
			c.NoPace, c.Limits = true, []governor.Limit{{Per: per, Limiter: b}}
			c.Weight = func(tenant string) int { return map[string]int{"returns": 4}[tenant] }
		}, func(t *testing.T, g *governor.Plain) {
			var cancels, stays, returns int
			feed := func(tenant string, n *int, cancel bool) {
				view := g.With(governor.Ask{Tenant: tenant, Bucket: "b"})
				var waiting []*governor.Request[int]
				for i := range 3500 {
					for len(waiting) < 20 {
						waiting = append(waiting, governor.Submit(t.Context(), view, fmt.Sprint(len(waiting)%3), counting(n)))
					}
					time.Sleep(7 * time.Millisecond)
					waiting = slices.DeleteFunc(waiting, func(r *governor.Request[int]) bool {
						if i++; cancel && i%5 == 0 {
							r.Cancel()
						}
						return cancel && i%5 == 0 || r.State() == governor.Done
					})
				}
			}
			go feed("cancels", &cancels, true)
			go feed("stays", &stays, false)
			read := func() int {
				countingMu.Lock()
				defer countingMu.Unlock()
				return returns
			}
			for range 20 {
				before, start := read(), time.Now()
				for range 40 {
					governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "returns", Bucket: "b"}), "", counting(&returns))
				}
				for read() < before+40 {
					time.Sleep(10 * time.Millisecond)
					synctest.Wait()
				}
				if d := time.Since(start); d > 650*time.Millisecond {
					t.Fatalf("40 of weight 4 beside 2 of weight 1 took %v at the limit of the %v, want 600 ms", d, per)
				}
				time.Sleep(time.Second - time.Since(start))
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			countingMu.Lock()
			defer countingMu.Unlock()
			if cancels < stays-stays/25 || cancels > stays+stays/25 {
				t.Errorf("who cancels started %d, who does not %d", cancels, stays)
			}
		})
	}
}
