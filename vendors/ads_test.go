package vendors

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/throttle"
)

func metaError(code any) string {
	return fmt.Sprintf(`{"error":{"message":"x","type":"GraphMethodException","code":%v,"error_subcode":1,"fbtrace_id":"E"}}`, code)
}

const metaTwo = `{"17":[{"type":"ads_management","call_count":100,"total_cputime":25,"total_time":25,"estimated_time_to_regain_access":19},` +
	`{"type":"ads_insights","call_count":10,"total_cputime":5,"total_time":5,"estimated_time_to_regain_access":0}],` +
	`"18":[{"type":"ads_management","call_count":"12.5","total_cputime":25,"total_time":25,"estimated_time_to_regain_access":"21"}]}`

func TestMeta(t *testing.T) {
	const buc, account = "X-Business-Use-Case-Usage", "X-Ad-Account-Usage"
	all := []reading{
		{"code 4 is the app's", got(403, metaError(4), "X-App-Usage", `{"call_count":100}`), is(budget, onHost, none)},
		{"code 341 too", got(400, metaError(341)), is(budget, onHost, none)},
		{"code 17", got(400, metaError(17)), is(budget, onTenant, none)},
		{"code 32", got(400, metaError(32)), is(budget, onTenant, none)},
		{"code 613", got(400, metaError(613)), is(burst, onTenant, none)},
		{"a code as text", got(400, metaError(`"17"`)), is(budget, onTenant, none)},
		{"a code in the text only", got(400, `{"error":{"message":"(#4) Application request limit reached"}}`), is(budget, onHost, none)},
		{"whatever the status", got(200, metaError(17)), is(budget, onTenant, none)},
		{"on 500, too", got(500, metaError(80004)), is(budget, onTenant, none)},
		{"the code beats 429", got(429, metaError(190)), notLimited},
		{"a code that is none", got(429, metaError(`{}`)), is(burst, onHost, none)},
		{"the entry of the use case", got(400, metaError(80004), buc, metaTwo), is(budget, onTenant, 21*time.Minute)},
		{"its entry says not blocked", got(400, metaError(80000), buc, metaTwo), is(budget, onTenant, none)},
		{"no entry of the use case", got(400, metaError(80003), buc, metaTwo), is(budget, onTenant, 21*time.Minute)},
		{"no use case", got(400, metaError(17), buc, metaTwo), is(budget, onTenant, 21*time.Minute)},
		{"type in another case", got(400, metaError(80004), buc, `{"1":[{"type":"ADS_MANAGEMENT","estimated_time_to_regain_access":2},{"type":"pages","estimated_time_to_regain_access":9}]}`), is(budget, onTenant, 2*time.Minute)},
		{"parts of minutes", got(400, metaError(80004), buc, `{"1":[{"estimated_time_to_regain_access":0.5}]}`), is(budget, onTenant, 30*sec)},
		{"an entry instead of a list", got(400, metaError(80004), buc, `{"1":{"estimated_time_to_regain_access":3}}`), is(budget, onTenant, 3*time.Minute)},
		{"centuries", got(400, metaError(80004), buc, `{"1":[{"estimated_time_to_regain_access":99999999999999999999}]}`), is(budget, onTenant, longest)},
		{"negative minutes", got(400, metaError(80004), buc, `{"1":[{"estimated_time_to_regain_access":-5}]}`), is(budget, onTenant, none)},
		{"garbled", got(400, metaError(80004), buc, `{"1":[{"estimated_time_to_regain_access":`), is(budget, onTenant, none)},
		{"null", got(400, metaError(80004), buc, `null`), is(budget, onTenant, none)},
		{"longer than 8 KiB", got(400, metaError(80004), buc, `{"1":[{"estimated_time_to_regain_access":3}]`+strings.Repeat(" ", 8<<10)+"}"), is(budget, onTenant, none)},
		{"longer than other headers", got(400, metaError(80004), buc, `{"1":[{"estimated_time_to_regain_access":3}]`+strings.Repeat(" ", 7<<10)+"}"), is(budget, onTenant, 3*time.Minute)},
		{"seconds of the account", got(400, metaError(17), account, `{"acc_id_util_pct":100,"reset_time_duration":100}`), is(budget, onTenant, 100*sec)},
		{"minutes first", got(400, metaError(17), account, `{"reset_time_duration":100}`, buc, metaTwo, "Retry-After", "5"), is(budget, onTenant, 21*time.Minute)},
		{"then seconds", got(400, metaError(17), account, `{"reset_time_duration":100}`, "Retry-After", "5"), is(budget, onTenant, 100*sec)},
		{"then Retry-After", got(400, metaError(17), account, `{"reset_time_duration":0}`, "Retry-After", "5"), is(budget, onTenant, 5*sec)},
		{"429 with the header alone", got(429, "<html>", buc, metaTwo), is(burst, onHost, 21*time.Minute)},
		{"too much data", got(400, metaError(100)), notLimited},
		{"a temporary failure", got(500, metaError(2), "Retry-After", "5"), is(overload, onHost, 5*sec)},
		{"a batch", got(200, `[null,{"code":200,"body":"{\"data\":[]}"},{"code":400,"headers":[{"name":"X-Business-Use-Case-Usage","value":"{\"1\":[{\"estimated_time_to_regain_access\":4}]}"}],"body":"{\"error\":{\"code\":80004}}"},`+
			`{"code":403,"headers":null,"body":"{\"error\":{\"code\":4}}"},{"code":"x"},7]`), []throttle.Signal{final(sig(budget, onTenant, 4*time.Minute)), final(sig(budget, onHost, none))}},
		{"a batch with headers outside", got(200, `[{"code":400,"body":"{\"error\":{\"code\":80004}}"}]`, buc, metaTwo), is(budget, onTenant, 21*time.Minute)},
		{"a batch that did well", got(200, `[{"code":200,"headers":[{"name":"Retry-After","value":"5"}],"body":"{\"error\":null}"}]`), notLimited},
	}
	for _, code := range []int{1, 10, 100, 190, 200, 368, 2635, 79999, 80015} {
		all = append(all, reading{fmt.Sprint("code ", code), got(400, metaError(code)), notLimited})
	}
	for code := 80000; code <= 80014; code++ {
		all = append(all, reading{fmt.Sprint("code ", code), got(400, metaError(code)), is(budget, onTenant, none)})
	}
	checkReadings(t, Meta(), all)

	pct := func(q throttle.Quota) throttle.Quota { return in(q, "percent", 0) }
	checkLessons(t, Meta(), []lesson{
		{"the app", got(200, "{}", "X-App-Usage", `{"call_count":28,"total_time":25.5,"total_cputime":25}`), []throttle.Quota{pct(left(onHost, "app", 72, 100))}},
		{"more than all", got(200, "{}", "X-App-Usage", `{"call_count":128}`), []throttle.Quota{pct(left(onHost, "app", 0, 100))}},
		{"fractions", got(200, "{}", account, `{"acc_id_util_pct":9.67,"reset_time_duration":100}`), []throttle.Quota{ends(pct(left(onTenant, "account", 90, 100)), 100*sec)}},
		{"insights", got(200, "{}", "X-FB-Ads-Insights-Throttle", `{"app_id_util_pct":5.0,"acc_id_util_pct":71.5}`),
			[]throttle.Quota{pct(left(onHost, "insights app", 95, 100)), pct(left(onTenant, "insights account", 28, 100))}},
		{"objects", got(200, "{}", buc, metaTwo), []throttle.Quota{ends(pct(left(onTenant, "17/ads_management", 0, 100)), 19*time.Minute),
			pct(left(onTenant, "17/ads_insights", 90, 100)), ends(pct(left(onTenant, "18/ads_management", 75, 100)), 21*time.Minute)}},
		{"a batch", got(200, `[{"code":200,"headers":[{"name":"x-app-usage","value":"{\"call_count\":1}"}]}]`), []throttle.Quota{pct(left(onHost, "app", 99, 100))}},
		{"nothing of it", got(200, "{}", "X-App-Usage", `{"call_count":"many"}`, account, "5", buc, "[]"), nil},
	})
}

