package vendors

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/throttle"
)

// received is a moment between two seconds, 100 ms after 10:00.
var received = time.Date(2026, 11, 21, 10, 0, 0, 100e6, time.UTC)

const (
	ms      = time.Millisecond
	none    = throttle.Unknown
	longest = time.Duration(math.MaxInt64)
)

func TestRetryAfterForms(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"0": 0, "00": 0, "0.0": 0, "2": 2 * time.Second, "007": 7 * time.Second, " 7\t": 7 * time.Second,
		"1.5": 1500 * ms, ".5": 500 * ms, "1.": time.Second,
		"0.0001": ms, "0.0010000000000000000001": 2 * ms, "1.0000000000000000000000": time.Second, "1.999999999999": 2 * time.Second,
		"9223372035":          9223372035 * time.Second,
		"9223372035.9":        9223372035*time.Second + 900*ms,
		"9223372036":          longest,
		"9223372037":          longest,
		"9300000000":          longest,
		"9223372036854775807": longest, "99999999999999999999999999999999999": longest, "99999999999999999999999.99": longest,

		"-1": none, "-0": none, "+1": none, "": none, " ": none, ".": none, "1e3": none, "0x10": none, "1_000": none, "1,5": none,
		"inf": none, "Inf": none, "nan": none, "NaN": none, "5s": none, "5 s": none, "1.5.2": none, "1.-5": none, "٣": none,
		strings.Repeat("1", 256): longest, strings.Repeat("1", 257): none,

		"Sat, 21 Nov 2026 10:00:30 GMT":    29900 * ms, // IMF-fixdate
		"Saturday, 21-Nov-26 10:00:30 GMT": 29900 * ms, // RFC 850
		"Sat Nov 21 10:00:30 2026":         29900 * ms, // asctime
		"Sat, 21 Nov 2026 10:00:30 UTC":    29900 * ms,
		"Sat, 21 Nov 2026 10:00:00 GMT":    0, // just over
		"Sat, 21 Nov 1970 10:00:00 GMT":    0,
		"Fri, 31 Dec 9999 23:59:59 GMT":    longest,
		"Saturday, 21-Nov-26 10:00:30 PST": none, "Sat, 21 Nov 2026 10:00:30 EST": none, "Sat, 21 Nov 2026 10:00:30 +0100": none,
		"Fri, 32 Dec 1999 23:59:59 GMT": none, "Zun, 29 Sep 2023 16:26:27 GMT": none, "Fri, 29 Sep 100000 16:26:57 GMT": none,
		"Sat, 21 Nov 2026 25:00:30 GMT": none, "Sat, 21 Nov 2026": none, "2026-11-21T10:00:30Z": none,
	} {
		got, ok := RetryAfter(http.Header{"Retry-After": {in}}, received)
		if want == none && ok || want != none && (!ok || got != want) {
			t.Errorf("%.60q: got %v %v, want %v", in, got, ok, want)
		}
	}
	if _, ok := RetryAfter(nil, received); ok {
		t.Error("read a delay from no header")
	}
}

func TestRetryAfterLongestValidValueWins(t *testing.T) {
	many := make([]string, 100_000)
	for i := range many {
		many[i] = "1"
	}
	many[15], many[16] = "40", "90" // the 16th is looked at, the 17th is not
	for name, tc := range map[string]struct {
		in   []string
		want time.Duration
	}{
		"duplicates":      {[]string{"5", "60", "7"}, 60 * time.Second},
		"with garbage":    {[]string{"never", "3", "-8"}, 3 * time.Second},
		"of two forms":    {[]string{"3", "Sat, 21 Nov 2026 10:00:30 GMT"}, 29900 * ms},
		"a bomb":          {many, 40 * time.Second},
		"one value bombs": {[]string{strings.Repeat("9", 1<<20), "4"}, 4 * time.Second},
	} {
		if got, ok := RetryAfter(http.Header{"Retry-After": tc.in}, received); !ok || got != tc.want {
			t.Errorf("%s: got %v %v, want %v", name, got, ok, tc.want)
		}
	}
}

func TestRetryAfterDateIsMeasuredOnTheServersClock(t *testing.T) {
	for date, want := range map[string]time.Duration{
		"Sat, 21 Nov 2026 09:55:30 GMT": 300 * time.Second, // we are ahead
		"Sat, 21 Nov 2026 10:00:20 GMT": 10 * time.Second,  // we are behind
		"yesterday":                     29900 * ms,
		"":                              29900 * ms,
	} {
		h := http.Header{"Retry-After": {"Sat, 21 Nov 2026 10:00:30 GMT"}, "Date": {date}}
		if got, ok := RetryAfter(h, received); !ok || got != want {
			t.Errorf("Date %q: got %v %v, want %v", date, got, ok, want)
		}
	}
}

func TestResetForms(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"41": 41 * time.Second, "0": 0, "72.5": 72500 * ms, "999999999": 999999999 * time.Second,
		"1000000000": 0, "1795255230": 29900 * ms, "1795255230.05": 29950 * ms, "1795255230000": 29900 * ms, "1795255230001": 29901 * ms,
		"99999999999": longest, "999999999999999999999999999": longest,
		"2026-11-21T10:00:30Z": 29900 * ms, "2026-11-21T11:00:30+01:00": 29900 * ms, "2026-11-21T10:01Z": 59900 * ms,
		"Sat, 21 Nov 2026 10:00:30 GMT": 29900 * ms,
		"-5":                            none, "": none, "1600000000,1600000000": none, "Tue Feb 16 2021 09:02:42 GMT+0100 (CET)": none, "soon": none, "1e9": none,
	} {
		got, ok := parseReset(in, received)
		if want == none && ok || want != none && (!ok || got != want) {
			t.Errorf("%q: got %v %v, want %v", in, got, ok, want)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"120", "1.5", "Sat, 21 Nov 2026 10:00:30 GMT", "Saturday, 21-Nov-26 10:00:30 GMT",
		"Sat Nov 21 10:00:30 2026", "99999999999999999999", "-1", "inf", "nan", "\x00", "1795255230000"} {
		f.Add(s, "2", "Sat, 21 Nov 2026 10:00:00 GMT", int64(1795255200))
	}
	f.Fuzz(func(t *testing.T, one, two, date string, unix int64) {
		h := http.Header{"Retry-After": {one, two}, "Date": {date}, "X-Ratelimit-Reset": {one}}
		at := time.Unix(unix, 0)
		d, ok := RetryAfter(h, at)
		if d < 0 || !ok && d != 0 || d%ms != 0 && d != longest {
			t.Fatalf("%q, %q: %v %v", one, two, d, ok)
		}
		// The longest wins: together they are never shorter than alone.
		for _, v := range []string{one, two} {
			if alone, valid := RetryAfter(http.Header{"Retry-After": {v}, "Date": {date}}, at); valid && (!ok || alone > d) {
				t.Fatalf("%q alone is %v, with %q and %q %v", v, alone, one, two, d)
			}
		}
		if d, ok := parseReset(one, at); ok && (d < 0 || d%ms != 0 && d != longest) {
			t.Fatalf("reset %q: %v", one, d)
		}
	})
}
