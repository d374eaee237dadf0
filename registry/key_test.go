package registry_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/registry"
	"github.com/flyball-go/flyball/store"
)

func TestKeysOfTheGrammar(t *testing.T) {
	for text, want := range map[string]registry.Key{
		"tenant1-ratelimiter:servicea":         {Prefix: "tenant1", Type: registry.RateLimiter, Resource: "servicea"},
		"ratelimiter:servicea":                 {Type: registry.RateLimiter, Resource: "servicea"},
		"bulkhead:servicea":                    {Type: registry.Bulkhead, Resource: "servicea"},
		"Tenant1-CircuitBreaker:A":             {Prefix: "Tenant1", Type: registry.CircuitBreaker, Resource: "A"},
		"BULKHEAD:x":                           {Type: registry.Bulkhead, Resource: "x"},
		"cooldown:x":                           {Type: registry.Cooldown, Resource: "x"},
		"a-governor:x":                         {Prefix: "a", Type: registry.Governor, Resource: "x"},
		"a-b:c-bulkhead:d-e:f":                 {Prefix: "a-b:c", Type: registry.Bulkhead, Resource: "d-e:f"},
		"a-bulkhead:b-ratelimiter:c":           {Prefix: "a-bulkhead:b", Type: registry.RateLimiter, Resource: "c"},
		"ratelimiter:bulkhead:x":               {Type: registry.RateLimiter, Resource: "bulkhead:x"}, // no hyphen before
		"--bulkhead:x":                         {Prefix: "-", Type: registry.Bulkhead, Resource: "x"},
		"bulkhead:-":                           {Type: registry.Bulkhead, Resource: "-"},
		"xbulkhead:y-bulkhead:z":               {Prefix: "xbulkhead:y", Type: registry.Bulkhead, Resource: "z"},
		"bulkhead:" + strings.Repeat("x", 27):  {Type: registry.Bulkhead, Resource: strings.Repeat("x", 27)},
		"ratelimiter:a-ratelimiter:bulkhead:c": {Prefix: "ratelimiter:a", Type: registry.RateLimiter, Resource: "bulkhead:c"},
	} {
		got, err := registry.ParseKey(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
		require.NoError(t, got.Check())
		again, err := registry.ParseKey(got.String())
		require.NoError(t, err)
		require.Equal(t, got, again)
	}
}

func TestKeysOutsideTheGrammar(t *testing.T) {
	for _, text := range []string{
		"", "x", "ratelimiter", "ratelimiter:", ":x", "-ratelimiter:x", "tenant1-ratelimiter:", "semaphore:x", "xbulkhead:y",
		"bulkhead:" + strings.Repeat("x", 28), "bulkhead:a.b", "bulkhead:a b", "bulkhead:{x}", "bulkhead:a\n", "bulkhead:ä",
		"bulkhead :x", "tenant1_bulkhead:x", "ratelimiter:a-bulkhead:", "bulk\u212aead:x", strings.Repeat("bulkhead:x", 1000),
	} {
		_, err := registry.ParseKey(text)
		require.ErrorIs(t, err, registry.ErrInvalid, text)
		require.Less(t, len(err.Error()), 300)
	}
	require.ErrorIs(t, registry.Key{Type: registry.Bulkhead}.Check(), registry.ErrInvalid)
	require.ErrorIs(t, registry.Key{Type: "BulkHead", Resource: "x"}.Check(), registry.ErrInvalid)
	require.ErrorIs(t, registry.Key{Type: registry.Bulkhead, Resource: "x-bulkhead:y"}.Check(), registry.ErrInvalid)
}

// Keys are stored, logged and shown, so that a credential is none.
func TestCredentialsAreNoKeys(t *testing.T) {
	for _, text := range []string{
		"bulkhead:sk-proj-Ab3dEf6hIj9l", "ratelimiter:AKIAIOSFODNN7EXAMPLE", "bulkhead:glpat-1234567890abcdefghij",
		"eyJhbGciOiJIUzI1NiJ9-bulkhead:x", "bulkhead:Bearer0123456789ab", "xoxb-123456789012-bulkhead:x",
	} {
		_, err := registry.ParseKey(text)
		require.ErrorIs(t, err, registry.ErrInvalid, text)
		for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ':' || r == '-' }) {
			if len(word) > 8 && word != "ratelimiter" {
				require.NotContains(t, err.Error(), word)
			}
		}
	}
	for _, text := range []string{
		"sk-bulkhead:x", "sk-north-bulkhead:orders", "bulkhead:sk-service-of-slovakia", "AKIA-bulkhead:x", "bulkhead:Bearer",
		registry.Bulkhead.For("sk", "1"), registry.Bulkhead.For("AKIA", "1"), registry.RateLimiter.For("sk"),
		"bulkhead:0190a2b4c6d8e0f2a4b6c8d0",
	} {
		_, err := registry.ParseKey(text)
		require.NoError(t, err)
	}
}

func TestKeysOfHosts(t *testing.T) {
	require.Equal(t, store.KeyFor("api.example.com"), registry.For("api.example.com"))
	seen := map[string]bool{}
	for _, typ := range []registry.PermitType{registry.RateLimiter, registry.Bulkhead, registry.CircuitBreaker, registry.Cooldown, registry.Governor} {
		for _, parts := range [][]string{{"api.example.com"}, {"api.example.com", "x"}, {"api.example.comx"}, {""}, {}, {strings.Repeat("ä", 1000)}, {"ab", "c"}, {"a", "bc"}} {
			text := typ.For(parts...)
			k, err := registry.ParseKey(text)
			require.NoError(t, err, text)
			require.Equal(t, typ, k.Type)
			require.Empty(t, k.Prefix)
			require.False(t, seen[text], text)
			seen[text] = true
			require.Equal(t, text, typ.For(parts...))
		}
	}
}

// The grammar, as an expression: what is before the type is as long as can be.
var grammar = regexp.MustCompile(`^(?:([A-Za-z0-9:-]+)-)?((?i:ratelimiter|bulkhead|circuitbreaker|cooldown|governor)):([A-Za-z0-9:-]*)$`)

func FuzzParseKey(f *testing.F) {
	for _, s := range []string{"tenant1-ratelimiter:servicea", "a-bulkhead:b-RateLimiter:c", "-cooldown:x", "ratelimiter:a-bulkhead:", "governor:governor:-",
		"bulkhead:sk-proj-Ab3dEf6hIj9l"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		k, err := registry.ParseKey(text)
		if err != nil && strings.Contains(err.Error(), "credential") {
			return // refused though it is of the grammar
		}
		m := grammar.FindStringSubmatch(text)
		valid := m != nil && len(text) <= 36 && m[3] != ""
		if valid != (err == nil) {
			t.Fatalf("%q: %v, want valid: %v", text, err, valid)
		}
		if valid {
			if want := (registry.Key{Prefix: m[1], Type: registry.PermitType(strings.ToLower(m[2])), Resource: m[3]}); k != want {
				t.Fatalf("%q: %+v, want %+v", text, k, want)
			}
			if again, err := registry.ParseKey(k.String()); err != nil || again != k {
				t.Fatalf("%q: %+v, %v", text, again, err)
			}
		}
	})
}