func TestMicrosoftAds(t *testing.T) {
	fault := func(list, errs string) string {
		return `{"TrackingId":"x","` + list + `":[` + errs + `],"Type":"ApiFaultDetail"}`
	}
	soap := func(in string) string {
		return `<?xml version="1.0"?><s:Envelope><s:Body><s:Fault><faultcode>s:Server</faultcode><detail><ApiFaultDetail><OperationErrors>` + in + `</OperationErrors></ApiFaultDetail></detail></s:Fault></s:Body></s:Envelope>`
	}
	checkReadings(t, MicrosoftAds(), []reading{
		{"117", got(400, fault("Errors", `{"Code":117,"ErrorCode":"CallRateExceeded"}`)), is(burst, onHost, time.Minute)},
		{"its number", got(401, fault("Errors", `{"Code":117}`)), is(burst, onHost, time.Minute)},
		{"its number as text", got(403, fault("BatchErrors", `{"Code":"117","ErrorCode":null}`)), is(burst, onHost, time.Minute)},
		{"its symbol", got(500, fault("OperationErrors", `{"ErrorCode":"CallRateExceeded"}`)), is(burst, onHost, time.Minute)},
		{"its number with another symbol", got(400, fault("Errors", `{"Code":117,"ErrorCode":"SomethingElse"}`)), notLimited},
		{"among others", got(400, fault("Errors", `null,{"Code":0},{"Code":1102,"ErrorCode":"X"},{"Code":117}`)), is(burst, onHost, time.Minute)},
		{"in a wrapper", got(400, `{"ApplicationFault":{"OperationErrors":[{"Code":117,"Message":"x"}]}}`), is(burst, onHost, time.Minute)},
		{"beside a field of another type", got(400, `{"Errors":[{"Code":117}],"ApplicationFault":"x"}`), is(burst, onHost, time.Minute)},
		{"with a Retry-After", got(429, fault("Errors", `{"Code":117}`), "Retry-After", "90"), is(burst, onHost, 90*sec)},
		{"207", got(400, fault("OperationErrors", `{"Code":207,"ErrorCode":"ConcurrentRequestOverLimit"}`)), is(atOnce, onBucket, none)},
		{"207 is an address, too", got(400, fault("OperationErrors", `{"Code":207,"Message":"The Address Line3 property is invalid."}`)), notLimited},
		{"4204", got(400, fault("OperationErrors", `{"Code":4204}`)), is(budget, onBucket, 15*time.Minute)},
		{"3227", got(400, fault("OperationErrors", `{"Code":3227,"ErrorCode":"BulkServiceTooManyRequests"}`)), is(burst, onBucket, none)},
		{"two scopes", got(400, fault("OperationErrors", `{"Code":4204},{"Code":117}`)), []throttle.Signal{sig(budget, onBucket, 15*time.Minute), sig(burst, onHost, time.Minute)}},
		{"SOAP", got(500, soap(`<OperationError><Code>207</Code><Details i:nil="true"/><ErrorCode>ConcurrentRequestOverLimit</ErrorCode></OperationError>`)), is(atOnce, onBucket, none)},
		{"SOAP with prefixes", got(500, soap("<a:OperationError>\n<a:Code> 117\n</a:Code><a:ErrorCode>CallRateExceeded</a:ErrorCode></a:OperationError>")), is(burst, onHost, time.Minute)},
		{"SOAP, in the second error", got(500, soap(`<E><Code>1</Code><ErrorCode>X</ErrorCode></E><E><Code>4204</Code></E>`)), is(budget, onBucket, 15*time.Minute)},
		{"SOAP, the address", got(500, soap(`<E><Code>207</Code></E>`)), notLimited},
		{"SOAP, a symbol without a number", got(500, soap(`<E><ErrorCode>CallRateExceeded</ErrorCode></E>`)), notLimited},
		{"429 RequestThrottled", got(429, `{"error":{"code":"RequestThrottled"}}`), is(burst, onHost, none)},
		{"an internal error", got(500, fault("Errors", `{"Code":0,"ErrorCode":"InternalError"}`)), notLimited},
		{"an expired token", got(401, fault("Errors", `{"Code":109}`)), notLimited},
		{"no REST", got(404, "", "Retry-After", "3600"), notLimited},
		{"not implemented", got(501, "", "Retry-After", "3600"), notLimited},
		{"an item of a success", got(200, fault("PartialErrors", `{"Code":117,"ErrorCode":"CallRateExceeded"}`)), notLimited},
		{"a success with errors", got(200, fault("Errors", `{"Code":117}`)), notLimited},
	})
}

