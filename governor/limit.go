package governor

import (
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// Limit is a limit and the key it is counted under.
type Limit struct {
	// Per says whose requests share the limit: the whole Host, or those of one
	// Selector, Tenant or Bucket. The limiter's key is the selector's text, the
	// tenant or the bucket; for Host it is "".
	Per throttle.Level

	// Unit is what the limit counts, in the plural as a throttle.Quota has it:
	// "tokens", "points". Such a limit takes Ask.Cost of each attempt, and is what
	// Settle, and a Report in its unit, correct. As soon as one limit of a Config has
	// a Unit, those without count calls, which is 1 of each attempt whatever it
	// costs; a Config without any Unit takes Ask.Cost of all. An attempt has one
	// cost: two limits of different Units, or of the same, take the same of it.
	Unit string

	// Limiter belongs to the governor from New on. nil means what
	// limiter.NewQuota makes of Quota.
	Limiter limiter.Limiter

	// Quota is the limit as the vendor documents it, so many calls per minute,
	// say. It is kept over a sliding window, the strictest reading of the words;
	// where the vendor is known to count otherwise, set Limiter. A MaxKeys of 0
	// means the governor's.
	Quota limiter.QuotaConfig

	// Version is to be raised with every change of Quota where a Config.Store shares
	// it: processes of the old configuration and of the new one run side by side for
	// a while, and the limits of the largest Version that any has said are in force for
	// all. A change without a larger one does not come into force while anybody uses
	// the old one, which the Syncer's Logger is told. Of several Quotas of one Per and
	// Unit the largest Version counts. 0 means 1.
	Version uint64
}

// limit is a Limit that was looked through.
type limit struct {
	Per      throttle.Level
	calls    bool // takes 1 of each attempt: others have a unit
	exact    bool // wants every take settled
	releases bool // is a limiter.Releaser
	Limiter  limiter.Limiter
	claims   limiter.Claimer // the Limiter, if it has other owners, too
	unit     string
}

// of returns how much of a cost the limit takes.
func (l *limit) of(cost int) int {
	if l.calls {
		return 1
	}
	return cost
}

// holds reports whether permits of key are held while a call runs.
func (l *limit) holds(key string) bool {
	if by, ok := l.Limiter.(*limiter.ByKey); ok {
		_, ok = by.Of(key).(limiter.Releaser)
		return ok
	}
	return l.releases
}

// counted reports whether limits count what a vendor counts in unit.
func counted(limits []limit, unit string) bool {
	units := false
	for i := range limits {
		if limits[i].unit == unit && !limits[i].calls {
			return true
		}
		units = units || limits[i].unit != ""
	}
	return unit == "" && !units
}
