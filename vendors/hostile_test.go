package vendors

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/internal/wire"
	"github.com/flyball-go/flyball/throttle"
)

// checkAnswer holds an adapter to what it promises for any answer.
func checkAnswer(t *testing.T, a Adapter, r Response) {
	t.Helper()
	sigs := a.Read(r)
	if len(sigs) > 16 || !reflect.DeepEqual(sigs, a.Read(r)) {
		t.Fatalf("%d signals, or others the second time", len(sigs))
	}
	longestOf := throttle.Unknown
	for _, s := range sigs {
		if s.Delay < 0 && s.Delay != throttle.Unknown || s.Delay != throttle.Unknown && s.Delay != longest && s.Delay%ms != 0 {
			t.Fatalf("delay %d", s.Delay)
		}
		if s.Kind > throttle.KindBilling || s.Scope.Level > throttle.Request || s.Scope.Key != "" || !s.Until.IsZero() {
			t.Fatalf("signal %+v", s)
		}
		checkText(t, s.Source, 400)
		longestOf = max(longestOf, s.Delay)
	}
	if d, limited := a.DelayError(&ResponseError{Response: r}); limited != (len(sigs) > 0) || d != longestOf {
		t.Fatalf("DelayError says %v %v, Read %+v", d, limited, sigs)
	}
	quotas := a.Learn(r)
	if len(quotas) > maxItems+maxValues {
		t.Fatalf("%d quotas", len(quotas))
	}
	for _, q := range quotas {
		if q.Limit < -1 || q.Remaining < -1 || q.Cost < -1 || q.Window < 0 || !q.Reset.IsZero() && q.Reset.Before(r.At) || q.Scope.Key != "" {
			t.Fatalf("learned %+v", q)
		}
		checkText(t, q.Name, 110)
		checkText(t, q.Unit, 110)
	}
}

func checkText(t *testing.T, s string, most int) {
	t.Helper()
	if len(s) > most || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' }) {
		t.Fatalf("text %q", s)
	}
}

