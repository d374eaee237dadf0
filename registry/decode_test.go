package registry_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/chaos"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/httpx"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/policy"
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/registry"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/throttle"
)

func TestDecodeAGovernor(t *testing.T) {
	var cfg governor.PlainConfig
	require.NoError(t, registry.Decode([]byte(`{
		"name": "acme", "workers": 8, "Overflow": "drop oldest", "maxWait": "-1ns", "MinCooldown": "1m30s",
		"guess": "exponential 15s x2 up to 15m", "observe": true,
		"limits": [{"per": "tenant", "unit": "tokens", "quota": {"limit": 300, "per": "1m"}}, {"Quota": {"Limit": 5, "Per": "1h"}}],
		"retry": {"attempts": 5, "backoff": "full jitter(exponential)"},
		"pool": {"max": 4, "maxAge": "1h"},
		"restore": {"Cooldowns": []}
	}`), &cfg))
	require.Equal(t, governor.PlainConfig{
		Name: "acme", Workers: 8, Overflow: governor.DropOldest, MaxWait: -1, MinCooldown: 90 * time.Second,
		Guess: backoff.Exponential{Initial: 15 * time.Second, Multiplier: 2, Max: 15 * time.Minute}, Observe: true,
		Limits: []governor.Limit{
			{Per: throttle.Tenant, Unit: "tokens", Quota: limiter.QuotaConfig{Limit: 300, Per: time.Minute}},
			{Quota: limiter.QuotaConfig{Limit: 5, Per: time.Hour}},
		},
		Retry:   &retry.Config{Attempts: 5, Backoff: backoff.FullJitter{Of: backoff.Exponential{}}},
		Pool:    &pool.Config[string, struct{}]{Max: 4, MaxAge: time.Hour},
		Restore: governor.Learned{Cooldowns: []governor.LearnedCooldown{}},
	}, cfg)
}

// configs are those of the house.
var configs = []any{
	governor.PlainConfig{}, governor.Limit{}, governor.GroupConfig[string, struct{}]{}, store.SyncerConfig{}, store.MemoryConfig{}, store.ShareConfig{}, store.SlotsConfig{},
	store.Limit{}, breaker.Config{}, retry.Config{}, pool.Config[string, int]{}, httpx.Config{}, httpx.Retry{}, httpx.LimiterConfig{}, httpx.Limit{},
	chaos.Config{}, policy.BulkheadConfig{}, policy.TimeoutConfig{}, policy.HedgeConfig{}, policy.BudgetConfig{}, policy.FallbackConfig{}, policy.SagaConfig{},
	policy.CacheConfig[string, int]{}, policy.CollapseConfig[string, int]{},
	limiter.QuotaConfig{}, limiter.BucketConfig{}, limiter.FixedWindowConfig{}, limiter.SlidingLogConfig{}, limiter.SlidingCounterConfig{}, limiter.ApproxConfig{},
	limiter.CalendarConfig{}, limiter.LeakyConfig{}, limiter.ConcurrencyConfig{}, limiter.AdaptiveConfig{}, limiter.SpreadConfig{}, limiter.SharedConfig{},
	limiter.RateConfig{}, limiter.RateLayerConfig{}, limiter.KeyedConfig{}, limiter.ByKeyConfig{}, limiter.AdaptiveConcurrencyConfig{},
	limiter.ConcurrencyPolicyConfig{}, limiter.ThrottleConfig{}, limiter.ThrottlePolicyConfig{},
	registry.LimiterConfig{}, registry.Limit{}, registry.Config{}, registry.PermitsConfig{}, registry.PacketsConfig{},
	backoff.Linear{}, backoff.Exponential{}, backoff.Fibonacci{}, backoff.Decorrelated{},
}

