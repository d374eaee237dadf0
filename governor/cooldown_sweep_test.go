package governor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/governor/internal/sched"
	"github.com/flyball-go/flyball/throttle"
)

// A cooldown of one tenant made every lane be looked at.
func TestCooldownsOfTenantsAreSweptForInTheirLanes(t *testing.T) {
	q := &queue{Scheduler: sched.Scheduler{Count: func(int) {}}}
	sel := &selector{name: "s"}
	for i := range 30 {
		key := laneKey{sel: sel, tenant: string(rune('a' + i%10)), priority: int32(i / 10)}
		q.add(q.lane(newLane(key, 0), 100), &request{cost: 1, seq: uint64(i)}, true)
	}
	of := func(level throttle.Level, keys ...string) (names []string) {
		var scopes []*scope
		for _, key := range keys {
			scopes = append(scopes, &scope{key: throttle.Scope{Level: level, Key: key}})
		}
		for l := range q.lanesOf(scopes) {
			names = append(names, l.tenant)
			q.remove(l.first())
		}
		return names
	}
	require.ElementsMatch(t, []string{"a", "a", "a", "c", "c", "c"}, of(throttle.Tenant, "a", "x", "c"))
	require.Empty(t, of(throttle.Tenant, "a"))
	require.Len(t, of(throttle.Bucket, "b"), 24)
}

// With a cooldown for each of many tenants, looking at every lane for each of them
// would be quadratic: it is done only for what somebody may mind.
func TestCooldownIsSweptForWhenSomebodyMayMind(t *testing.T) {
	const now = int64(time.Hour)
	for _, tt := range []struct {
		what     string
		maxWait  time.Duration
		minding  int
		earliest int64
		last     int64
		want     bool
	}{
		{"nobody has a latest start", time.Minute, 0, 0, now + int64(time.Minute), false},
		{"longer than MaxWait", time.Minute, 0, 0, now + int64(time.Minute) + 1, true},
		{"longer, and MaxWait is none", -1, 0, 0, forever, false},
		{"MaxWait is 0", 0, 0, 0, now + 1, true},
		{"all can start later", time.Minute, 3, now + 11, now + 10, false},
		{"one has to start then", time.Minute, 3, now + 10, now + 10, true},
		{"one has to start before", -1, 1, now + 9, now + 10, true},
	} {
		c := new(core)
		c.maxWait, c.minding, c.earliest = tt.maxWait, tt.minding, tt.earliest
		if got := c.anybodyMinds(now, tt.last); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.what, got, tt.want)
		}
	}
}
