package vendors

import (
	"testing"
	"time"

	"github.com/flyball-go/flyball/throttle"
)

// later is 1800 s after received, in epoch seconds; 100 ms of them are over.
const (
	later   = "1795257000"
	halfway = 1800*sec - 100*ms
)

func TestGitHub(t *testing.T) {
	primary := []string{"X-RateLimit-Limit", "5000", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", later, "X-RateLimit-Resource", "core"}
	with := func(more ...string) []string { return append(append([]string(nil), primary...), more...) }
	healthy := []string{"X-RateLimit-Limit", "5000", "X-RateLimit-Remaining", "4999", "X-RateLimit-Reset", later}
	const second = `{"message":"You have exceeded a secondary rate limit. Please wait a few minutes."}`
	const exceeded = `{"message":"API rate limit exceeded for user ID 1."}`
	used := sig(budget, onBucket, halfway)
	checkReadings(t, GitHub(), []reading{
		{"primary", got(403, exceeded, primary...), []throttle.Signal{used}},
		{"without a body", got(429, "", primary...), []throttle.Signal{used}},
		{"by the text alone", got(403, exceeded), is(budget, onBucket, none)},
		{"by the text, with a time", got(403, exceeded, "Retry-After", "9"), is(budget, onBucket, 9*sec)},
		{"Retry-After is shorter", got(403, exceeded, with("Retry-After", "60")...), []throttle.Signal{used}},
		{"Retry-After is longer", got(403, exceeded, with("Retry-After", "3600")...), is(budget, onBucket, time.Hour)},
		{"search is per minute", got(403, exceeded, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", later, "X-RateLimit-Resource", "search"), is(burst, onBucket, halfway)},
		{"so is code search", got(403, exceeded, "X-RateLimit-Remaining", "0", "X-RateLimit-Resource", "code_search"), is(burst, onBucket, none)},
		{"the reset is over", got(403, exceeded, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "123"), is(budget, onBucket, 0)},
		{"on the server's clock", got(403, exceeded, with("Date", "Sat, 21 Nov 2026 10:29:50 GMT")...), is(budget, onBucket, 10*sec)},
		{"GraphQL", got(200, `{"errors":[{"type":"RATE_LIMITED"}]}`, primary...), []throttle.Signal{used}},
		{"GraphQL, the newer type", got(200, `{"errors":[{"type":"RATE_LIMIT","code":"graphql_rate_limit"}]}`, healthy...), []throttle.Signal{used}},
		{"GraphQL without headers", got(200, `{"errors":[{"type":"X"},{"type":"RATE_LIMITED"}]}`), is(budget, onBucket, none)},
		{"GraphQL resources", got(200, `{"errors":[{"type":"RESOURCE_LIMITS_EXCEEDED"}]}`, primary...), notLimited},
		{"a last call that went well", got(200, `{"message":"exceeded"}`, primary...), notLimited},

		{"secondary", got(403, second, healthy...), is(burst, onHost, time.Minute)},
		{"secondary with a time", got(403, second, "Retry-After", "30"), is(burst, onHost, 30*sec)},
		{"secondary with none", got(403, second, "Retry-After", ""), is(burst, onHost, time.Minute)},
		{"secondary by the documentation", got(403, `{"documentation_url":"https://docs.github.com/rest/overview/x#about-secondary-rate-limits"}`), is(burst, onHost, time.Minute)},
		{"secondary by the old documentation", got(403, `{"documentation_url":"https://developer.github.com/v3/#abuse-rate-limits"}`), is(burst, onHost, time.Minute)},
		{"abuse", got(403, `{"message":"You have triggered an abuse detection mechanism."}`), is(burst, onHost, time.Minute)},
		{"secondary in GraphQL", got(200, second, "Retry-After", "30"), is(burst, onHost, 30*sec)},
		{"secondary in GraphQL's errors", got(200, `{"errors":[{"message":"You have exceeded a secondary rate limit."}]}`), is(burst, onHost, time.Minute)},
		{"secondary as a page", got(403, `<html>You have exceeded a Secondary Rate Limit.</html>`), is(burst, onHost, time.Minute)},
		{"a commit about it", got(200, `{"message":"Fix: You have exceeded a secondary rate limit"}`, healthy...), notLimited},
		{"a page about it", got(200, `<html>exceeded a secondary rate limit</html>`), notLimited},
		{"429 of another kind", got(429, "{}", healthy...), is(burst, onHost, time.Minute)},
		{"403 with a time", got(403, `{"message":"x"}`, "Retry-After", "7"), is(burst, onHost, 7*sec)},
		{"both", got(403, second, with("Retry-After", "60")...), []throttle.Signal{sig(burst, onHost, time.Minute), used}},
		{"both without a time", got(403, second, primary...), []throttle.Signal{sig(burst, onHost, halfway), used}},

		{"both, and the secondary one is longer", got(403, second, with("Retry-After", "3600")...), []throttle.Signal{sig(burst, onHost, time.Hour), used}},
		{"secondary, and when another window ends", got(403, second, "X-RateLimit-Reset", later), is(burst, onHost, time.Minute)},
		{"secondary without credentials", got(401, second), notLimited},

		{"permission", got(403, `{"message":"Resource not accessible by integration"}`, healthy...), notLimited},
		{"credentials", got(401, exceeded, primary...), notLimited},
		{"404 with none left", got(404, "{}", primary...), notLimited},
		{"422", got(422, `{"message":"Validation Failed"}`, primary...), notLimited},
		{"502 announced", got(502, "", with("Retry-After", "4")...), is(overload, onHost, 4*sec)},
	})
	cost := ends(left(onBucket, "graphql", 4949, 5000), 3600*sec-100*ms)
	cost.Unit, cost.Cost = "points", 51
	checkLessons(t, GitHub(), []lesson{
		{"headers", got(403, exceeded, primary...), []throttle.Quota{ends(left(onBucket, "core", 0, 5000), halfway)}},
		{"some headers", got(200, "", "X-RateLimit-Remaining", "7", "X-RateLimit-Reset", "soon"), []throttle.Quota{left(onBucket, "", 7, -1)}},
		{"a query's cost", got(200, `{"data":{"rateLimit":{"cost":51,"limit":5000,"remaining":4949,"resetAt":"2026-11-21T11:00:00Z"}}}`), []throttle.Quota{cost}},
		{"a query's cost beside headers", got(200, `{"data":{"rateLimit":{"cost":"51","limit":5000,"remaining":4949}}}`, "X-RateLimit-Remaining", "4950", "X-RateLimit-Reset", "1795258800", "X-RateLimit-Resource", "graphql"), []throttle.Quota{cost}},
		{"another rateLimit", got(200, `{"data":{"rateLimit":[]}}`), nil},
	})
}

func TestGitLab(t *testing.T) {
	checkReadings(t, GitLab(), []reading{
		{"epoch under the draft's name", got(429, "Retry later", "RateLimit-Remaining", "0", "RateLimit-Reset", later), is(burst, onHost, halfway)},
		{"the date", got(429, "Retry later", "RateLimit-Remaining", "0", "RateLimit-ResetTime", "Sat, 21 Nov 2026 10:00:30 GMT"), is(burst, onHost, 29900*ms)},
		{"Retry-After first", got(429, "", "RateLimit-Remaining", "0", "RateLimit-Reset", later, "Retry-After", "60"), is(burst, onHost, time.Minute)},
		{"of the application", got(429, "", "RateLimit-Limit", "60", "RateLimit-Remaining", "59", "RateLimit-Reset", later), is(burst, onBucket, none)},
		{"a ban", got(403, "Forbidden"), notLimited},
	})
	checkLessons(t, GitLab(), []lesson{
		{"with its name", got(200, "", "RateLimit-Limit", "60", "RateLimit-Remaining", "33", "RateLimit-Observed", "27", "RateLimit-Reset", later, "RateLimit-Name", "throttle_authenticated_api",
			"RateLimit-ResetTime", "Sat, 21 Nov 2026 10:30:00 GMT"), []throttle.Quota{ends(left(onHost, "throttle_authenticated_api", 33, 60), halfway)}},
	})
}

func TestSlack(t *testing.T) {
	checkReadings(t, Slack(), []reading{
		{"429", got(429, `{"ok":false,"error":"ratelimited"}`, "Retry-After", "30"), is(burst, onBucket, 30*sec)},
		{"200", got(200, `{"ok":false,"error":"ratelimited"}`), is(burst, onBucket, none)},
		{"200 with a time", got(200, `{"error":"ratelimited","ok":false}`, "Retry-After", "3"), is(burst, onBucket, 3*sec)},
		{"200 is well", got(200, `{"ok":true,"text":"ratelimited"}`, "Retry-After", "3"), notLimited},
		{"200 is well, and has a field", got(200, `{"ok":true,"error":"ratelimited"}`), notLimited},
		{"200 with another error", got(200, `{"ok":false,"error":"invalid_auth","needed":"ratelimited"}`), notLimited},
	})
}

func TestDiscord(t *testing.T) {
	const body = `{"message":"You are being rate limited.","retry_after":64.57,"global":false}`
	checkReadings(t, Discord(), []reading{
		{"of the user", got(429, body, "Retry-After", "65", "X-RateLimit-Scope", "user", "X-RateLimit-Reset-After", "64.57", "X-RateLimit-Remaining", "0"), is(burst, onBucket, 64570*ms)},
		{"shared", got(429, `{"retry_after":1336.57}`, "Retry-After", "1337", "X-RateLimit-Reset-After", "64.57", "X-RateLimit-Scope", "shared"), is(burst, onBucket, 1336570*ms)},
		{"shared, without a time of its own", got(429, "", "X-RateLimit-Reset-After", "64.57", "X-RateLimit-Remaining", "0", "X-RateLimit-Scope", "shared"), is(burst, onBucket, none)},
		{"global by the body", got(429, `{"retry_after":"0.5","global":true}`), is(burst, onHost, 500*ms)},
		{"global by the scope", got(429, body, "X-RateLimit-Scope", "GLOBAL"), is(burst, onHost, 64570*ms)},
		{"global by the header", got(429, "", "X-RateLimit-Global", "true", "Retry-After", "3"), is(burst, onHost, 3*sec)},
		{"headers alone", got(429, "", "X-RateLimit-Reset-After", "0.25"), is(burst, onBucket, 250*ms)},
		{"headers alone, with some left", got(429, "{}", "X-RateLimit-Reset-After", "0.25", "X-RateLimit-Remaining", "1"), is(burst, onBucket, 250*ms)},
		{"a negative time", got(429, `{"retry_after":-1}`, "Retry-After", "3"), is(burst, onBucket, 3*sec)},
		{"a huge time", got(429, `{"retry_after":1e300}`), is(burst, onBucket, longest)},
		{"the ban of the address", got(429, "error code: 1015", "Retry-After", "600"), is(ban, onHost, 600*sec)},
		{"permission", got(403, `{"code":50013,"retry_after":1}`), notLimited},
	})
	checkLessons(t, Discord(), []lesson{
		{"a bucket", got(200, "", "X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1470173023.123", "X-RateLimit-Reset-After", "1", "X-RateLimit-Bucket", "abcd1234"),
			[]throttle.Quota{ends(left(onBucket, "abcd1234", 0, 5), sec)}},
		{"with decimals", got(200, "", "X-RateLimit-Reset", "1795257000.5"), []throttle.Quota{ends(left(onBucket, "", -1, -1), halfway+500*ms)}},
	})
}

func TestAtlassian(t *testing.T) {
	reset := []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "2026-11-21T10:30Z"}
	reason := func(s string) []string { return append(reset[:len(reset):len(reset)], "RateLimit-Reason", s) }
	checkReadings(t, Atlassian(), []reading{
		{"a burst", got(429, "", reason("jira-burst-based")...), is(burst, onBucket, halfway)},
		{"an issue", got(429, "", reason("jira-per-issue-on-write")...), is(burst, onRequest, halfway)},
		{"the tenant", got(429, "", reason("jira-quota-tenant-based")...), is(budget, onTenant, halfway)},
		{"the app", got(429, "", reason("Jira-Quota-Global-Based")...), is(budget, onHost, halfway)},
		{"a reason of the future", got(429, "", reason("jira-x")...), is(burst, onHost, halfway)},
		{"Retry-After first", got(429, "", append(reason("jira-quota-global-based"), "Retry-After", "1847")...), is(budget, onHost, 1847*sec)},
		{"some left", got(429, "", "X-RateLimit-Remaining", "3", "X-RateLimit-Reset", "2026-11-21T10:30:00Z"), is(burst, onHost, none)},
		{"for information only", got(429, "", "Beta-Retry-After", "9", "Beta-RateLimit", `"x";r=0;t=9`), is(burst, onHost, none)},
		{"5xx for some reason", got(503, "", "Retry-After", "5", "RateLimit-Reason", "jira-burst-based"), is(overload, onHost, 5*sec)},
	})
	checkLessons(t, Atlassian(), []lesson{
		{"points", got(200, "", "X-RateLimit-Limit", "65000", "X-RateLimit-Remaining", "500", "X-RateLimit-NearLimit", "true"), []throttle.Quota{left(onHost, "", 500, 65000)}},
		{"for information only", got(200, "", "Beta-RateLimit", `"x";r=7;t=9`), nil},
	})
}

func TestNotion(t *testing.T) {
	body := func(after string) string {
		return `{"code":"rate_limited","additional_data":{"retry_after":` + after + `}}`
	}
	checkReadings(t, Notion(), []reading{
		{"in the body", got(429, body(`"49"`)), is(burst, onHost, 49*sec)},
		{"as a number", got(429, body(`0.5`)), is(burst, onHost, 500*ms)},
		{"the header first", got(429, body(`49`), "Retry-After", "3"), is(burst, onHost, 3*sec)},
		{"a header that is none", got(429, body(`49`), "Retry-After", "-3"), is(burst, onHost, 49*sec)},
		{"nothing readable", got(429, body(`"soon"`)), is(burst, onHost, none)},
		{"the code", got(400, body(`null`)), is(burst, onHost, none)},
		{"529", got(529, `{"code":"service_overload"}`, "Retry-After", "6"), is(overload, onHost, 6*sec)},
		{"529 in the body", got(529, `{"code":"service_overload","additional_data":{"retry_after":6}}`), is(overload, onHost, 6*sec)},
		{"529 without a time", got(529, `{"code":"service_overload"}`), notLimited},
		{"a conflict", got(409, `{"code":"conflict_error"}`), notLimited},
	})
}

func TestLinear(t *testing.T) {
	const limited = `{"errors":[{"extensions":{"code":"INPUT_ERROR"}},{"extensions":{"code":"RATELIMITED"}}]}`
	checkReadings(t, Linear(), []reading{
		{"requests", got(400, limited, "X-RateLimit-Requests-Remaining", "0", "X-RateLimit-Requests-Reset", "1795255230000", "X-RateLimit-Complexity-Remaining", "0", "X-RateLimit-Complexity-Reset", "1795255220000"), is(burst, onHost, 29900*ms)},
		{"complexity", got(400, limited, "X-RateLimit-Requests-Remaining", "4", "X-RateLimit-Requests-Reset", "1795255290000", "X-RateLimit-Complexity-Remaining", "0", "X-RateLimit-Complexity-Reset", "1795255220000"), is(burst, onHost, 19900*ms)},
		{"an endpoint", got(400, limited, "X-RateLimit-Endpoint-Requests-Remaining", "0", "X-RateLimit-Endpoint-Requests-Reset", "1795255230000"), is(burst, onBucket, 29900*ms)},
		{"the host, and an endpoint for longer", got(400, limited, "X-RateLimit-Requests-Remaining", "0", "X-RateLimit-Requests-Reset", "1795255220000",
			"X-RateLimit-Complexity-Remaining", "0", "X-RateLimit-Complexity-Reset", "1795255210000", "X-RateLimit-Endpoint-Requests-Remaining", "0", "X-RateLimit-Endpoint-Requests-Reset", "1795255230000"),
			[]throttle.Signal{sig(burst, onBucket, 29900*ms), sig(burst, onHost, 19900*ms)}},
		{"both, not to be repeated", got(429, "", "X-Should-Retry", "false", "X-RateLimit-Requests-Remaining", "0", "X-RateLimit-Endpoint-Requests-Remaining", "0"),
			[]throttle.Signal{final(sig(burst, onHost, none)), final(sig(burst, onBucket, none))}},
		{"both, but an outage", got(503, "", "Retry-After", "8", "X-RateLimit-Requests-Remaining", "0", "X-RateLimit-Endpoint-Requests-Remaining", "0"), is(overload, onHost, 8*sec)},
		{"none of them is known", got(400, limited), is(burst, onHost, none)},
		{"Retry-After", got(400, limited, "Retry-After", "8", "X-RateLimit-Requests-Remaining", "0", "X-RateLimit-Requests-Reset", "1795255230000"), is(burst, onHost, 8*sec)},
		{"with 200", got(200, limited), is(burst, onHost, none)},
		{"in a text", got(400, `{"errors":[{"message":"RATELIMITED"}]}`), notLimited},
	})
	complexity := in(left(onHost, "complexity", 9990, 10000), "points", 0)
	complexity.Cost = 10
	checkLessons(t, Linear(), []lesson{
		{"all", got(200, "", "X-RateLimit-Requests-Limit", "1500", "X-RateLimit-Requests-Remaining", "1499", "X-RateLimit-Complexity-Limit", "10000", "X-RateLimit-Complexity-Remaining", "9990", "X-Complexity", "10"),
			[]throttle.Quota{left(onHost, "requests", 1499, 1500), complexity}},
	})
}