func TestAmazonAds(t *testing.T) {
	checkReadings(t, AmazonAds(), []reading{
		{"with a time", got(429, `{"message":"Too Many Requests"}`, "Retry-After", "5"), is(burst, onBucket, 5*sec)},
		{"HTML", got(429, "<html>"), is(burst, onBucket, none)},
		{"throttled by the header", got(403, "", "amazon-advertising-api-throttled", "TRUE", "Retry-After", "3"), is(burst, onBucket, 3*sec)},
		{"not throttled", got(403, "", "amazon-advertising-api-throttled", "false"), notLimited},
		{"a success", got(200, "", "amazon-advertising-api-throttled", "true"), notLimited},
	})
}

func TestAmazonSPAPI(t *testing.T) {
	const refused = `{"errors":[{"code":"QuotaExceeded"}]}`
	checkReadings(t, AmazonSPAPI(), []reading{
		{"429", got(429, refused, "X-Amzn-RateLimit-Limit", "0.0222"), is(burst, onBucket, none)},
		{"429 without a body", got(429, ""), is(burst, onBucket, none)},
		{"with a time", got(429, refused, "Retry-After", "2"), is(burst, onBucket, 2*sec)},
		{"the code alone", got(400, refused), is(burst, onBucket, none)},
		{"another code", got(403, `{"errors":[{"code":"Unauthorized"}]}`), notLimited},
	})
	rate := func(window time.Duration) []throttle.Quota {
		return []throttle.Quota{in(left(onBucket, "", -1, 1), "", window)}
	}
	checkLessons(t, AmazonSPAPI(), []lesson{
		{"one in 45 s", got(200, "", "X-Amzn-RateLimit-Limit", "0.0222"), rate(45045045045)},
		{"5 per second", got(429, "", "x-amzn-ratelimit-limit", "5.0"), rate(200 * ms)},
		{"next to never", got(200, "", "X-Amzn-RateLimit-Limit", "1e-300"), rate(1 << 62)},
		{"never", got(200, "", "X-Amzn-RateLimit-Limit", "0"), nil},
		{"negative", got(200, "", "X-Amzn-RateLimit-Limit", "-1"), nil},
		{"infinite", got(200, "", "X-Amzn-RateLimit-Limit", "Inf"), nil},
	})
}

