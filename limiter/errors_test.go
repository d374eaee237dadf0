package limiter

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/flyball-go/flyball/internal/errtree"
)

func TestSettingsThatAreOutOfRangeMatchErrInvalid(t *testing.T) {
	r, err := NewRate(RateConfig{Rate: 1})
	if err != nil {
		t.Fatal(err)
	}
	b, w := newBucket(t, BucketConfig{Rate: 1}), newFixedWindow(t, FixedWindowConfig{Limit: 1, Period: 1})
	for want, try := range map[string]func() error{
		"BucketConfig.Rate is 0,":       func() error { _, err := NewBucket(BucketConfig{}); return err },
		"BucketConfig.Burst is -1,":     func() error { _, err := NewBucket(BucketConfig{Rate: 1, Burst: -1}); return err },
		"SetLimit is 0,":                func() error { return b.SetLimit(epoch, 0) },
		"SetRate is 0,":                 func() error { return b.SetRate(epoch, 0) },
		"SetMaxWait is -1ns,":           func() error { return w.SetMaxWait(-1) },
		"FixedWindowConfig.Limit is 0,": func() error { _, err := NewFixedWindow(FixedWindowConfig{}); return err },
		"CalendarConfig.Cycle is 99,":   func() error { _, err := NewCalendar(CalendarConfig{Limit: 1, Cycle: 99}); return err },
		"SlidingCounterConfig.Segments is -1,": func() error {
			_, err := NewSlidingCounter(SlidingCounterConfig{Limit: 1, Window: 1, Segments: -1})
			return err
		},
		"QuotaConfig.Margin is":      func() error { _, err := NewQuota(QuotaConfig{Limit: 1, Per: 1, Margin: century + 1}); return err },
		"LeakyConfig.MaxKeys is -1,": func() error { _, err := NewLeaky(LeakyConfig{Rate: 1, MaxKeys: -1}); return err },
		"RateConfig.Burst is -1,":    func() error { _, err := NewRate(RateConfig{Rate: 1, Burst: -1}); return err },
		"RateConfig.Rate is -1,":     func() error { return r.SetRate(-1) },
		"NewRateLayer: the Rate is the zero value, want one of NewRate": func() error { _, err := NewRateLayer(new(Rate), RateLayerConfig{}); return err },
		"NewRateLayer: the Rate is nil":                                 func() error { _, err := NewRateLayer(nil, RateLayerConfig{}); return err },
		"SharedConfig.MaxQueue is -1,":                                  func() error { _, err := NewShared(SharedConfig{MaxQueue: -1}); return err },
		"SharedConfig.Whole[0] is nil":                                  func() error { _, err := NewShared(SharedConfig{Whole: []Limiter{nil}}); return err },
		"AdaptiveConcurrencyConfig.Min is -1,": func() error {
			_, err := NewConcurrencyPolicy(ConcurrencyPolicyConfig{Concurrency: AdaptiveConcurrencyConfig{Min: -1}})
			return err
		},
		"ThrottleConfig.K is 0.5,": func() error {
			_, err := NewThrottlePolicy(ThrottlePolicyConfig{Throttle: ThrottleConfig{K: 0.5}})
			return err
		},
		"nil context or function": func() error { var none context.Context; return r.Wait(none) },
	} {
		err := try()
		if !errors.Is(err, ErrInvalid) || !strings.HasPrefix(err.Error(), "limiter: "+want) || errors.Is(err, ErrLimited) || !errtree.Refused(err) || !permanent(err) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func permanent(err error) bool {
	return errtree.Find(err, func(e interface{ Permanent() bool }) bool { return e.Permanent() })
}

func TestClosedIsPermanent(t *testing.T) {
	s := newShared(t, SharedConfig{})
	s.Close()
	if err := s.Allow("k", 1); err != ErrClosed || !permanent(err) || !errtree.Refused(err) {
		t.Errorf("%v, want one that is permanent", err)
	}
	if permanent(errWaiting) {
		t.Error("who waits need not give up")
	}
}
