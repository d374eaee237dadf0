package vendors

import (
	"math"
	"net/http"
	"strconv"

	"github.com/flyball-go/flyball/throttle"
)

// MicrosoftGraph returns the adapter for Microsoft Graph and SharePoint.
//
// Limited are 429, each item with 429 in the answer to a $batch, which is 200, and
// 5xx that say when they end. Unless all items were refused, or depended on one that
// was, some may have been done, and the batch is not to be sent again as it was. The
// delay is Retry-After, which not all resources send; without it wait long, as calls
// count while they are refused. Limits are for each app, tenant and workload: use one
// governor for each app, with the tenant and the workload together as tenant, which is
// what a refusal pauses.
//
// X-Ms-Throttle-Limit-Percentage teaches what part of a limit is used, from 0.8 on,
// X-Ms-Resource-Unit what the call cost, and the RateLimit headers, in seconds from
// now, SharePoint's quota from 80 % on.
//
// Evidence, read 2026-11-21: microsoftgraph/microsoft-graph-docs-contrib:concepts/throttling.md;
// microsoft/kiota-http-go:retry_handler.go; learn.microsoft.com/sharepoint, avoid throttling.
func MicrosoftGraph() Adapter { return Adapter{microsoftGraph} }

var microsoftGraph = &api{
	headers: []family{{limit: "Ratelimit-Limit", remaining: "Ratelimit-Remaining", reset: "Ratelimit-Reset", form: resetSeconds,
		level: throttle.Tenant}},
	read: readMicrosoftGraph, learn: learnMicrosoftGraph, peek: graphBatched,
}

func readMicrosoftGraph(r Response, quotas []quota) []throttle.Signal {
	if r.Status >= 400 {
		s, ok := common(r, quotas)
		return scoped(throttle.Tenant, s, ok)
	}
	if !has(r.Body, `"responses"`) {
		return nil
	}
	batch, whole := answers[graphItem](r.Body, "responses")
	var all signals
	for _, in := range batch {
		status, _ := strconv.Atoi(string(in.Status))
		one := Response{Status: status, Header: http.Header{"Retry-After": {string(in.Headers.After)}}, At: r.At}
		s, ok := common(one, nil)
		if ok {
			s.Scope.Level = throttle.Tenant
			all.add(s)
		}
		whole = whole && (ok || status == http.StatusFailedDependency)
	}
	if !whole {
		all.once()
	}
	return all
}

// graphItem is an answer in the answer to a $batch.
type graphItem struct {
	Status  text `json:"status"`
	Headers struct {
		After text `json:"Retry-After"` // in any case
	} `json:"headers"`
}

func learnMicrosoftGraph(r Response, quotas []quota) []quota {
	if used, ok := text(value(r.Header, "X-Ms-Throttle-Limit-Percentage")).float(); ok {
		q := percent("throttle limit", text(strconv.FormatFloat(used*100, 'f', 6, 64)))
		q.Scope.Level = throttle.Tenant
		quotas = append(quotas, q)
	}
	if cost, ok := text(value(r.Header, "X-Ms-Resource-Unit")).float(); ok && cost >= 0 {
		q := said("")
		q.Unit, q.Scope.Level, q.Cost = "resource units", throttle.Tenant, int64(min(math.Ceil(cost), math.MaxInt32))
		quotas = append(quotas, q)
	}
	return quotas
}
