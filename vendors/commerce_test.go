package vendors

import (
	"fmt"
	"testing"
	"time"

	"github.com/flyball-go/flyball/throttle"
)

func TestStripe(t *testing.T) {
	reason := func(status int, s string) Response {
		return got(status, `{"error":{"code":"rate_limit"}}`, "Stripe-Rate-Limited-Reason", s)
	}
	checkReadings(t, Stripe(), []reading{
		{"global rate", reason(429, "global-rate"), is(burst, onHost, none)},
		{"endpoint rate", reason(429, "Endpoint-Rate"), is(burst, onBucket, none)},
		{"global concurrency", reason(429, "global-concurrency"), is(atOnce, onHost, none)},
		{"endpoint concurrency", reason(429, "endpoint-concurrency"), is(atOnce, onBucket, none)},
		{"one object", reason(429, "resource-specific"), is(burst, onRequest, none)},
		{"a reason of the future", reason(429, "moon-phase"), is(throttle.KindUnknown, onHost, none)},
		{"another status", reason(400, "global-rate"), is(burst, onHost, none)},
		{"a lock", got(429, `{"error":{"code":"lock_timeout"}}`), notLimited},
		{"a lock with a reason", got(429, `{"error":{"code":"lock_timeout"}}`, "Stripe-Rate-Limited-Reason", "global-rate"), is(burst, onHost, none)},
		{"the code", got(400, `{"error":{"code":"rate_limit"}}`), is(burst, onHost, none)},
		{"the type", got(400, `{"error":{"type":"rate_limit_error"}}`), is(burst, onHost, none)},
		{"the other type", got(400, `{"error":{"type":"rate_limit"}}`), is(burst, onHost, none)},
		{"do not", got(429, "", "Stripe-Should-Retry", "false", "Retry-After", "1"), []throttle.Signal{final(sig(burst, onHost, sec))}},
		{"do", got(429, "", "Stripe-Should-Retry", "true"), is(burst, onHost, none)},
		{"a card", got(402, `{"error":{"code":"card_decline_rate_limit_exceeded","type":"card_error"}}`), notLimited},
		{"a conflict", got(409, `{"error":{"code":"idempotency_key_in_use"}}`, "Stripe-Should-Retry", "true"), notLimited},
	})
}

func TestShopifyREST(t *testing.T) {
	checkReadings(t, ShopifyREST(), []reading{
		{"half a second", got(429, "", "Retry-After", "0.5"), is(burst, onTenant, 500*ms)},
		{"no time", got(429, `{"errors":"Exceeded 2 calls per second"}`, "X-Shopify-Shop-Api-Call-Limit", "40/40"), is(burst, onTenant, none)},
		{"a matter of security", got(430, ""), notLimited},
		{"locked", got(423, ""), notLimited},
	})
	checkLessons(t, ShopifyREST(), []lesson{
		{"used of all", got(200, "", "X-Shopify-Shop-Api-Call-Limit", "32/80"), []throttle.Quota{left(onTenant, "", 48, 80)}},
		{"more than all", got(429, "", "X-Shopify-Shop-Api-Call-Limit", "41/40"), []throttle.Quota{left(onTenant, "", 0, 40)}},
		{"garbled", got(200, "", "X-Shopify-Shop-Api-Call-Limit", "32"), nil},
		{"negative", got(200, "", "X-Shopify-Shop-Api-Call-Limit", "-1/40"), nil},
	})
}

