package limiter

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/event"
)

func newByKey(t testing.TB, cfg ByKeyConfig) *ByKey {
	t.Helper()
	b, err := NewByKey(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestByKeyAsksTheLimiterOfTheKey(t *testing.T) {
	b := newByKey(t, ByKeyConfig{
		Keys: map[string]Limiter{
			"big":   newBucket(t, BucketConfig{Rate: 1, Burst: 5}),
			"small": newBucket(t, BucketConfig{Rate: 1, Burst: 1}),
		},
		Others: newBucket(t, BucketConfig{Rate: 1, Burst: 2}),
	})
	for key, want := range map[string]int{"big": 5, "small": 1, "x": 2, "y": 2} {
		n := 0
		for b.Wait(epoch, key, 1) == 0 {
			b.Take(epoch, key, 1)
			n++
		}
		if n != want {
			t.Errorf("%q: %d permits, want %d", key, n, want)
		}
		b.Settle(epoch, key, 1, 0)
		if d := b.Wait(epoch, key, 1); d != 0 {
			t.Errorf("%q: after a refund, Wait = %v", key, d)
		}
	}
	if r := b.Rate(epoch, "big"); r != 1 {
		t.Errorf("Rate = %v, want 1", r)
	}
}

func TestByKeyTellsTheLimiterOfTheKey(t *testing.T) {
	own, rest := &pupil{}, &pupil{}
	own.open, rest.open = true, true
	b := newByKey(t, ByKeyConfig{Keys: map[string]Limiter{"k": own}, Others: rest})
	b.Accepted(epoch, epoch, "k")
	b.Refused(epoch, epoch, "x")
	b.Take(epoch, "x", 2)
	b.Release(epoch, "x", 1)
	if len(own.log) != 1 || len(rest.log) != 1 || own.held != 0 || rest.held != 1 {
		t.Errorf("own %q %d, rest %q %d", own.log, own.held, rest.log, rest.held)
	}
	if r := b.Rate(epoch, "k"); r != 0 {
		t.Errorf("Rate = %v of what is no Rater", r)
	}
	if b.Idle(epoch) {
		t.Error("Idle, of what cannot say so")
	}
}

func TestByKeyWithoutOthersLeavesThemAlone(t *testing.T) {
	bucket := newBucket(t, BucketConfig{Rate: 1, Burst: 1})
	b := newByKey(t, ByKeyConfig{Keys: map[string]Limiter{"k": bucket}})
	for range 3 {
		if d := b.Wait(epoch, "x", 1e9); d != 0 {
			t.Errorf("Wait = %v", d)
		}
		b.Take(epoch, "x", 1e9)
		b.Settle(epoch, "x", 1, 2)
		b.Accepted(epoch, epoch, "x")
		b.Refused(epoch, epoch, "x")
		b.Release(epoch, "x", 1)
	}
	if !b.Idle(epoch) || b.Rate(epoch, "x") != 0 {
		t.Error("it keeps something")
	}
	b.Take(epoch, "k", 1)
	if b.Idle(epoch) {
		t.Error("Idle, though a permit is out")
	}
}

// Several keys with one limiter: that hears of its owner once.
func TestByKeyKnowsEachLimiterOnce(t *testing.T) {
	l := &heard{}
	b := newByKey(t, ByKeyConfig{Keys: map[string]Limiter{"a": l, "b": l}, Others: l})
	changed := 0
	b.OnChange(func() { changed++ })
	if err := b.Close(); !errors.Is(err, errVendor) || l.listened != 1 || l.closed != 1 {
		t.Errorf("OnChange %d times, Close %d times: %v", l.listened, l.closed, err)
	}
	if l.fn(); changed != 1 {
		t.Errorf("%d changes heard of", changed)
	}
	newByKey(t, ByKeyConfig{Others: uncomparable{Limiter: l}, Keys: map[string]Limiter{"": uncomparable{Limiter: l}}})
}

type heard struct {
	opened
	listened, closed int
}

func (l *heard) OnChange(fn func()) { l.fn = fn; l.listened++ }
func (l *heard) Close() error       { l.closed++; return errVendor }

type uncomparable struct {
	Limiter
	_ []int
}

func TestByKeyConfig(t *testing.T) {
	b, err := NewByKey(ByKeyConfig{Keys: map[string]Limiter{"k": nil}})
	if b != nil || !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), `ByKeyConfig.Keys["k"] is nil`) {
		t.Errorf("error %v", err)
	}
	for want, cfg := range map[string]ByKeyConfig{
		`ByKeyConfig.Keys["k"] is a nil *limiter.Bucket`: {Keys: map[string]Limiter{"k": (*Bucket)(nil)}},
		"ByKeyConfig.Others is a nil *limiter.Spread":    {Others: (*Spread)(nil)},
	} {
		if b, err := NewByKey(cfg); b != nil || !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	keys := map[string]Limiter{"k": newBucket(t, BucketConfig{Rate: 1})}
	b = newByKey(t, ByKeyConfig{Keys: keys})
	delete(keys, "k")
	if b.Of("k") == nil {
		t.Error("the map is the caller's still")
	}
}

// In a Shared, only the keys that have limits of a kind are treated as of that kind.
func TestByKeyInAShared(t *testing.T) {
	bubble(t, func(t *testing.T) {
		conc, err := NewConcurrency(ConcurrencyConfig{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		inner := newByKey(t, ByKeyConfig{Keys: map[string]Limiter{"one": conc}, Others: newBucket(t, BucketConfig{Rate: 0.01, Burst: 2})})
		s := newShared(t, SharedConfig{Limiters: []Limiter{newByKey(t, ByKeyConfig{Keys: map[string]Limiter{"free": newBucket(t, BucketConfig{Rate: 1e6})}, Others: inner})}, MaxQueue: 9})
		fn := func(context.Context) (int, error) { time.Sleep(time.Second); return 1, nil }
		for range 2 { // the first one's permit comes back
			if _, err := Do(t.Context(), s, "one", 1, fn); err != nil {
				t.Errorf("one: %v", err)
			}
		}
		s.Allow("one", 1)
		wantLimited(t, s.Allow("one", 1), NoPermits, 0)
		s.Drain("one")
		s.Release("one", 1)
		if err := s.Allow("one", 1); err != nil {
			t.Errorf("one: %v, though it was released", err)
		}
		s.Drain("other")
		wantLimited(t, s.Allow("other", 1), NoPermits, 100*time.Second)
		if err := s.Allow("free", 1000); err != nil {
			t.Errorf("free: %v", err)
		}
		s.Drain("free")
		if err := s.Allow("free", 1); err == nil {
			t.Error("free: admitted after Drain")
		}
	})
}

// A wait that is sure is refused at once, also of a limit by key.
func TestByKeyInASharedIsRefusedAtOnceWhatWaitsTooLong(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newByKey(t, ByKeyConfig{Others: newBucket(t, BucketConfig{Rate: 0.01, Burst: 1})})
		s := newShared(t, SharedConfig{Limiters: []Limiter{b}, MaxQueue: 9})
		s.Allow("k", 1)
		began := time.Now()
		err := s.Wait(t.Context(), "k", 1)
		wantLimited(t, err, TooLate, 100*time.Second)
		if d := time.Since(began); d != 0 {
			t.Errorf("after %v", d)
		}
	})
}

func TestSharedSaysHowManyWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShared(t, SharedConfig{Limiters: []Limiter{newBucket(t, BucketConfig{Rate: 1, Burst: 1})}, MaxQueue: 9})
		var got []int
		look := func() { got = append(got, s.Waiting()) }
		look()
		for _, key := range []string{"a", "a", "a", "b", "b"} {
			s.Reserve(key, 1)
		}
		look()
		time.Sleep(time.Second)
		synctest.Wait()
		look()
		s.Close()
		look()
		if want := [4]int{0, 3, 1, 0}; [4]int(got) != want {
			t.Errorf("%v wait, want %v", got, want)
		}
	})
}

func TestSharedTellsThatALimitIsEmpty(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var o order
		conc, err := NewConcurrency(ConcurrencyConfig{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		s := newShared(t, SharedConfig{
			Limiters: []Limiter{newBucket(t, BucketConfig{Rate: 1, Burst: 9})},
			Whole:    []Limiter{newBucket(t, BucketConfig{Rate: 1, Burst: 3}), newByKey(t, ByKeyConfig{Others: conc})},
			MaxQueue: 1,
			OnEvent: func(e event.Event) {
				if e.Kind == event.Depleted {
					o.add("%d %s", e.Request, e.Source)
				}
			},
		})
		o.start = time.Now()
		for _, key := range []string{"a", "b", "a"} {
			s.Allow(key, 1)
			s.Release(key, 1)
			time.Sleep(time.Millisecond)
		}
		s.Wait(t.Context(), "b", 1) // until there is one for all
		synctest.Wait()
		s.Close()
		o.want(t, "2ms 3 a", "1s 4 b")
	})
}
