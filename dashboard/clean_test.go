package dashboard

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/throttle"
)

func TestCleaned(t *testing.T) {
	for in, want := range map[string]string{
		"":                               "",
		"Retry-After: 30":                "Retry-After: 30",
		"x-ratelimit-reset-tokens: 6m0s": "x-ratelimit-reset-tokens: 6m0s",
		"Rate limit reached for gpt-5 on tokens per min (TPM): Limit 30000, Used 1":        "Rate limit reached for gpt-5 on tokens per min (TPM): Limit 30000, Used 1",
		"Quota exceeded for quota metric 'Requests' of service 'googleads.googleapis.com'": "Quota exceeded for quota metric 'Requests' of service 'googleads.googleapis.com'",
		"customer 123-456-7890":                      "customer 123-456-7890",
		"2026-11-22T15:04:05Z":                       "2026-11-22T15:04:05Z",
		"dial tcp 10.0.0.1:443: i/o timeout":         "dial tcp 10.0.0.1:443: i/o timeout",
		"joe@example.com":                            "joe@example.com",
		"a\nb\tc\u202ed\x1b[31m":                     "a b c d [31m",
		"\xff\xfebad":                                "bad",
		"Authorization: Basic dXNlcjpwYXNz":          "Authorization: …",
		`{"authorization":"Bearer abc","x":1}`:       `{"authorization: …`,
		"sent Bearer ya29.A0ARrdaM-xyz":              "sent Bearer …",
		"Set-Cookie: sid=1; Path=/":                  "Set-Cookie: …",
		"redis://:pw@h:6379/0":                       "redis://…@h:6379/0",
		"https://u:p@h/a?key=1#f":                    "https://…@h/a?…",
		"user:p@ss@tcp(db:3306)/x":                   "…@tcp(db:3306)/x",
		"client_secret=abc&grant=x":                  "client_secret=…&grant=x",
		`"refresh_token": "1//0abc def"`:             `"refresh_token": …`,
		"api-key: abc, 3 left":                       "api-key: …, 3 left",
		"key sk-proj-abcdefghijklmnopqrstuv is over": "key … is over",
		"ghp_0123456789abcdefghijABCDEFGHIJ012345":   "…",
		"AKIAIOSFODNN7EXAMPLE":                       "…",
		"jwt eyJhbGciOiJIUzI1.eyJzdWIiOiIx.abc":      "jwt …",
		`Post "https://api.telegram.org/bot123456789:hunter2hunter2hunter2hunter2abcdefg/sendMessage": EOF`: `Post "https://api.telegram.org/bot123456789:…/sendMessage": EOF`,
		`https://hooks.slack.com/services/T00000000/B00000000/hunter2hunter2hunter2abc`:                     `https://hooks.slack.com/services/T00000000/B00000000/…`,
		"GET /v1/x?key=hunter2: 429":                                                      "GET /v1/x?… 429",
		"invalid API key: hunter2, 3 left":                                                "invalid API key: …, 3 left",
		`password "hunter2" is wrong`:                                                     "password … is wrong",
		"password={a b}; db=x":                                                            "password=…; db=x",
		"map[X-Api-Key:[a b]]":                                                            "map[X-Api-Key:…]",
		`{"key":"hunter2","x":1}`:                                                         `{"key":…,"x":1}`,
		"key=hunter2&pass=hunter2&auth=hunter2&sessionid=hunter2":                         "key=…&pass=…&auth=…&sessionid=…",
		"quota key: requests per day":                                                     "quota key: requests per day",
		"auth is slow, 2 sessions":                                                        "auth is slow, 2 sessions",
		"-----BEGIN PRIVATE KEY----- hunter2":                                             "…",
		"model claude-sonnet-4-20250514 is over its limit":                                "model claude-sonnet-4-20250514 is over its limit",
		"RESOURCE_EXHAUSTED_BECAUSE_OF_SOMETHING":                                         "RESOURCE_EXHAUSTED_BECAUSE_OF_SOMETHING",
		"id 0f8fad5b-d9cb-469f-a165-70867728950e":                                         "id 0f8fad5b-d9cb-469f-a165-70867728950e",
		strings.Repeat("x ", 505) + "key sk-hunter2hunter2hunter":                         strings.Repeat("x ", 100) + "…",
		"https://h/?" + strings.Repeat("x", 980) + " key sk-hunter2hunter2hunter2hunter2": "https://h/?… key",
		strings.Repeat("ä", 300):                                                          strings.Repeat("ä", 200) + "…",
	} {
		if got := cleaned(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

func FuzzCleaned(f *testing.F) {
	f.Add("Authorization: Bearer x")
	f.Add("https://u:p@h/?a")
	f.Fuzz(func(t *testing.T, s string) {
		got := cleaned(s)
		if !utf8.ValidString(got) || utf8.RuneCountInString(got) > longest+1 || strings.ContainsAny(got, "\n\r\x00") {
			t.Errorf("%q became %q", s, got)
		}
		var known texts
		for range 2 {
			if again := known.clean(s); again != got {
				t.Errorf("%q is %q, and then %q", s, got, again)
			}
		}
	})
}

func TestTextsForgetsBeforeItIsLarge(t *testing.T) {
	var known texts
	for i := range 5000 {
		known.clean(fmt.Sprint("name ", i))
		if i%100 == 0 {
			known.clean(strings.Repeat("y", readTo+1+i))
		}
	}
	if len(known.known) > 4096 {
		t.Errorf("knows %d", len(known.known))
	}
}

// What a peer sends may be anywhere in its answer.
func TestCleanAllReachesEveryText(t *testing.T) {
	const secret = "token=abcdefgh"
	v := Detail{Lanes: []governor.LaneStats{{Tenant: secret}}, Tenants: []Tenant{{Name: secret}}, Limits: []Limit{{Key: secret}}}
	v.BreakerWhy, v.Stats.Breaker = secret, &governor.BreakerStats{Answer: secret, Stats: breaker.Stats{Cause: secret}}
	v.Stats.Limits = []governor.LimitStats{{Quota: &throttle.Quota{Name: secret}}}
	new(texts).cleanAll(&v, maxList)
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(b), "abcdefgh") {
		t.Errorf("%s", b)
	}
}
