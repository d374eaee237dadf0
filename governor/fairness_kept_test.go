package governor_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/throttle"
)

// Who keeps his slot while he waits needs none, and so could always be the first to ask.
func TestWhoKeepsHisSlotGetsNoMoreThanHisShare(t *testing.T) {
	for _, tt := range []struct {
		name     string
		per      throttle.Level
		workers  int
		buckets  int // in which the tenant polls
		rate     float64
		at, most float64 // of all starts
	}{
		{"a limit of the host, in one bucket", throttle.Host, 64, 1, 10, .49, .51},
		{"a limit of the host, in nine buckets", throttle.Host, 64, 9, 10, .49, .51},
		{"a limit of the host, few slots", throttle.Host, 10, 9, 10, .45, .55},
		{"a limit of the bucket", throttle.Bucket, 64, 1, 1, .48, .52},
		{"a limit of the tenant", throttle.Tenant, 64, 9, 1, .49, .51},
	} {
		for _, keep := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, %t", tt.name, keep), func(t *testing.T) {
				bubble(t, func(c *governor.PlainConfig) {
					c.Workers, c.NoPace = tt.workers, true
					c.Limits = []governor.Limit{{Per: tt.per, Limiter: newBucket(t, tt.rate, 1)}}
				}, func(t *testing.T, g *governor.Plain) {
					ctx, cancel := context.WithCancel(t.Context())
					var polls, others atomic.Int64
					for i := range tt.buckets {
						governor.Submit(ctx, g.With(governor.Ask{Tenant: "a", Bucket: fmt.Sprint(i), KeepConn: keep}), "", governor.Func(func(context.Context) (int, error) {
							polls.Add(1)
							return 0, governor.Again(100 * time.Millisecond)
						}))
					}
					time.Sleep(time.Millisecond)
					for range 2000 {
						governor.Submit(ctx, g.With(governor.Ask{Tenant: "b", Bucket: "0"}), "", governor.Func(func(context.Context) (int, error) {
							others.Add(1)
							return 0, nil
						}))
					}
					time.Sleep(100 * time.Second)
					all := polls.Load() + others.Load()
					if part := float64(others.Load()) / float64(all); part < tt.at || part > tt.most {
						t.Errorf("of %d starts %d were of the others, want %v to %v of all", all, others.Load(), tt.at, tt.most)
					}
					cancel()
					time.Sleep(time.Second)
				})
			})
		}
	}
}

// polling has a request asked again and again under KeepConn, and returns how often it was.
func polling(ctx context.Context, g *governor.Plain, ask governor.Ask, every time.Duration) *atomic.Int64 {
	n := new(atomic.Int64)
	ask.KeepConn = true
	governor.Submit(ctx, g.With(ask), "", governor.Func(func(context.Context) (int, error) {
		n.Add(1)
		return 0, governor.Again(every)
	}))
	return n
}

// What it gets while nobody else has a slot is at nobody's expense, nor its own tenant's.
func TestWhoKeepsASlotPaysNothingForWhatOthersCannotHave(t *testing.T) {
	for _, ask := range []governor.Ask{{Tenant: "a"}, {Tenant: "c", Priority: -1}} {
		bubble(t, func(c *governor.PlainConfig) { c.Workers, c.NoPace, c.Ageing = 2, true, 10*time.Second }, func(t *testing.T, g *governor.Plain) {
			ctx, cancel := context.WithCancel(t.Context())
			polling(ctx, g, governor.Ask{Tenant: "a", Priority: ask.Priority}, 100*time.Millisecond)
			time.Sleep(time.Millisecond)
			for range 4 {
				go func() {
					for ctx.Err() == nil {
						governor.Do(ctx, g.With(governor.Ask{Tenant: "b"}), "", sleep(time.Second))
					}
				}()
			}
			time.Sleep(time.Millisecond)
			start := time.Now()
			late, stop := context.WithTimeout(ctx, 500*time.Second)
			defer stop()
			var at time.Time
			_, err := governor.Submit(late, g.With(ask), "", stamp(&at)).Result(t.Context())
			if d := at.Sub(start); err != nil || d > 15*time.Second {
				t.Errorf("%+v started after %v: %v; want no more than the 10 s of a priority, and some starts", ask, d, err)
			}
			cancel()
			time.Sleep(time.Second)
		})
	}
}

