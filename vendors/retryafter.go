package vendors

import (
	"net/http"
	"strings"
	"time"
)

// Bounds of what is read of one header, whatever a server sends.
const (
	maxValues = 16
	maxValue  = 256 // bytes
)

// RetryAfter reads the Retry-After header of an answer that was received at at,
// in every form that RFC 9110 has and servers use: seconds, with decimals too,
// and the three forms of HTTP date. ok is false when there is none that can be
// read: empty, negative, "inf", a date that does not exist.
//
// The delay is rounded up to 1 ms. A number too large for a Duration gives the
// largest one. A date is measured against the answer's own Date header, so that
// a wrong clock on this side does no harm, and against at when there is none; a
// date in the past gives 0. Of several values the longest valid one wins; at
// most 16 are looked at, and none above 256 bytes.
func RetryAfter(h http.Header, at time.Time) (delay time.Duration, ok bool) {
	for _, v := range values(h, "Retry-After") {
		d, valid := parseDecimal(v, time.Second)
		if !valid {
			var t time.Time
			if t, valid = parseHTTPDate(v); valid {
				d = until(t, serverTime(h, at))
			}
		}
		if valid {
			delay, ok = max(delay, d), true
		}
	}
	return delay, ok
}

// values returns the first values of a header that are short enough to be
// looked at, without the white space around them. The name is canonical, here and
// in value: most answers have none of them, which is to cost little.
func values(h http.Header, name string) []string {
	all := h[name]
	if len(all) == 0 {
		return nil
	}
	all = all[:min(len(all), maxValues)]
	out := make([]string, 0, len(all))
	for _, v := range all {
		if len(v) <= maxValue {
			out = append(out, strings.Trim(v, " \t\r\n"))
		}
	}
	return out
}

// value returns the only value of a header; "" when it is missing or given more
// than once, for then nobody knows which one is meant.
func value(h http.Header, name string) string {
	if v := h[name]; len(v) == 1 && len(v[0]) <= maxValue {
		return strings.Trim(v[0], " \t\r\n")
	}
	return ""
}

// serverTime returns the moment of an answer on the server's clock when it told
// it, which it does to the second, else on ours.
func serverTime(h http.Header, at time.Time) time.Time {
	date := value(h, "Date")
	if date == "" { // errors cost allocations
		return at
	}
	if t, ok := parseHTTPDate(date); ok {
		return t
	}
	return at
}

// until returns how long it is from now to t, rounded up to 1 ms, at least 0.
func until(t, now time.Time) time.Duration { return max(0, ceilMilli(t.Sub(now))) }

// parseHTTPDate reads the three forms of RFC 9110. Only GMT is a valid zone;
// UTC, the same thing by another name, is let through.
func parseHTTPDate(s string) (time.Time, bool) {
	if cut, ok := strings.CutSuffix(s, " UTC"); ok {
		s = cut + " GMT"
	}
	t, err := http.ParseTime(s)
	if err != nil {
		return time.Time{}, false
	}
	// The standard library reads RFC 850 dates with any zone name, and takes
	// names it does not know for GMT. asctime dates have none.
	if strings.Contains(s, ",") && !strings.HasSuffix(s, " GMT") {
		return time.Time{}, false
	}
	return t, true
}
