package store_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/store/storetest"
)

func memory(t *testing.T) *store.Memory {
	t.Helper()
	m, err := store.NewMemory(store.MemoryConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func syncer(t *testing.T, cfg store.SyncerConfig) *store.Syncer {
	t.Helper()
	s, err := store.NewSyncer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func share(t *testing.T, s *store.Syncer, limits ...store.Limit) *store.Share {
	t.Helper()
	sh, err := s.Share(store.ShareConfig{Name: "acme", Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	return sh
}

// user is an owner of a limiter that always has calls to make, or one every so
// often; as a governor's actor does, it asks when it is told to, or when it is
// woken.
type user struct {
	limit limiter.Limiter
	every time.Duration // between two calls; 0: at once
	keeps bool          // a call that had to wait delays none of the next
	late  time.Duration // up to so long a call takes to the vendor
	made  int64
}

func (u *user) run(h *storetest.History, until time.Time) {
	wake := make(chan struct{}, 1)
	if n, ok := u.limit.(limiter.Notifier); ok {
		n.OnChange(func() {
			select {
			case wake <- struct{}{}:
			default:
			}
		})
	}
	due := time.Now()
	for {
		now := time.Now()
		if !now.Before(until) {
			return
		}
		wait := u.limit.Wait(now, "", 1)
		if wait == 0 {
			u.limit.Take(now, "", 1)
			h.Use(now.Add(rand.N(u.late+1)), 1)
			u.made++
			u.limit.Settle(now, "", 1, 1)
			u.limit.Accepted(now, now, "")
			if due = due.Add(u.every); !u.keeps {
				due = now.Add(u.every)
			}
			time.Sleep(time.Until(due))
			continue
		}
		timer := time.NewTimer(min(wait, until.Sub(now)))
		select {
		case <-wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// cluster runs users over one Memory, a Syncer each, and returns what the vendor
// saw.
func cluster(t *testing.T, l store.Limit, users []*user, d time.Duration, wrap func(store.Store) store.Store) (h *storetest.History, start time.Time) {
	t.Helper()
	var m store.Store = memory(t)
	h = new(storetest.History)
	start = time.Now()
	end := make(chan *store.Syncer)
	for _, u := range users {
		engine := m
		if wrap != nil {
			engine = wrap(m)
		}
		s := syncer(t, store.SyncerConfig{Store: engine})
		u.limit = share(t, s, l)
		go func() {
			u.run(h, start.Add(d))
			end <- s
		}()
	}
	for range users {
		if err := (<-end).Close(); err != nil {
			t.Error(err)
		}
	}
	if err := h.Check(l); err != nil {
		t.Error(err)
	}
	return h, start
}

func many(n int, every ...time.Duration) (users []*user) {
	for i := range n {
		u := &user{}
		if len(every) > 0 {
			u.every = every[min(i, len(every)-1)]
		}
		users = append(users, u)
	}
	return users
}

func TestNodesUseTheWholeQuotaAndNoMore(t *testing.T) {
	for _, tc := range []struct {
		name  string
		limit store.Limit
		users func() []*user
		least float64 // of the quota
	}{
		{"window", store.Limit{Kind: store.Window, Quota: 1000, Per: time.Second}, func() []*user { return many(8) }, 0.99},
		{"small window", store.Limit{Kind: store.Window, Quota: 10, Per: time.Second}, func() []*user { return many(8) }, 0.99},
		{"large window", store.Limit{Kind: store.Window, Quota: 10_000, Per: time.Minute}, func() []*user { return many(8) }, 0.99},
		{"window, ten times as many from one", store.Limit{Kind: store.Window, Quota: 100, Per: time.Second}, func() []*user {
			return many(8, 12*time.Millisecond, 120*time.Millisecond) // 83/s and 7 times 8.3/s
		}, 0.99},
		{"small window, ten times as many from one", store.Limit{Kind: store.Window, Quota: 10, Per: time.Second}, func() []*user {
			return many(8, 120*time.Millisecond, 1200*time.Millisecond)
		}, 0.99},
		{"sliding", store.Limit{Quota: 1000, Per: time.Second}, func() []*user { return many(8) }, 0.95},
		{"sliding of 50", store.Limit{Quota: 50, Per: time.Second}, func() []*user { return many(8) }, 0.95},
		{"sliding of a minute", store.Limit{Quota: 600, Per: time.Minute}, func() []*user { return many(8) }, 0.95},
		{"bucket", store.Limit{Kind: store.Bucket, Quota: 1000, Per: time.Second}, func() []*user { return many(8) }, 0.95},
		{"bucket of 50", store.Limit{Kind: store.Bucket, Quota: 50, Per: time.Second}, func() []*user { return many(8) }, 0.95},
		{"bucket of a minute", store.Limit{Kind: store.Bucket, Quota: 600, Per: time.Minute}, func() []*user { return many(8) }, 0.95},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				users := tc.users()
				count := &counting{}
				periods := 10
				if tc.limit.Quota > 100 {
					periods = 3
				}
				h, start := cluster(t, tc.limit, users, time.Duration(periods)*tc.limit.Per, count.wrap)
				// Without the first period, in which a sliding limit has all its quota at once.
				used := h.Total(start.Add(tc.limit.Per), start.Add(time.Duration(periods)*tc.limit.Per))
				part := float64(used) / float64(int64(periods-1)*tc.limit.Quota)
				t.Logf("%.4f of the quota used, %.4f round trips a call", part, float64(count.n.Load())/float64(h.Total(start, start.Add(time.Hour))))
				if part < tc.least {
					t.Errorf("%.4f of the quota used, want at least %v", part, tc.least)
				}
			})
		})
	}
}

func TestEqualNodesMakeEqualCalls(t *testing.T) {
	for _, kind := range []store.Kind{store.Window, store.Sliding, store.Bucket} {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				users := many(8)
				cluster(t, store.Limit{Kind: kind, Quota: 400, Per: time.Second}, users, time.Minute, nil)
				sum, squares := 0.0, 0.0
				var made []int64
				for _, u := range users {
					made = append(made, u.made)
					sum += float64(u.made)
					squares += float64(u.made) * float64(u.made)
				}
				if jain := sum * sum / (8 * squares); jain < 0.98 {
					t.Errorf("eight nodes that want all made %d calls, a Jain index of %.3f", made, jain)
				}
			})
		})
	}
}

func TestAShareNeverWaitsForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &faulty{Store: memory(t), delay: func() time.Duration { return 100 * time.Millisecond }}
		s := syncer(t, store.SyncerConfig{Store: slow})
		defer s.Close()
		sh := share(t, s, store.Limit{Kind: store.Window, Quota: 100, Per: time.Minute})
		woken := make(chan time.Time, 100)
		sh.OnChange(func() { woken <- time.Now() })
		start := time.Now()
		if got := sh.Wait(start, "", 1); got != limiter.Unsure {
			t.Errorf("before any answer, Wait is %v, want Unsure", got)
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("Wait took %v", d)
		}
		time.Sleep(time.Second)
		if got := (<-woken).Sub(start); got != 100*time.Millisecond {
			t.Errorf("the owner heard after %v, want a round trip, 100ms", got)
		}
	})
}

// A store that answers, but to nobody who wants to hear hints, is asked all the same.
func TestNobodyWaitsForAWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := syncer(t, store.SyncerConfig{Store: &faulty{Store: memory(t), hangs: true}})
		sh := share(t, s, store.Limit{Kind: store.Window, Quota: 1000, Per: time.Minute})
		woken := make(chan struct{}, 100)
		sh.OnChange(func() { woken <- struct{}{} })
		for n := range 20 {
			start := time.Now()
			for sh.Wait(start, "", n+1) != 0 { // more than there are
				<-woken
			}
			if d := time.Since(start); d > 10*time.Millisecond {
				t.Errorf("permits come after %v, want at most 10ms", d)
			}
			sh.Take(start, "", n+1)
			time.Sleep(170 * time.Millisecond)
		}
		start := time.Now()
		if s.Close(); time.Since(start) != 0 {
			t.Errorf("Close took %v", time.Since(start))
		}
	})
}
