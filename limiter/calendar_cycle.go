package limiter

import "time"

// Cycle is the length of a Calendar's windows, by the clocks of a time zone.
//
// A day begins when the clocks first show its date. So it lasts 23 or 25 hours
// when they are put forward or back in it; and once they have shown a date, the
// one before does not come again when they are put back past midnight. Weeks and
// months are made of such days. An hour begins when the minutes are 0, and also
// when a change of the clocks makes the minutes jump.
type Cycle uint8

// The cycles.
const (
	Daily   Cycle = iota // from midnight to midnight
	Hourly               // from full hour to full hour
	Weekly               // from Monday to Sunday
	Monthly              // from the first of a month to its last
)

// String returns the cycle in lower case.
func (c Cycle) String() string {
	if c > Monthly {
		return "invalid"
	}
	return [...]string{"daily", "hourly", "weekly", "monthly"}[c]
}

// around returns the window that t is in, from begin to before end, in Unix
// seconds.
func (c Cycle) around(t time.Time, zone *time.Location) (begin, end int64) {
	// Beyond these, some 30,000 years away, dates cannot be reckoned with.
	t = time.Unix(min(max(t.Unix(), -1e12), 1e12), 0).In(zone)
	if c == Hourly {
		return hour(t)
	}
	year, month, day := t.Date()
	days, months := 1, 0
	switch c {
	case Weekly:
		day -= (int(t.Weekday()) + 6) % 7
		days = 7
	case Monthly:
		day, days, months = 1, 0, 1
	}
	begin = midnight(year, month, day, zone)
	for {
		month += time.Month(months)
		day += days
		if end = midnight(year, month, day, zone); end > t.Unix() {
			return begin, end
		}
		begin = end // the clocks have been put back behind it
	}
}

// midnight returns when the clocks of zone first show the date or a later one.
func midnight(year int, month time.Month, day int, zone *time.Location) int64 {
	shown := time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix()
	t := time.Unix(shown, 0).Add(-36 * time.Hour).In(zone) // no zone is so far east
	for {
		from, to := t.ZoneBounds()
		if !to.IsZero() && !to.After(t) {
			// On the last day of a leap year that the zone's file does not list, but
			// reckons by a rule, there is a change to nothing before t, go.dev/issue/81583.
			// None of a clock is so near.
			to = t.Add(24 * time.Hour)
		}
		_, offset := t.Zone()
		at := shown - int64(offset)
		if !from.IsZero() {
			at = max(at, from.Unix())
		}
		if to.IsZero() || at < to.Unix() {
			return at
		}
		t = to
	}
}

// hour returns the hour that t, in its zone, is in.
func hour(t time.Time) (begin, end int64) {
	_, offset := t.Zone()
	begin = t.Unix() - mod(t.Unix()+int64(offset), 3600)
	end = begin + 3600
	from, to := t.ZoneBounds()
	if !from.IsZero() && from.Unix() > begin && jumps(from) {
		begin = from.Unix()
	}
	if !to.IsZero() && to.Unix() < end && jumps(to) {
		end = to.Unix()
	}
	return begin, end
}

// jumps reports whether the minutes jump at the change t.
func jumps(t time.Time) bool {
	_, before := t.Add(-time.Second).Zone()
	_, after := t.Zone()
	return (after-before)%3600 != 0
}

func mod(a, b int64) int64 { return (a%b + b) % b }
