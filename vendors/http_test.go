package vendors

import (
	"math"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/throttle"
)

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func TestHTTPWhichStatusIsALimit(t *testing.T) {
	wait := header("Retry-After", "5")
	used := header("X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "9")
	left := header("X-RateLimit-Remaining", "3", "X-RateLimit-Reset", "9")
	type sig = throttle.Signal
	for name, tc := range map[string]struct {
		status int
		header http.Header
		want   *sig
	}{
		"429":                       {429, nil, &sig{Delay: none}},
		"429 with a time":           {429, wait, &sig{Delay: 5 * time.Second, Source: "Retry-After: 5s"}},
		"420":                       {420, nil, &sig{Delay: none}},
		"503 announced":             {503, wait, &sig{Kind: throttle.KindOverload, Delay: 5 * time.Second, Source: "Retry-After: 5s"}},
		"503 unannounced":           {503, nil, nil},
		"503 with garbage":          {503, header("Retry-After", "soon"), nil},
		"500 unannounced":           {500, nil, nil},
		"502 announced":             {502, wait, &sig{Kind: throttle.KindOverload, Delay: 5 * time.Second, Source: "Retry-After: 5s"}},
		"529 is named for it":       {529, nil, &sig{Kind: throttle.KindOverload, Delay: none}},
		"413":                       {413, nil, nil},
		"413 for now":               {413, wait, &sig{Scope: throttle.Scope{Level: throttle.Request}, Delay: 5 * time.Second, Source: "Retry-After: 5s"}},
		"403 is permission":         {403, nil, nil},
		"403 with calls left":       {403, left, nil},
		"403 with none left":        {403, used, &sig{Delay: 9 * time.Second, Source: "X-Ratelimit-Reset: in 9s"}},
		"403 with a time":           {403, wait, &sig{Delay: 5 * time.Second, Source: "Retry-After: 5s"}},
		"429 with calls left":       {429, left, &sig{Delay: none}},
		"404 not ready yet":         {404, wait, nil},
		"202 polling":               {202, wait, nil},
		"0 is gRPC":                 {0, wait, nil},
		"milliseconds first":        {429, header("Retry-After", "2", "Retry-After-Ms", "1500.5"), &sig{Delay: 1501 * ms, Source: "retry-after-ms: 1500.5"}},
		"bad milliseconds":          {429, header("Retry-After", "2", "X-Ms-Retry-After-Ms", "-1"), &sig{Delay: 2 * time.Second, Source: "Retry-After: 2s"}},
		"limited, and do not retry": {429, header("X-Should-Retry", "false"), &sig{Delay: none, NoRetry: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got := HTTP().Read(Response{Status: tc.status, Header: tc.header, At: received})
			var want []sig
			if tc.want != nil {
				want = []sig{*tc.want}
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestHTTPRateLimitHeaders(t *testing.T) {
	for name, tc := range map[string]struct {
		header http.Header
		delay  time.Duration
		kind   throttle.Kind
		learn  []throttle.Quota
	}{
		"named policies with their windows": {
			header("RateLimit", `"burst";r=10;t=5, "daily";r=0;t=600`, "RateLimit-Policy", `"burst";q=100;w=60`, "RateLimit-Policy", `"daily";q=1000;w=86400`),
			600 * time.Second, throttle.KindQuota, []throttle.Quota{
				{Name: "burst", Limit: 100, Window: time.Minute, Remaining: 10, Reset: received.Add(5 * time.Second), Cost: -1},
				{Name: "daily", Limit: 1000, Window: 24 * time.Hour, Remaining: 0, Reset: received.Add(600 * time.Second), Cost: -1},
			}},
		"a token for a name": {header("RateLimit", `default;r=0;t=30`), 30 * time.Second, throttle.KindUnknown,
			[]throttle.Quota{{Name: "default", Limit: -1, Remaining: 0, Reset: received.Add(30 * time.Second), Cost: -1}}},
		"one dictionary": {header("RateLimit", `limit=10, remaining=0, reset=7`, "RateLimit-Policy", "10;w=10"), 7 * time.Second, throttle.KindBurst,
			[]throttle.Quota{{Limit: 10, Window: 10 * time.Second, Remaining: 0, Reset: received.Add(7 * time.Second), Cost: -1}}},
		"drafts to 06": {header("RateLimit-Limit", "100", "RateLimit-Policy", "100;w=60, 5000;w=86400", "RateLimit-Remaining", "0", "RateLimit-Reset", "5"),
			5 * time.Second, throttle.KindBurst, []throttle.Quota{{Limit: 100, Window: time.Minute, Remaining: 0, Reset: received.Add(5 * time.Second), Cost: -1}}},
		"r is required": {header("RateLimit", `"a";t=9`), none, 0, nil},
		"quotes hold commas": {header("RateLimit", `"a,b;r=5\"";r=0;t=3`), 3 * time.Second, 0,
			[]throttle.Quota{{Name: `a,b;r=5"`, Limit: -1, Remaining: 0, Reset: received.Add(3 * time.Second), Cost: -1}}},
		"bytes are no permits": {header("RateLimit", `"a";r=0;t=3`, "RateLimit-Policy", `"a";q=65535;qu="content-bytes"`), 3 * time.Second, 0,
			[]throttle.Quota{{Name: "a", Unit: "content-bytes", Limit: 65535, Remaining: 0, Reset: received.Add(3 * time.Second), Cost: -1}}},
		"requests are permits": {header("RateLimit", `"a";r=0;t=3`, "RateLimit-Policy", `"a";q=5;qu="requests"`), 3 * time.Second, 0,
			[]throttle.Quota{{Name: "a", Limit: 5, Remaining: 0, Reset: received.Add(3 * time.Second), Cost: -1}}},
		"the form below is read when the one above says no time": {
			header("RateLimit-Limit", "10", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset-After", "1.25", "X-RateLimit-Reset", "99"), 1250 * ms, 0,
			[]throttle.Quota{{Limit: -1, Remaining: 0, Reset: received.Add(1250 * ms), Cost: -1}}},
		"exhausted, and below when it ends": {header("RateLimit", `"default";r=0`, "RateLimit-Remaining", "0", "RateLimit-Reset", "90"), 90 * time.Second, 0,
			[]throttle.Quota{{Name: "default", Limit: -1, Remaining: 0, Reset: received.Add(90 * time.Second), Cost: -1}}},
		"a dictionary, and below when it ends": {header("RateLimit", "limit=100, remaining=0", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "90"), 90 * time.Second, 0,
			[]throttle.Quota{{Limit: 100, Remaining: 0, Reset: received.Add(90 * time.Second), Cost: -1}}},
		"two of them, and one says when it ends": {header("RateLimit", `"a";r=0, "b";r=5;t=600`, "X-RateLimit-Reset", "1795255230"), 29900 * ms, 0,
			[]throttle.Quota{{Name: "a", Limit: -1, Remaining: 0, Reset: received.Add(29900 * ms), Cost: -1}, {Name: "b", Limit: -1, Remaining: 5, Reset: received.Add(600 * time.Second), Cost: -1}}},
		"the one above says when it ends": {header("RateLimit", `"a";r=0;t=3`, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "90"), 3 * time.Second, 0,
			[]throttle.Quota{{Name: "a", Limit: -1, Remaining: 0, Reset: received.Add(3 * time.Second), Cost: -1}}},
		"below there are some left": {header("RateLimit", `"a";r=0`, "RateLimit-Remaining", "3", "RateLimit-Reset", "90"), none, 0,
			[]throttle.Quota{{Name: "a", Limit: -1, Remaining: 0, Cost: -1}}},
		"the first below says no time": {header("RateLimit", `"a";r=0`, "RateLimit-Remaining", "0", "RateLimit-Reset", "soon", "X-RateLimit-Reset-After", "1.25"), 1250 * ms, 0,
			[]throttle.Quota{{Name: "a", Limit: -1, Remaining: 0, Reset: received.Add(1250 * ms), Cost: -1}}},
		"some left, and no time": {header("RateLimit", `"a";r=4`, "RateLimit-Remaining", "0", "RateLimit-Reset", "90"), none, 0,
			[]throttle.Quota{{Name: "a", Limit: -1, Remaining: 4, Cost: -1}}},
		"X-Rate-Limit": {header("x-rate-limit-limit", "15", "x-rate-limit-remaining", "0", "x-rate-limit-reset", "1795255230"), 29900 * ms, 0,
			[]throttle.Quota{{Limit: 15, Remaining: 0, Reset: received.Add(29900 * ms), Cost: -1}}},
		"a reset alone, with the server's clock": {header("X-RateLimit-Reset", "1795255230", "Date", "Sat, 21 Nov 2026 09:00:00 GMT"), 3630 * time.Second, 0,
			[]throttle.Quota{{Limit: -1, Remaining: -1, Reset: received.Add(3630 * time.Second), Cost: -1}}},
		"numbers saturate": {header("X-RateLimit-Remaining", "99999999999999999999.5", "X-RateLimit-Limit", "9223372036854775808"), none, 0,
			[]throttle.Quota{{Limit: math.MaxInt64, Remaining: math.MaxInt64, Cost: -1}}},
		"twice is nobody knows which": {header("X-RateLimit-Reset", "5", "X-RateLimit-Reset", "6"), none, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := Response{Status: 429, Header: tc.header, At: received}
			got := HTTP().Read(r)
			if len(got) != 1 || got[0].Delay != tc.delay || got[0].Kind != tc.kind {
				t.Errorf("got %+v, want %v and %v", got, tc.delay, tc.kind)
			}
			if learned := HTTP().Learn(r); !reflect.DeepEqual(learned, tc.learn) {
				t.Errorf("learned %+v, want %+v", learned, tc.learn)
			}
		})
	}
}

func TestStructuredFieldsThatAreMalformedAreIgnored(t *testing.T) {
	for _, s := range []string{"", ",", `"a`, `"a";`, `"a";;r=1`, `"a";r=`, `"a",`, `a b`, `"a\`, `"a\x"`, "\"a\x01\"", "(a b)", ":abc", `"a"="b"`, "=1", `a=;r`,
		strings.Repeat("a", 300)} {
		if got := list(header("H", s), "H"); got != nil {
			t.Errorf("%.40q: read %+v", s, got)
		}
	}
	many := list(header("H", strings.TrimSuffix(strings.Repeat("a,", 100), ",")), "H")
	if len(many) != maxValues {
		t.Errorf("%d members looked at", len(many))
	}
}

func TestHTTPProblemTypes(t *testing.T) {
	h := header("Content-Type", "application/problem+json; charset=utf-8")
	for body, want := range map[string]throttle.Kind{
		`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded"}`:             throttle.KindQuota,
		`{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"}`: throttle.KindOverload,
		`{"type":"https://iana.org/assignments/http-problem-types#abnormal-usage-detected"}`:    throttle.KindBan,
	} {
		if got := HTTP().Read(Response{Status: 400, Header: h, Body: []byte(body)}); len(got) != 1 || got[0].Kind != want || got[0].Delay != none {
			t.Errorf("%s: got %+v", body, got)
		}
		if got := HTTP().Read(Response{Status: 400, Body: []byte(body)}); got != nil {
			t.Errorf("%s without a content type: got %+v", body, got)
		}
	}
	for _, body := range []string{`{"type":"about:blank"}`, `{"type":5}`, `{`, ``, `{"type":"x#quota-exceeded"}`,
		`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded"}` + strings.Repeat(" ", maxBody)} {
		if got := HTTP().Read(Response{Status: 400, Header: h, Body: []byte(body)}); got != nil {
			t.Errorf("%.40s: got %+v", body, got)
		}
	}
}

func FuzzHTTP(f *testing.F) {
	f.Add(429, `"burst";r=10;t=5,"daily";r=0;t=600`, `"burst";q=100;w=60`, "0", "1795255230", `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded"}`)
	f.Add(503, `limit=10, remaining=0, reset=10`, `10;w=10`, "60.0", "2026-11-21T10:00:30Z", `{`)
	f.Add(200, `a;b=:YQ==:;c="\""`, `100, 100;w=60`, "", "", ``)
	f.Fuzz(func(t *testing.T, status int, limit, policy, remaining, reset, body string) {
		r := Response{Status: status, At: received, Body: []byte(body), Header: header("RateLimit", limit, "RateLimit-Policy", policy,
			"X-RateLimit-Limit", policy, "X-RateLimit-Remaining", remaining, "X-RateLimit-Reset", reset, "Content-Type", "application/problem+json")}
		checkAnswer(t, HTTP(), r)
	})
}
