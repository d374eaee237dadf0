package governor

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/governor/internal/sched"
	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/throttle"
)

// The slow reference counts what is in the lanes.
func TestCensusIsThatOfALookAtEveryLane(t *testing.T) {
	const most = 10
	for seed := range uint64(effort.Times(2)) {
		rng := rand.New(rand.NewPCG(seed, 7))
		s := &queue{Scheduler: sched.Scheduler{Count: func(int) {}}}
		sels := []*selector{{name: "a"}, {name: "b"}, {name: "b"}} // two values may have the same name
		keys := 1 + rng.IntN(200)
		grow := 5
		for step := range 6000 {
			if step%500 == 0 {
				grow = 3 + rng.IntN(5)
			}
			switch n := rng.IntN(10); {
			case n < grow:
				key := laneKey{
					sel: sels[rng.IntN(3)], tenant: fmt.Sprint(int(float64(keys) * math.Pow(rng.Float64(), 3))),
					bucket: fmt.Sprint(rng.IntN(keys)), priority: int32(rng.IntN(3)),
				}
				s.add(s.lane(newLane(key, 0), forever), &request{small: 1, seq: uint64(step)}, true)
			case n < 8 && s.Len() > 0:
				s.started(s.next(false))
			case s.Len() > 0:
				for l := range s.lanes.all {
					all := l.all()
					s.remove(all[rng.IntN(len(all))])
					break
				}
			}
			if step%97 != 0 {
				continue
			}
			lanes, tenants, of := map[LaneStats]int{}, map[string]TenantStats{}, map[throttle.Scope][]*lane{}
			for l := range s.lanes.all {
				lanes[LaneStats{l.sel.name, l.tenant, l.bucket, int(l.priority), l.sched.Len(), l.sched.Parked()}]++
				x := tenants[l.tenant]
				tenants[l.tenant] = TenantStats{l.tenant, x.Waiting + l.sched.Len(), x.Lanes + 1}
				for _, sc := range l.scopes() {
					of[sc] = append(of[sc], l)
				}
			}
			require.Equal(t, s.lanes.len(), s.census.lanes.len)
			var known [levels]int
			for sc, all := range of {
				if sc.Level != throttle.Host {
					require.ElementsMatch(t, all, slices.Collect(s.census.of(sc)))
					known[sc.Level-throttle.Selector]++
				}
			}
			for level, sets := range s.census.sets {
				require.Equal(t, known[level], sets.live)
				require.LessOrEqual(t, len(sets.byName), 64+2*keys)
			}
			var told []int
			for _, l := range s.census.longest(most) {
				require.Positive(t, lanes[l])
				if lanes[l]--; lanes[l] == 0 {
					delete(lanes, l)
				}
				told = append(told, l.Waiting)
			}
			largest(t, told, most, slices.Collect(func(yield func(int) bool) {
				for l := range lanes {
					if !yield(l.Waiting) {
						return
					}
				}
			}))
			told = nil
			for _, x := range s.census.waiting(most) {
				require.Equal(t, tenants[x.Tenant], x)
				delete(tenants, x.Tenant)
				told = append(told, x.Waiting)
			}
			var left []int
			for _, x := range tenants {
				left = append(left, x.Waiting)
			}
			largest(t, told, most, left)
		}
	}
}

// largest checks that told are the largest, as Stats promises, of them and what is left.
func largest(t *testing.T, told []int, most int, left []int) {
	t.Helper()
	require.True(t, slices.IsSortedFunc(told, func(a, b int) int { return cmp.Compare(b, a) }), told)
	if len(left) == 0 {
		return
	}
	require.Len(t, told, most)
	require.Less(t, slices.Max(left), 2*told[most-1])
}

// A tenant with one request at a time is not forgotten each time, and many that do not
// come back are; and so are selectors and buckets.
func TestCensusForgetsScopesInTheEnd(t *testing.T) {
	for level, key := range []func(name string) laneKey{
		func(name string) laneKey { return laneKey{sel: &selector{name: name}} },
		func(name string) laneKey { return laneKey{sel: &selector{}, tenant: name} },
		func(name string) laneKey { return laneKey{sel: &selector{}, bucket: name} },
	} {
		s := &queue{Scheduler: sched.Scheduler{Count: func(int) {}}}
		for i := range 10_000 {
			s.add(s.lane(newLane(key(fmt.Sprint(i)), 0), forever), &request{small: 1}, true)
			s.started(s.next(false))
			if n := len(s.census.sets[level].byName); n > 65 || n == 0 {
				t.Fatalf("level %d: %d scopes are known, and nothing waits", level, n)
			}
		}
	}
}

func TestLatelyIsTheLastTwoMinutes(t *testing.T) {
	var m looks
	var h histogram
	look := func(now time.Duration) (n uint64, span time.Duration) {
		all := h.read()
		waits, runs, span := m.lately(int64(now), &all, &all)
		require.Equal(t, waits, runs)
		return waits.sum(), span
	}
	// One call a second, and a look a second.
	for now := time.Second; now < 10*time.Minute; now += time.Second {
		h.add(int64(now % time.Minute))
		n, span := look(now)
		require.Equal(t, uint64(span/time.Second), n, "at %v", now)
		if now <= 2*time.Minute {
			require.Equal(t, now, span)
		} else {
			require.GreaterOrEqual(t, span, 2*time.Minute, "at %v", now)
			require.Less(t, span, 2*time.Minute+lookStep, "at %v", now)
		}
		require.LessOrEqual(t, len(m), int(recently/lookStep)+2)
	}
	// Nobody looks for an hour: then it is since the last look, until others are older
	// than a step.
	for range 3600 {
		h.add(1)
	}
	n, span := look(70 * time.Minute)
	require.Equal(t, uint64(3600), n-uint64((span-time.Hour)/time.Second)+1)
	require.Greater(t, span, time.Hour)
	h.add(1)
	_, span = look(70*time.Minute + lookStep)
	require.Equal(t, lookStep, span)
}

func TestCountsDoNotComeRound(t *testing.T) {
	var h histogram
	h.add(0)
	h.counts.Load()[0].Store(math.MaxUint32)
	h.add(0)
	if n := h.read(); n.sum() != 1<<32 {
		t.Errorf("%d, want %d", n.sum(), uint64(1)<<32)
	}
}

// With more scopes than are listed the host's is among them, the rest are those that
// end last, and Stats looks at a bounded number.
func TestMoreCooldownsThanAreListed(t *testing.T) {
	g := &gate{table: make(map[throttle.Scope]*scope), base: time.Now()}
	add := func(sc throttle.Scope, until time.Duration) {
		st := &scope{key: sc, until: int64(until), at: int64(until)}
		g.table[sc] = st
		g.timers.Fix(st)
	}
	add(throttle.Scope{}, time.Second)
	for i := range mostScopes - 1 {
		add(throttle.Scope{Level: throttle.Tenant, Key: fmt.Sprint(i)}, time.Minute+time.Duration(i)*time.Second)
	}
	var s Stats
	g.snapshot(&s, 0)
	require.Equal(t, mostScopes, s.CooldownCount)
	require.Len(t, s.Cooldowns, mostCooldowns)
	require.Equal(t, throttle.Scope{}, s.Cooldowns[0].Scope)
	for _, c := range s.Cooldowns[1:] {
		require.GreaterOrEqual(t, c.Until.Sub(g.base), time.Minute+time.Duration(mostScopes-mostCooldowns)*time.Second)
	}
}
