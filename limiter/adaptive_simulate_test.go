package limiter

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
)

// The simulation drives an Adaptive as a governor does, against a vendor that pauses
// and escalates, in virtual time: nothing sleeps, and a seed gives the same run
// each time.

// world is one run's configuration.
type world struct {
	qps     float64       // of the vendor's token bucket
	burst   float64       // and its size
	window  time.Duration // instead: at most burst calls in any window this long
	pause   time.Duration // after a refusal; a call during it doubles it
	longest time.Duration
	grace   time.Duration // calls that young a pause finds in flight are forgiven

	latency time.Duration // of an accepted call, ±40 %
	late    time.Duration // timers are late by up to this, and 1 in 100 by five times as much
	calls   int
	workers int
	demand  float64 // calls per second that arrive; 0: all wait from the start
	cost    int     // permits of a call; 0 means 1
	until   time.Duration

	change float64       // the quota is multiplied by this ...
	after  time.Duration // ... from then on ...
	back   time.Duration // ... until then, if that is later
	fixed  bool          // the windows follow one another instead of sliding
	others float64       // the share of the quota that others use
	pace   AdaptiveConfig
	seed   uint64

	learned Learned // imported
}

// quota is in calls a second.
func (w *world) quota() float64 {
	if w.window > 0 {
		return w.burst / w.window.Seconds()
	}
	return w.qps
}

// outcome is what came of a run.
type outcome struct {
	done, sent, refused, escalated int
	cuts                           int // cooldowns
	elapsed                        time.Duration
	goodput                        float64 // permits accepted, of quota*elapsed; the vendor's first burst makes more than 1 possible
	rate                           float64 // at the end
	learned                        Learned
	late                           float64 // goodput after the quota changed, of the new quota
}

type simEvent struct {
	at  time.Duration
	seq int
	do  func()
}

type agenda []simEvent

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].seq < a[j].seq
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(simEvent)) }
func (a *agenda) Pop() any {
	x := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return x
}

// vendorModel is the quota, pause and escalation engine: a refused call begins a
// pause; a call during it, later than grace, doubles and restarts it; the next
// pause is short again when nobody violated the last one.
type vendorModel struct {
	world
	tokens    float64
	at        time.Duration
	log       []time.Duration
	until     time.Duration // of the pause
	began     time.Duration
	delay     time.Duration
	violated  bool
	escalated int
	shared    time.Duration // when others called last
	foreign   int           // how many of their calls were refused
}

// rivals makes the calls of others until now. They never call during a pause.
func (v *vendorModel) rivals(now time.Duration) {
	if v.others == 0 {
		return
	}
	for every := time.Duration(1e9 / (v.others * v.quota())); v.shared+every <= now; {
		v.shared += every
		if v.shared >= v.until && v.admits(v.shared, 1) {
			v.accept(v.shared, 1)
		} else {
			v.foreign++
		}
	}
}

// admits refills the quota and reports whether n are left of it.
func (v *vendorModel) admits(now time.Duration, n float64) bool {
	share := 1.0
	if v.after > 0 && now >= v.after && (v.back <= v.after || now < v.back) {
		share = v.change
	}
	v.tokens = min(v.burst, v.tokens+share*v.qps*(now-v.at).Seconds())
	v.at = now
	if v.window == 0 {
		return v.tokens >= n
	}
	begun := now - v.window
	if v.fixed {
		begun = now.Truncate(v.window) - 1
	}
	for len(v.log) > 0 && v.log[0] <= begun {
		v.log = v.log[1:]
	}
	return float64(len(v.log)) < share*v.burst
}

func (v *vendorModel) accept(now time.Duration, n float64) {
	v.tokens -= n
	if v.window > 0 {
		v.log = append(v.log, now)
	}
}

func (v *vendorModel) call(now time.Duration, n float64) (wait time.Duration, refused bool) {
	v.rivals(now)
	admit := v.admits(now, n)
	if now < v.until {
		if now-v.began > v.grace {
			v.escalated++
			v.violated = true
			v.delay = min(v.longest, 2*v.delay)
			v.began, v.until = now, now+v.delay
		}
		return v.until - now, true
	}
	if admit {
		v.accept(now, n)
		return 0, false
	}
	if !v.violated || v.delay == 0 || now-v.until > v.longest {
		v.delay = v.pause
	}
	v.violated = false
	v.began, v.until = now, now+v.delay
	return v.delay, true
}

