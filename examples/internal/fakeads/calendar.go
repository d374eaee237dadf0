package fakeads

import "time"

const dayFormat = "2006-01-02"

// dayOf returns the calendar day of t in t's own time zone.
func dayOf(t time.Time) day {
	y, m, d := t.Date()
	return day(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / 86400)
}

// parseDay reads a day as 2006-01-02 or 20060102.
func parseDay(s string) (day, bool) {
	for _, f := range []string{dayFormat, "20060102"} {
		if t, err := time.Parse(f, s); err == nil {
			return dayOf(t), true
		}
	}
	return 0, false
}

func (d day) time() time.Time { return time.Unix(int64(d)*86400, 0).UTC() }

// String returns the day as 2006-01-02.
func (d day) String() string { return d.time().Format(dayFormat) }

// weekday counts from Sunday; 1970-01-01 was a Thursday.
func (d day) weekday() int { return int(((d+4)%7 + 7) % 7) }

// week, month, quarter return the first day of the period that d is in. Weeks
// begin on Monday.
func (d day) week() day { return d - day((d.weekday()+6)%7) }

func (d day) month() day {
	y, m, _ := d.time().Date()
	return dayOf(time.Date(y, m, 1, 0, 0, 0, 0, time.UTC))
}

func (d day) quarter() day {
	y, m, _ := d.time().Date()
	return dayOf(time.Date(y, (m-1)/3*3+1, 1, 0, 0, 0, 0, time.UTC))
}

func (d day) year() int64 { return int64(d.time().Year()) }

// during returns the days, first and last, that a date range literal means on
// the day today.
func during(literal string, today day) (first, last day, ok bool) {
	sunday := today - day(today.weekday())
	monday := today.week()
	switch literal {
	case "TODAY":
		return today, today, true
	case "YESTERDAY":
		return today - 1, today - 1, true
	case "LAST_7_DAYS":
		return today - 7, today - 1, true
	case "LAST_14_DAYS":
		return today - 14, today - 1, true
	case "LAST_30_DAYS":
		return today - 30, today - 1, true
	case "LAST_BUSINESS_WEEK":
		return monday - 7, monday - 3, true
	case "THIS_WEEK_SUN_TODAY":
		return sunday, today, true
	case "THIS_WEEK_MON_TODAY":
		return monday, today, true
	case "LAST_WEEK_SUN_SAT":
		return sunday - 7, sunday - 1, true
	case "LAST_WEEK_MON_SUN":
		return monday - 7, monday - 1, true
	case "THIS_MONTH":
		return today.month(), today, true
	case "LAST_MONTH":
		return (today.month() - 1).month(), today.month() - 1, true
	}
	return 0, 0, false
}