// sample returns JSON that sets a value of t, and what it sets it to; "" when t cannot
// be set.
func sample(t reflect.Type) (text string, want any) {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return `"15s"`, 15 * time.Second
	case reflect.TypeFor[backoff.Schedule]():
		return `"5 times"`, backoff.Times(5)
	case reflect.TypeFor[time.Time]():
		return `"2026-01-02T03:04:05Z"`, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	case reflect.TypeFor[*time.Location]():
		return `"UTC"`, time.UTC
	case reflect.TypeFor[throttle.Level]():
		return `"tenant"`, throttle.Tenant
	case reflect.TypeFor[throttle.Kind]():
		return `"quota"`, throttle.KindQuota
	case reflect.TypeFor[governor.Overflow]():
		return `"reject"`, governor.Reject
	case reflect.TypeFor[store.Outage]():
		return `"safe share"`, store.SafeShare
	case reflect.TypeFor[store.Kind]():
		return `"window"`, store.Window
	case reflect.TypeFor[breaker.State]():
		return `"metrics-only"`, breaker.MetricsOnly
	case reflect.TypeFor[limiter.Cycle]():
		return `"weekly"`, limiter.Weekly
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true", true
	case reflect.String:
		return `"x"`, reflect.ValueOf("x").Convert(t).Interface()
	case reflect.Float64:
		return "0.25", 0.25
	case reflect.Int, reflect.Int64, reflect.Int32, reflect.Uint8, reflect.Uint64, reflect.Uint32:
		return "7", reflect.ValueOf(7).Convert(t).Interface()
	case reflect.Struct:
		for i := range t.NumField() {
			if t.Field(i).IsExported() {
				return "{}", reflect.Zero(t).Interface()
			}
		}
	case reflect.Slice:
		if of, want := sample(t.Elem()); of != "" {
			s := reflect.MakeSlice(t, 1, 1)
			s.Index(0).Set(reflect.ValueOf(want))
			return "[" + of + "]", s.Interface()
		}
	case reflect.Map:
		if of, want := sample(t.Elem()); of != "" {
			m := reflect.MakeMap(t)
			m.SetMapIndex(reflect.ValueOf("k"), reflect.ValueOf(want))
			return `{"k": ` + of + "}", m.Interface()
		}
	case reflect.Pointer:
		for i := range t.Elem().NumField() {
			if t.Elem().Field(i).IsExported() {
				return "{}", reflect.New(t.Elem()).Interface()
			}
		}
	}
	return "", nil
}

func TestEveryFieldOfEveryConfigIsSetOrRefusedByName(t *testing.T) {
	set, refused := 0, map[string]bool{}
	for _, cfg := range configs {
		typ := reflect.TypeOf(cfg)
		for i := range typ.NumField() {
			f := typ.Field(i)
			if !f.IsExported() {
				continue
			}
			name := typ.String() + "." + f.Name
			into := reflect.New(typ)
			text, want := sample(f.Type)
			if text == "" {
				for _, bad := range []string{`{"k": 1}`, `[1]`, `"x"`, "7"} {
					err := registry.Decode([]byte(`{"`+f.Name+`": `+bad+`}`), into.Interface())
					require.ErrorIs(t, err, registry.ErrInvalid, name)
					require.ErrorContains(t, err, f.Name, name)
					require.True(t, into.Elem().IsZero(), name)
				}
				refused[f.Type.String()] = true
				continue
			}
			// In another case, too.
			require.NoError(t, registry.Decode([]byte(`{"`+strings.ToLower(f.Name[:1])+f.Name[1:]+`": `+text+`}`), into.Interface()), name)
			require.Equal(t, want, into.Elem().Field(i).Interface(), name)
			set++
		}
	}
	require.Greater(t, set, 150)
	for typ := range refused { // nothing plain is refused
		if k := strings.TrimLeft(typ, "[]*"); !strings.HasPrefix(k, "func") && !strings.Contains(k, ".") && k != "interface {}" && !strings.HasPrefix(k, "map[string]") && k != "uintptr" {
			t.Errorf("%s cannot be set", typ)
		}
	}
}