func TestShopifyGraphQL(t *testing.T) {
	cost := func(requested, available, rate string) string {
		return fmt.Sprintf(`{"errors":[{"message":"Throttled","extensions":{"code":"THROTTLED"}}],"extensions":{"cost":{"requestedQueryCost":%s,"actualQueryCost":null,"throttleStatus":{"maximumAvailable":1000,"currentlyAvailable":%s,"restoreRate":%s}}}}`, requested, available, rate)
	}
	checkReadings(t, ShopifyGraphQL(), []reading{
		{"missing points", got(200, cost("400", "300", "50.0")), is(burst, onTenant, 2*sec)},
		{"as texts", got(200, cost(`"101"`, `"75"`, `"100"`)), is(burst, onTenant, 260*ms)},
		{"there by now", got(200, cost("10", "300", "50")), is(burst, onTenant, 0)},
		{"no rate", got(200, cost("400", "300", "0")), is(burst, onTenant, none)},
		{"a negative rate", got(200, cost("400", "300", "-5")), is(burst, onTenant, none)},
		{"next to no rate", got(200, cost("400", "300", "1e-300")), is(burst, onTenant, longest)},
		{"a part is missing", got(200, cost("400", "null", "50")), is(burst, onTenant, none)},
		{"Retry-After first", got(429, cost("400", "300", "50"), "Retry-After", "7"), is(burst, onTenant, 7*sec)},
		{"the text alone", got(200, `{"errors":[{"message":"Throttled"}]}`), is(burst, onTenant, none)},
		{"too expensive for ever", got(200, `{"errors":[{"message":"Throttled","extensions":{"code":"MAX_COST_EXCEEDED"}}]}`), notLimited},
		{"an error as a text", got(403, `{"errors":"THROTTLED"}`), notLimited},
		{"data", got(200, `{"data":{"title":"THROTTLED"}}`), notLimited},
	})
	q := in(left(onTenant, "", 954, 1000), "points", 20*sec)
	q.Cost = 46
	refused := in(left(onTenant, "", 300, 1000), "points", 20*sec)
	checkLessons(t, ShopifyGraphQL(), []lesson{
		{"a success", got(200, `{"data":{},"extensions":{"cost":{"requestedQueryCost":101,"actualQueryCost":46,"throttleStatus":{"maximumAvailable":1000.0,"currentlyAvailable":954,"restoreRate":50.0}}}}`), []throttle.Quota{q}},
		{"a refusal", got(200, cost("400", "300", "50")), []throttle.Quota{refused}},
		{"nothing of it", got(200, `{"extensions":{"cost":{"throttleStatus":{}}}}`), nil},
	})
}

func TestSalesforce(t *testing.T) {
	body := func(message string) string {
		return `[{"errorCode":"REQUEST_LIMIT_EXCEEDED","message":"` + message + `"}]`
	}
	const free = "api-usage=120/100000"
	soap := func(in string) string {
		return "<soapenv:Envelope><soapenv:Body><soapenv:Fault>" + in + "</soapenv:Fault></soapenv:Body></soapenv:Envelope>"
	}
	checkReadings(t, Salesforce(), []reading{
		{"the budget", got(403, body("TotalRequests Limit exceeded."), "Sforce-Limit-Info", free), is(budget, onHost, none)},
		{"long calls", got(403, body("ConcurrentRequests (Concurrent API Requests) Limit exceeded.")), is(atOnce, onHost, none)},
		{"not said", got(403, body("Request limit exceeded")), is(budget, onHost, none)},
		{"not said, and budget left", got(403, body("Request limit exceeded"), "Sforce-Limit-Info", free), is(atOnce, onHost, none)},
		{"not said, and no budget left", got(403, body(""), "Sforce-Limit-Info", "api-usage=5000/5000"), is(budget, onHost, none)},
		{"one error alone", got(403, `{"errorCode":"REQUEST_LIMIT_EXCEEDED"}`), is(budget, onHost, none)},
		{"the second error", got(403, `[{"errorCode":"X"},{"errorCode":"REQUEST_LIMIT_EXCEEDED"}]`), is(budget, onHost, none)},
		{"a query of Bulk", got(400, body("Selecting compound data not supported in Bulk Query")), notLimited},
		{"another 403", got(403, `[{"errorCode":"API_DISABLED_FOR_ORG","message":"REQUEST_LIMIT_EXCEEDED"}]`), notLimited},
		{"SOAP", got(500, soap("<faultcode>sf:REQUEST_LIMIT_EXCEEDED</faultcode><faultstring>REQUEST_LIMIT_EXCEEDED: TotalRequests Limit exceeded.</faultstring>")), is(budget, onHost, none)},
		{"SOAP, long calls", got(500, soap("<faultcode>X</faultcode><detail><sf:exceptionCode>REQUEST_LIMIT_EXCEEDED</sf:exceptionCode><sf:exceptionMessage>ConcurrentPerOrgLongTxn Limit exceeded.</sf:exceptionMessage></detail>")), is(atOnce, onHost, none)},
		{"SOAP, another fault", got(500, soap("<faultcode>sf:INVALID_SESSION_ID</faultcode><faultstring>REQUEST_LIMIT_EXCEEDED</faultstring>")), notLimited},
		{"a lock", got(400, `[{"errorCode":"UNABLE_TO_LOCK_ROW"}]`), notLimited},
	})
	day := func(name string, remaining, limit int64) throttle.Quota {
		return in(left(onHost, name, remaining, limit), "", 24*time.Hour)
	}
	checkLessons(t, Salesforce(), []lesson{
		{"two budgets", got(200, "", "Sforce-Limit-Info", "api-usage=25/5000; per-app-api-usage=17/250(appName=sample-app)"), []throttle.Quota{day("api-usage", 4975, 5000), day("per-app-api-usage", 233, 250)}},
		{"more than all", got(200, "", "Sforce-Limit-Info", "api-usage=26/25"), []throttle.Quota{day("api-usage", 0, 25)}},
		{"garbled", got(200, "", "Sforce-Limit-Info", "api-usage=x/25;api-usage=-1/25;=;other=1/2"), nil},
	})
}