// phases of the governor's one scope
const (
	simOpen = iota
	simCooling
	simProbing
	simRamping
)

func simulate(w world) outcome {
	if w.longest == 0 {
		w.longest = 60 * w.pause
	}
	if w.until == 0 {
		w.until = 24 * time.Hour
	}
	cost := max(1, w.cost)
	rng := rand.New(rand.NewPCG(w.seed, 2026))
	pace, err := NewAdaptive(w.pace)
	if err != nil {
		panic(err)
	}
	var (
		o       outcome
		now     time.Duration
		events  agenda
		seq     int
		v       = vendorModel{world: w, tokens: w.burst}
		waiting = w.calls
		flying  int
		timer   int // generation of the one timer
		alarm   time.Duration

		phase        = simOpen
		began, until time.Duration // of the cooldown
		from, length time.Duration // of the ramp
		next         time.Duration
		rampRate     float64
		probing      bool
		gen          int
		atChange     int
		changed      time.Duration
	)
	epoch := time.Unix(1e9, 0)
	if w.learned.Rate > 0 {
		if err := pace.Import(epoch, w.learned); err != nil {
			panic(err)
		}
	}
	clock := func() time.Time { return epoch.Add(now) }
	at := func(t time.Duration, do func()) {
		seq++
		heap.Push(&events, simEvent{t, seq, do})
	}
	about := func(d time.Duration) time.Duration {
		return time.Duration(float64(d) * (0.6 + 0.8*rng.Float64()))
	}

	var dispatch func()
	wake := func(t time.Duration) {
		if alarm != 0 && alarm <= t && alarm > now {
			return
		}
		timer++
		mine := timer
		alarm = t
		late := time.Duration(float64(w.late) * rng.Float64())
		if rng.IntN(100) == 0 {
			late *= 5
		}
		at(max(t, now)+late, func() {
			if mine == timer {
				alarm = 0
				dispatch()
			}
		})
	}
	start := func() {
		waiting--
		flying++
		o.sent++
		sent, mine, probe := now, gen, phase == simProbing
		probing = probing || probe
		if phase == simRamping {
			share := min(1, 0.1+0.9*float64(now-from)/float64(length))
			next = now + time.Duration(min(5e9, float64(cost)*1e9/(rampRate*share)))
		}
		pace.Take(clock(), "", cost)
		took := about(w.latency)
		up := about(min(500*time.Microsecond, w.latency/8))
		at(now+up, func() {
			wait, refused := v.call(now, float64(cost))
			if refused {
				took = up + about(min(500*time.Microsecond, w.latency/8))
			}
			at(sent+took, func() {
				flying--
				if probe && mine == gen {
					probing = false
				}
				switch {
				case refused:
					o.refused++
					waiting++
					if phase != simCooling {
						o.cuts++
						began, phase = now, simCooling
						gen++
						probing = false
					}
					until = max(until, now+wait)
					pace.Refused(clock(), epoch.Add(sent), "")
				default:
					o.done++
					if probe && mine == gen && phase == simProbing {
						phase = simOpen
						if rampRate = pace.Rate(clock(), ""); rampRate > 0 {
							phase, from, length, next = simRamping, now, min(5*time.Second, until-began), now
						}
					}
					pace.Accepted(clock(), epoch.Add(sent), "")
				}
				if w.after > 0 && changed == 0 && now >= w.after {
					changed, atChange = now, o.done
				}
				dispatch()
			})
		})
	}
	dispatch = func() {
		for waiting > 0 && flying < w.workers {
			if phase == simCooling {
				if now < until {
					wake(until)
					return
				}
				phase = simProbing
			}
			if phase == simProbing && probing {
				return
			}
			if phase == simRamping {
				if now-from >= length {
					phase = simOpen
				} else if next > now {
					wake(next)
					return
				}
			}
			if d := pace.Wait(clock(), "", cost); d > 0 {
				wake(now + d)
				return
			}
			start()
		}
	}
	if w.demand > 0 {
		left := w.calls
		waiting = 0
		var arrive func()
		arrive = func() {
			waiting++
			left--
			if left > 0 {
				at(now+time.Duration(rng.ExpFloat64()/w.demand*1e9), arrive)
			}
			dispatch()
		}
		at(0, arrive)
	}
	at(0, dispatch)
	for len(events) > 0 && o.done < w.calls && now < w.until {
		e := heap.Pop(&events).(simEvent)
		now = e.at
		e.do()
	}
	o.elapsed = now
	o.escalated = v.escalated
	o.rate = pace.Rate(clock(), "")
	o.learned = pace.Export(clock())
	quota := w.quota()
	if w.demand > 0 {
		quota = min(quota, w.demand)
	}
	o.goodput = float64(o.done*cost) / (quota * now.Seconds())
	if w.after > 0 {
		o.late = float64((o.done-atChange)*cost) / (quota * w.change * (now - changed).Seconds())
	}
	return o
}