// Settled is charged where the call was.
func TestWhatASessionTrulyCostsIsItsOwn(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Workers, c.NoPace = 2, true }, func(t *testing.T, g *governor.Plain) {
		ctx, cancel := context.WithCancel(t.Context())
		governor.Submit(ctx, g.With(governor.Ask{Tenant: "a", KeepConn: true}), "", governor.Func(func(ctx context.Context) (int, error) {
			governor.Settle(ctx, 20)
			return 0, governor.Again(100 * time.Millisecond)
		}))
		time.Sleep(time.Millisecond)
		var started [2]atomic.Int64
		for i, tenant := range []string{"a", "b"} {
			for range 1000 {
				governor.Submit(ctx, g.With(governor.Ask{Tenant: tenant}), "", governor.Func(func(context.Context) (int, error) {
					started[i].Add(1)
					time.Sleep(time.Second)
					return 0, nil
				}))
			}
		}
		time.Sleep(200 * time.Second)
		if a, b := started[0].Load(), started[1].Load(); a < 95 || b < 95 {
			t.Errorf("%d calls of the tenant with a session, and %d of another, want as many", a, b)
		}
		cancel()
		time.Sleep(time.Second)
	})
}

// What has aged among sessions does not stand before what is urgent among them.
func TestNoPriorityOfSessionsIsHiddenByAnother(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) {
		c.Workers, c.NoPace, c.Ageing = 64, true, time.Second
		c.Limits = []governor.Limit{{Limiter: newBucket(t, 1, 1)}}
	}, func(t *testing.T, g *governor.Plain) {
		ctx, cancel := context.WithCancel(t.Context())
		low := polling(ctx, g, governor.Ask{Tenant: "k"}, 100*time.Millisecond)
		time.Sleep(2 * time.Second)
		high := polling(ctx, g, governor.Ask{Tenant: "k", Priority: 10}, 100*time.Millisecond)
		time.Sleep(2 * time.Second)
		others := new(atomic.Int64)
		for range 2000 {
			governor.Submit(ctx, g.With(governor.Ask{Tenant: "r", Priority: 5}), "", governor.Func(func(context.Context) (int, error) {
				others.Add(1)
				return 0, nil
			}))
		}
		time.Sleep(1000 * time.Second)
		if high.Load() < 300 || low.Load() < 20 || others.Load() < 300 {
			t.Errorf("of 1,000 starts %d are urgent, %d low, and %d between", high.Load(), low.Load(), others.Load())
		}
		cancel()
		time.Sleep(time.Second)
	})
}

func TestWhoKeepsASlotAndWhoWaitsInALineStarveNeither(t *testing.T) {
	for _, tt := range []struct {
		sessions, others string
		every            time.Duration
	}{
		{"a", "a", 100 * time.Millisecond},
		{"a", "b", 100 * time.Millisecond},
		{"abcd", "o", time.Second},
		{"abcd", "a", 100 * time.Millisecond},
	} {
		bubble(t, func(c *governor.PlainConfig) {
			c.Workers, c.NoPace = 64, true
			c.Limits = []governor.Limit{{Per: throttle.Bucket, Limiter: newBucket(t, 1, 1)}}
		}, func(t *testing.T, g *governor.Plain) {
			ctx, cancel := context.WithCancel(t.Context())
			var polls []*atomic.Int64
			for _, tenant := range tt.sessions {
				polls = append(polls, polling(ctx, g, governor.Ask{Tenant: string(tenant), Bucket: "b"}, tt.every))
			}
			others := new(atomic.Int64)
			time.Sleep(time.Millisecond)
			for range 1000 {
				governor.Submit(ctx, g.With(governor.Ask{Tenant: tt.others, Bucket: "b"}), "", governor.Func(func(context.Context) (int, error) {
					others.Add(1)
					return 0, nil
				}))
			}
			time.Sleep(400 * time.Second)
			for i, n := range append(polls, others) {
				if n.Load() < 40 {
					t.Errorf("%+v: the %d. has %d of 400 starts", tt, i, n.Load())
				}
			}
			cancel()
			time.Sleep(time.Second)
		})
	}
}

func TestWhatKeepsItsSlotGoesByPriority(t *testing.T) {
	bubble(t, noPace, func(t *testing.T, g *governor.Plain) {
		var mu sync.Mutex
		var order []int
		var all []*governor.Request[int]
		for _, priority := range []int{1, 2} {
			began := false
			ask := governor.Ask{Priority: priority, KeepConn: true}
			all = append(all, governor.Submit(t.Context(), g.With(ask), "", governor.Func(func(context.Context) (int, error) {
				if !began {
					began = true
					time.Sleep(time.Second)
					return 0, governortest.Limited(10 * time.Second)
				}
				mu.Lock()
				order = append(order, priority)
				mu.Unlock()
				time.Sleep(time.Second) // longer than a probe that is alone
				return 0, nil
			})))
			time.Sleep(time.Millisecond)
		}
		for _, r := range all {
			<-r.Done()
		}
		if !slices.Equal(order, []int{2, 1}) {
			t.Errorf("after the cooldown they started in the order %v of their priorities", order)
		}
	})
}
