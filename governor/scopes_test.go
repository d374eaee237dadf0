package governor_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/throttle"
)

// One answer speaks of everything that the request belongs to, each for another time:
// what shares the most with it waits the longest.
func TestOneAnswerPausesEachLevelForItsOwnTime(t *testing.T) {
	answer := &governortest.Refusal{Signals: []throttle.Signal{
		{Scope: throttle.Scope{Level: throttle.Request}, Delay: 10 * time.Second},
		{Scope: throttle.Scope{Level: throttle.Bucket}, Delay: 8 * time.Second},
		{Scope: throttle.Scope{}, Delay: 2 * time.Second},
		{Scope: throttle.Scope{Level: throttle.Tenant}, Delay: 6 * time.Second},
		{Scope: throttle.Scope{Level: throttle.Selector}, Delay: 4 * time.Second},
	}}
	bubble(t, noPace, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		refused := governortest.NewScript(answer)
		first := governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "t", Bucket: "b"}), "s", refused.Call)
		synctest.Wait()
		others := []struct {
			what, sel      string
			tenant, bucket string
			want           time.Duration
			at             time.Time
		}{
			{"nothing in common", "s2", "t2", "b2", 2 * time.Second, time.Time{}},
			{"the selector", "s", "t2", "b2", 4 * time.Second, time.Time{}},
			{"the tenant", "s2", "t", "b2", 6 * time.Second, time.Time{}},
			{"selector and tenant", "s", "t", "b2", 6 * time.Second, time.Time{}},
			{"the bucket", "s2", "t2", "b", 8 * time.Second, time.Time{}},
			{"all", "s", "t", "b", 8 * time.Second, time.Time{}},
		}
		var reqs []*governor.Request[int]
		for i := range others {
			o := &others[i]
			reqs = append(reqs, governor.Submit(t.Context(), g.With(governor.Ask{Tenant: o.tenant, Bucket: o.bucket}), o.sel, stamp(&o.at)))
		}
		for _, r := range append(reqs, first) {
			if _, err := r.Result(t.Context()); err != nil {
				t.Error(err)
			}
		}
		for _, o := range others {
			since(t, o.what, start, o.at, o.want)
		}
		since(t, "the refused one", start, refused.Starts()[1], 10*time.Second)
	})
}

// The vendor's own words come before a guess, which any negative delay asks for.
func TestWhatHasToBeGuessedGivesWayToANarrowerTime(t *testing.T) {
	for _, d := range []time.Duration{throttle.Unknown, -5 * time.Second, math.MinInt64} {
		bubble(t, nil, func(t *testing.T, g *governor.Plain) {
			s := governortest.NewScript(&governortest.Refusal{Signals: []throttle.Signal{
				{Delay: d}, {Scope: tenant(""), Delay: 5 * time.Second},
			}})
			start := time.Now()
			first := governor.Submit(t.Context(), forTenant(g, "ann"), "", s.Call)
			synctest.Wait()
			var other time.Time
			<-governor.Submit(t.Context(), forTenant(g, "bob"), "", stamp(&other)).Done()
			since(t, fmt.Sprintf("another tenant, by a delay of %d", d), start, other, 0)
			<-first.Done()
		})
	}
}

// A tenant's quota that comes back in hours: its requests, running, waiting and new, are
// told when, at once, and those of others do not notice.
func TestQuotaOfATenantBeyondMaxWaitFailsItsRequestsAlone(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.Workers = true, 1 }, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		reset := start.Add(5 * time.Hour)
		s := governortest.NewScript(&governortest.Refusal{Signals: []throttle.Signal{{Kind: throttle.KindQuota, Scope: throttle.Scope{Level: throttle.Tenant}, Until: reset}}})
		s.Latency = time.Second
		a, b := g.With(governor.Ask{Tenant: "a"}), g.With(governor.Ask{Tenant: "b"})
		reqs := []*governor.Request[int]{governor.Submit(t.Context(), a, "", s.Call)}
		synctest.Wait() // it has the slot
		var at time.Time
		for i := range 10 {
			reqs = append(reqs, governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "a", Priority: i % 3, Bucket: "x"}), "", sleep(0)))
		}
		other := governor.Submit(t.Context(), b, "", stamp(&at))
		time.Sleep(time.Second)
		synctest.Wait()
		reqs = append(reqs, governor.Submit(t.Context(), a, "", sleep(0)))
		for i, r := range reqs {
			_, err := r.Result(t.Context())
			ce, ok := errors.AsType[*governor.CooldownError](err)
			if !ok || !ce.Until.Equal(reset) || ce.Signal.Kind != throttle.KindQuota || ce.Scope != tenant("a") || ce.RetryAfter() != time.Until(reset) {
				t.Errorf("request %d: %v, want a *CooldownError of a's quota until %v", i, err, reset)
			}
		}
		since(t, "the last of them failed", start, time.Now(), time.Second)
		if _, err := other.Result(t.Context()); err != nil {
			t.Error(err)
		}
		since(t, "the other tenant's", start, at, time.Second)
		if _, err := governor.Do(t.Context(), b, "", sleep(0)); err != nil {
			t.Error(err)
		}
		since(t, "all", start, time.Now(), time.Second)
	})
}
