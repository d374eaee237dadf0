package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/store"
)

// gossip is a circle of which n hear each word, one millisecond after the other: the
// first word after a second.
func gossip(n int) *circle {
	c := &circle{heard: make(chan time.Time, replicas), stop: func() {}}
	c.say = func(word int) error {
		wait := time.Duration(0)
		if word == 0 {
			wait = time.Second
		}
		for i := range n {
			time.AfterFunc(wait+time.Duration(i+1)*time.Millisecond, func() { c.heard <- time.Now() })
		}
		return nil
	}
	return c
}

func TestDelayIsAQuantileOfAllWhoHeardAllWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			q    float64
			want time.Duration
		}{{0.5, 4 * time.Millisecond}, {0.99, 7 * time.Millisecond}, {0, time.Millisecond}} {
			stopped := false
			got, err := delay(c.q, 3, func(context.Context) (*circle, error) {
				g := gossip(replicas - 1)
				g.stop = func() { stopped = true }
				return g, nil
			})
			if err != nil || time.Duration(got) != c.want || !stopped {
				t.Errorf("quantile %v: %v, %v, stopped %v, want %v", c.q, time.Duration(got), err, stopped, c.want)
			}
		}
	})
}

func TestQuantile(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(100-i))
	}
	for _, c := range []struct {
		q    float64
		all  []time.Duration
		want float64
	}{{0.5, hundred, 50}, {0.99, hundred, 99}, {1, hundred, 100}, {0.99, hundred[:56], 100}, {0.5, hundred[:1], 100}, {0.5, nil, 0}} {
		if got := quantile(c.q, c.all); got != c.want {
			t.Errorf("%v of %d: got %v, want %v", c.q, len(c.all), got, c.want)
		}
	}
}

// A row ends with an error when a server, or an engine, is silent: it does not hang.
func TestWhatIsNotHeardIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, err := delay(0.5, 3, func(context.Context) (*circle, error) { return gossip(replicas - 2), nil })
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "6 of 7 have heard word 0") || time.Since(start) != patience {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		mute := errors.New("mute")
		if _, err := delay(0.5, 3, func(context.Context) (*circle, error) {
			return &circle{say: func(int) error { return mute }, stop: func() {}}, nil
		}); err != mute {
			t.Errorf("got %v", err)
		}
		start = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := until(ctx, func() error { return mute }); !errors.Is(err, mute) || !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// The rows of a Redis work, with less of everything.
func TestRowsOfRedis(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: no server is started")
	}
	for name, measure := range map[string]func(passes int) ([]sample, error){
		"a cooldown is heard of": propagation(0.5, 2, inRedis),
		"a restart":              restarted(store.Window),
		"a restart, of a bucket": restarted(store.Bucket),
		"sentinels":              once(bySentinels, 1),
		"a failover":             once(inCluster, 1),
		"keys in use":            once(idleKeys(store.Window), lot),
		"keys that come and go":  once(churned, lot),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			samples, err := measure(2)
			if err != nil || len(samples) != 2 {
				t.Fatal(samples, err)
			}
			for _, s := range samples {
				if s.ours <= 0 || s.peer <= 0 {
					t.Errorf("%+v", s)
				}
			}
		})
	}
}
