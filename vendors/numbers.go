package vendors

import (
	"math"
	"strings"
	"time"
)

// parseDecimal reads a number of units, digits with an optional fraction, as a
// Duration: rounded up to 1 ms, saturating. Signs, exponents, "inf", "nan" and
// everything else that strconv would take are no numbers here.
func parseDecimal(s string, unit time.Duration) (time.Duration, bool) {
	whole, fraction, _ := strings.Cut(s, ".")
	if whole == "" && fraction == "" {
		return 0, false
	}
	n, ok := parseCount(whole)
	if !ok && whole != "" {
		return 0, false
	}
	part, scale, rest := time.Duration(0), unit, time.Duration(0)
	for _, c := range []byte(fraction) {
		if c < '0' || c > '9' {
			return 0, false
		}
		scale /= 10
		part += time.Duration(c-'0') * scale
		if scale == 0 && c != '0' { // below a nanosecond: round up
			rest = 1
		}
	}
	part += rest
	if n > int64((math.MaxInt64-unit)/unit) {
		return math.MaxInt64, true
	}
	return ceilMilli(time.Duration(n)*unit + part), true
}

// parseCount reads a number of digits alone, saturating.
func parseCount(s string) (n int64, ok bool) {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		if n > (math.MaxInt64-9)/10 {
			n = math.MaxInt64
			continue
		}
		n = n*10 + int64(c-'0')
	}
	return n, s != ""
}

// parseAmount reads a number of things that some vendors write with decimals,
// rounded down.
func parseAmount(s string) (int64, bool) {
	if whole, fraction, ok := strings.Cut(s, "."); ok {
		if _, digits := parseCount(fraction); digits {
			s = whole
		}
	}
	return parseCount(s)
}

// ceilMilli rounds up to 1 ms, saturating.
func ceilMilli(d time.Duration) time.Duration {
	if r := d % time.Millisecond; r > 0 {
		if d > math.MaxInt64-time.Millisecond {
			return math.MaxInt64
		}
		d += time.Millisecond - r
	}
	return d
}

// Numbers in a reset header: below the first they are seconds from now, below
// the second seconds since 1970, above it milliseconds since 1970.
const (
	firstEpochSecond = 1_000_000_000     // in 2001; as a delay 31 years
	firstEpochMilli  = 1_000_000_000_000 // in 2001; as seconds the year 33658
)

// parseReset reads the end of a vendor's window in any of the forms that are in
// use under one header name, as the time from now: seconds from now, seconds or
// milliseconds since 1970, RFC 3339 with or without seconds, and HTTP dates. A
// time in the past gives 0.
func parseReset(s string, now time.Time) (time.Duration, bool) {
	if n, ok := parseAmount(s); ok {
		switch {
		case n < firstEpochSecond:
			return parseDecimal(s, time.Second)
		case n < firstEpochMilli:
			d, _ := parseDecimal(s, time.Second)
			return untilEpoch(d, now), true
		default:
			d, _ := parseDecimal(s, time.Millisecond)
			return untilEpoch(d, now), true
		}
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00"} {
		if t, err := time.Parse(layout, s); err == nil {
			return until(t, now), true
		}
	}
	t, ok := parseHTTPDate(s)
	return until(t, now), ok
}

// untilEpoch is until for a moment given as the time since 1970.
func untilEpoch(d time.Duration, now time.Time) time.Duration {
	if d == math.MaxInt64 {
		return d
	}
	return until(time.Unix(0, 0).Add(d), now)
}

// resetForm is how a vendor writes the end of a window.
type resetForm uint8

const (
	resetAny     resetForm = iota // any form that parseReset reads
	resetSeconds                  // seconds from now
	resetEpoch                    // seconds since 1970
	resetMilli                    // milliseconds since 1970
	resetGo                       // a Go duration from now, 6m0s or 20ms; else any form
)

// parse reads s as the time from now, as parseReset does, in the vendor's form.
func (f resetForm) parse(s string, now time.Time) (time.Duration, bool) {
	if s == "" { // mostly so, and errors cost allocations
		return 0, false
	}
	switch f {
	case resetSeconds:
		return parseDecimal(s, time.Second)
	case resetEpoch, resetMilli:
		unit := time.Second
		if f == resetMilli {
			unit = time.Millisecond
		}
		d, ok := parseDecimal(s, unit)
		if !ok {
			return 0, false
		}
		return untilEpoch(d, now), true
	case resetGo:
		if d, ok := parseGoDuration(s); ok {
			return d, true
		}
	}
	return parseReset(s, now)
}

// parseGoDuration reads a Go duration that is not negative, rounded up to 1 ms.
// Like a number without a unit, one that does not fit is none.
func parseGoDuration(s string) (time.Duration, bool) {
	if s == "" || s[0] == '+' || s[0] == '-' || len(s) > maxValue {
		return 0, false
	}
	if last := s[len(s)-1]; last < 'a' || last > 'z' { // ParseDuration reads "0", too
		return 0, false
	}
	d, err := time.ParseDuration(s)
	return ceilMilli(d), err == nil
}

// floatDelay makes a Duration of a number of seconds that a body had or that was
// calculated: rounded up to 1 ms but for the last bits of the float, saturating.
// Negative numbers give 0.
func floatDelay(seconds float64) time.Duration {
	millis := math.Ceil(seconds*1e3 - 1e-6)
	switch {
	case !(millis > 0): // NaN is not
		return 0
	case millis >= float64(math.MaxInt64/int64(time.Millisecond)):
		return math.MaxInt64
	}
	return time.Duration(millis) * time.Millisecond
}
