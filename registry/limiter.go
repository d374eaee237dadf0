package registry

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/flyball-go/flyball/limiter"
)

// Limit is one limit of a LimiterConfig: exactly one of its fields is set.
type Limit struct {
	Quota          *limiter.QuotaConfig
	Bucket         *limiter.BucketConfig
	FixedWindow    *limiter.FixedWindowConfig
	SlidingLog     *limiter.SlidingLogConfig
	SlidingCounter *limiter.SlidingCounterConfig
	Approx         *limiter.ApproxConfig
	Calendar       *limiter.CalendarConfig
	Leaky          *limiter.LeakyConfig
	Concurrency    *limiter.ConcurrencyConfig
	Adaptive       *limiter.AdaptiveConfig
}

// New makes the limiter. The error names the field that is out of range, or says that
// not one is set.
func (l Limit) New() (limiter.Limiter, error) {
	field, err := l.field()
	if err != nil {
		return nil, err
	}
	switch cfg := field.(type) {
	case *limiter.QuotaConfig:
		return plain(limiter.NewQuota(*cfg))
	case *limiter.BucketConfig:
		return plain(limiter.NewBucket(*cfg))
	case *limiter.FixedWindowConfig:
		return plain(limiter.NewFixedWindow(*cfg))
	case *limiter.SlidingLogConfig:
		return plain(limiter.NewSlidingLog(*cfg))
	case *limiter.SlidingCounterConfig:
		return plain(limiter.NewSlidingCounter(*cfg))
	case *limiter.ApproxConfig:
		return plain(limiter.NewApprox(*cfg))
	case *limiter.CalendarConfig:
		return plain(limiter.NewCalendar(*cfg))
	case *limiter.LeakyConfig:
		return plain(limiter.NewLeaky(*cfg))
	case *limiter.ConcurrencyConfig:
		return plain(limiter.NewConcurrency(*cfg))
	default:
		return plain(limiter.NewAdaptive(*field.(*limiter.AdaptiveConfig)))
	}
}

// plain makes a Limiter of one of a type; of none, a nil one.
func plain[L limiter.Limiter](l L, err error) (limiter.Limiter, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}

// field returns the one that is set.
func (l Limit) field() (set any, err error) {
	v := reflect.ValueOf(l)
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case f.IsNil():
		case set != nil:
			return nil, invalidf("Limit has %T and %T, want one", set, f.Interface())
		default:
			set = f.Interface()
		}
	}
	if set == nil {
		return nil, invalidf("Limit has no field set, want one, such as Bucket")
	}
	return set, nil
}

// LimiterConfig says what a Limiter admits. The zero value is that of a
// limiter.SharedConfig: 1000 calls of a key per minute.
type LimiterConfig struct {
	// Limits are asked with the key of a call, Whole with the key "", so that these are
	// limits on all keys together. A call takes permits from all of them, or from none.
	Limits, Whole []Limit

	// Shared is the rest. Its Limiters and Whole are nil: what one limiter has cannot be
	// in several.
	Shared limiter.SharedConfig
}

// Limiter is a limiter.Shared whose limits can be changed by a configuration.
type Limiter struct {
	*limiter.Shared
	limits []limiter.Limiter // of Limits, then of Whole; used under Shared.Update alone
}

// NewLimiter makes a Limiter; name is that of its events where the configuration has
// none. The error names the field that is out of range.
func NewLimiter(name string, cfg LimiterConfig) (*Limiter, error) {
	shared := cfg.Shared
	if shared.Limiters != nil || shared.Whole != nil {
		return nil, invalidf("LimiterConfig.Shared has limiters, want them in Limits and Whole")
	}
	if shared.Name == "" {
		shared.Name = name
	}
	all, err := newLimits(cfg)
	if err != nil {
		return nil, err
	}
	shared.Limiters, shared.Whole = all[:len(cfg.Limits)], all[len(cfg.Limits):]
	s, err := limiter.NewShared(shared)
	if err != nil {
		return nil, err
	}
	return &Limiter{s, all}, nil
}

func newLimits(cfg LimiterConfig) (all []limiter.Limiter, err error) {
	for i, l := range slices.Concat(cfg.Limits, cfg.Whole) {
		made, err := l.New()
		if err != nil {
			field := "Limits"
			if i >= len(cfg.Limits) {
				field, i = "Whole", i-len(cfg.Limits)
			}
			return nil, fmt.Errorf("LimiterConfig.%s[%d]: %w", field, i, err)
		}
		all = append(all, made)
	}
	return all, nil
}