// What an adapter allocates for an answer is bounded, whatever is in it: some
// times the body.
func TestBombsAreBounded(t *testing.T) {
	const size = 64 << 10
	fill := func(head, part, tail string) string {
		return head + strings.Repeat(part, (size-len(head)-len(tail))/len(part)) + tail
	}
	bombs := map[string]string{
		"depth":              fill("", "[", ""),
		"depth of objects":   fill("", `{"error":`, ""),
		"depth that closes":  strings.Repeat("[", 9999) + strings.Repeat("]", 9999),
		"objects that close": strings.Repeat(`{"error":`, 9000) + "1" + strings.Repeat("}", 9000),
		"digits":             fill(`{"code":`, "9", `,"error":{"code":9}}`),
		"a text of digits":   fill(`{"error":{"retry_after":"`, "9", `"}}`),
		"the same key":       fill(`{`, `"error":{"code":4,"errors":[{}]},`, `"x":0}`),
		"the same list":      fill(`{`, `"errors":[{"extensions":{"code":"THROTTLED"}}],`, `"x":0}`),
		"items":              fill(`{"errors":[`, `{},`, `{}]}`),
		"errors":             fill(`{"Errors":[`, `{"Code":1},`, `{}]}`),
		"details":            fill(`{"error":{"details":[`, `{},`, `{}]}}`),
		"errors in a detail": fill(`{"error":{"details":[{"errors":[`, `{},`, `{}]}]}}`),
		"an array":           fill(`[`, `{},`, `{}]`),
		"a batch":            fill(`{"responses":[`, `{"headers":{"a":"b"}},`, `{}]}`),
		"headers":            fill(`{"responses":[{"headers":{`, `"a":"b",`, `"x":0}}]}`),
		"other headers":      `{"responses":[{"status":429,"headers":{` + manyKeys(4000) + `"x":0}}]}`,
		"tags":               fill("", "<a>", ""),
		"codes":              fill("", "<Code>1</Code>", ""),
		"CDATA":              fill("", "<a><![CDATA[", ""),
		"open tags":          fill("", "<", ""),
		"one tag":            fill("<", "a", ">"),
		"fields":             fill("", `!":{`, ""),
		"events":             fill("", "event: error\n", "rate_limit_error"),
		"words":              fill(`{"error":{"message":"`, "try again in ", `"}}`),
		"escapes":            fill(`{"error":{"message":"`, `\u0000`, `"}}`),
		"zeros":              fill("", "\x00", ""),
	}
	var words []string // that make adapters look at good answers
	for _, w := range []string{"40100", "rate_limit_exceeded", "RATELIMITED", "RATELIMIT", "THROTTLED", "ratelimited", "RATE_LIMIT", "rate_limit_error", "429"} {
		words = append(words, `"`+w+`"`)
	}
	bombs["words of all"] = fill(`{"x":[`+strings.Join(words, ",")+`,`, `1,`, `1]}`)
	statuses := []int{200, 429}
	if !effort.Usual() {
		statuses = append(statuses, 403, 500)
	}
	for name, bomb := range bombs {
		for id, a := range httpAdapters {
			for _, status := range statuses {
				r := got(status, bomb)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				a.Read(r)
				a.Learn(r)
				runtime.ReadMemStats(&after)
				if n := after.TotalAlloc - before.TotalAlloc; n > 40*size {
					t.Errorf("%s: %s with %d: %d KiB allocated", id, name, status, n>>10)
				}
			}
		}
	}
	for id, a := range httpAdapters {
		huge := got(429, strings.Repeat(`{"code":117,`, maxBody/10))
		allocs := testing.AllocsPerRun(1, func() { a.Read(huge); a.Learn(huge) })
		if allocs > 100 {
			t.Errorf("%s: %v allocations for a body that is too long", id, allocs)
		}
	}
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"h%d":"v",`, i)
	}
	return b.String()
}

func TestHeaderBombsAreBounded(t *testing.T) {
	values := make([]string, 100_000)
	for i := range values {
		values[i] = "1"
	}
	h := http.Header{}
	for _, name := range knownHeaders(t) {
		h[name] = values
	}
	for id, a := range httpAdapters {
		r := Response{Status: 429, Header: h, At: received}
		if allocs := testing.AllocsPerRun(1, func() { a.Read(r); a.Learn(r) }); allocs > 500 {
			t.Errorf("%s: %v allocations", id, allocs)
		}
		checkAnswer(t, a, r)
		for _, v := range []string{strings.Repeat("9", 256), strings.Repeat("9", 257), "-1", "NaN", "1e999", "\x00", "9223372036854775807", "18446744073709551616", `{"a":`, "0x10", "１"} {
			one := http.Header{}
			for name := range h {
				one.Set(name, v)
			}
			checkAnswer(t, a, Response{Status: 429, Header: one, Body: []byte(`{"retry_after":` + v + `}`), At: received})
		}
	}
}

// readCases reads the file of cases, for seeds.
func readCases(tb testing.TB) (cases []vendorCase) {
	text, err := os.ReadFile("testdata/vendors.json")
	if err == nil {
		err = json.Unmarshal(text, &cases)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return cases
}

// knownHeaders are the names of all headers of all cases and dialects.
func knownHeaders(tb testing.TB) (names []string) {
	seen := map[string]bool{"": true}
	add := func(all ...string) {
		for _, name := range all {
			if name = http.CanonicalHeaderKey(name); !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	for _, c := range readCases(tb) {
		for name := range c.Headers {
			add(name)
		}
	}
	for _, a := range httpAdapters {
		if a, is := a.Dialect.(*api); is {
			for _, f := range a.headers {
				add(f.limit, f.remaining, f.after, f.reset)
			}
		}
	}
	return names
}

// FuzzBodies reads any body as every vendor's.
func FuzzBodies(f *testing.F) {
	for _, c := range readCases(f) {
		if c.Status != 0 {
			f.Add(c.Status, []byte(c.Body))
		}
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		before := string(body)
		for _, a := range httpAdapters {
			checkAnswer(t, a, Response{Status: status, Body: body, At: received})
		}
		if string(body) != before {
			t.Fatal("the body was changed")
		}
	})
}

// FuzzHeaders reads any headers, a line each, as every vendor's.
func FuzzHeaders(f *testing.F) {
	for _, c := range readCases(f) {
		if c.Status != 0 {
			var b strings.Builder
			for name, v := range c.Headers {
				b.WriteString(name + ": " + v + "\n")
			}
			f.Add(c.Status, b.String())
		}
	}
	f.Fuzz(func(t *testing.T, status int, lines string) {
		h := http.Header{}
		for line := range strings.SplitSeq(lines, "\n") {
			name, v, _ := strings.Cut(line, ": ")
			h.Add(name, v)
		}
		for id, a := range httpAdapters {
			r := Response{Status: status, Header: h, Body: []byte("{}"), At: received}
			checkAnswer(t, a, r)
			if status == 429 && len(a.Read(r)) == 0 {
				t.Fatalf("%s: 429 is not limited", id)
			}
			if status < 400 && len(a.Read(r)) > 0 {
				t.Fatalf("%s: limited by headers alone", id)
			}
		}
	})
}

// FuzzUsage reads anything in Meta's headers.
func FuzzUsage(f *testing.F) {
	f.Add(80004, metaTwo, `{"acc_id_util_pct":9.67,"reset_time_duration":100}`, `{"call_count":28}`)
	f.Add(4, `{"1":{"estimated_time_to_regain_access":"0.5"}}`, `{"app_id_util_pct":1e300,"acc_id_util_pct":-1}`, `[]`)
	f.Fuzz(func(t *testing.T, code int, objects, account, app string) {
		h := header("X-Business-Use-Case-Usage", objects, "X-Ad-Account-Usage", account, "X-App-Usage", app, "X-Fb-Ads-Insights-Throttle", account)
		for _, status := range []int{200, 400, 429} {
			checkAnswer(t, Meta(), Response{Status: status, Header: h, Body: []byte(metaError(code)), At: received})
		}
		for _, q := range Meta().Learn(Response{Status: 200, Header: h, At: received}) {
			if q.Unit != "percent" || q.Limit != 100 || q.Remaining < 0 || q.Remaining > 100 {
				t.Fatalf("learned %+v", q)
			}
		}
	})
}

// FuzzGRPC reads any status, details and trailers.
func FuzzGRPC(f *testing.F) {
	for _, c := range readCases(f) {
		if c.Status == 0 && c.Vendor == "grpc" {
			f.Add(uint32(8), c.GRPCMessage, c.Headers["grpc-retry-pushback-ms"], []byte(c.Headers["grpc-status-details-bin"]))
		}
	}
	f.Add(uint32(14), "per day", "9999999999999999999", wire.AppendBytes(nil, 1, adsDuration(math.MaxInt64, 5)))
	f.Fuzz(func(t *testing.T, code uint32, message, pushback string, value []byte) {
		r := Response{Code: Code(code), Message: message, At: received, Trailer: map[string][]string{"grpc-status-details-bin": {string(value)}}}
		if pushback != "" {
			r.Trailer["grpc-retry-pushback-ms"] = []string{pushback}
		}
		for _, a := range []Adapter{GRPC(), GoogleAPI()} {
			checkAnswer(t, a, r)
			for _, name := range []string{"RetryInfo", "QuotaFailure", "ErrorInfo"} {
				r.Details = []Any{detail(name, value)}
				checkAnswer(t, a, r)
			}
			r.Details = nil
			for _, s := range a.Read(r) {
				if s.NoRetry && s.Delay != throttle.Unknown {
					t.Fatalf("not to be repeated, but when: %+v", s)
				}
			}
		}
	})
}

// FuzzProse reads times for people, and Go's.
func FuzzProse(f *testing.F) {
	for _, s := range []string{"Please try again in 1.2s.", "retry after 6 seconds", "Try again in 6m0s", "in 2562047h47m16.854775807s", "try again in 999999999999999999 hours", "Take a break for 9 minutes"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d := proseDelay(s, "in ", "again ", "after "); d < 0 && d != throttle.Unknown || d >= 0 && d != longest && d%ms != 0 {
			t.Fatalf("%q: %v", s, d)
		}
		if d, ok := parseGoDuration(s); ok && (d < 0 || d != longest && d%ms != 0) {
			t.Fatalf("%q: %v", s, d)
		}
		body, _ := json.Marshal(map[string]any{"json": map[string]any{"errors": [][]string{{"RATELIMIT", s}}}, "error": map[string]string{"message": s}})
		checkAnswer(t, Reddit(), got(200, string(body)))
		checkAnswer(t, OpenAI(), got(429, string(body)))
	})
}
