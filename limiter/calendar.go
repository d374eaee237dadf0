package limiter

import (
	"time"
)

// CalendarConfig says what a Calendar admits.
type CalendarConfig struct {
	// Limit is how many permits of a key each window has: 1 up to 1<<40.
	Limit int

	// Cycle is the length of the windows. The zero value is Daily.
	Cycle Cycle

	// Location is the time zone in which they begin. nil means UTC.
	Location *time.Location

	// MaxKeys bounds the keys that have taken permits in this window. A further key
	// has to wait until the next. At most 1<<30. 0 means 100,000.
	MaxKeys int
}

// Calendar gives each key Limit permits in every hour, day, week or month of a
// time zone, all at once at its beginning: the quota of a vendor that counts
// calls per day and begins anew at midnight. Permits not taken in a window are
// lost with it, and so is debt. Cycle says when windows begin.
//
// The envelope: each window holds no more permits of a key than the highest limit
// in force in it; a span of the same length around the border of two windows may
// hold twice as many. The whole Limit of each window can be used.
//
// The wall clock is read once, from the first now; from then on time is counted
// by the monotonic clock where there is one. So nobody gets tomorrow's permits by
// setting the clock. After the clock was put right, or the machine was asleep,
// call Sync.
//
// A Calendar belongs to one owner and has no lock. Wait and Take on a known key
// are O(1) and allocate nothing. A key needs some 120 bytes, besides its own.
type Calendar struct {
	window[quota]
	cycle Cycle
	zone  *time.Location
	shift time.Duration // of the wall clock since the first now

	begin, end int64 // of this window, in Unix seconds
}

// NewCalendar returns a Calendar in which nothing is taken. The error names the
// field that is out of range.
func NewCalendar(cfg CalendarConfig) (*Calendar, error) {
	err := first(
		checkLimit("CalendarConfig.Limit", cfg.Limit),
		checkKeys("CalendarConfig", cfg.MaxKeys),
	)
	if err == nil && cfg.Cycle > Monthly {
		err = invalidf("CalendarConfig.Cycle is %d, want Daily, Hourly, Weekly or Monthly", cfg.Cycle)
	}
	if err != nil {
		return nil, err
	}
	c := &Calendar{cycle: cfg.Cycle, zone: cfg.Location}
	if c.zone == nil {
		c.zone = time.UTC
	}
	c.init(calendarRule{c}, cfg.Limit, cfg.MaxKeys, 0)
	return c, nil
}

// Sync takes the wall clock of now for right. When it is earlier than was thought,
// what was taken still counts until its window ends.
func (c *Calendar) Sync(now time.Time) {
	t := c.at(now)
	c.shift = now.Round(0).Sub(c.start.Round(0)) - time.Duration(t)
	c.begin, c.end = c.cycle.around(c.wall(t), c.zone)
	c.limit.from = c.mono(c.end) // for a raise that waits for it
	c.keys.all()
}

// Rate returns Limit over the length of this window, in permits per second.
func (c *Calendar) Rate(now time.Time, key string) float64 {
	t := c.at(now)
	c.limit.turn(t)
	c.turn(t)
	return float64(c.limit.limit) / float64(c.end-c.begin)
}

// wall returns a time on the wall.
func (c *Calendar) wall(t uint64) time.Time { return c.start.Add(time.Duration(t)).Add(c.shift) }

// mono returns a time on the wall, in Unix seconds, as one of the clock's.
func (c *Calendar) mono(unix int64) uint64 { return c.ago(time.Unix(unix, 0).Add(-c.shift)) }

// turn moves begin and end to the window of t.
func (c *Calendar) turn(t uint64) (unix int64) {
	wall := c.wall(t)
	if unix = wall.Unix(); unix < c.begin || unix >= c.end {
		c.begin, c.end = c.cycle.around(wall, c.zone)
	}
	return unix
}

// quota is what was taken in the window that ends at end, in Unix seconds, all of it
// since the first take.
type quota struct {
	n, end int64
	since  uint64
}

// SettleAt is Settle for a take that was made at taken: what it cost less is given
// back as long as it counts, and all of it, unless the vendor's count has lowered
// the key since.
func (c *Calendar) SettleAt(now, taken time.Time, key string, n, used int) {
	c.settleAt(now, taken, key, n, used, c.off)
}

// off takes n permits off the window of a time, if it is the one that counts.
func (c *Calendar) off(s *quota, at uint64, n int64) int64 {
	if at < s.since {
		return 0
	}
	n = min(n, s.n)
	s.n -= n
	return n
}

type calendarRule struct{ c *Calendar }

func (r calendarRule) roll(t uint64, s *quota) (passed int64) {
	if r.c.turn(t) >= s.end {
		passed, s.n = s.n, 0
	}
	return passed
}

func (r calendarRule) level(t uint64, s *quota) int64 { return s.n }

func (r calendarRule) when(t uint64, s *quota, n, limit int64) uint64 {
	if s.n+n > limit {
		return r.c.mono(s.end)
	}
	return t
}

func (r calendarRule) charge(t uint64, s *quota, n int64) {
	if s.n == 0 { // else it ends with this window, or later if the clock was put back
		s.end, s.since = r.c.end, t
	}
	s.n += min(n, most-s.n)
}

func (r calendarRule) after(*quota, uint64) int64 { return 0 }

func (r calendarRule) refund(s *quota, n int64) { s.n -= n }

func (r calendarRule) idle(s *quota) uint64 {
	if s.n == 0 {
		return 0
	}
	return r.c.mono(s.end)
}

func (r calendarRule) since(t uint64) uint64 {
	r.c.turn(t)
	return r.c.mono(r.c.begin)
}

func (r calendarRule) next(t uint64) uint64 {
	r.c.turn(t)
	return r.c.mono(r.c.end)
}