func TestSalesforceMarketingCloud(t *testing.T) {
	checkReadings(t, SalesforceMarketingCloud(), []reading{
		{"in the body", got(429, `{"errorcode":50100,"retryAfter":5}`), is(burst, onHost, 5*sec)},
		{"the header first", got(429, `{"errorcode":"50100","retryAfter":"5"}`, "Retry-After", "6"), is(burst, onHost, 6*sec)},
		{"blocked", got(429, `{"message":"Your requests are temporarily blocked.","errorcode":50200}`), is(ban, onHost, none)},
		{"another status", got(400, `{"errorcode":50100,"retryAfter":5}`), notLimited},
	})
}

func TestHubSpot(t *testing.T) {
	policy := func(s string) string { return `{"status":"error","errorType":"RATE_LIMIT","policyName":"` + s + `"}` }
	const every, max, remaining, daily = "X-HubSpot-RateLimit-Interval-Milliseconds", "X-HubSpot-RateLimit-Max", "X-HubSpot-RateLimit-Remaining", "X-HubSpot-RateLimit-Daily-Remaining"
	checkReadings(t, HubSpot(), []reading{
		{"ten seconds", got(429, policy("TEN_SECONDLY_ROLLING")), is(burst, onTenant, 10*sec)},
		{"of another window", got(429, policy("TEN_SECONDLY_ROLLING"), every, "11000"), is(burst, onTenant, 11*sec)},
		{"search", got(429, policy("SECONDLY"), every, "10000"), is(burst, onBucket, sec)},
		{"the day", got(429, policy("DAILY"), every, "10000"), is(budget, onTenant, none)},
		{"Retry-After first", got(429, policy("TEN_SECONDLY_ROLLING"), "Retry-After", "3"), is(burst, onTenant, 3*sec)},
		{"a policy of the future", got(429, policy("WEEKLY")), is(burst, onTenant, none)},
		{"headers tell of ten seconds", got(429, "", max, "190", remaining, "0", every, "10000"), is(burst, onTenant, 10*sec)},
		{"headers tell of the day", got(429, "", remaining, "5", daily, "0"), is(budget, onTenant, none)},
		{"headers tell of both, and of the day for longer", got(429, "", max, "190", remaining, "0", every, "10000", daily, "0"), is(budget, onTenant, none)},
		{"headers tell of both, with a time", got(429, "", remaining, "0", daily, "0", "Retry-After", "3600"), is(budget, onTenant, time.Hour)},
		{"headers tell of both, the policy of one", got(429, policy("TEN_SECONDLY_ROLLING"), remaining, "0", daily, "0"), is(burst, onTenant, 10*sec)},
		{"some left", got(429, "", remaining, "5", every, "10000"), is(burst, onTenant, none)},
		{"a lock", got(423, ""), is(lock, onRequest, 2*sec)},
		{"moving", got(477, "", "Retry-After", "86400"), is(overload, onTenant, 24*time.Hour)},
		{"moving, for how long", got(477, ""), is(overload, onTenant, none)},
		{"scopes", got(403, `{"category":"MISSING_SCOPES"}`), notLimited},
	})
	checkLessons(t, HubSpot(), []lesson{
		{"window and day", got(200, "", max, "190", remaining, "189", every, "10000", "X-HubSpot-RateLimit-Daily", "250000", daily, "249998", "X-HubSpot-RateLimit-Secondly", "10", "X-HubSpot-RateLimit-Secondly-Remaining", "9"),
			[]throttle.Quota{in(left(onTenant, "", 189, 190), "", 10*sec), in(left(onTenant, "daily", 249998, 250000), "", 24*time.Hour)}},
	})
}

