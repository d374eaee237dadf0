package governor_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

func atOnce(t *testing.T, n int) limiter.Limiter {
	t.Helper()
	l, err := limiter.NewConcurrency(limiter.ConcurrencyConfig{Limit: n})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A call inside a closure that would wait for permits that the closure gives back when
// it ends waits for itself.
func TestWaitingForPermitsThatOneHoldsIsRefused(t *testing.T) {
	type view = *governor.Plain
	ways := map[string]func(ctx context.Context, g view) error{
		"Do": func(ctx context.Context, g view) error { _, err := governor.Do(ctx, g, "new", sleep(0)); return err },
		"Result": func(ctx context.Context, g view) error {
			_, err := governor.Submit(ctx, g, "new", sleep(0)).Result(ctx)
			return err
		},
		"Stream": func(ctx context.Context, g view) (err error) {
			for _, err = range governor.Stream(ctx, g, "new", func(context.Context, struct{}) iter.Seq2[int, error] {
				return func(yield func(int, error) bool) { yield(1, nil) }
			}) {
			}
			return err
		},
	}
	for name, way := range ways {
		for _, tt := range []struct {
			name  string
			per   throttle.Level
			limit func(t *testing.T) limiter.Limiter
			inner governor.Ask
			want  error
		}{
			{"of the host", throttle.Host, func(t *testing.T) limiter.Limiter { return atOnce(t, 1) }, governor.Ask{}, governor.ErrReentrant},
			{"one is spare", throttle.Host, func(t *testing.T) limiter.Limiter { return atOnce(t, 2) }, governor.Ask{}, nil},
			{"more than is spare", throttle.Host, func(t *testing.T) limiter.Limiter { return atOnce(t, 2) }, governor.Ask{Cost: 2}, governor.ErrReentrant},
			{"more than there are", throttle.Host, func(t *testing.T) limiter.Limiter { return atOnce(t, 2) }, governor.Ask{Cost: 3}, governor.ErrNeverAdmissible},
			{"of the tenant", throttle.Tenant, func(t *testing.T) limiter.Limiter { return atOnce(t, 1) }, governor.Ask{Tenant: "a"}, governor.ErrReentrant},
			{"of another tenant", throttle.Tenant, func(t *testing.T) limiter.Limiter { return atOnce(t, 1) }, governor.Ask{Tenant: "b"}, nil},
			{"by key", throttle.Tenant, func(t *testing.T) limiter.Limiter {
				l, err := limiter.NewByKey(limiter.ByKeyConfig{Others: atOnce(t, 1)})
				if err != nil {
					t.Fatal(err)
				}
				return l
			}, governor.Ask{Tenant: "a"}, governor.ErrReentrant},
			{"that time gives back", throttle.Tenant, func(t *testing.T) limiter.Limiter {
				b, err := limiter.NewBucket(limiter.BucketConfig{Rate: 1, Burst: 1})
				if err != nil {
					t.Fatal(err)
				}
				l, err := limiter.NewByKey(limiter.ByKeyConfig{Others: b})
				if err != nil {
					t.Fatal(err)
				}
				return l
			}, governor.Ask{Tenant: "a"}, nil},
		} {
			t.Run(name+" "+tt.name, func(t *testing.T) {
				bubble(t, func(c *governor.PlainConfig) {
					c.Limits = []governor.Limit{{Per: tt.per, Limiter: tt.limit(t)}}
				}, func(t *testing.T, g *governor.Plain) {
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					defer cancel()
					var inner error
					_, err := governor.Do(ctx, g.With(governor.Ask{Tenant: "a"}), "", governor.Func(func(ctx context.Context) (int, error) {
						inner = way(ctx, g.With(tt.inner))
						return 0, nil
					}))
					if err != nil || !errors.Is(inner, tt.want) {
						t.Errorf("outside %v, inside %v; want %v inside", err, inner, tt.want)
					}
				})
			})
		}
	}
}

// Also when another closure is between the two.
func TestWaitingForPermitsFurtherOutIsRefused(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) {
		c.Limits = []governor.Limit{{Per: throttle.Tenant, Limiter: atOnce(t, 1)}}
	}, func(t *testing.T, g *governor.Plain) {
		of := func(tenant string, fn func(context.Context) (int, error)) func(context.Context) (int, error) {
			return func(ctx context.Context) (int, error) {
				return governor.Do(ctx, g.With(governor.Ask{Tenant: tenant}), "", governor.Func(fn))
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		none := func(context.Context) (int, error) { return 0, nil }
		if _, err := of("a", of("b", of("a", none)))(ctx); !errors.Is(err, governor.ErrReentrant) {
			t.Errorf("got %v", err)
		}
	})
}

// Permits that are spare are no use to a call that comes behind one which wants more of
// them, and waits for what the closure holds.
func TestWaitingBehindWhoWaitsForPermitsThatOneHoldsIsRefused(t *testing.T) {
	for _, per := range []throttle.Level{throttle.Host, throttle.Selector, throttle.Tenant} {
		t.Run(per.String(), func(t *testing.T) {
			bubble(t, func(c *governor.PlainConfig) {
				c.Limits = []governor.Limit{{Per: per, Limiter: atOnce(t, 3)}}
			}, func(t *testing.T, g *governor.Plain) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				var inner error
				_, err := governor.Do(ctx, g.With(governor.Ask{Tenant: "a"}), "s", governor.Func(func(ctx context.Context) (int, error) {
					costly := governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "a", Cost: 3}), "s", sleep(0))
					time.Sleep(time.Second)
					_, inner = governor.Do(ctx, g.With(governor.Ask{Tenant: "a"}), "s", sleep(0))
					if costly.State() != governor.Queued {
						t.Error("the costly one does not wait")
					}
					return 0, nil
				}))
				if err != nil || !errors.Is(inner, governor.ErrReentrant) {
					t.Errorf("outside %v, inside %v; want ErrReentrant inside", err, inner)
				}
			})
		})
	}
}
