package store_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/store/storetest"
	"github.com/flyball-go/flyball/throttle"
)

// switched is a Store that can be reached while it is not off.
func switched(s store.Store) (st *faulty, off func(bool)) {
	var away atomic.Bool
	return &faulty{Store: s, fate: func() fate {
		if away.Load() {
			return lost
		}
		return arrives
	}}, away.Store
}

// What a process gives back that has closed its Share is not lost with some exchanges.
func TestWhatAClosedShareGivesBackIsTheOthersAfterAnOutage(t *testing.T) {
	for _, away := range []time.Duration{100 * time.Millisecond, 8 * time.Second} {
		t.Run(away.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := memory(t)
				st, off := switched(m)
				s := syncer(t, store.SyncerConfig{Store: st})
				defer s.Close()
				l := store.Limit{Kind: store.Window, Quota: 100, Per: time.Hour}
				a := share(t, s, l)
				if _, ok := patient(a, "", 80)(time.Minute); !ok {
					t.Fatal("there are no permits")
				}
				a.Settle(time.Now(), "", 80, 1)
				a.Close()
				off(true)
				time.Sleep(away)
				off(false)
				time.Sleep(5 * time.Second)
				other := syncer(t, store.SyncerConfig{Store: m})
				defer other.Close()
				if d, ok := patient(share(t, other, l), "", 80)(time.Minute); !ok {
					t.Errorf("79 permits that were given back have not come after %v", d)
				}
			})
		})
	}
}

func TestSlotsOfClosedSlotsAreTheOthersAfterAFailedExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory(t)
		st, off := switched(m)
		s, other := syncer(t, store.SyncerConfig{Store: st}), syncer(t, store.SyncerConfig{Store: m})
		defer s.Close()
		defer other.Close()
		slots := func(s *store.Syncer) *store.Slots {
			l, err := s.Slots(store.SlotsConfig{Name: "acme", Max: 2})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		a, b := slots(s), slots(other)
		for a.Claim(time.Now(), "", 2) != 0 {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(3 * time.Second)
		a.Release(time.Now(), "", 2)
		a.Close()
		off(true)
		time.AfterFunc(1500*time.Millisecond, func() { off(false) })
		start := time.Now()
		for b.Claim(time.Now(), "", 2) != 0 {
			time.Sleep(10 * time.Millisecond)
		}
		if d := time.Since(start); d > 4*time.Second { // the TTL is 10 s
			t.Errorf("others have them after %v", d)
		}
	})
}

// That there are more processes than have a part is known as long as the store is away, also
// to a Share that comes after another has gone.
func TestMoreThanNodesHaveNoPartBehindAClosedShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, off := switched(memory(t))
		var h storetest.History
		l := store.Limit{Kind: store.Window, Quota: 10, Per: time.Second}
		var ss []*store.Syncer
		var shares []*store.Share
		for range 3 {
			s := syncer(t, store.SyncerConfig{Store: st, Outage: store.SafeShare, Nodes: 1, Part: 0.5})
			defer s.Close()
			ss, shares = append(ss, s), append(shares, share(t, s, l))
		}
		use := func(d time.Duration) (n int) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				for _, sh := range shares {
					if now := time.Now(); sh.Claim(now, "", 1) == 0 {
						h.Use(now, 1)
						sh.SettleAt(now, now, "", 1, 1)
						n++
					}
				}
			}
			return n
		}
		if use(20*time.Second) == 0 {
			t.Fatal("nothing passes")
		}
		off(true)
		use(time.Minute)
		for _, sh := range shares {
			sh.Close()
		}
		time.Sleep(8 * time.Second)
		for i, s := range ss {
			shares[i] = share(t, s, l)
		}
		if n := use(time.Minute); n > 0 {
			t.Errorf("%d calls by the part of one, of three", n)
		}
		if err := h.Check(l); err != nil {
			t.Error(err)
		}
	})
}

