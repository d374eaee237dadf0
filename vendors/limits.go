package vendors

import (
	"time"

	"github.com/flyball-go/flyball/limiter"
)

// documented is a limit as a vendor publishes it: so many calls per window.
func documented(calls int, window time.Duration) limiter.QuotaConfig {
	return limiter.QuotaConfig{Limit: calls, Per: window}
}
