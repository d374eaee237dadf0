package governor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/governor/internal/sched"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
)

// A cooldown of one tenant made every lane be looked at.
func TestCooldownsAreSweptForInTheirLanes(t *testing.T) {
	q := &queue{Scheduler: sched.Scheduler{Count: func(int) {}}}
	for i := range 30 {
		key := laneKey{
			sel: &selector{name: string(rune('s' + i%2))}, tenant: string(rune('a' + i%10)), bucket: string(rune('k' + i%5)),
			priority: int32(i / 10),
		}
		q.add(q.lane(newLane(key, 0), 100), &request{small: 1, seq: uint64(i)}, true)
	}
	of := func(level throttle.Level, keys ...string) (tenants string) {
		var scopes []*scope
		for _, key := range keys {
			scopes = append(scopes, &scope{key: throttle.Scope{Level: level, Key: key}})
		}
		for l := range q.lanesOf(scopes) {
			tenants += l.tenant
			q.remove(l.first())
		}
		return tenants
	}
	require.Equal(t, "aaaccc", of(throttle.Tenant, "a", "x", "c"))
	require.Empty(t, of(throttle.Tenant, "a"))
	require.Equal(t, "gbgbgb", of(throttle.Bucket, "b", "l", "a"))
	require.Empty(t, of(throttle.Selector, "b"))
	require.Equal(t, "ieieie", of(throttle.Selector, "s"))
	require.Len(t, of(throttle.Host, ""), 12)
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

// Each pause that is longer than the one before made every lane be looked at, once the
// earliest latest start of all had been one that was soon over.
func TestLatestStartOfWhatIsGoneBringsNoSweepAbout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := New(PlainConfig{Name: "test", Workers: 1, MaxWait: -1})
		require.NoError(t, err)
		defer g.Close()
		pause := func(d time.Duration) {
			g.Learn(throttle.Signal{Delay: d})
			synctest.Wait()
		}
		minded := func(after time.Duration) (yes bool) {
			g.core.ask(func() { yes = g.anybodyMinds(g.now(), add(g.now(), after)) })
			return yes
		}
		pause(5 * time.Second)
		none := Func(func(context.Context) (int, error) { return 0, nil })
		by := func(d time.Duration, tenant string) *Request[int] {
			return Submit(t.Context(), g.With(Ask{StartBy: time.Now().Add(d), Tenant: tenant}), "", none)
		}
		soon, later, last := by(10*time.Second, "a"), by(time.Hour, "b"), by(2*time.Hour, "b")
		synctest.Wait()
		require.True(t, minded(20*time.Second))
		pause(20 * time.Second)
		require.Equal(t, Done, soon.State())
		require.Equal(t, Queued, later.State())
		require.False(t, minded(30*time.Second))
		require.True(t, minded(time.Hour+time.Second))
		by(50*time.Minute, "c") // what comes later counts, too
		synctest.Wait()
		require.True(t, minded(51*time.Minute))
		pause(time.Hour + time.Minute)
		require.Equal(t, Done, later.State())
		require.Equal(t, Queued, last.State())
		require.False(t, minded(time.Hour+2*time.Minute))
	})
}

// Only who has looked at all that waits knows what is left.
func TestSweepOfAPartForgetsNoLatestStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := New(PlainConfig{Name: "test", Workers: 1, MaxWait: -1})
		require.NoError(t, err)
		defer g.Close()
		g.Learn(throttle.Signal{Delay: time.Second})
		synctest.Wait()
		none := Func(func(context.Context) (int, error) { return 0, nil })
		soon := Submit(t.Context(), g.With(Ask{StartBy: time.Now().Add(10 * time.Second), Tenant: "a"}), "", none)
		Submit(t.Context(), g.With(Ask{StartBy: time.Now().Add(time.Hour), Tenant: "b"}), "", none)
		synctest.Wait()
		g.Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Tenant, Key: "b"}, Delay: 30 * time.Second})
		synctest.Wait()
		require.Equal(t, Queued, soon.State())
		g.Learn(throttle.Signal{Delay: 20 * time.Second})
		synctest.Wait()
		require.Equal(t, Done, soon.State())
	})
}

// What waits out a backoff would have found out at its end.
func TestCooldownFailsWhatWaitsOutABackoffToo(t *testing.T) {
	for what, pause := range map[string]time.Duration{"longer than MaxWait": 5 * time.Hour, "beyond the latest start": 2 * time.Hour} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, err := New(PlainConfig{Name: "test", MaxWait: 4 * time.Hour, Retry: &retry.Config{Backoff: backoff.Constant(time.Minute)}})
				require.NoError(t, err)
				defer g.Close()
				ask := Ask{Tenant: "a"}
				if pause < g.maxWait {
					ask.StartBy = time.Now().Add(time.Hour)
				}
				start, fails := time.Now(), Func(func(context.Context) (int, error) { return 0, errors.New("503") })
				r := Submit(t.Context(), g.With(ask), "", fails)
				other := Submit(t.Context(), g.With(Ask{Tenant: "b"}), "", fails)
				time.Sleep(time.Second)
				g.Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Tenant, Key: "a"}, Delay: pause})
				<-r.Done()
				require.Equal(t, time.Second, time.Since(start))
				require.Equal(t, Waiting, other.State())
				gaveUp := new(GaveUpError)
				require.ErrorAs(t, r.failure(), &gaveUp)
				require.Equal(t, 1, gaveUp.Attempts)
			})
		})
	}
}

// Until its backoff is over a request does not wait for a pause.
func TestCooldownThatABackoffOutlastsFailsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := New(PlainConfig{Name: "test", MaxWait: 4 * time.Hour, NoPace: true})
		require.NoError(t, err)
		defer g.Close()
		start, polls := time.Now(), 0
		r := Submit(t.Context(), g.With(Ask{Tenant: "a", StartBy: start.Add(5 * time.Hour)}), "", Func(func(context.Context) (int, error) {
			if polls++; polls == 1 {
				return 0, Again(3 * time.Hour)
			}
			return 0, nil
		}))
		time.Sleep(time.Second)
		g.Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Tenant, Key: "a"}, Delay: 4*time.Hour + time.Minute})
		<-r.Done()
		require.NoError(t, r.failure())
		require.Equal(t, 4*time.Hour+time.Minute+time.Second, time.Since(start))
	})
}
