package vendors

import (
	"net/http"
	"strings"

	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
	"time"
)

// Discord returns the adapter for Discord's API.
//
// Limited is 429. The delay is retry_after of the body, in seconds with decimals,
// else Retry-After, which is that rounded up, else X-RateLimit-Reset-After, but not
// where the scope is shared: there it is about another limit. A global limit pauses
// the host; others pause the bucket. A 429 without a body in JSON is the ban of the
// IP address, by the network before Discord: 10,000 answers with 401, 403 or 429 in
// 10 minutes lead to it.
//
// Use one governor for each bot; the bucket is the method, X-RateLimit-Bucket and
// the top-level id (channel, guild or webhook). A bucket is not known before its
// first answer, so one call should go first. Answers teach the bucket by its name.
//
// Evidence, read 2026-11-21: discord/discord-api-docs:developers/topics/rate-limits.mdx;
// bwmarrin/discordgo:ratelimit.go.
func Discord() Adapter { return Adapter{discord} }

// DiscordGlobal is the limit of a bot over all buckets, per host: 50 calls per second.
// Answers to interactions do not count.
func DiscordGlobal() limiter.QuotaConfig { return documented(50, time.Second) }

var discord = &api{
	headers: []family{{limit: "X-Ratelimit-Limit", remaining: "X-Ratelimit-Remaining", after: "X-Ratelimit-Reset-After", reset: "X-Ratelimit-Reset",
		form: resetEpoch, level: throttle.Bucket}},
	read: readDiscord,
	learn: func(r Response, quotas []quota) []quota {
		for i := range quotas {
			quotas[i].Name = line(value(r.Header, "X-Ratelimit-Bucket"), 64)
		}
		return quotas
	},
}

func readDiscord(r Response, quotas []quota) []throttle.Signal {
	scope := strings.ToLower(value(r.Header, "X-Ratelimit-Scope"))
	if scope == "shared" {
		quotas = nil
	}
	s, ok := common(r, quotas)
	if r.Status != http.StatusTooManyRequests {
		return only(s, ok)
	}
	var reply struct {
		After  text `json:"retry_after"`
		Global text `json:"global"`
	}
	if len(r.Body) > 0 && !decode(r.Body, &reply) {
		s.Kind, s.Scope.Level = throttle.KindBan, throttle.Host
		return only(s, ok)
	}
	if d, valid := reply.After.seconds(); valid {
		s.Delay, s.Source = d, "retry_after: "+d.String()
	} else if _, _, stated := retryAfter(r.Header, r.At); !stated && len(quotas) > 0 && quotas[0].reset != throttle.Unknown {
		s.Delay, s.Source = quotas[0].reset, quotas[0].told()
	}
	s.Scope.Level = throttle.Bucket
	if scope == "global" || reply.Global == "true" || strings.EqualFold(value(r.Header, "X-Ratelimit-Global"), "true") {
		s.Scope.Level = throttle.Host
	}
	return only(s, ok)
}
