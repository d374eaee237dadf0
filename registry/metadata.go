package registry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/limiter"
)

// Metadata is what is stored under a key, as JSON with the names of Confined. A zero
// field is not there, and stands for Confined's default. Times are whole milliseconds
// there, up to 31 days. Where a field says so, less than 0 means none, and is 0 in JSON.
type Metadata struct {
	// Of a rate limiter: LimitForPeriod permits come back each LimitRefreshPeriod, to at
	// most Capacity of them. An Acquire waits up to Timeout.
	Capacity           int           // "capacity", 1 up to 1e9. 0 means LimitForPeriod
	LimitForPeriod     int           // "limitForPeriod", 1 up to 1e9. 0 means 5
	LimitRefreshPeriod time.Duration // "limitRefreshPeriodInMillis". 0 means 100 ms
	Timeout            time.Duration // "timeoutInMillis". 0 means 500 ms; less than 0: none

	// Of a bulkhead: how many calls run at once, and how long an Acquire waits.
	MaxConcurrentCalls int           // "maxConcurrentCalls", 1 up to 1<<20. 0 means 25
	MaxWaitDuration    time.Duration // "maxWaitDurationInMillis". 0 means 500 ms; less than 0: none

	// Of a circuit breaker. Rates are in percent, above 0 up to 100.
	FailureRate        float64                    // "failureRateThresholdPercentage". 0 means 50
	SlowCallRate       float64                    // "slowCallRateThresholdPercentage". 0 means 60
	SlowCallThreshold  time.Duration              // "slowCallThresholdInMillis". 0 means 1 s
	SlidingWindowType  string                     // "slidingWindowType", COUNT_BASED or TIME_BASED. "" means COUNT_BASED
	SlidingWindowSize  int                        // "slidingWindowSize", in calls or seconds, 1 up to 86400. 0 means 20
	MinimumCalls       int                        // "minimumNumberOfCalls", 1 up to 1<<20. 0 means 20
	HalfOpenCalls      int                        // "permittedNumberOfCallsInHalfOpenState", 1 up to 1<<16. 0 means 10
	MaxWaitInHalfOpen  time.Duration              // "maxWaitInHalfOpenStateInMillis". 0 means none; so does less than 0
	WaitDurationInOpen time.Duration              // "waitInOpenStateInMillis", 1 or more. 0 means 60 s
	Other              map[string]json.RawMessage // what else there is, kept as it is
}

const maxMillis = 31 * 24 * 60 * 60 * 1000

// metaField is a field of a Metadata by its name: one of the pointers is set.
type metaField struct {
	name        string
	n           *int
	d           *time.Duration // in JSON in milliseconds
	percent     *float64
	window      *string
	least, most int64
}

func (m *Metadata) fields() []metaField {
	return []metaField{
		{name: "capacity", n: &m.Capacity, least: 1, most: 1e9},
		{name: "limitForPeriod", n: &m.LimitForPeriod, least: 1, most: 1e9},
		{name: "limitRefreshPeriodInMillis", d: &m.LimitRefreshPeriod, least: 1, most: maxMillis},
		{name: "timeoutInMillis", d: &m.Timeout, most: maxMillis},
		{name: "maxConcurrentCalls", n: &m.MaxConcurrentCalls, least: 1, most: 1 << 20},
		{name: "maxWaitDurationInMillis", d: &m.MaxWaitDuration, most: maxMillis},
		{name: "failureRateThresholdPercentage", percent: &m.FailureRate},
		{name: "slowCallRateThresholdPercentage", percent: &m.SlowCallRate},
		{name: "slowCallThresholdInMillis", d: &m.SlowCallThreshold, least: 1, most: maxMillis},
		{name: "slidingWindowType", window: &m.SlidingWindowType},
		{name: "slidingWindowSize", n: &m.SlidingWindowSize, least: 1, most: 86400},
		{name: "minimumNumberOfCalls", n: &m.MinimumCalls, least: 1, most: 1 << 20},
		{name: "permittedNumberOfCallsInHalfOpenState", n: &m.HalfOpenCalls, least: 1, most: 1 << 16},
		{name: "maxWaitInHalfOpenStateInMillis", d: &m.MaxWaitInHalfOpen, most: maxMillis},
		{name: "waitInOpenStateInMillis", d: &m.WaitDurationInOpen, least: 1, most: maxMillis},
	}
}

// ParseMetadata reads an object of at most 8 KiB and 8 levels, none of whose members
// is there twice. Those with a name of a field are checked, whatever they are for;
// others are kept. The error matches ErrInvalid, and is a *FieldError where it is about
// a field.
func ParseMetadata(data []byte) (Metadata, error) {
	var m Metadata
	if err := metaLimits.check(data); err != nil {
		return m, err
	}
	all, ok := members(data)
	if !ok {
		return m, &FieldError{"", shown(data), "an object"}
	}
	fields := m.fields()
	for _, v := range all {
		i := slices.IndexFunc(fields, func(f metaField) bool { return f.name == v.name })
		if i < 0 {
			if m.Other == nil {
				m.Other = make(map[string]json.RawMessage)
			}
			m.Other[v.name] = v.value
		} else if want := fields[i].set(v.value); want != "" {
			return Metadata{}, &FieldError{v.name, shown(v.value), want}
		}
	}
	if err := m.rates(); err != nil {
		return Metadata{}, err
	}
	return m, nil
}