// checkLimiter returns why a Limiter that runs cannot be changed so.
func checkLimiter(from, to LimiterConfig) error {
	fresh, err := newLimits(to)
	if err != nil {
		return err
	}
	if err := sameBut("LimiterConfig.Shared", from.Shared, to.Shared); err != nil {
		return err
	}
	if len(from.Limits) != len(to.Limits) || len(from.Whole) != len(to.Whole) {
		return fmt.Errorf("LimiterConfig has other Limits: that %w", ErrNotLive)
	}
	was, will := slices.Concat(from.Limits, from.Whole), slices.Concat(to.Limits, to.Whole)
	for i := range was {
		a, _ := was[i].field()
		b, _ := will[i].field()
		if reflect.TypeOf(a) != reflect.TypeOf(b) {
			return fmt.Errorf("LimiterConfig has a %T for a %T: that %w", b, a, ErrNotLive)
		}
		name := reflect.TypeOf(a).Elem().Name()
		a, b = reflect.ValueOf(a).Elem().Interface(), reflect.ValueOf(b).Elem().Interface()
		if err := sameBut(name, a, b, live[name]...); err != nil {
			return err
		}
	}
	for i := range fresh {
		if err := setLimit(fresh[i], time.Now(), will[i]); err != nil {
			return err
		}
	}
	return nil
}

// changeLimiter changes the limits and rates of a Limiter.
func changeLimiter(l *Limiter, from, to LimiterConfig) error {
	err := checkLimiter(from, to) // before anything changes
	if err != nil {
		return err
	}
	will := slices.Concat(to.Limits, to.Whole)
	l.Update(func(now time.Time) {
		for i := range l.limits {
			if err == nil {
				err = setLimit(l.limits[i], now, will[i])
			}
		}
	})
	return err
}

// live are the fields that limiters change while they run.
var live = map[string][]string{
	"QuotaConfig": {"Limit"}, "BucketConfig": {"Rate", "Burst"}, "FixedWindowConfig": {"Limit", "MaxWait"},
	"SlidingLogConfig": {"Limit"}, "SlidingCounterConfig": {"Limit"}, "ApproxConfig": {"Limit"},
	"CalendarConfig": {"Limit"}, "LeakyConfig": {"Rate"}, "ConcurrencyConfig": {"Limit"},
}

// setLimit makes l, whose kind it is, keep to what cfg says.
func setLimit(l limiter.Limiter, now time.Time, cfg Limit) error {
	switch {
	case cfg.Bucket != nil:
		return setBucket(l.(*limiter.Bucket), now, *cfg.Bucket)
	case cfg.Leaky != nil:
		return l.(*limiter.Leaky).SetRate(now, cfg.Leaky.Rate)
	case cfg.FixedWindow != nil:
		w := l.(*limiter.FixedWindow)
		if err := w.SetMaxWait(cfg.FixedWindow.MaxWait); err != nil {
			return err
		}
		return w.SetLimit(now, cfg.FixedWindow.Limit)
	case cfg.Adaptive != nil:
		return nil
	}
	field, _ := cfg.field()
	n := int(reflect.ValueOf(field).Elem().FieldByName("Limit").Int())
	return l.(interface {
		SetLimit(now time.Time, limit int) error
	}).SetLimit(now, n)
}

// setBucket changes rate and burst in the order in which both are in range between.
func setBucket(b *limiter.Bucket, now time.Time, cfg limiter.BucketConfig) error {
	burst := cfg.Burst
	if burst == 0 {
		burst = int(math.Ceil(cfg.Rate))
	}
	if b.Rate(now, "") > cfg.Rate {
		if err := b.SetLimit(now, burst); err != nil {
			return err
		}
		return b.SetRate(now, cfg.Rate)
	}
	if err := b.SetRate(now, cfg.Rate); err != nil {
		return err
	}
	return b.SetLimit(now, burst)
}

// sameBut returns an error that matches ErrNotLive unless from and to, structs of one
// type, differ in nothing but the fields named. Functions, and what is behind an
// interface, cannot be compared, and are taken for the same: those that an instance was
// made with stay.
func sameBut(name string, from, to any, fields ...string) error {
	a, b := reflect.ValueOf(from), reflect.ValueOf(to)
	for i := range a.NumField() {
		f := a.Type().Field(i)
		if f.Type.Kind() == reflect.Func || f.Type.Kind() == reflect.Interface {
			continue
		}
		if !slices.Contains(fields, f.Name) && !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			return fmt.Errorf("%s.%s %w", name, f.Name, ErrNotLive)
		}
	}
	return nil
}
