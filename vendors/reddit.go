package vendors

import (
	"regexp"
	"strings"

	"github.com/flyball-go/flyball/throttle"
)

// Reddit returns the adapter for Reddit's API.
//
// Limited are 429, and RATELIMIT among json.errors, which comes with status 200 and
// limits what a user does. The delay of the first is Retry-After, else until
// X-RateLimit-Reset, in seconds, when nothing remains; of the second what the text
// says ("Try again in 6 seconds."). The first pauses the host: use one governor for
// each OAuth client. The second pauses the bucket: user and action together.
// Answers teach what remains, which Reddit writes with decimals.
//
// Evidence, read 2026-11-21: praw-dev/prawcore:prawcore/rate_limit.py, prawcore/exceptions.py,
// tests/unit/test_rate_limit.py; praw-dev/praw:praw/reddit.py, tests/unit/test_reddit.py.
func Reddit() Adapter { return Adapter{reddit} }

var reddit = &api{
	headers: []family{{remaining: "X-Ratelimit-Remaining", reset: "X-Ratelimit-Reset", form: resetSeconds}},
	read:    readReddit,
	peek:    redditAction,
}

func readReddit(r Response, quotas []quota) []throttle.Signal {
	if r.Status >= 500 || r.Status == 429 || !has(r.Body, "RATELIMIT") {
		return only(common(r, quotas))
	}
	var reply struct {
		JSON struct {
			Errors items[items[text]] `json:"errors"`
		} `json:"json"`
	}
	decode(r.Body, &reply)
	var all signals
	for _, e := range reply.JSON.Errors {
		if len(e) == 0 || e[0] != "RATELIMIT" {
			continue
		}
		s := throttle.Signal{Kind: throttle.KindBurst, Scope: throttle.Scope{Level: throttle.Bucket}, Delay: throttle.Unknown, Source: "RATELIMIT"}
		if len(e) > 1 {
			said := strings.ToLower(string(e[1][:min(len(e[1]), 1<<10)]))
			if m := redditWait.FindStringSubmatch(said); m != nil {
				s.Delay = proseDelay("in "+m[0], "in ")
				s.Source += ", " + m[0]
			}
		}
		all.add(s)
	}
	return all
}

// redditWait is how a text gives a time.
var redditWait = regexp.MustCompile(`[0-9]{1,6} (?:millisecond|second|minute|hour)s?`)