func TestDecodeRefusesAndNamesTheField(t *testing.T) {
	for text, want := range map[string]string{
		``:                              "JSON",
		`[]`:                            "the text is [], want an object",
		`null`:                          "want an object",
		`{} {}`:                         "JSON",
		`{"MaxAge": 5}`:                 `registry: MaxAge is 5, want a duration, such as "15s"`,
		`{"MaxAge": "5"}`:               `MaxAge is "5", want a duration`,
		`{"MaxAge": "soon"}`:            "want a duration",
		`{"MaxAge": null}`:              "want a duration",
		`{"MaxAge": "9999999h"}`:        "want a duration",
		`{"Max": "5"}`:                  `Max is "5", want a whole number`,
		`{"Max": 5.5}`:                  "want a whole number",
		`{"Max": 1e3}`:                  "want a whole number",
		`{"Max": 99999999999999999999}`: "want a whole number",
		`{"Max": null}`:                 "want a value",
		`{"Max": 1, "max": 2}`:          "Max is 2, want it once",
		`{"Max": 1, "Max": 2}`:          `"Max" twice`,
		`{"Retry": 1}`:                  "no such field",
		`{"MaxAge": "1s", "maxUſes": 1, "MaxUses": 2}`: "MaxUses is 2, want it once",
		`{"MAX": 1, "Nope": 2}`:                        "Nope is 2, want no such field",
		`{"Open": {}}`:                                 "Open is {}, want nothing: it cannot be set from JSON, but in Go",
		`{"OnEvent": null}`:                            "OnEvent is null",
		`{"OpenBackoff": "often"}`:                     "OpenBackoff",
		`{"OpenBackoff": 5}`:                           "a schedule",
		`{"Title": 1}`:                                 "no such field",
		"{\"Max\": 1\xff}":                             "UTF-8",
		`{"` + strings.Repeat("x", 500) + `": 1}`:      "xxx",
		`{"x": ` + strings.Repeat("[", 17) + strings.Repeat("]", 17) + `}`: "16 levels",
		`{"x": "` + strings.Repeat("x", 64<<10) + `"}`:                     "want up to 65536",
	} {
		cfg := pool.Config[string, int]{Max: 3, MaxAge: 3}
		err := registry.Decode([]byte(text), &cfg)
		require.ErrorIs(t, err, registry.ErrInvalid, text)
		require.ErrorContains(t, err, want, text)
		require.Less(t, len(err.Error()), 300, text)
		require.Equal(t, pool.Config[string, int]{Max: 3, MaxAge: 3}, cfg, text)
	}
	for text, want := range map[string]string{
		`{"limits": [{}, {"quota": {"per": 60}}]}`:     "Limits[1].Quota.Per is 60, want a duration",
		`{"limits": [{"limiter": {"Rate": 1}}]}`:       "Limits[0].Limiter is",
		`{"limits": {}}`:                               "Limits is {}, want an array",
		`{"limits": [{"per": "planet"}]}`:              "Limits[0].Per is \"planet\"",
		`{"limits": [{"per": 2}]}`:                     "Limits[0].Per is 2",
		`{"overflow": "explode"}`:                      `Overflow is "explode", want one of "block", "reject", "drop oldest", "drop lower"`,
		`{"overflow": 1}`:                              "Overflow is 1, want one of",
		`{"retry": {"retryIf": true}}`:                 "Retry.RetryIf is true",
		`{"retry": {"budget": {}}}`:                    "Retry.Budget is {}",
		`{"retry": []}`:                                "Retry is [], want an object",
		`{"store": {}}`:                                "Store is {}",
		`{"logger": {}}`:                               "Logger is {}",
		`{"breaker": {"window": 5}}`:                   "Breaker is",
		`{"vendor": "github"}`:                         "Vendor is",
		`{"restore": {"cooldowns": [{"until": "x"}]}}`: "Restore.Cooldowns[0].Until",
	} {
		var cfg governor.PlainConfig
		err := registry.Decode([]byte(text), &cfg)
		require.ErrorIs(t, err, registry.ErrInvalid, text)
		require.ErrorContains(t, err, want, text)
	}
	for _, into := range []any{nil, breaker.Config{}, new(int), (*breaker.Config)(nil)} {
		require.ErrorIs(t, registry.Decode([]byte("{}"), into), registry.ErrInvalid)
	}
}

func TestDecodeKeepsWhatIsNotThereAndSharesNothing(t *testing.T) {
	base := governor.PlainConfig{Name: "a", Retry: &retry.Config{Attempts: 7, MaxElapsed: time.Hour}, Limits: []governor.Limit{{Unit: "x"}}}
	cfg := base
	require.NoError(t, registry.Decode([]byte(`{"retry": {"attempts": 2}, "limits": [{"unit": "y"}], "guess": null}`), &cfg))
	require.Equal(t, &retry.Config{Attempts: 2, MaxElapsed: time.Hour}, cfg.Retry)
	require.Equal(t, 7, base.Retry.Attempts)
	require.Equal(t, "x", base.Limits[0].Unit)
	require.NoError(t, registry.Decode([]byte(`{"retry": null}`), &cfg))
	require.Nil(t, cfg.Retry)
	require.Equal(t, "a", cfg.Name)
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"Limits": [{"Bucket": {"Rate": 1e3, "Burst": 5}}], "Shared": {"MaxWait": "15s", "Newest": true}}`,
		`{"Whole": [{"Calendar": {"Cycle": "weekly", "Location": "UTC"}}]}`, `{"Retry": {"Backoff": "and(5 times, 1s)"}}`, `{"a": [[[]]]}`, `{"Limits": null}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, into := range []any{new(registry.LimiterConfig), new(governor.PlainConfig), new(breaker.Config)} {
			err := registry.Decode([]byte(text), into)
			if err != nil && (!strings.HasPrefix(err.Error(), "registry: ") || len(err.Error()) > 2000) {
				t.Fatalf("%T: %v", into, err)
			}
			if err != nil && !reflect.ValueOf(into).Elem().IsZero() {
				t.Fatalf("%+v after %v", into, err)
			}
			if cfg, ok := into.(*registry.LimiterConfig); ok && err == nil {
				if l, err := registry.NewLimiter("x", *cfg); err == nil {
					l.Close()
				} else if l != nil {
					t.Fatal(fmt.Sprint(l, err))
				}
			}
		}
	})
}
