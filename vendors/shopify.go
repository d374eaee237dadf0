package vendors

import (
	"strings"
	"time"

	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// ShopifyREST returns the adapter for Shopify's REST Admin API.
//
// Limited is 429; Retry-After has decimals. 423 (the shop is locked) and 430 (a
// matter of security) are none. X-Shopify-Shop-Api-Call-Limit teaches how full the
// leaky bucket of the app and shop is. Use one governor for each app, with the shop as
// tenant, which is what a refusal pauses.
//
// Evidence, read 2026-11-21: bold-commerce/go-shopify:goshopify.go, goshopify_test.go;
// Shopify/shopify-app-js.
func ShopifyREST() Adapter { return Adapter{shopifyREST} }

// ShopifyCalls is the REST limit of an app for a shop of the standard plan, per
// tenant: 40 calls at once, and 2 per second that come back.
func ShopifyCalls() limiter.QuotaConfig { return documented(40, 20*time.Second) }

var shopifyREST = &api{
	place: placeHost,
	read: func(r Response, _ []quota) []throttle.Signal {
		s, ok := common(r, nil)
		return scoped(throttle.Tenant, s, ok)
	},
	learn: func(r Response, quotas []quota) []quota {
		used, size, _ := strings.Cut(value(r.Header, "X-Shopify-Shop-Api-Call-Limit"), "/")
		n, ok := parseAmount(used)
		limit, valid := parseAmount(size)
		if !ok || !valid {
			return quotas
		}
		q := said("")
		q.Scope.Level, q.Limit, q.Remaining = throttle.Tenant, limit, max(0, limit-n)
		return append(quotas, q)
	},
}

// ShopifyGraphQL returns the adapter for Shopify's GraphQL Admin API.
//
// Limited is an error with the code THROTTLED, which comes with status 200, and
// 429. The delay is how long the bucket takes to hold what the query asks for:
// (requestedQueryCost - currentlyAvailable) / restoreRate; unknown when the answer
// does not say. MAX_COST_EXCEEDED can never pass and is no limit.
//
// Good answers teach the bucket, in points, and the actual cost, which is what is
// charged in the end: ask with the requested cost as Ask.Cost and settle the
// difference. Use one governor for each app, with the shop as tenant, which is what a
// refusal pauses.
//
// Evidence, read 2026-11-21: bold-commerce/go-shopify:graphql.go, graphql_test.go.
func ShopifyGraphQL() Adapter { return Adapter{shopifyGraphQL} }

// ShopifyPoints is the GraphQL limit of an app for a shop of the smallest plan, per
// tenant: 100 points per second, 1,000 of them at once, which is what a query may cost.
// It takes its requested cost: the governor.Ask's Cost.
func ShopifyPoints() limiter.QuotaConfig { return documented(1000, 10*time.Second) }

var shopifyGraphQL = &api{read: readShopifyGraphQL, learn: learnShopifyGraphQL, place: placeHost, peek: always}

type shopifyReply struct {
	Errors items[struct {
		Message    text `json:"message"`
		Extensions struct {
			Code text `json:"code"`
		} `json:"extensions"`
	}] `json:"errors"`
	Extensions struct {
		Cost struct {
			Requested text `json:"requestedQueryCost"`
			Actual    text `json:"actualQueryCost"`
			Status    struct {
				Maximum   text `json:"maximumAvailable"`
				Available text `json:"currentlyAvailable"`
				Rate      text `json:"restoreRate"`
			} `json:"throttleStatus"`
		} `json:"cost"`
	} `json:"extensions"`
}

func readShopifyGraphQL(r Response, _ []quota) []throttle.Signal {
	s, ok := common(r, nil)
	var reply shopifyReply
	if r.Status < 500 && (has(r.Body, "THROTTLED") || has(r.Body, "Throttled")) {
		decode(r.Body, &reply)
	}
	for _, e := range reply.Errors {
		ok = ok || e.Extensions.Code == "THROTTLED" || e.Extensions.Code == "" && e.Message == "Throttled"
	}
	cost := reply.Extensions.Cost
	requested, valid := cost.Requested.float()
	available, said := cost.Status.Available.float()
	rate, told := cost.Status.Rate.float()
	if ok && s.Delay == throttle.Unknown && valid && said && told && rate > 0 {
		s.Delay, s.Source = floatDelay((requested-available)/rate), "throttleStatus"
	}
	return scoped(throttle.Tenant, s, ok)
}

func learnShopifyGraphQL(r Response, quotas []quota) []quota {
	var reply shopifyReply
	if !has(r.Body, `"throttleStatus"`) || !decode(r.Body, &reply) {
		return quotas
	}
	cost := reply.Extensions.Cost
	q := said("")
	q.Unit, q.Scope.Level = "points", throttle.Tenant
	q.Cost, q.Limit, q.Remaining = cost.Actual.count(), cost.Status.Maximum.count(), cost.Status.Available.count()
	if rate, ok := cost.Status.Rate.float(); ok && rate > 0 && q.Limit > 0 {
		q.Window = floatDelay(float64(q.Limit) / rate)
	}
	if q.empty() {
		return quotas
	}
	return append(quotas, q)
}