func TestTwilio(t *testing.T) {
	checkReadings(t, Twilio(), []reading{
		{"429", got(429, ""), is(atOnce, onHost, none)},
		{"the code", got(400, `{"code":"20429"}`), is(atOnce, onHost, none)},
		{"with a time", got(429, `{"code":20429}`, "Retry-After", "2"), is(atOnce, onHost, 2*sec)},
		{"another code", got(400, `{"code":21211,"message":"20429"}`), notLimited},
		{"a success", got(200, `{"code":20429}`, "Twilio-Concurrent-Requests", "99"), notLimited},
	})
}

func TestZendesk(t *testing.T) {
	const exports = "Zendesk-RateLimit-incremental-exports"
	checkReadings(t, Zendesk(), []reading{
		{"the account", got(429, "", "ratelimit-limit", "700", "ratelimit-remaining", "0", "ratelimit-reset", "41"), is(burst, onHost, 41*sec)},
		{"in the other spelling", got(429, "", "x-rate-limit", "700", "x-rate-limit-remaining", "0", "ratelimit-reset", "41"), is(burst, onHost, 41*sec)},
		{"an endpoint", got(429, "", "ratelimit-remaining", "699", "ratelimit-reset", "41", exports, "total=10; remaining=0; resets=2"), is(burst, onBucket, 2*sec)},
		{"an endpoint with a time", got(429, "", "ratelimit-remaining", "699", exports, "total=10;remaining=0;resets=2", "Retry-After", "3"), is(burst, onBucket, 3*sec)},
		{"both", got(429, "", "ratelimit-remaining", "0", "ratelimit-reset", "20", exports, "total=10; remaining=0; resets=41"),
			[]throttle.Signal{sig(burst, onBucket, 41*sec), sig(burst, onHost, 20*sec)}},
		{"both, the account for longer", got(429, "", "ratelimit-remaining", "0", "ratelimit-reset", "41", exports, "total=10; remaining=0; resets=2"),
			[]throttle.Signal{sig(burst, onHost, 41*sec), sig(burst, onBucket, 2*sec)}},
		{"both, and Retry-After", got(429, "", "ratelimit-remaining", "0", "ratelimit-reset", "20", exports, "total=10; remaining=0; resets=90", "Retry-After", "41"),
			[]throttle.Signal{sig(burst, onBucket, 41*sec), sig(burst, onHost, 20*sec)}},
		{"both, and a shorter Retry-After", got(429, "", "ratelimit-remaining", "0", "ratelimit-reset", "20", exports, "total=10; remaining=0; resets=90", "Retry-After", "3"),
			[]throttle.Signal{sig(burst, onBucket, 3*sec), sig(burst, onHost, 3*sec)}},
		{"both, the account until nobody knows", got(429, "", "x-rate-limit-remaining", "0", exports, "total=10; remaining=0; resets=2"),
			[]throttle.Signal{sig(burst, onBucket, 2*sec), sig(burst, onHost, none)}},
		{"both, the account until Retry-After", got(429, "", "x-rate-limit-remaining", "0", exports, "total=10; remaining=0; resets=2", "Retry-After", "3"),
			[]throttle.Signal{sig(burst, onBucket, 3*sec), sig(burst, onHost, 3*sec)}},
		{"two endpoints", got(429, "", exports, "remaining=0; resets=2", "Zendesk-RateLimit-tickets", "remaining=0; resets=3"), is(burst, onBucket, 3*sec)},
		{"garbled", got(429, "", exports, "total; remaining=-1; resets=x; =; ;;"), is(burst, onHost, none)},
		{"none is exhausted", got(429, "", "ratelimit-remaining", "5", "ratelimit-reset", "41", exports, "total=10; remaining=1; resets=2"), is(burst, onHost, none)},
		{"maintenance", got(503, "", "Retry-After", "1", exports, "remaining=0"), is(overload, onHost, sec)},
	})
	checkLessons(t, Zendesk(), []lesson{
		{"all", got(200, "", "x-rate-limit", "700", "x-rate-limit-remaining", "699", "ratelimit-limit", "700", "ratelimit-remaining", "699", "ratelimit-reset", "41",
			"zendesk-ratelimit-tickets-index", "total=100; remaining=99; resets=41", exports, "total=10"), []throttle.Quota{
			ends(left(onHost, "", 699, 700), 41*sec), left(onBucket, "incremental-exports", -1, 10), ends(left(onBucket, "tickets-index", 99, 100), 41*sec)}},
	})
	checkLessons(t, Zendesk(), []lesson{
		{"the older spelling", got(200, "", "x-rate-limit", "700", "x-rate-limit-remaining", "699", "ratelimit-reset", "41"), []throttle.Quota{ends(left(onHost, "", 699, 700), 41*sec)}},
	})
	many := got(429, "")
	for i := range 1000 {
		many.Header.Set(fmt.Sprint("Zendesk-RateLimit-", i), "total=1; remaining=1")
	}
	if q := Zendesk().Learn(many); len(q) != maxValues {
		t.Errorf("learned %d of 1000 endpoints", len(q))
	}
}

