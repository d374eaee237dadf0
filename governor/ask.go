package governor

import (
	"math"
	"time"

	"github.com/flyball-go/flyball/governor/internal/fair"
)

// Ask is what a request wishes beside its closure. The zero Ask is an ordinary
// request. Set it with Governor.With.
type Ask struct {
	// Tenant is whose work this is. Within a priority tenants share what can be
	// started, by cost and Config.Weight, however many lanes each has; those of one
	// tenant are served in turn.
	Tenant string

	// Bucket names the vendor's limit, narrower than the host, that the call is
	// counted under: an endpoint, a method.
	Bucket string

	// Priority is the order of service between lanes: the higher goes first, and
	// Config.Ageing sees to it that none waits for ever. When a full queue drops
	// requests it is the lower, whatever their age. It is from math.MinInt32 to
	// math.MaxInt32.
	Priority int

	// Cost is how many permits of each limit an attempt takes (where limits have a
	// Unit, of each that has one), and what the attempt counts in its tenant's share;
	// 0 means 1. A cost that a limit can never admit fails with ErrNeverAdmissible.
	Cost int

	// StartBy is the latest start. A request that cannot start by then, or by
	// its context's deadline, fails with a *LateError as soon as that is known. When its
	// context ends first, it fails with a *CanceledError. Zero: none.
	StartBy time.Time

	// NoRetry makes the first attempt the only one: a rate-limit error, too, is
	// returned at once, as it is. What the vendor said is learned all the same.
	NoRetry bool

	// KeepConn keeps the slot and the connection while the request waits out a
	// cooldown or a backoff, for connections with a session that must not be
	// interrupted. What waits so is in lanes of its own, for it can go when nobody else
	// has a slot: tenants share among those, and where both could go, they and the others
	// take turns. In front of a limit narrower than the host's it asks by itself; who costs
	// more than it there, or has to wait for a slot as well as for the limit, may have to
	// wait for as long as it asks at once each time. Stream does not look at it.
	KeepConn bool
}

func (a *Ask) valid() bool {
	return a.Cost >= 0 && int64(a.Cost) <= math.MaxInt32 &&
		int64(a.Priority) >= math.MinInt32 && int64(a.Priority) <= math.MaxInt32
}

// plain reports whether a request is one of its selector's plain class.
func (a *Ask) plain() bool { return a.Tenant == "" && a.Bucket == "" && a.Priority == 0 }

func (a *Ask) cost() int32 { return int32(max(1, a.Cost)) }

// weigh asks for the weight of a tenant.
func (c *core) weigh(tenant string) (w int32) {
	if c.weight == nil {
		return 1
	}
	defer func() {
		if recover() != nil {
			c.count.hookPanics.Add(1)
			w = 1
		}
	}()
	return int32(max(1, min(c.weight(tenant), fair.MaxWeight)))
}
