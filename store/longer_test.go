package store_test

import (
	"testing"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/throttle"
)

// A word that is longer by less than an exchange takes is longer.
func TestALongerWordIsHeardBehindASlowExchange(t *testing.T) {
	twoFarProcesses(t, func(t *testing.T, _ *store.Memory, a, b *farProcess) {
		b.Learn(throttle.Signal{Scope: tenant("t"), Delay: 10 * time.Second})
		time.Sleep(3 * time.Second)
		b.way.Store(int64(1600 * time.Millisecond))
		a.Learn(throttle.Signal{Scope: tenant("t"), Delay: 7700 * time.Millisecond})
		if took := next(t, b.Plain); took < 7700*time.Millisecond {
			t.Errorf("it begins %v after another's vendor had said 7.7 s", took)
		}
	})
}

// So is one that comes between a word of this process and the try by which the store gets
// that, or while it is on its way.
func TestALongerWordIsHeardBehindOnesOwnThatIsLate(t *testing.T) {
	for name, way := range map[string]time.Duration{"a lost try": 10 * time.Second, "a long way": 1500 * time.Millisecond} {
		for more := 200 * time.Millisecond; more < 3*time.Second; more += 200 * time.Millisecond {
			twoFarProcesses(t, func(t *testing.T, _ *store.Memory, a, b *farProcess) {
				a.way.Store(int64(way))
				time.Sleep(4 * time.Second)
				from := time.Now()
				a.Learn(throttle.Signal{Scope: tenant("t"), Delay: 20 * time.Second})
				b.Learn(throttle.Signal{Scope: tenant("t"), Delay: 20*time.Second + more})
				time.Sleep(2800 * time.Millisecond)
				if way > 2*time.Second {
					a.way.Store(0)
				}
				next(t, a.Plain)
				if early := 20*time.Second + more - time.Since(from); early > time.Millisecond {
					t.Errorf("%s: it begins %v before another's vendor allows", name, early)
				}
			})
		}
	}
}

// A governor goes on with an hour that nobody else knows of, and its vendor says less now:
// that others have to know.
func TestAWordBehindARestoredOneIsHeard(t *testing.T) {
	twoFarProcesses(t, func(t *testing.T, m *store.Memory, a, _ *farProcess) {
		s := syncer(t, store.SyncerConfig{Store: m})
		defer s.Close()
		g, err := governor.New(governor.PlainConfig{Name: "acme", Store: s, NoPace: true, Restore: governor.Learned{
			When:      time.Now(),
			Cooldowns: []governor.LearnedCooldown{{Scope: tenant("t"), Until: time.Now().Add(time.Hour)}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		time.Sleep(3 * time.Second)
		g.Learn(throttle.Signal{Scope: tenant("t"), Delay: 30 * time.Minute})
		time.Sleep(3 * time.Second)
		if left := a.left(tenant("t")); left < 29*time.Minute || left > 30*time.Minute {
			t.Errorf("another process cools for %v of 30 minutes", left)
		}
	})
}
