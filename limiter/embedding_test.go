package limiter_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/limiter"
)

// total embeds a limiter with keys and has one permit for all of them together: a call
// of any key may wait for a call of any other.
type total struct {
	*limiter.Concurrency
	busy bool
}

func (l *total) Wait(now time.Time, key string, n int) time.Duration {
	if l.busy {
		return time.Hour
	}
	return l.Concurrency.Wait(now, key, n)
}

func (l *total) Take(now time.Time, key string, n int) {
	l.busy = true
	l.Concurrency.Take(now, key, n)
}

func (l *total) Release(now time.Time, key string, n int) {
	l.busy = false
	l.Concurrency.Release(now, key, n)
}

// byWord embeds what chooses between limiters, and has one permit for all, too. What it
// has to say of changes comes from what it embeds.
type byWord struct {
	*limiter.ByKey
	total
}

func (l *byWord) Wait(now time.Time, key string, n int) time.Duration {
	return max(l.total.Wait(now, key, n), l.ByKey.Wait(now, key, n))
}
func (l *byWord) Take(now time.Time, key string, n int) { l.total.Take(now, key, n) }
func (l *byWord) Claim(now time.Time, key string, n int) time.Duration {
	wait := l.Wait(now, key, n)
	if wait == 0 {
		l.Take(now, key, n)
	}
	return wait
}
func (l *byWord) Settle(now time.Time, key string, n, used int) { l.total.Settle(now, key, n, used) }
func (l *byWord) Accepted(now, sent time.Time, key string)      {}
func (l *byWord) Refused(now, sent time.Time, key string)       {}
func (l *byWord) Release(now time.Time, key string, n int)      { l.total.Release(now, key, n) }

// inACell embeds a Keyed, which is no Limiter, and gives a permit back when a call ends.
type inACell struct {
	*limiter.Keyed
	busy bool
}

func (l *inACell) Wait(now time.Time, key string, n int) time.Duration {
	if l.busy {
		return time.Hour
	}
	return 0
}
func (l *inACell) Take(now time.Time, key string, n int)         { l.busy = l.AllowAt(now, key, n) }
func (l *inACell) Settle(now time.Time, key string, n, used int) { l.busy = false }
func (l *inACell) Accepted(now, sent time.Time, key string)      {}
func (l *inACell) Refused(now, sent time.Time, key string)       {}

// told embeds what learns, and pauses for all keys: it ignores them.
type told struct{ *limiter.Adaptive }

// TestSharedWakesOtherKeysOfALimiterThatEmbedsOneOfOurs has one call of 1 ms for each of
// 20 keys, and room for one call: each begins when the one before has ended.
func TestSharedWakesOtherKeysOfALimiterThatEmbedsOneOfOurs(t *testing.T) {
	held, err := limiter.NewConcurrency(limiter.ConcurrencyConfig{Limit: 1, AskAgain: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	others, err := limiter.NewByKey(limiter.ByKeyConfig{Others: held})
	if err != nil {
		t.Fatal(err)
	}
	keyed, err := limiter.NewKeyed(limiter.KeyedConfig{Rate: 1})
	if err != nil {
		t.Fatal(err)
	}
	slow, err := limiter.NewAdaptive(limiter.AdaptiveConfig{Start: 1.0 / 3600, Max: 1.0 / 3600})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		limiter limiter.Limiter
		err     error
	}{
		"Concurrency": {&total{Concurrency: held}, nil},
		"ByKey":       {&byWord{others, total{Concurrency: held}}, nil},
		"Keyed":       {&inACell{Keyed: keyed}, nil},
		"Adaptive":    {told{slow}, unsent{}}, // its permit comes back when the call was not made
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := limiter.NewShared(limiter.SharedConfig{Limiters: []limiter.Limiter{c.limiter}, MaxQueue: 100, MaxWait: -1})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				begin := time.Now()
				var wg sync.WaitGroup
				for i := range 20 {
					wg.Go(func() {
						_, err := limiter.Do(t.Context(), s, fmt.Sprint(i), 1, func(context.Context) (int, error) {
							time.Sleep(time.Millisecond)
							return 0, c.err
						})
						if err != c.err {
							t.Error(err)
						}
					})
				}
				wg.Wait()
				if d := time.Since(begin); d != 20*time.Millisecond {
					t.Errorf("%v for 20 calls of 1ms, one after the other", d)
				}
			})
		})
	}
}

// frank says itself when calls of other keys may go: never.
type frank struct {
	limiter.Limiter
	asked int
}

func (l *frank) OnChange(func()) {}

func (l *frank) Wait(now time.Time, key string, n int) time.Duration {
	l.asked++
	return l.Limiter.Wait(now, key, n)
}

// TestSharedBelievesWhatTellsOfChangesItself: it is asked for the key of a call alone.
func TestSharedBelievesWhatTellsOfChangesItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := limiter.NewBucket(limiter.BucketConfig{Rate: 1, Burst: 1})
		if err != nil {
			t.Fatal(err)
		}
		l := &frank{Limiter: b}
		s, err := limiter.NewShared(limiter.SharedConfig{Limiters: []limiter.Limiter{l}, MaxQueue: 100, MaxWait: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for i := range 100 {
			s.Allow(fmt.Sprint(i), 1)
			s.Reserve(fmt.Sprint(i), 1)
		}
		l.asked = 0
		s.Settle("50", 1, 1)
		if l.asked > 2 {
			t.Errorf("asked %d times, of which the one for its key is needed", l.asked)
		}
	})
}

// unsent is the error of a call that was not made.
type unsent struct{}

func (unsent) Error() string { return "not sent" }
func (unsent) Refused() bool { return true }
