package store_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/store"
)

// behindhand executes at once, and answers a while later; while it is away it does nothing.
type behindhand struct {
	store.Store
	takes atomic.Int64 // ns
	away  atomic.Bool
	heard atomic.Int64 // exchanges
}

func (b *behindhand) Exchange(ctx context.Context, node store.Node, items []store.Item) ([]store.Answer, error) {
	if b.away.Load() {
		return nil, errNetwork
	}
	as, err := b.Store.Exchange(ctx, node, items)
	b.heard.Add(1)
	if err := sleep(ctx, time.Duration(b.takes.Load())); err != nil {
		return nil, err
	}
	return as, err
}

// beginnings calls f with a Syncer, and a store that answers behindhand: one that goes on, and
// one whose answer to what is under way is the last.
func beginnings(t *testing.T, takes time.Duration, f func(t *testing.T, s *store.Syncer, b *behindhand, away bool)) {
	for _, away := range []bool{false, true} {
		t.Run(fmt.Sprintf("away %t", away), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &behindhand{Store: memory(t)}
				b.takes.Store(int64(takes))
				s := syncer(t, store.SyncerConfig{Store: b})
				defer s.Close()
				f(t, s, b, away)
			})
		})
	}
}

// fiveAnHour is what the tests here have, and atMostFive that no more pass in a minute.
var fiveAnHour = store.Limit{Kind: store.Window, Quota: 5, Per: time.Hour}

func atMostFive(t *testing.T, sh *store.Share) {
	t.Helper()
	n := 0
	for range 6000 {
		if sh.Claim(time.Now(), "", 1) == 0 {
			n++
		}
		time.Sleep(10 * time.Millisecond)
	}
	if n > 5 {
		t.Errorf("%d calls in a minute, of 5 an hour", n)
	}
}

// An answer to what was asked without limits says nothing of those that there are since.
func TestFirstLimitsHoldWhileAnExchangeIsUnderWay(t *testing.T) {
	beginnings(t, 500*time.Millisecond, func(t *testing.T, s *store.Syncer, b *behindhand, away bool) {
		sh, err := s.Share(store.ShareConfig{Name: "acme"})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := patient(sh, "", 1)(time.Minute); !ok {
			t.Fatal("nothing passes without limits")
		}
		for before := b.heard.Load(); b.heard.Load() == before; { // the exchange of each minute
			sh.Claim(time.Now(), "", 1)
			time.Sleep(10 * time.Millisecond)
		}
		if _, err := s.Share(store.ShareConfig{Name: "acme", Version: 2, Limits: []store.Limit{fiveAnHour}}); err != nil {
			t.Fatal(err)
		}
		b.away.Store(away)
		atMostFive(t, sh)
	})
}

func TestLimitsHoldWhereAShareBeforeHadNone(t *testing.T) {
	beginnings(t, 500*time.Millisecond, func(t *testing.T, s *store.Syncer, b *behindhand, away bool) {
		sh, err := s.Share(store.ShareConfig{Name: "acme"})
		if err != nil {
			t.Fatal(err)
		}
		sh.Wait(time.Now(), "", 1)
		time.Sleep(100 * time.Millisecond) // under way
		sh.Close()
		sh = share(t, s, fiveAnHour)
		sh.Wait(time.Now(), "", 1)
		b.away.Store(away)
		atMostFive(t, sh)
	})
}

func TestLimitsHoldWhereAGovernorBeforeHadNone(t *testing.T) {
	beginnings(t, 100*time.Millisecond, func(t *testing.T, s *store.Syncer, b *behindhand, away bool) {
		call := func(g *governor.Plain, patience time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err := governor.Do(ctx, g, "", governor.Func(func(context.Context) (int, error) { return 1, nil }))
			return err
		}
		g, err := governor.New(governor.PlainConfig{Name: "acme", Store: s})
		if err != nil {
			t.Fatal(err)
		}
		call(g, 50*time.Millisecond)
		g.Close()
		g, err = governor.New(governor.PlainConfig{Name: "acme", Store: s, Limits: []governor.Limit{{Quota: limiter.QuotaConfig{Limit: 5, Per: time.Hour}}}})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		b.away.Store(away)
		n := 0
		for range 1000 {
			if call(g, 10*time.Millisecond) == nil {
				n++
			}
			time.Sleep(10 * time.Millisecond)
		}
		if n > 5 {
			t.Errorf("%d calls, of 5 an hour", n)
		}
	})
}

// More than the limits of before ever had is not said to be never there where the present ones
// have it, of which the store has yet to hear.
func TestARaisedLimitHasWhatItHasBeforeTheStoreHears(t *testing.T) {
	for name, f := range map[string]func(t *testing.T, s *store.Syncer, mk func(quota int64, version uint64) *store.Share) *store.Share{
		"raised": func(t *testing.T, s *store.Syncer, mk func(int64, uint64) *store.Share) *store.Share {
			sh := mk(5, 1)
			sh.Wait(time.Now(), "", 1)
			time.Sleep(time.Second)
			mk(100, 2)
			return sh
		},
		"another": func(t *testing.T, s *store.Syncer, mk func(int64, uint64) *store.Share) *store.Share {
			sh := mk(5, 1)
			sh.Wait(time.Now(), "", 1)
			time.Sleep(10 * time.Millisecond) // under way
			sh.Close()
			sh = mk(100, 2)
			sh.Wait(time.Now(), "", 1)
			return sh
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &behindhand{Store: memory(t)}
				b.takes.Store(int64(20 * time.Millisecond))
				s := syncer(t, store.SyncerConfig{Store: b})
				defer s.Close()
				sh := f(t, s, func(quota int64, version uint64) *store.Share {
					sh, err := s.Share(store.ShareConfig{Name: "acme", Version: version, Limits: []store.Limit{{Kind: store.Window, Quota: quota, Per: time.Second}}})
					if err != nil {
						t.Fatal(err)
					}
					return sh
				})
				for range 500 {
					if sh.Wait(time.Now(), "", 50) == limiter.Never {
						t.Fatal("50 of 100 are said to be never there")
					}
					time.Sleep(time.Millisecond)
				}
				if _, ok := patient(sh, "", 50)(time.Minute); !ok {
					t.Error("50 of 100 never come")
				}
				if sh.Wait(time.Now(), "", 101) != limiter.Never {
					t.Error("101 of 100 are to come")
				}
			})
		})
	}
}
