package vendors

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// Azure returns the adapter for Azure: Resource Manager, Cosmos DB and the other
// services whose clients are built on azcore.
//
// Limited is 429, unless the code is RetryableErrorDueToAnotherOperation, which is
// the lock of a resource; and a 5xx that says when it ends. The delay is
// retry-after-ms, else x-ms-retry-after-ms, else Retry-After. A call that comes
// early gets a new one.
//
// Resource Manager counts for each subscription, principal, type of operation
// (reads, writes, deletes) and region: use one governor for each principal, with
// the others together as bucket, which is what a refusal pauses. Its answers teach
// what remains, by the name of the header, and no limit.
//
// Evidence, read 2026-11-21: Azure/azure-sdk-for-go, sdk/azcore v1.24.0: internal/shared/shared.go,
// shared_test.go; MicrosoftDocs/azure-docs, request-limits-and-throttling.md.
func Azure() Adapter { return Adapter{azure} }

// AzureReads is the limit of Resource Manager on reads, per bucket: 250 calls at
// once, and 25 per second that come back.
func AzureReads() limiter.QuotaConfig { return documented(250, 10*time.Second) }

// AzureWrites is the limit of Resource Manager on writes, and another one like it
// that on deletes, per bucket: 200 calls at once, and 10 per second that come back.
func AzureWrites() limiter.QuotaConfig { return documented(200, 20*time.Second) }

var azure = &api{read: readAzure, learn: func(r Response, _ []quota) []quota { return azureQuotas(r.Header) }}

const azureRemaining = "X-Ms-Ratelimit-Remaining-"

// azureQuotas are what the headers of Resource Manager say of each kind of call, by
// the rest of their names, and of the limits of a resource's provider.
func azureQuotas(h http.Header) (quotas []quota) {
	var names []string
	for name := range h {
		if strings.HasPrefix(name, azureRemaining) && len(name) <= maxValue && len(names) < maxItems {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names[:min(len(names), maxValues)] {
		if name == azureRemaining+"Resource" {
			quotas = azureProvider(quotas, name, values(h, name))
			continue
		}
		if n, ok := parseAmount(value(h, name)); ok {
			q := said(name)
			q.Name, q.Remaining, q.Scope.Level = strings.ToLower(line(name[len(azureRemaining):], 64)), n, throttle.Bucket
			quotas = append(quotas, q)
		}
	}
	return quotas
}

// azureProvider reads "name;remaining, ...".
func azureProvider(quotas []quota, header string, told []string) []quota {
	for part := range strings.SplitSeq(strings.Join(told, ","), ",") {
		what, left, _ := strings.Cut(part, ";")
		if n, ok := parseAmount(strings.TrimSpace(left)); ok {
			q := said(header)
			q.Name, q.Remaining, q.Scope.Level = line(strings.TrimSpace(what), 64), n, throttle.Bucket
			quotas = append(quotas, q)
		}
	}
	return quotas
}

func readAzure(r Response, _ []quota) []throttle.Signal {
	s, ok := common(r, nil)
	var reply struct {
		Code  text `json:"code"`
		Error struct {
			Code text `json:"code"`
		} `json:"error"`
	}
	const lock = "RetryableErrorDueToAnotherOperation"
	if r.Status == http.StatusTooManyRequests && has(r.Body, lock) {
		decode(r.Body, &reply)
		ok = reply.Code != lock && reply.Error.Code != lock
	}
	return scoped(throttle.Bucket, s, ok)
}
