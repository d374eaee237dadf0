package registry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/registry"
)

func TestMetadataOfConfined(t *testing.T) {
	for text, want := range map[string]registry.Metadata{
		`{}`: {},
		`{"capacity": 100000, "limitForPeriod": 10, "limitRefreshPeriodInMillis": 100, "etc": "..."}`: {
			Capacity: 100000, LimitForPeriod: 10, LimitRefreshPeriod: 100 * time.Millisecond, Other: map[string]json.RawMessage{"etc": json.RawMessage(`"..."`)},
		},
		`{"maxConcurrentCalls": 25, "maxWaitDurationInMillis": 2000}`:                                          {MaxConcurrentCalls: 25, MaxWaitDuration: 2 * time.Second},
		`{"maxWaitDurationInMillis": 0, "timeoutInMillis": 0}`:                                                 {MaxWaitDuration: -1, Timeout: -1},
		`{"failureRateThresholdPercentage": 12.5, "slidingWindowType": "TIME_BASED", "slidingWindowSize": 60}`: {FailureRate: 12.5, SlidingWindowType: "TIME_BASED", SlidingWindowSize: 60},
		`{"slowCallRateThresholdPercentage": 100, "slowCallThresholdInMillis": 1, "minimumNumberOfCalls": 3, "permittedNumberOfCallsInHalfOpenState": 4, "maxWaitInHalfOpenStateInMillis": 5, "waitInOpenStateInMillis": 6}`: {
			SlowCallRate: 100, SlowCallThreshold: time.Millisecond, MinimumCalls: 3, HalfOpenCalls: 4, MaxWaitInHalfOpen: 5 * time.Millisecond, WaitDurationInOpen: 6 * time.Millisecond,
		},
		`{"CAPACITY": 5, "x": {"a": [1, 1.50]}}`: {Other: map[string]json.RawMessage{"CAPACITY": json.RawMessage("5"), "x": json.RawMessage(`{"a": [1, 1.50]}`)}},
	} {
		got, err := registry.ParseMetadata([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
		require.NoError(t, got.Check())
		said, err := got.MarshalJSON()
		require.NoError(t, err)
		var again registry.Metadata
		require.NoError(t, again.UnmarshalJSON(said))
		require.Equal(t, want, again, text)
	}
}

func TestMetadataThatMakesNoSense(t *testing.T) {
	for text, want := range map[string]string{
		``: "JSON", `[]`: "want an object", `null`: "want an object", `{"a": 1} x`: "JSON",
		`{capacity: 5}`:    "JSON", // Confined's README has no quotes; its database does
		`{"a": 1, "a": 1}`: `"a" twice`, `{"b": {"a": 1, "a": 2}}`: `"a" twice`,
		`{"b": "` + strings.Repeat("x", 8<<10) + `"}`:                    "want up to 8192",
		`{"b": ` + strings.Repeat("[", 8) + strings.Repeat("]", 8) + `}`: "8 levels",
		"{\"b\": \"\xff\"}":  "UTF-8",
		`{"capacity": 0}`:    "registry: capacity is 0, want a whole number, 1 up to 1000000000",
		`{"capacity": null}`: "capacity is null", `{"capacity": "5"}`: `capacity is "5"`, `{"capacity": 5.0}`: "capacity is 5.0", `{"capacity": 1e3}`: "capacity is 1e3",
		`{"limitForPeriod": -1}`: "limitForPeriod is -1", `{"limitForPeriod": 1000000001}`: "limitForPeriod is 1000000001",
		`{"limitRefreshPeriodInMillis": 0}`: "want a whole number, 1 up to 2678400000", `{"limitRefreshPeriodInMillis": 2678400001}`: "limitRefresh",
		`{"timeoutInMillis": -1}`: "0 up to", `{"maxWaitDurationInMillis": 99999999999999999999}`: "0 up to",
		`{"maxConcurrentCalls": 1048577}`:       "1 up to 1048576",
		`{"failureRateThresholdPercentage": 0}`: "more than 0 up to 100", `{"failureRateThresholdPercentage": 101}`: "more than 0 up to 100", `{"slowCallRateThresholdPercentage": "NaN"}`: "more than 0",
		`{"slidingWindowType": "time"}`: `"COUNT_BASED" or "TIME_BASED"`, `{"slidingWindowSize": 86401}`: "86400", `{"permittedNumberOfCallsInHalfOpenState": 65537}`: "65536",
		`{"limitForPeriod": 1000000000, "limitRefreshPeriodInMillis": 1}`:                         "do not go together",
		`{"capacity": 1000000000, "limitForPeriod": 1, "limitRefreshPeriodInMillis": 2678400000}`: "do not go together",
	} {
		m, err := registry.ParseMetadata([]byte(text))
		require.ErrorIs(t, err, registry.ErrInvalid, text)
		require.ErrorContains(t, err, want, text)
		require.Zero(t, m, text)
	}
	for want, m := range map[string]registry.Metadata{
		"capacity is -5": {Capacity: -5}, "which is a field": {Other: map[string]json.RawMessage{"capacity": json.RawMessage("5")}},
		"is no JSON": {Other: map[string]json.RawMessage{"x": json.RawMessage("}")}}, "slidingWindowType": {SlidingWindowType: "x"},
	} {
		err := m.Check()
		require.ErrorIs(t, err, registry.ErrInvalid)
		require.ErrorContains(t, err, want)
	}
	said, err := json.Marshal(registry.Metadata{Timeout: time.Microsecond})
	require.NoError(t, err)
	require.Equal(t, `{"timeoutInMillis":1}`, string(said))
}

func FuzzMetadata(f *testing.F) {
	for _, s := range []string{`{"capacity": 100000, "limitForPeriod": 10, "limitRefreshPeriodInMillis": 100, "etc": "..."}`, `{"maxConcurrentCalls": 25, "maxWaitDurationInMillis": 0}`,
		`{"failureRateThresholdPercentage": 12.5e0, "slidingWindowType": "TIME_BASED", "x": {"y": [null]}}`, `{"\u0061": 1, "a": 2}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := registry.ParseMetadata(data)
		if err != nil {
			if !errors.Is(err, registry.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		said, err := m.MarshalJSON()
		if err != nil || !json.Valid(said) {
			t.Fatalf("%s: %v", said, err)
		}
		// With all that is in it, whether it is known or not.
		var was, is map[string]any
		if json.Unmarshal(data, &was) != nil || json.Unmarshal(said, &is) != nil || len(was) != len(is) {
			t.Fatalf("%s became %s", data, said)
		}
		again, err := registry.ParseMetadata(said)
		if len(said) <= 8<<10 && err != nil {
			t.Fatalf("%s: %v", said, err)
		}
		if twice, _ := again.MarshalJSON(); err == nil && !bytes.Equal(twice, said) {
			t.Fatalf("%s became %s", said, twice)
		}
	})
}

// That there is no metadata for a circuit breaker, or still the same, is no change of it.
func TestACircuitBreakerThatNobodyChangesGoesOnCounting(t *testing.T) {
	for _, put := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p, err := registry.NewPermits(registry.PermitsConfig{})
			require.NoError(t, err)
			defer p.Close()
			const key = "circuitbreaker:x"
			if put {
				_, err := p.Put(t.Context(), key, []byte(`{"slidingWindowSize": 20}`), 0)
				require.NoError(t, err)
			}
			failures := 0
			for ; failures < 100; failures++ {
				permit, err := p.Acquire(t.Context(), key, 1)
				if err != nil {
					break
				}
				permit.Release(errors.New("bad"))
				time.Sleep(100 * time.Millisecond) // it is read anew meanwhile
			}
			require.Equal(t, 20, failures, "with metadata: %v", put)
		})
	}
}
