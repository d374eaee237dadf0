package vendors

import (
	"time"

	"github.com/flyball-go/flyball/limiter"
)

// documented is a limit as a vendor publishes it: so many calls per window. A
// bucket that so many calls fill and that refills in the window passes whatever
// this does.
func documented(calls int, window time.Duration) limiter.QuotaConfig {
	return limiter.QuotaConfig{Limit: calls, Per: window}
}