// many runs seeds and returns the worst of each figure, and their means.
func many(w world, seeds int) (worst, mean outcome) {
	worst.goodput, worst.late, worst.done = math.Inf(1), math.Inf(1), math.MaxInt
	for s := range seeds {
		w.seed = uint64(s + 1)
		o := simulate(w)
		worst.done = min(worst.done, o.done)
		worst.sent = max(worst.sent, o.sent)
		worst.refused = max(worst.refused, o.refused)
		worst.cuts = max(worst.cuts, o.cuts)
		worst.escalated = max(worst.escalated, o.escalated)
		worst.elapsed = max(worst.elapsed, o.elapsed)
		worst.goodput = min(worst.goodput, o.goodput)
		worst.late = min(worst.late, o.late)
		mean.done += o.done
		mean.sent += o.sent
		mean.refused += o.refused
		mean.cuts += o.cuts
		mean.elapsed += o.elapsed / time.Duration(seeds)
		mean.goodput += o.goodput / float64(seeds)
		mean.late += o.late / float64(seeds)
		mean.rate += o.rate / float64(seeds)
	}
	return worst, mean
}

// The worlds that an Adaptive is made for. demo is a fast stand-in of a vendor with
// pauses, slow its real scale, fast one with a high rate.
var (
	demo = world{qps: 250, burst: 20, pause: 150 * time.Millisecond, longest: 9 * time.Second, grace: 10 * time.Millisecond,
		latency: 20 * time.Millisecond, late: 2 * time.Millisecond, calls: 2000, workers: 16, pace: AdaptiveConfig{Start: 100}}
	slow = world{qps: 10, burst: 20, pause: 15 * time.Second, longest: 15 * time.Minute, grace: time.Second,
		latency: 2 * time.Second, late: 2 * time.Millisecond, calls: 300, workers: 64, pace: AdaptiveConfig{Start: 5}}
	fast = world{qps: 5000, burst: 20, pause: 15 * time.Millisecond, longest: 900 * time.Millisecond, grace: time.Millisecond,
		latency: 2 * time.Millisecond, late: 2 * time.Millisecond, calls: 20000, workers: 64, pace: AdaptiveConfig{Start: 2000}}
	minute = world{burst: 300, window: time.Minute, pause: 15 * time.Second, longest: 15 * time.Minute, grace: time.Second,
		latency: 2 * time.Second, late: 2 * time.Millisecond, calls: 3000, workers: 64, pace: AdaptiveConfig{Start: 1}}
)

func (w world) with(change func(*world)) world {
	change(&w)
	return w
}

