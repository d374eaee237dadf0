package vendors

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// Meta returns the adapter for Meta's Graph API and Marketing API (Facebook,
// Instagram, WhatsApp).
//
// A refusal is an error.code in the body, whatever the status and the error's
// type: 4 and 341 concern the app and so the host; 17 the user or ad account, 32
// the page, 613 the ad account and 80000 to 80014 (business use cases) the object:
// the tenant. So use one governor for each app, and ask with the object as tenant,
// act_<id>, or with the use case too, act_<id>/ads_insights. The answer to a batch,
// 200 and an array, has a refusal in each of its items; unless all were refused, what
// was not may have been done, and the batch is not to be sent again as it was. A 429
// without a code is limited, too.
//
// The delay is estimated_time_to_regain_access of the header
// X-Business-Use-Case-Usage, in minutes, the longest of the entries of the use
// case that the code names or else of all; else reset_time_duration of
// X-Ad-Account-Usage, in seconds; else Retry-After. 0 in the first two means "not
// blocked" and is no delay. X-App-Usage has no time.
//
// Those headers, of up to 8 KiB, teach which percentage is used of a limit: the
// highest of an entry's counts, of which the first to reach 100 throttles.
//
// Evidence, read 2026-11-21: developers.facebook.com/docs/graph-api/overview/rate-limiting,
// .../docs/marketing-api/overview/rate-limiting, .../docs/graph-api/guides/error-handling;
// facebook/facebook-python-business-sdk:facebook_business/exceptions.py;
// airbytehq/airbyte:airbyte-integrations/connectors/source-facebook-marketing/source_facebook_marketing/{api.py,streams/common.py};
// rudderlabs/rudder-transformer:test/integrations/destinations/fb_custom_audience/network.ts.
func Meta() Adapter { return Adapter{meta} }

// MetaMutations is the limit of the Marketing API on calls that change something,
// per tenant, an ad account: 100 per second.
func MetaMutations() limiter.QuotaConfig { return documented(100, time.Second) }

// MetaAdsManagement is the limit of the use case ads_management with full access,
// per tenant, an ad account: 100,000 calls per hour and 40 more for each active ad.
func MetaAdsManagement(activeAds int) limiter.QuotaConfig {
	return documented(100_000+40*min(max(0, activeAds), 5e6), time.Hour)
}

// MetaAdsManagementLimited is MetaAdsManagement with limited access, per tenant: 300
// calls per hour and 40 more for each active ad.
func MetaAdsManagementLimited(activeAds int) limiter.QuotaConfig {
	return documented(300+40*min(max(0, activeAds), 5e6), time.Hour)
}

// MetaAdsInsights is the limit of the use case ads_insights with full access, per
// tenant, an ad account: 190,000 calls per hour and 400 more for each active ad.
// Errors that the caller is to blame for lower it.
func MetaAdsInsights(activeAds int) limiter.QuotaConfig {
	return documented(190_000+400*min(max(0, activeAds), 5e6), time.Hour)
}

// MetaAdsInsightsLimited is MetaAdsInsights with limited access, per tenant: 600 calls
// per hour and 400 more for each active ad.
func MetaAdsInsightsLimited(activeAds int) limiter.QuotaConfig {
	return documented(600+400*min(max(0, activeAds), 5e6), time.Hour)
}

// MetaCustomAudience is the limit of the use case custom_audience with full access,
// per tenant, an ad account: 190,000 calls per hour and 40 more for each active custom
// audience, and no more than 700,000.
func MetaCustomAudience(audiences int) limiter.QuotaConfig {
	return documented(min(190_000+40*min(max(0, audiences), 5e6), 700_000), time.Hour)
}

// MetaCustomAudienceLimited is MetaCustomAudience with limited access, per tenant:
// 5,000 calls per hour and 40 more for each active custom audience, and no more than
// 700,000.
func MetaCustomAudienceLimited(audiences int) limiter.QuotaConfig {
	return documented(min(5000+40*min(max(0, audiences), 5e6), 700_000), time.Hour)
}

