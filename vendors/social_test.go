package vendors

import (
	"testing"
	"time"

	"github.com/flyball-go/flyball/throttle"
)

func TestX(t *testing.T) {
	const reset = "1795255230"
	checkReadings(t, X(), []reading{
		{"an endpoint", got(429, "", "x-rate-limit-limit", "15", "x-rate-limit-remaining", "0", "x-rate-limit-reset", reset), is(burst, onBucket, 29900*ms)},
		{"a reset alone", got(429, "", "x-rate-limit-reset", reset), is(burst, onBucket, 29900*ms)},
		{"the app's day", got(429, "", "x-rate-limit-remaining", "5", "x-rate-limit-reset", reset, "x-app-limit-24hour-remaining", "0", "x-app-limit-24hour-reset", "1795262400"), is(budget, onHost, 2*time.Hour-100*ms)},
		{"the user's day", got(429, "", "x-rate-limit-remaining", "0", "x-rate-limit-reset", reset, "x-user-limit-24hour-remaining", "0", "x-user-limit-24hour-reset", "1795256000"),
			[]throttle.Signal{sig(budget, onTenant, 799900*ms), sig(burst, onBucket, 29900*ms)}},
		{"all three", got(429, "", "x-rate-limit-remaining", "0", "x-rate-limit-reset", "1795256000", "x-user-limit-24hour-remaining", "0", "x-user-limit-24hour-reset", reset,
			"x-app-limit-24hour-remaining", "0", "x-app-limit-24hour-reset", "1795255220"),
			[]throttle.Signal{sig(burst, onBucket, 799900*ms), sig(budget, onTenant, 29900*ms), sig(budget, onHost, 19900*ms)}},
		{"420", got(420, "", "Retry-After", "60"), is(burst, onBucket, time.Minute)},
		{"code 88", got(400, `{"errors":[{"code":88,"message":"Rate limit exceeded"}]}`), is(burst, onBucket, none)},
		{"the cap of a month", got(429, `{"title":"UsageCapExceeded"}`, "x-rate-limit-remaining", "0", "x-rate-limit-reset", reset), is(budget, onHost, none)},
		{"the cap with 403", got(403, `{"title":"UsageCapExceeded","period":"Monthly"}`), is(budget, onHost, none)},
		{"the cap among errors", got(403, `{"errors":[{"title":"UsageCapExceeded"}]}`), is(budget, onHost, none)},
		{"the cap by its type", got(429, `{"title":"Usage cap","type":"https://api.twitter.com/2/problems/usage-capped"}`), is(budget, onHost, none)},
		{"the cap elsewhere", got(404, `{"title":"UsageCapExceeded"}`), notLimited},
		{"not enrolled", got(403, `{"title":"Client Forbidden"}`), notLimited},
		{"over capacity", got(503, "", "Retry-After", "2"), is(overload, onHost, 2*sec)},
	})
	checkLessons(t, X(), []lesson{
		{"all three", got(200, "", "x-rate-limit-limit", "15", "x-rate-limit-remaining", "14", "x-rate-limit-reset", reset, "x-user-limit-24hour-remaining", "9", "x-app-limit-24hour-limit", "50"),
			[]throttle.Quota{ends(in(left(onBucket, "", 14, 15), "", 15*time.Minute), 29900*ms), in(left(onTenant, "user 24hour", 9, -1), "", 24*time.Hour), in(left(onHost, "app 24hour", -1, 50), "", 24*time.Hour)}},
	})
}

func TestSpotify(t *testing.T) {
	checkReadings(t, Spotify(), []reading{
		{"a window", got(429, "", "Retry-After", "30"), is(burst, onHost, 30*sec)},
		{"at most so long", got(429, "", "Retry-After", "900"), is(burst, onHost, 15*time.Minute)},
		{"a block", got(429, "Too many requests", "Retry-After", "901"), is(ban, onHost, 901*sec)},
		{"a long outage", got(503, "", "Retry-After", "3600"), is(overload, onHost, time.Hour)},
	})
}

func TestReddit(t *testing.T) {
	action := func(text string) string { return `{"json":{"errors":[["RATELIMIT","` + text + `","ratelimit"]]}}` }
	checkReadings(t, Reddit(), []reading{
		{"the header first", got(429, "", "retry-after", "4.5", "x-ratelimit-remaining", "0.0", "x-ratelimit-reset", "13"), is(burst, onHost, 4500*ms)},
		{"nothing remains", got(429, "", "x-ratelimit-remaining", "0.0", "x-ratelimit-used", "100", "x-ratelimit-reset", "13"), is(burst, onHost, 13*sec)},
		{"some remains", got(429, "", "x-ratelimit-remaining", "5.0", "x-ratelimit-reset", "13"), is(burst, onHost, none)},
		{"seconds", got(200, action("Looks like you've been doing that a lot. Try again in 6 seconds.")), is(burst, onBucket, 6*sec)},
		{"one minute", got(200, action("Take a break for 1 minute before trying again.")), is(burst, onBucket, time.Minute)},
		{"milliseconds", got(200, action("Try again in 4 milliseconds.")), is(burst, onBucket, 4*ms)},
		{"hours", got(200, action("Try again in 2 Hours.")), is(burst, onBucket, 2*time.Hour)},
		{"no time", got(200, action("Some unexpected error message")), is(burst, onBucket, none)},
		{"short", got(400, `{"json":{"errors":[["RATELIMIT"]]}}`), is(burst, onBucket, none)},
		{"the second", got(200, `{"json":{"errors":[["NO_TEXT"],[],null,5,["RATELIMIT",7]]}}`), is(burst, onBucket, none)},
		{"another error", got(200, `{"json":{"errors":[["NO_TEXT","RATELIMIT","title"]]}}`), notLimited},
		{"no errors", got(200, `{"json":{"data":"RATELIMIT"}}`), notLimited},
	})
	checkLessons(t, Reddit(), []lesson{
		{"a float", got(200, "", "x-ratelimit-remaining", "60.9", "x-ratelimit-used", "100", "x-ratelimit-reset", "72"), []throttle.Quota{ends(left(onHost, "", 60, -1), 72*sec)}},
	})
}
