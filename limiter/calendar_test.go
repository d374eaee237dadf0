package limiter

import (
	"math"
	"slices"
	"testing"
	"time"
	_ "time/tzdata"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// TestCycleIsWhatTheClockOnTheWallShows walks through years minute by minute.
func TestCycleIsWhatTheClockOnTheWallShows(t *testing.T) {
	for _, c := range []struct {
		zone string
		year int
	}{
		{"UTC", 2024},
		{"America/New_York", 2026},
		{"Europe/London", 2026},
		{"Australia/Lord_Howe", 2026}, // half an hour
		{"America/Havana", 2026},      // back from 1:00 to 0:00
		{"America/Sao_Paulo", 2018},   // forward from 0:00, back to 23:00
		{"Asia/Beirut", 2026},         // the same
		{"America/St_Johns", 2008},    // back from 0:01 to 23:01
		{"Pacific/Apia", 2011},        // without 30 December
		{"Asia/Kathmandu", 2026},
		{"Antarctica/Troll", 2026}, // two hours
		{"America/New_York", 2040}, // Time.ZoneBounds is wrong at the end of leap years so far away:
		{"Europe/London", 2040},    // go.dev/issue/81583
		{"Australia/Sydney", 2040},
		{"Pacific/Auckland", 2044},
		{"Europe/Warsaw", 2041},
	} {
		z := zone(t, c.zone)
		begin := time.Date(c.year, 1, 1, 0, 0, 0, 0, time.UTC)
		var starts [Monthly + 1][]int64
		var shown int // the latest date, as 20260131
		var key [Monthly + 1]int
		due := begin.In(z).Minute()
		step := time.Minute
		for now := begin; now.Before(begin.AddDate(1, 0, 8)); now = now.Add(step) {
			local := now.In(z)
			if now.Hour() == 0 && now.Minute() == 0 { // where a day has no change, quarters will do
				_, today := local.Zone()
				_, tomorrow := now.AddDate(0, 0, 1).In(z).Zone()
				if step = 15 * time.Minute; today != tomorrow {
					step = time.Minute
				}
			}
			year, month, day := local.Date()
			if date := year*10000 + int(month)*100 + day; date > shown {
				shown = date
				monday := day - (int(local.Weekday())+6)%7
				for cycle, k := range map[Cycle]int{
					Daily:   date,
					Weekly:  int(time.Date(year, month, monday, 0, 0, 0, 0, time.UTC).Unix()),
					Monthly: date / 100,
				} {
					if key[cycle] != k {
						key[cycle] = k
						starts[cycle] = append(starts[cycle], now.Unix())
					}
				}
			}
			if minute := local.Minute(); minute == 0 || minute != due {
				starts[Hourly] = append(starts[Hourly], now.Unix())
			}
			due = (local.Minute() + int(step/time.Minute)) % 60
		}
		for cycle, starts := range starts {
			cycle := Cycle(cycle)
			checked := 0
			for i := 1; i+1 < len(starts); i++ { // the first began before
				for _, at := range []int64{starts[i], starts[i] + 600, (starts[i] + starts[i+1]) / 2, starts[i+1] - 1} {
					b, e := cycle.around(time.Unix(at, 0), z)
					if checked++; b != starts[i] || e != starts[i+1] {
						t.Errorf("%s, cycle %d: the window of %v is from %v to %v, want %v to %v", c.zone, cycle, time.Unix(at, 0).In(z),
							time.Unix(b, 0).In(z), time.Unix(e, 0).In(z), time.Unix(starts[i], 0).In(z), time.Unix(starts[i+1], 0).In(z))
					}
				}
			}
			if want := []int{1000, 20_000, 140, 25}[cycle]; checked < want {
				t.Errorf("%s, cycle %d: only %d windows checked", c.zone, cycle, checked)
			}
		}
	}
}

func TestCycleInOddZones(t *testing.T) {
	for _, offset := range []int{-12 * 3600, 14 * 3600, 5*3600 + 45*60, -3*3600 - 52*60 - 58, 35 * 3600} {
		z := time.FixedZone("odd", offset)
		for c := range Monthly + 1 {
			for _, at := range []int64{0, 86399, -1, 1e9, -1 << 36, 1 << 36} {
				begin, end := c.around(time.Unix(at, 0), z)
				local := time.Unix(begin, 0).In(z)
				if begin > at || end <= at || local.Minute() != 0 || local.Second() != 0 || c != Hourly && local.Hour() != 0 {
					t.Errorf("offset %d, cycle %d: %d is from %v to %v", offset, c, at, local, time.Unix(end, 0).In(z))
				}
			}
		}
	}
}

func newCalendar(t testing.TB, cfg CalendarConfig) *Calendar {
	t.Helper()
	c, err := NewCalendar(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCalendarDayIsAsLongAsItIs(t *testing.T) {
	ny := zone(t, "America/New_York")
	for _, c := range []struct {
		month time.Month
		day   int
		want  time.Duration
	}{{3, 8, 23 * time.Hour}, {11, 1, 25 * time.Hour}, {7, 1, 24 * time.Hour}} {
		l := newCalendar(t, CalendarConfig{Limit: 2, Location: ny})
		now := time.Date(2026, c.month, c.day, 0, 0, 0, 0, ny)
		l.Take(now, "", 2)
		if got := l.Wait(now, "", 1); got != c.want {
			t.Errorf("the %d.%d. has %v, want %v", c.day, c.month, got, c.want)
		}
		if got, want := l.Rate(now, ""), 2/c.want.Seconds(); math.Abs(got-want) > 1e-12 {
			t.Errorf("Rate = %v, want %v", got, want)
		}
	}
	l := newCalendar(t, CalendarConfig{Limit: 1, Cycle: Monthly, Location: ny})
	now := time.Date(2028, 2, 1, 0, 0, 0, 0, ny)
	var days []float64
	for range 12 {
		l.Take(now, "", 1)
		d := l.Wait(now, "", 1)
		days = append(days, math.Round(d.Hours()*24)/24/24)
		now = now.Add(d)
	}
	if want := []float64{29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 31}; !slices.EqualFunc(days, want, func(a, b float64) bool { return math.Abs(a-b) < 0.05 }) {
		t.Errorf("the months have %v days, want %v", days, want)
	}
}

func TestCalendarForgivesDebt(t *testing.T) {
	l := newCalendar(t, CalendarConfig{Limit: 10, Cycle: Hourly})
	at := func(minutes int) time.Time { return epoch.Add(time.Duration(minutes) * time.Minute) }
	l.Take(at(10), "", 5)
	l.Settle(at(20), "", 5, 25)
	if got := l.Available(at(20), ""); got != -15 {
		t.Errorf("%d available, want -15", got)
	}
	if got := l.Wait(at(20), "", 10); got != 40*time.Minute {
		t.Errorf("Wait = %v, want 40m", got)
	}
	if got := l.Available(at(60), ""); got != 10 {
		t.Errorf("%d available in the next window, want 10", got)
	}
}

func TestCalendarSync(t *testing.T) {
	// A machine that slept: 30 hours on the wall, no time at all by its other clock.
	base := time.Now()
	l := newCalendar(t, CalendarConfig{Limit: 10})
	l.Take(base, "", 10)
	if got := l.Available(wallStep(base, 30*3600), ""); got != 0 {
		t.Errorf("%d available by the wall clock alone, want 0", got)
	}
	l.Sync(wallStep(base, 30*3600))
	if got := l.Available(base, ""); got != 10 {
		t.Errorf("%d available after a night's sleep, want 10", got)
	}
	full := newCalendar(t, CalendarConfig{Limit: 1, MaxKeys: 1})
	full.Take(base, "a", 1)
	room := full.Wait(base, "b", 1)
	full.Sync(wallStep(base, 24*3600))
	if got := full.Wait(base, "b", 1); room == 0 || got != 0 {
		t.Errorf("room in %v, and in %v after a night's sleep", room, got)
	}
	// No, it is the old day still, and the clock was wrong.
	l.Take(base, "", 4)
	l.Sync(base)
	if got := l.Available(base, ""); got != 6 {
		t.Errorf("%d available, want 6: what was taken counts until its day ends", got)
	}
	end := base.Add(30 * time.Hour).Round(0).UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	if got, want := l.Wait(base, "", 7), end.Sub(base); got != want {
		t.Errorf("Wait = %v, want %v", got, want)
	}
	// It counts until then also when something is taken today.
	l.Take(base, "", 1)
	midnight := base.Round(0).UTC().Truncate(24 * time.Hour).Add(24 * time.Hour).Sub(base)
	if got := l.Available(base.Add(midnight), ""); got != 5 {
		t.Errorf("%d available tomorrow, want 5", got)
	}
	// Without a difference there is nothing to put right.
	same := newCalendar(t, CalendarConfig{Limit: 1})
	same.Take(epoch, "", 1)
	same.Sync(epoch.Add(10 * time.Hour))
	if got := same.Wait(epoch.Add(10*time.Hour), "", 1); got != 14*time.Hour {
		t.Errorf("Wait = %v, want 14h", got)
	}
	old := newCalendar(t, CalendarConfig{Limit: 1})
	noon := time.Date(1968, 2, 29, 12, 0, 0, 0, time.UTC)
	old.Take(noon, "", 1)
	if got := old.Wait(noon, "", 1); got != 12*time.Hour {
		t.Errorf("Wait = %v in 1968, want 12h", got)
	}
}

// TestCalendarSyncMovesARaise lets midnight come earlier by half of what is left of
// the day.
func TestCalendarSyncMovesARaise(t *testing.T) {
	l, base := newCalendar(t, CalendarConfig{Limit: 10}), time.Now()
	if err := l.SetLimit(base, 20); err != nil {
		t.Fatal(err)
	}
	left := base.Round(0).UTC().Truncate(24 * time.Hour).Add(24 * time.Hour).Sub(base)
	ahead := int64(left.Seconds() / 2)
	l.Sync(wallStep(base, ahead))
	left -= time.Duration(ahead) * time.Second
	if got := l.Available(base.Add(left-1), ""); got != 10 {
		t.Errorf("%d available just before midnight, want 10", got)
	}
	if got := l.Available(base.Add(left), ""); got != 20 {
		t.Errorf("%d available at midnight, want 20", got)
	}
}

func TestCalendarOfTimesThatNoDateHas(t *testing.T) {
	for _, cycle := range []Cycle{Daily, Hourly, Weekly, Monthly} {
		for _, name := range []string{"UTC", "Europe/Berlin"} {
			for _, at := range []int64{math.MinInt64, -1e17, -1e12, 1e12 - 1e8, 1e17, math.MaxInt64 - 62135596800, math.MaxInt64} {
				c, err := NewCalendar(CalendarConfig{Limit: 1, Cycle: cycle, Location: zone(t, name)})
				if err != nil {
					t.Fatal(err)
				}
				now := time.Unix(at, 0)
				c.Quota(now, "k")
				if wait := c.Wait(now, "k", 1); wait == 0 {
					c.Take(now, "k", 1)
				}
				if wait := c.Wait(now, "k", 1); wait <= 0 && at >= -1e12 && at <= 1e12 { // beyond it is enough to come to an end
					t.Errorf("%v in %s at %d: a second one waits %v", cycle, name, at, wait)
				}
			}
		}
	}
}