func TestAdaptiveInSimulation(t *testing.T) {
	seeds := effort.Times(1)
	start := func(w world, rate float64) world {
		w.pace.Start = rate
		return w
	}
	bucket := func(w world, burst float64) world {
		w.burst = burst
		return w
	}
	calls := func(w world, n int) world {
		w.calls = n
		return w
	}
	workers := func(w world, n int) world {
		w.workers = n
		return w
	}
	changed := func(w world, by float64, calls int) world {
		w.change, w.after, w.calls = by, 8*time.Second, calls
		return w
	}
	demand := func(w world, rate float64) world {
		w.demand, w.calls = rate, 20000
		return w
	}
	reached := map[string]float64{} // goodput by name
	for _, c := range []struct {
		name    string
		w       world
		goodput float64 // mean of the seeds, at least; after the change if there is one
		refused float64 // mean, of the calls sent, at most
	}{
		{"burst 20, 8 workers", workers(demo, 8), 0.92, 0.003},
		{"burst 20, 16 workers", demo, 0.92, 0.003},
		{"burst 20, 64 workers", workers(demo, 64), 0.92, 0.003},
		{"burst 5, 8 workers", bucket(workers(demo, 8), 5), 0.84, 0.003},
		{"burst 5, 16 workers", bucket(demo, 5), 0.84, 0.003},
		{"burst 5, 64 workers", bucket(workers(demo, 64), 5), 0.84, 0.003},
		{"burst 100", bucket(demo, 100), 0.96, 0.005},
		{"burst 1", bucket(demo, 1), 0.25, 0.01},
		{"50,000 calls", calls(demo, 50_000), 0.94, 0.002},

		{"unpaced start", start(demo, 0), 0.88, 0.005},
		{"unpaced start, burst 5, 64 workers", start(bucket(workers(demo, 64), 5), 0), 0.65, 0.07}, // two herds of 59
		{"start far too low", start(demo, 10), 0.82, 0.003},
		{"start far too high", start(demo, 10_000), 0.86, 0.006},

		{"slow", slow, 0.45, 0.01},
		{"slow, unpaced start", start(slow, 0), 0.15, 0.2},
		{"slow, 10,000 calls", calls(slow, 10_000), 0.88, 0.001},
		{"slow, unpaced start, 10,000 calls", calls(start(slow, 0), 10_000), 0.75, 0.01},
		{"fast", fast, 0.87, 0.003},
		{"fast, unpaced start", start(fast, 0), 0.86, 0.006},

		{"quota halved", changed(demo, 0.5, 4000), 0.90, 0.005},
		{"quota halved, burst 5", bucket(changed(demo, 0.5, 4000), 5), 0.84, 0.005},
		{"quota doubled", changed(demo, 2, 12_000), 0.75, 0.002},
		{"demand at half the quota", demand(demo, 125), 0.95, 0.001},
		{"demand at 90 % of the quota", demand(demo, 225), 0.95, 0.005},
		{"calls of 4 permits", demo.with(func(w *world) { w.cost = 4 }), 0.88, 0.01},

		{"300 in any minute", minute, 0.75, 0.005},
		{"300 in any minute, unpaced start", start(minute, 0), 0.65, 0.005},
	} {
		worst, mean := many(c.w, seeds)
		goodput, least := mean.goodput, worst.goodput
		if c.w.change != 0 {
			goodput, least = mean.late, worst.late
		}
		refused := float64(mean.refused) / float64(mean.sent)
		t.Logf("%-36s goodput %5.1f %% (least %5.1f)  refused %.2f %% (%.1f a run, at most %d)  cooldowns %.1f  escalations %d  %8.1f s  rate %.4g",
			c.name, 100*goodput, 100*least, 100*refused, float64(mean.refused)/float64(seeds), worst.refused,
			float64(mean.cuts)/float64(seeds), worst.escalated, mean.elapsed.Seconds(), mean.rate)
		reached[c.name] = goodput
		if worst.done != c.w.calls {
			t.Errorf("%s: only %d of %d calls done", c.name, worst.done, c.w.calls)
		}
		if goodput < c.goodput {
			t.Errorf("%s: goodput %.3f, want %.3f", c.name, goodput, c.goodput)
		}
		if refused > c.refused {
			t.Errorf("%s: %.4f of the calls refused, want %.4f at most", c.name, refused, c.refused)
		}
		if worst.escalated != 0 {
			t.Errorf("%s: %d escalations", c.name, worst.escalated)
		}
	}
	for _, burst := range []string{"burst 20", "burst 5"} {
		a, b, c := reached[burst+", 8 workers"], reached[burst+", 16 workers"], reached[burst+", 64 workers"]
		if least, most := min(a, b, c), max(a, b, c); most-least > 0.05 {
			t.Errorf("%s: goodput depends on the number of workers, from %.3f to %.3f", burst, least, most)
		}
	}
}

// TestAdaptiveFindsTheRate checks what was learned in the end, not what was lost on
// the way.
func TestAdaptiveFindsTheRate(t *testing.T) {
	for _, w := range []world{
		demo, demo.with(func(w *world) { w.burst = 5 }), demo.with(func(w *world) { w.burst = 50 }), demo.with(func(w *world) { w.qps = 77 }),
		demo.with(func(w *world) { w.pace.Start = 0 }), slow,
	} {
		w.calls = int(80 * w.qps)
		if w.qps < 50 {
			w.calls = int(2000 * w.qps)
		}
		for seed := range uint64(effort.Times(1)) {
			w.seed = seed
			if o := simulate(w); o.rate < 0.96*w.qps || o.rate > 1.10*w.qps {
				t.Errorf("qps %v burst %v start %v seed %d: the rate is %.4g", w.qps, w.burst, w.pace.Start, seed, o.rate)
			}
		}
	}
}