// MetaPlatform is the limit of an app outside of the Marketing API, per host: 200
// calls per hour for each of its users, however they are spread over them.
func MetaPlatform(users int) limiter.QuotaConfig {
	return documented(200*min(max(1, users), 5e6), time.Hour)
}

var meta = &api{read: readMeta, learn: learnMeta, place: placeMeta, peek: metaBatched}

// metaCodes are the error codes that are limits, beside 80000 to 80014.
var metaCodes = map[int]throttle.Signal{
	4:   {Kind: throttle.KindQuota},
	17:  {Kind: throttle.KindQuota, Scope: throttle.Scope{Level: throttle.Tenant}},
	32:  {Kind: throttle.KindQuota, Scope: throttle.Scope{Level: throttle.Tenant}},
	341: {Kind: throttle.KindQuota},
	613: {Kind: throttle.KindBurst, Scope: throttle.Scope{Level: throttle.Tenant}},
}

// metaUseCases are the types that entries of X-Business-Use-Case-Usage have for a
// code, as far as they are documented.
var metaUseCases = map[int]string{
	80000: "ads_insights", 80001: "pages", 80002: "instagram", 80003: "custom_audience",
	80004: "ads_management", 80005: "leadgen", 80006: "messenger",
}

func metaCode(code int) (throttle.Signal, bool) {
	if code >= 80000 && code <= 80014 {
		return throttle.Signal{Kind: throttle.KindQuota, Scope: throttle.Scope{Level: throttle.Tenant}}, true
	}
	s, ok := metaCodes[code]
	return s, ok
}

type metaReply struct {
	Error struct {
		Code    text `json:"code"`
		Message text `json:"message"`
	} `json:"error"`
}

// code returns the error's code, or the one that its text begins with: "(#4) ...".
func (e *metaReply) code() (int, bool) {
	s := string(e.Error.Code)
	if _, rest, ok := strings.Cut(string(e.Error.Message), "(#"); s == "" && ok {
		s, _, _ = strings.Cut(rest, ")")
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

// metaItem is an answer in the answer to a batch.
type metaItem struct {
	Code    text `json:"code"`
	Headers items[struct {
		Name, Value text
	}] `json:"headers"`
	Body text `json:"body"`
}

func readMeta(r Response, _ []quota) []throttle.Signal {
	var all signals
	batch, whole := metaBatch(r)
	for _, in := range batch {
		if len(in.Header) == 0 {
			in.Header = r.Header
		}
		s, ok := readMetaOne(in)
		if ok {
			all.add(s)
		}
		whole = whole && ok
	}
	if len(batch) > 0 && !whole {
		all.once()
	}
	if s, ok := readMetaOne(r); ok {
		all.add(s)
	}
	return all
}

func readMetaOne(r Response) (throttle.Signal, bool) {
	var reply metaReply
	s, ok := common(r, nil)
	code, coded := 0, false
	if r.Status >= 400 || has(r.Body, `"error"`) {
		decode(r.Body, &reply)
		code, coded = reply.code()
	}
	switch known, is := metaCode(code); {
	case is:
		s.Kind, s.Scope = known.Kind, known.Scope
		if s.Delay == throttle.Unknown {
			s.Source = "code " + strconv.Itoa(code)
		}
	case !ok, coded && r.Status < 500: // the code decides, of a 429 too
		return s, false
	}
	if d, source := metaDelay(r.Header, metaUseCases[code]); d > 0 {
		s.Delay, s.Source = d, source
	}
	return s, true
}

// metaBatch returns the answers in the answer to a batch, and whether these are all. One
// that is null was not made in time, or its answer not.
func metaBatch(r Response) (in []Response, whole bool) {
	if r.Status != http.StatusOK || !bytes.HasPrefix(trim(r.Body), []byte("[")) {
		return nil, true
	}
	batch, whole := answers[metaItem](r.Body, "")
	for _, it := range batch {
		status, err := strconv.Atoi(string(it.Code))
		if err != nil {
			whole = false
			continue
		}
		one := Response{Status: status, Header: http.Header{}, Body: []byte(it.Body), At: r.At}
		for _, h := range it.Headers {
			one.Header.Add(string(h.Name), string(h.Value))
		}
		in = append(in, one)
	}
	return in, whole
}
