package governor

import (
	"math"
	"time"
)

// Ask is what a request wishes beside its closure. The zero Ask is an ordinary
// request. Set it with Governor.With.
type Ask struct {
	// Tenant is whose work this is. Lanes of different tenants are served in
	// turn.
	Tenant string

	// Bucket names the vendor's limit, narrower than the host, that the call is
	// counted under: an endpoint, a method.
	Bucket string

	// Priority is no order of service: it decides who is dropped from a full
	// queue; higher stays longer. Each priority has a lane of its own, and lanes
	// are served in turn.
	Priority int

	// Cost is how many permits of each limit an attempt takes; 0 means 1. A cost
	// that a limit can never admit fails with ErrNeverAdmissible.
	Cost int

	// StartBy is the latest start. A request that cannot start by then, or by
	// its context's deadline, fails with a *LateError as soon as that is known.
	// Zero: none.
	StartBy time.Time

	// NoRetry makes the first attempt the only one: a rate-limit error, too, is
	// returned at once, as it is. What the vendor said is learned all the same.
	NoRetry bool

	// KeepConn keeps the slot and the connection while the request waits out a
	// cooldown or a backoff, for connections with a session that must not be
	// interrupted.
	KeepConn bool
}

func (a *Ask) valid() bool {
	return a.Cost >= 0 && int64(a.Cost) <= math.MaxInt32 &&
		int64(a.Priority) >= math.MinInt32 && int64(a.Priority) <= math.MaxInt32
}

func (a *Ask) cost() int32 { return int32(max(1, a.Cost)) }