func TestTikTok(t *testing.T) {
	checkReadings(t, TikTokAds(), []reading{
		{"40100", got(200, `{"code":40100,"message":"by this developer"}`), is(burst, onHost, none)},
		{"as text", got(200, `{"code":"40132"}`), is(burst, onHost, none)},
		{"behind a byte order mark", got(200, "\xef\xbb\xbf\r\n"+`{"code":40100}`), is(burst, onHost, none)},
		{"internal", got(200, `{"code":50000}`), notLimited},
		{"in another place", got(200, `{"code":0,"data":{"code":40100}}`), notLimited},
		{"token", got(200, `{"code":40102}`), notLimited},
	})
	checkReadings(t, TikTokOpenAPI(), []reading{
		{"429", got(429, "{}"), is(burst, onBucket, none)},
		{"the code", got(400, `{"error":{"code":"rate_limit_exceeded"}}`), is(burst, onBucket, none)},
		{"ok", got(200, `{"error":{"code":"ok","message":"rate_limit_exceeded"}}`), notLimited},
	})
}

func TestLinkedIn(t *testing.T) {
	const midnight = 14*time.Hour - 100*ms
	text := func(s string) string { return `{"serviceErrorCode":101,"message":"` + s + `","status":429}` }
	field := func(s string) string {
		return `{"elements":[{"text":"hi!","author":"urn","author!":` + s + `}],"paging":{}}`
	}
	checkReadings(t, LinkedIn(), []reading{
		{"of the application", got(429, text("Resource level throttle APPLICATION DAY limit for calls to this resource is reached.")), is(budget, onBucket, midnight)},
		{"of a member", got(429, text("Resource level throttle MEMBER DAY limit for calls")), is(budget, onTenant, midnight)},
		{"on the server's clock", got(429, text("APPLICATION DAY limit"), "Date", "Sat, 21 Nov 2026 23:59:58 GMT"), is(budget, onBucket, 2*sec)},
		{"with a time", got(429, text("APPLICATION DAY limit"), "Retry-After", "9"), is(budget, onBucket, 9*sec)},
		{"no window", got(429, text("Resource level throttle limit")), is(burst, onBucket, none)},
		{"a field", got(200, field(text("MEMBER DAY limit"))), is(budget, onTenant, midnight)},
		{"a field, spread out", got(200, `{"a!" : `+"\n"+` {"status" : "429"} }`), is(burst, onBucket, none)},
		{"another failure of a field", got(200, field(`{"message":"Not enough permissions","status":403}`)), notLimited},
		{"a field that is a text", got(200, field(`"429"`)), notLimited},
		{"text that ends so", got(200, `{"text":"429!","status":429}`), notLimited},
		{"cut off", got(200, `{"author!":{"status":429`), notLimited},
		{"after many texts", got(200, `{"t":["`+strings.Repeat(`ha!","`, 1000)+`"],"author!":`+text("x")+`}`), is(burst, onBucket, none)},
		{"after some fields", got(200, `{`+strings.Repeat(`"a!":{"status":404},`, 99)+`"author!":`+text("x")+`}`), is(burst, onBucket, none)},
		{"after many fields", got(200, `{`+strings.Repeat(`"a!":{"status":404},`, 100)+`"author!":`+text("x")+`}`), notLimited},
	})
}