func TestDropbox(t *testing.T) {
	body := func(reason string) string {
		return `{"error_summary":"x/..","error":{"reason":` + reason + `,"retry_after":300}}`
	}
	checkReadings(t, Dropbox(), []reading{
		{"requests", got(429, body(`{".tag":"too_many_requests"}`), "Retry-After", "1"), is(burst, onTenant, 300*sec)},
		{"writes", got(429, body(`{".tag":"too_many_write_operations"}`)), is(lock, onBucket, 300*sec)},
		{"writes, the tag alone", got(429, body(`"too_many_write_operations"`)), is(lock, onBucket, 300*sec)},
		{"writes, in the summary", got(429, `{"error_summary":"too_many_write_operations/.."}`, "Retry-After", "1"), is(lock, onBucket, sec)},
		{"a conflict of writes", got(409, `{"error":{".tag":"too_many_write_operations"}}`), is(lock, onBucket, none)},
		{"another conflict", got(409, `{"error_summary":"path/not_found/","error":{".tag":"path"}}`), notLimited},
		{"text", got(429, "too_many_requests", "Retry-After", "4"), is(burst, onTenant, 4*sec)},
		{"an unknown time", got(429, `{"error":{"reason":{".tag":"too_many_requests"},"retry_after":"x"}}`), is(burst, onTenant, none)},
	})
}
