package vendors

import (
	"bytes"
	"net/http"
	"strings"
	"time"

	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// Salesforce returns the adapter for Salesforce's REST and SOAP APIs.
//
// Limited is the code REQUEST_LIMIT_EXCEEDED with status 403, in JSON or XML, in SOAP
// with 500; with 400 it is about a Bulk query. It is both the org's budget of 24 rolling
// hours and its limit of long calls at once: the text tells, or Sforce-Limit-Info
// when that is not used up. No time is given: a budget takes hours, concurrency
// seconds. The pause is the host's: use one governor for each org.
//
// Sforce-Limit-Info teaches the org's budget and the connected app's.
//
// Evidence, read 2026-11-21: simple-salesforce:simple_salesforce/tests/test_api.py;
// rudderlabs/rudder-transformer:test/integrations/destinations/salesforce/network.ts;
// jsforce:src/api/soap/wsdl.xml; airbytehq/airbyte source-salesforce.
func Salesforce() Adapter { return Adapter{salesforce} }

// SalesforceRequests is the budget of an org, per host: 100,000 calls per 24 hours,
// and what its licences add, 1,000 or 5,000 each by their kind.
func SalesforceRequests(forLicences int) limiter.QuotaConfig {
	return documented(100_000+min(max(0, forLicences), 1e9), 24*time.Hour)
}

var salesforce = &api{read: readSalesforce, learn: func(r Response, _ []quota) []quota { return salesforceBudgets(r) }}

func readSalesforce(r Response, _ []quota) []throttle.Signal {
	s, ok := common(r, nil)
	message, exceeded := salesforceError(r)
	if !exceeded {
		return only(s, ok)
	}
	s.Kind = throttle.KindQuota
	switch budgets := salesforceBudgets(r); {
	case strings.Contains(message, "Concurrent"):
		s.Kind = throttle.KindConcurrency
	case strings.Contains(message, "TotalRequests"):
	case len(budgets) > 0 && exhaustedQuota(budgets).Remaining != 0:
		s.Kind = throttle.KindConcurrency
	}
	if s.Source == "" {
		s.Source = line(message, 100)
	}
	return only(s, true)
}

// salesforceError reports whether an answer says REQUEST_LIMIT_EXCEEDED, and its
// text.
func salesforceError(r Response) (message string, exceeded bool) {
	const code = "REQUEST_LIMIT_EXCEEDED"
	if !has(r.Body, code) {
		return "", false
	}
	switch r.Status {
	case http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		var errs items[struct {
			Code    text `json:"errorCode"`
			Message text `json:"message"`
		}]
		decode(r.Body, &errs)
		for _, e := range errs {
			if e.Code == code {
				return string(e.Message), true
			}
		}
		for name, value := range elements(r.Body) { // of REST, asked for XML
			switch string(name) {
			case "errorCode":
				exceeded = exceeded || string(value) == code
			case "message":
				message = string(value)
			}
		}
	case http.StatusInternalServerError: // every fault of SOAP
		for name, value := range elements(r.Body) {
			switch string(name) {
			case "faultcode", "exceptionCode":
				exceeded = exceeded || bytes.HasSuffix(value, []byte(code))
			case "faultstring", "exceptionMessage":
				message = string(value)
			}
		}
	}
	return message, exceeded
}

// salesforceBudgets reads "api-usage=25/5000; per-app-api-usage=17/250(appName=x)".
func salesforceBudgets(r Response) (all []quota) {
	for _, v := range values(r.Header, "Sforce-Limit-Info") {
		for part := range strings.FieldsFuncSeq(v, func(c rune) bool { return c == ';' || c == ',' }) {
			name, use, _ := strings.Cut(part, "=")
			used, limit, _ := strings.Cut(use, "/")
			limit, _, _ = strings.Cut(limit, "(")
			n, ok := parseCount(strings.TrimSpace(used))
			of, valid := parseCount(strings.TrimSpace(limit))
			if name = strings.TrimSpace(name); ok && valid && strings.HasSuffix(name, "api-usage") {
				q := said("Sforce-Limit-Info")
				q.Name, q.Limit, q.Remaining, q.Window = line(name, 64), of, max(0, of-n), 24*time.Hour
				all = append(all, q)
			}
		}
	}
	return all[:min(len(all), maxValues)]
}

// SalesforceMarketingCloud returns the adapter for Salesforce's Marketing Cloud.
//
// Limited is 429. The delay is Retry-After, else retryAfter of the body. The code
// 50100 is a rate; 50200 says that calls are blocked for a while, without a time.
// The pause is the host's: use one governor for each account.
//
// Evidence, read 2026-11-21: developer.salesforce.com, mc-apis, rate-limiting-errors.
func SalesforceMarketingCloud() Adapter { return Adapter{marketingCloud} }

var marketingCloud = &api{read: func(r Response, _ []quota) []throttle.Signal {
	s, ok := common(r, nil)
	var reply struct {
		Code  text `json:"errorcode"`
		After text `json:"retryAfter"`
	}
	if ok && r.Status < 500 {
		decode(r.Body, &reply)
	}
	if d, valid := reply.After.seconds(); valid && s.Delay == throttle.Unknown {
		s.Delay, s.Source = d, "retryAfter: "+d.String()
	}
	if reply.Code == "50200" {
		s.Kind = throttle.KindBan
	}
	return only(s, ok)
}}
