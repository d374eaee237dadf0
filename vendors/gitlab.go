package vendors

import (
	"time"

	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// GitLab returns the adapter for GitLab's API, of gitlab.com and of one's own.
//
// Limited is 429; its text can be configured and says nothing. 403 is none: the
// ban of an address after failed logins is a matter of credentials. The delay is
// Retry-After, else until RateLimit-Reset, which has the draft's name and seconds
// since 1970, or RateLimit-ResetTime. These pause the host: use one governor for
// each user. Limits of the application itself (notes, search, exports) come
// without headers, beside a RateLimit-Remaining that looks well; these pause the
// bucket, so use the endpoint as one.
//
// Evidence, read 2026-11-21: gitlabhq/gitlabhq:doc/administration/settings/user_and_ip_rate_limits.md;
// xanzy/go-gitlab:gitlab.go.
func GitLab() Adapter { return Adapter{gitLab} }

// GitLabUser is the limit of a user, per host, that an installation of one's own
// has once the limit is switched on: 7,200 calls per hour.
func GitLabUser() limiter.QuotaConfig { return documented(7200, time.Hour) }

// GitLabAnonymous is the like limit of an IP address without a user, per host:
// 3,600 calls per hour.
func GitLabAnonymous() limiter.QuotaConfig { return documented(3600, time.Hour) }

var gitLab = &api{read: func(r Response, _ []quota) []throttle.Signal {
	quotas := gitLabQuotas(r)
	s, ok := common(r, quotas)
	if ok && s.Delay == throttle.Unknown {
		return scoped(throttle.Bucket, s, ok)
	}
	return only(s, ok)
}, learn: func(r Response, _ []quota) []quota { return gitLabQuotas(r) }}

var gitLabHeaders = []family{
	{limit: "Ratelimit-Limit", remaining: "Ratelimit-Remaining", reset: "Ratelimit-Reset", form: resetEpoch},
	{reset: "Ratelimit-Resettime"},
}

// gitLabQuotas reads the one quota that the headers tell of.
func gitLabQuotas(r Response) []quota {
	quotas := readFamilies(gitLabHeaders, r.Header, r.At)
	if len(quotas) > 1 {
		if quotas[0].reset == throttle.Unknown {
			quotas[0].reset, quotas[0].source = quotas[1].reset, quotas[1].source
		}
		quotas = quotas[:1]
	}
	if len(quotas) > 0 {
		quotas[0].Name = line(value(r.Header, "Ratelimit-Name"), 64)
	}
	return quotas
}
