package vendors

import (
	"net/http"
	"time"

	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// Cloudflare returns the adapter for Cloudflare's own API; what protects other
// sites is HTTP.
//
// Limited is 429. The delay is retry-after-ms, else Retry-After, else until the
// last of the exhausted policies of RateLimit is renewed or, as it was until 2025,
// X-RateLimit-Reset; else the documented block of 5 minutes. X-Should-Retry: false
// forbids to repeat the call. The pause is the host's: use one governor for each
// user or token.
//
// Evidence, read 2026-11-21: developers.cloudflare.com/fundamentals/api/reference/limits and
// the changelog of 2025-09-03; cloudflare/cloudflare-go:client_test.go.
func Cloudflare() Adapter { return Adapter{cloudflare} }

// CloudflareUser is the limit of a user or token, per host: 1,200 calls per 5 minutes.
func CloudflareUser() limiter.QuotaConfig { return documented(1200, 5*time.Minute) }

// CloudflareAddress is the limit of an IP address, per host: 200 calls per second.
func CloudflareAddress() limiter.QuotaConfig { return documented(200, time.Second) }

var cloudflare = &api{
	read: func(r Response, _ []quota) []throttle.Signal {
		s, ok := common(r, readQuotas(r.Header, r.At))
		if r.Status == http.StatusTooManyRequests && s.Delay == throttle.Unknown {
			s.Delay, s.Source = 5*time.Minute, "documented block"
		}
		return only(s, ok)
	},
	learn: func(r Response, _ []quota) []quota { return readQuotas(r.Header, r.At) },
}