// Nobody is to be woken who has gone, and what was raised in an outage is forgotten as well.
func TestNothingIsKeptOfSharesThatWaited(t *testing.T) {
	shares := func(t *testing.T, s *store.Syncer, l store.Limit) {
		for i := range 20 {
			mk := func(version uint64) *store.Share {
				l.Quota = 100 * int64(version)
				sh, err := s.Share(store.ShareConfig{Name: fmt.Sprint("acme", i), Version: version, Limits: []store.Limit{l}})
				if err != nil {
					t.Fatal(err)
				}
				sh.OnChange(func() {})
				return sh
			}
			a := mk(1)
			a.Wait(time.Now(), "", 1)
			time.Sleep(time.Second)
			b := mk(2)
			time.Sleep(time.Second)
			a.Close()
			b.Close()
		}
		time.Sleep(time.Hour)
		if keys, later := s.Cells(), s.Later(); keys+later > 0 {
			t.Errorf("%d keys are left, and %d who are to be woken", keys, later)
		}
	}
	t.Run("away", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st, off := switched(memory(t))
			off(true)
			s := syncer(t, store.SyncerConfig{Store: st})
			defer s.Close()
			shares(t, s, store.Limit{Kind: store.Window, Per: time.Second})
		})
	})
	t.Run("a part for tomorrow", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := syncer(t, store.SyncerConfig{Store: memory(t), Outage: store.SafeShare, Nodes: 2})
			defer s.Close()
			shares(t, s, store.Limit{Kind: store.Window, Per: 24 * time.Hour})
		})
	})
}

// A pause of the host holds for the next governor of the Name while the store is away, and a
// shorter one does not end it.
func TestAPauseHoldsForTheNextGovernorInAnOutage(t *testing.T) {
	for _, word := range []time.Duration{0, 50 * time.Millisecond} {
		t.Run(fmt.Sprintf("then %v", word), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, off := switched(memory(t))
				s := syncer(t, store.SyncerConfig{Store: st, Outage: store.Open})
				defer s.Close()
				mk := func() *governor.Plain {
					g, err := governor.New(governor.PlainConfig{Name: "acme", Store: s, MaxWait: -1})
					if err != nil {
						t.Fatal(err)
					}
					return g
				}
				g := mk()
				time.Sleep(time.Second)
				said := time.Now()
				g.Learn(throttle.Signal{Delay: 30 * time.Second})
				time.Sleep(3 * time.Second)
				g.Close()
				time.Sleep(2 * time.Second)
				off(true)
				g = mk()
				defer g.Close()
				time.Sleep(3 * time.Second) // the store is lost
				if word > 0 {
					g.Learn(throttle.Signal{Delay: word})
				}
				if _, err := governor.Do(t.Context(), g.With(governor.Ask{Tenant: "a"}), "", governor.Func(func(context.Context) (int, error) { return 0, nil })); err != nil {
					t.Fatal(err)
				}
				if d := time.Since(said); d < 30*time.Second {
					t.Errorf("a call %v after a pause of 30s began", d)
				}
			})
		})
	}
}

// Of a governor that has gone nothing is kept where the store refuses its key, or answers nonsense.
func TestNothingIsKeptOfAGovernorWhoseKeyIsRefused(t *testing.T) {
	for _, refusal := range []error{store.ErrTooMany, store.ErrInvalid} {
		for _, before := range []bool{false, true} { // refused when the word is said, or later
			t.Run(fmt.Sprintf("%v, before %t", refusal, before), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var refuses atomic.Bool
					s := syncer(t, store.SyncerConfig{Store: perKey{memory(t), func(string) error {
						if refuses.Load() {
							return refusal
						}
						return nil
					}}})
					defer s.Close()
					g, err := governor.New(governor.PlainConfig{Name: "acme", Store: s})
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(2 * time.Second)
					refuses.Store(before)
					g.Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Tenant, Key: "a"}, Delay: 5 * time.Second})
					time.Sleep(2 * time.Second)
					g.Close()
					refuses.Store(true)
					time.Sleep(time.Hour)
					if n := s.Cells(); n > 0 {
						t.Errorf("%d keys are left", n)
					}
				})
			})
		}
	}
}
