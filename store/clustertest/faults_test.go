package clustertest

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/internal/faultproxy"
	"github.com/flyball-go/flyball/internal/judge"
	"github.com/flyball-go/flyball/store"
)

const (
	per     = 2 * time.Second
	quota   = 100
	transit = 200 * time.Millisecond // how late calls may be on a machine that is busy
)

func window() *store.Limit {
	return &store.Limit{Kind: store.Window, Quota: quota, Per: per, Transit: transit}
}

// sliding is as much of the strict kind. Its Per is longer, as permits last for a 32nd of it
// at most, which has to be enough for a round trip: on MySQL it hardly is.
func sliding() *store.Limit {
	return &store.Limit{Kind: store.Sliding, Quota: 2 * quota, Per: 2 * per, Transit: 10 * time.Millisecond}
}

func limitOf(k store.Kind) *store.Limit {
	switch k {
	case store.Sliding:
		return sliding()
	case store.Bucket: // about as much, in grants of which some may be at hand
		return &store.Limit{Kind: store.Bucket, Quota: 2 * quota, Per: 2 * per, Burst: 40, Lease: 400 * time.Millisecond, Transit: 10 * time.Millisecond}
	}
	return window()
}

func allowed(l *store.Limit) judge.Limit {
	return judge.Limit{Quota: l.Quota, Per: l.Per, Aligned: l.Kind == store.Window}
}

// demanding is a job of which four replicas want 125 calls a second, of 50.
func demanding(l *store.Limit) job { return job{Limit: l, Every: 32 * time.Millisecond} }

// scenarios are made anew for each run, since some count. kind is that of the limits of
// those that there are for several.
func scenarios(kind store.Kind) []scenario {
	limited := replica{job: demanding(window())}
	wanted := replica{job: demanding(limitOf(kind))}
	busy := wanted
	busy.Every = 8 * time.Millisecond // so that what is granted beside the quota is used beside all of it
	unhurried := replica{job: steady(limitOf(kind))}
	few, some, many := 2, 6, 24
	if kind != store.Window { // most of these come beside those
		few, some, many = 1, 3, 12
	}
	both := []store.Kind{store.Window, store.Sliding}
	all := []store.Kind{store.Sliding, store.Bucket, store.Window}
	uses := func(part float64) func(c *cluster) error {
		return func(c *cluster) error { return c.uses(part, 0) }
	}
	return []scenario{
		{name: "no fault", template: limited, round: uses(0.75), controls: with(leaks)}, // of what 9/10 of a window may be used for
		eight(kind),
		stopped(limitOf(kind), all, 0),
		stopped(limitOf(kind), nil, 2*time.Second),
		{name: "killed", kinds: all, template: wanted, controls: with(alone), rounds: some, round: func(c *cluster) error {
			time.Sleep(rand.N(per / 2))
			c.replace(c.born % len(c.members))
			return c.allCall()
		}},
		{name: "swallowed answers", kinds: both, template: busy, controls: with(onRetry), rounds: many, round: func(c *cluster) error {
			m := c.next()
			before := m.proxy.Swallowed()
			m.proxy.Set(faultproxy.Fault{DropAnswers: true})
			if err := await("an answer to "+m.name+" is swallowed", func() bool { return m.proxy.Swallowed() > before }); err != nil {
				return err
			}
			time.Sleep(rand.N(200 * time.Millisecond))
			m.proxy.Set(faultproxy.Fault{})
			m.proxy.Cut()
			time.Sleep(rand.N(100 * time.Millisecond))
			return nil
		}, after: (*cluster).allCall},
		{name: "delays, cuts and resets", template: limited, controls: with(alone), rounds: 20, round: func(c *cluster) error {
			m := c.members[rand.IntN(len(c.members))]
			m.proxy.Set(faultproxy.Fault{Delay: rand.N(50 * time.Millisecond), Jitter: 20 * time.Millisecond, CutAfter: rand.Int64N(20_000)})
			time.Sleep(rand.N(300 * time.Millisecond))
			if rand.IntN(2) == 0 {
				m.proxy.Reset()
			}
			m.proxy.Set(faultproxy.Fault{DropRequests: rand.IntN(4) == 0})
			time.Sleep(rand.N(300 * time.Millisecond))
			m.proxy.Cut()
			m.proxy.Set(faultproxy.Fault{})
			return nil
		}, after: (*cluster).allCall},
		{name: "restarted server", own: true, kinds: both, template: unhurried, rounds: few, round: lost((*server).restart, false), after: (*cluster).goesOn,
			controls: []control{{name: "said to be unused", breaks: func(s *scenario) { s.round = lost((*server).restart, true) }}}},
		{name: "emptied store", only: "redis", kinds: []store.Kind{store.Sliding}, template: unhurried, rounds: few, round: lost((*server).flush, false), after: (*cluster).goesOn,
			controls: []control{{name: "said to be unused", breaks: func(s *scenario) { s.round = lost((*server).flush, true) }}}},
		{name: "forgotten scripts", only: "redis", template: limited, controls: with(alone), round: func(c *cluster) error {
			ctx, stop := context.WithCancel(c.t.Context())
			var forgetting sync.WaitGroup
			forgetting.Go(func() {
				var took time.Duration // which says how slow the machine is
				for ; ctx.Err() == nil; time.Sleep(10*time.Millisecond + 10*took) {
					begin := time.Now()
					if _, err := c.server.redis.Do("SCRIPT", "FLUSH"); err != nil {
						c.t.Error(err)
						return
					}
					took = time.Since(begin)
				}
			})
			defer forgetting.Wait()
			defer stop()
			return c.uses(0.6, 0)
		}},
		limitsThatChange(),
		{name: "clocks that go astray", template: limited, controls: with(mine), tune: func(i int, r *replica) { r.Astray = i },
			rounds: 2, round: func(c *cluster) error {
				time.Sleep(per)
				return nil
			}, after: uses(0.5)},
		{name: "cancelled", template: replica{job: job{Limit: window(), Every: 16 * time.Millisecond, Cancel: true}}, controls: with(leaks), round: uses(0.75)},
		slotsOfTheKilled(),
		slotsOfTheStopped(),
		cooldown(false),
		cooldown(true),
		slotThatMoves(),
		primaryThatDies(),
		outage(store.Closed),
		outage(store.SafeShare),
		outage(store.Open),
	}
}

func TestFaults(t *testing.T) {
	for _, engine := range []string{"redis", "mysql", "cluster"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			for i, s := range scenarios(store.Window) {
				if s.only == "" && engine == "cluster" || s.only != "" && s.only != engine {
					continue
				}
				kinds := s.kinds
				switch {
				case kinds == nil:
					kinds = []store.Kind{store.Window}
				case engine == "mysql" && effort.Usual():
					kinds = kinds[:1]
				}
				for _, kind := range kinds {
					name := s.name
					if kind != store.Window {
						name += ", " + kind.String()
					}
					testScenario(t, engine, name, func() scenario { return scenarios(kind)[i] })
				}
			}
		})
	}
}
