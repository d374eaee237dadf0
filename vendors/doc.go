// Package vendors knows how real APIs say "slow down": an [Adapter] reads it
// from an error, for a governor, and teaches it what answers say about quota.
//
//	governor.Config[...]{Vendor: vendors.GoogleAds(), ...}
//
// # From a client's error to an adapter
//
// What an API said is in status, headers, body and trailers; most clients' own
// errors have lost half of it. So adapters read a neutral [Response], and a
// client wraps its error once, where it still has the answer:
//
//	return &vendors.ResponseError{Response: vendors.Response{Status: resp.StatusCode, Header: resp.Header, Body: body, At: time.Now()}, Err: err}
//
// The wrapped error unwraps to the client's own, so errors.Is and errors.As go on
// working. Module grpcx does this for gRPC.
//
// # The adapters
//
//   - advertising: [GoogleAds], [Meta], [MicrosoftAds], [AmazonAds], [TikTokAds],
//     [LinkedIn]
//   - platforms for developers: [GitHub], [GitLab], [Atlassian], [Linear],
//     [Notion], [Slack], [Discord]
//   - commerce, customers, communication: [Stripe], [ShopifyREST],
//     [ShopifyGraphQL], [AmazonSPAPI], [Salesforce], [SalesforceMarketingCloud],
//     [HubSpot], [Zendesk], [Twilio], [Dropbox]
//   - models: [OpenAI] and those of its shape, [Anthropic]; Gemini is a [GoogleAPI]
//   - clouds: [AWS], [Azure], [MicrosoftGraph], [GoogleAPI], [Cloudflare], and any
//     [GRPC] service
//   - media: [X], [TikTokOpenAPI], [Spotify], [Reddit]
//   - any other: [HTTP]
//
// Each one's comment says what it reads, what to use as governor, selector, tenant
// and bucket, and where the facts are from. Scopes are of the refused call: a
// signal for the bucket of a program that uses no buckets pauses all it calls, the
// safe side.
//
// # Documented limits
//
// Where a vendor publishes a number, a function has it as a limiter.QuotaConfig,
// such as [GitHubPrimary], for a governor's Limits or limiter.NewQuota:
//
//	Limits: []governor.Limit{{Per: throttle.Bucket, Quota: vendors.GitHubPrimary()}}
//
// One of calls at once is a limiter.ConcurrencyConfig, for limiter.NewConcurrency.
//
// Numbers that are not published, or not known for sure, are not here. What answers
// tell is in [Adapter.Learn].
//
// # What adapters promise
//
// They are values without state, safe for simultaneous use by any number of
// goroutines. They never panic and never wait, whatever a server sends: at most
// 16 values of a header are looked at, of at most 256 bytes each (8 KiB for Meta's,
// which are JSON); bodies above 1 MiB are not read, and of an array in one 100
// elements; numbers saturate. What is garbled counts as not there, so that a 429
// with a broken body is still a 429. An answer with a 5xx is a limit where it says when
// that ends (some statuses of [GoogleAds] and [MicrosoftAds] excepted), and where the
// vendor's own word for it is one: a code in the body (AWS's SlowDown with 503, Meta's
// codes, SOAP faults, which are 500 whatever they are about), a problem type of the
// RateLimit draft, or, from an API without an adapter of its own, status 529. Else it is
// an outage, a breaker's business. A delay is exactly what the vendor said, rounded up to
// 1 ms, without jitter, floor or cap: those are the governor's.
// [throttle.Unknown] says that the vendor gave no time, which is not 0.
//
// A new API needs no package of its own: a type with a DelayError method is
// enough for a governor, and a [Dialect] in an Adapter gives the rest.
package vendors
