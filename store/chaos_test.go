package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/store/storetest"
	"github.com/flyball-go/flyball/throttle"
)

// weather is what is wrong with a store until it clears up: another thing every few
// seconds, for all or for each key by itself.
type weather struct {
	clears    time.Time
	exchanges atomic.Int64

	mu    sync.Mutex
	rand  *rand.Rand
	turns time.Time
	all   int
	keys  map[string]int
}

// What may become of a key's item; what is beyond is well.
const (
	unanswered = iota // of the whole: the exchange is not
	unexecuted
	refused
	unheard // it is executed
)

// now returns what becomes of each item, and of all.
func (w *weather) now(items []store.Item) (each []int, all int, delay time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	each, delay = make([]int, len(items)), w.until(20*time.Millisecond)
	now := time.Now()
	if !now.Before(w.clears) {
		for i := range each {
			each[i] = unheard + 1
		}
		return each, unheard + 1, delay
	}
	if now.After(w.turns) {
		w.turns, w.all, w.keys = now.Add(w.until(8*time.Second)), w.rand.IntN(4), map[string]int{}
	}
	for i := range items {
		k := items[i].Key
		if _, known := w.keys[k]; !known {
			w.keys[k] = 1 + w.rand.IntN(6)
		}
		each[i] = w.keys[k]
	}
	if w.rand.IntN(10) == 0 {
		delay = w.until(4 * time.Second) // longer than an exchange waits
	}
	return each, w.all, delay
}

// until returns a time up to d. The caller holds mu.
func (w *weather) until(d time.Duration) time.Duration { return time.Duration(w.rand.Int64N(int64(d))) }

// exposed is a Store in the weather.
type exposed struct {
	store.Store
	*weather
}

func (e exposed) Exchange(ctx context.Context, node store.Node, items []store.Item) ([]store.Answer, error) {
	e.exchanges.Add(1)
	each, all, delay := e.now(items)
	if err := sleep(ctx, delay/2); err != nil || all == unanswered {
		return nil, errNetwork
	}
	as := make([]store.Answer, len(items))
	var last error
	for i, it := range items {
		as[i] = store.Answer{Node: node, Key: it.Key, Seq: it.Seq, Err: errNetwork}
		if each[i] == refused {
			as[i].Err = store.ErrTooMany
		}
		if each[i] >= unheard {
			one, err := e.Store.Exchange(context.WithoutCancel(ctx), node, items[i:i+1])
			if err != nil {
				return nil, err
			}
			if each[i] > unheard {
				as[i] = one[0]
			}
		}
		if as[i].Err == nil || i == 0 {
			last = as[i].Err
		}
	}
	if last != nil && each[0] != unheard {
		return nil, last // nobody has an answer, as an engine says it
	}
	if err := sleep(ctx, delay/2); err != nil {
		return nil, err
	}
	return as, nil
}

// Whatever becomes of what three processes say to a store, and of its answers: who still
// waits when it is well gets through soon; the quota is kept, by Closed and by SafeShare; and
// nobody asks without a pause.
func TestEverybodyGetsThroughWhenTheStoreIsWell(t *testing.T) {
	const storm, calm = 2 * time.Minute, 4 * time.Minute // as what has come meanwhile takes
	for seed := range uint64(effort.Times(24)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 0))
				outage := []store.Outage{store.Closed, store.Open, store.SafeShare}[seed%3]
				limits := []governor.Limit{
					{Quota: limiter.QuotaConfig{Limit: 30, Per: time.Second}},
					{Per: throttle.Tenant, Quota: limiter.QuotaConfig{Limit: 10, Per: time.Second}},
				}
				tenants := 5
				switch seed / 3 % 4 {
				case 0:
					limits = nil
				case 1:
					tenants = 12 // more than there is room for
				}
				sparse := seed/12%2 == 1
				w := &weather{clears: time.Now().Add(storm), rand: rand.New(rand.NewPCG(seed, 1))}
				m := memory(t)
				var gs []*governor.Plain
				for range 3 {
					s := syncer(t, store.SyncerConfig{Store: exposed{m, w}, Outage: outage, Nodes: 3, MaxKeys: 6})
					defer s.Close()
					g, err := governor.New(governor.PlainConfig{Name: "acme", Store: s, MaxWait: -1, Workers: 4, Limits: limits})
					if err != nil {
						t.Fatal(err)
					}
					defer g.Close()
					gs = append(gs, g)
				}
				var h storetest.History
				var calls sync.WaitGroup
				for time.Now().Before(w.clears) {
					g, took, patience := gs[r.IntN(3)], time.Duration(r.IntN(300))*time.Millisecond, time.Hour
					ask := governor.Ask{Tenant: fmt.Sprint(r.IntN(tenants)), Cost: 1 + r.IntN(20)/19*4}
					if r.IntN(3) == 0 {
						patience = time.Duration(r.IntN(3000)) * time.Millisecond
					}
					if r.IntN(50) == 0 {
						took = time.Duration(r.IntN(15)) * time.Second
					}
					if r.IntN(60) == 0 || sparse && r.IntN(4) == 0 {
						g.Learn(throttle.Signal{Delay: time.Duration(r.IntN(5000)) * time.Millisecond})
					}
					if r.IntN(100) == 0 {
						g.Clear(throttle.Scope{})
					}
					calls.Go(func() {
						ctx, cancel := context.WithTimeout(t.Context(), patience)
						defer cancel()
						_, err := governor.Do(ctx, g.With(ask), "", governor.Func(func(context.Context) (int, error) {
							h.Use(time.Now(), int64(ask.Cost))
							time.Sleep(took)
							return 0, nil
						}))
						if patience == time.Hour && err != nil {
							t.Errorf("a call: %v", err)
						}
					})
					pause := time.Duration(r.IntN(400)) * time.Millisecond
					if sparse {
						pause *= 30
					}
					time.Sleep(pause)
				}
				stormy := w.exchanges.Load()
				through := make(chan struct{})
				go func() { calls.Wait(); close(through) }()
				select {
				case <-through:
				case <-time.After(calm):
					t.Errorf("%v, %d limits, %d tenants: somebody waits, %v after the store is well", outage, len(limits), tenants, calm)
				}
				if most := int64(storm/time.Second) * 3 * 30; stormy > most {
					t.Errorf("%d exchanges in %v, want at most %d", stormy, storm, most)
				}
				if outage != store.Open && limits != nil {
					if err := h.Check(store.Limit{Kind: store.Sliding, Quota: 30, Per: time.Second}); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}