// set sets the field to what data says, or returns what it should say.
func (f metaField) set(data []byte) (want string) {
	switch {
	case f.percent != nil:
		v, err := strconv.ParseFloat(string(data), 64)
		if err != nil || !(v > 0 && v <= 100) {
			return "more than 0 up to 100"
		}
		*f.percent = v
		return ""
	case f.window != nil:
		if json.Unmarshal(data, f.window) != nil || *f.window != "COUNT_BASED" && *f.window != "TIME_BASED" {
			return `"COUNT_BASED" or "TIME_BASED"`
		}
		return ""
	}
	v, err := strconv.ParseInt(string(data), 10, 64)
	if err != nil || v < f.least || v > f.most {
		return fmt.Sprintf("a whole number, %d up to %d", f.least, f.most)
	}
	switch {
	case f.n != nil:
		*f.n = int(v)
	case v == 0:
		*f.d = -1
	default:
		*f.d = time.Duration(v) * time.Millisecond
	}
	return ""
}

// rates returns what is wrong with the fields of a rate limiter together.
func (m Metadata) rates() error {
	if _, err := limiter.NewBucket(m.pace().bucket()); err != nil {
		return invalidf("capacity %d, limitForPeriod %d and limitRefreshPeriodInMillis %d do not go together: %v",
			m.filled().Capacity, m.filled().LimitForPeriod, m.filled().LimitRefreshPeriod.Milliseconds(), err)
	}
	return nil
}

// Check returns an error that matches ErrInvalid when a field is out of range.
func (m Metadata) Check() error {
	data, err := m.MarshalJSON()
	if err == nil {
		_, err = ParseMetadata(data)
	}
	return err
}

// MarshalJSON returns the fields that are there, each under its name, and Other. Times
// are rounded up to milliseconds.
func (m Metadata) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	add := func(name string, value []byte) {
		if b.WriteByte(','); b.Len() == 1 {
			b.Reset()
			b.WriteByte('{')
		}
		quoted, _ := json.Marshal(name)
		b.Write(quoted)
		b.WriteByte(':')
		b.Write(value)
	}
	for _, f := range m.fields() {
		if _, twice := m.Other[f.name]; twice {
			return nil, invalidf("Metadata.Other has %q, which is a field", f.name)
		}
		switch {
		case f.n != nil && *f.n != 0:
			add(f.name, strconv.AppendInt(nil, int64(*f.n), 10))
		case f.d != nil && *f.d != 0:
			millis := max(0, *f.d) / time.Millisecond
			if *f.d > millis*time.Millisecond {
				millis++
			}
			add(f.name, strconv.AppendInt(nil, int64(millis), 10))
		case f.percent != nil && *f.percent != 0:
			if math.IsNaN(*f.percent) || math.IsInf(*f.percent, 0) {
				return nil, invalidf("Metadata has %s of %v, want a number", f.name, *f.percent)
			}
			add(f.name, strconv.AppendFloat(nil, *f.percent, 'g', -1, 64))
		case f.window != nil && *f.window != "":
			quoted, _ := json.Marshal(*f.window)
			add(f.name, quoted)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Other)) {
		if !json.Valid(m.Other[name]) {
			return nil, invalidf("Metadata.Other[%.64q] is no JSON", name)
		}
		add(name, m.Other[name])
	}
	if b.Len() == 0 {
		return []byte("{}"), nil
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// UnmarshalJSON is ParseMetadata.
func (m *Metadata) UnmarshalJSON(data []byte) error {
	read, err := ParseMetadata(data)
	if err == nil {
		*m = read
	}
	return err
}

// filled returns m with its defaults written out.
func (m Metadata) filled() Metadata {
	or := func(v *int, standard int) {
		if *v == 0 {
			*v = standard
		}
	}
	orTime := func(v *time.Duration, standard time.Duration) {
		if *v == 0 {
			*v = standard
		}
	}
	or(&m.LimitForPeriod, 5)
	or(&m.Capacity, m.LimitForPeriod)
	orTime(&m.LimitRefreshPeriod, 100*time.Millisecond)
	orTime(&m.Timeout, 500*time.Millisecond)
	or(&m.MaxConcurrentCalls, 25)
	orTime(&m.MaxWaitDuration, 500*time.Millisecond)
	if m.FailureRate == 0 {
		m.FailureRate = 50
	}
	if m.SlowCallRate == 0 {
		m.SlowCallRate = 60
	}
	orTime(&m.SlowCallThreshold, time.Second)
	or(&m.SlidingWindowSize, 20)
	or(&m.MinimumCalls, 20)
	or(&m.HalfOpenCalls, 10)
	orTime(&m.WaitDurationInOpen, time.Minute)
	return m
}

// pace is what the bucket of a rate limiter is made of.
func (m Metadata) pace() pace {
	m = m.filled()
	return pace{m.LimitForPeriod, m.LimitRefreshPeriod, m.Capacity}
}

// breaker is what a circuit breaker is made of.
func (m Metadata) breaker() breaker.Config {
	m = m.filled()
	cfg := breaker.Config{
		FailureRate: m.FailureRate / 100, SlowRate: m.SlowCallRate / 100, SlowCall: m.SlowCallThreshold,
		MinCalls: m.MinimumCalls, HalfOpenCalls: m.HalfOpenCalls, HalfOpenWait: max(0, m.MaxWaitInHalfOpen),
		OpenFor: backoff.Constant(m.WaitDurationInOpen), MaxRetryAfter: max(24*time.Hour, m.WaitDurationInOpen),
	}
	if m.SlidingWindowType == "TIME_BASED" {
		cfg.WindowTime = time.Duration(m.SlidingWindowSize) * time.Second
	} else {
		cfg.Window = m.SlidingWindowSize
	}
	return cfg
}
