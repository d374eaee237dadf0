package vendors

import (
	"net/http"
	"time"

	"github.com/flyball-go/flyball/throttle"
)

// MicrosoftAds returns the adapter for the Microsoft Advertising API (Bing Ads),
// SOAP and REST.
//
// A refusal is an error of the fault in the body of an answer with a status from
// 400 on; every SOAP fault has status 500. Limited are: 117 CallRateExceeded, with
// the documented wait of 60 s, of the user or the customer, which is not said, and
// so of the host; 207 ConcurrentRequestOverLimit, until earlier reports complete;
// 4204 BulkServiceNoMoreCallsPermittedForTheTimePeriod, up to 15 minutes; and 3227
// BulkServiceTooManyRequests. The last three are the bucket's: ask with a bucket
// for reports, for bulk uploads and for bulk downloads. Numbers are used twice:
// 207 counts with its symbol only. A 429 without a fault is limited, too. 404 and
// 501 with a Retry-After say that a service has no REST, and are not.
//
// Use one governor for each user of the API, with the service (campaigns,
// reporting, bulk) as selector and the customer as tenant. There are no published
// numbers.
//
// Evidence, read 2026-11-21: MicrosoftDocs/Advertising:advertising/bingads-13/guides/{services-protocol.md,handle-service-errors-exceptions.md,operation-error-codes.md,bulk-download-upload.md,php-sdk-migration-soap-to-rest.md};
// BingAds/BingAds-dotNet-SDK:BingAdsApiSDK/RestServiceClient.cs, V13/Reporting/ReportingOperationTracker.cs;
// BingAds/BingAds-Python-SDK:bingads/util.py, bingads/v13/reporting/reporting_operation.py.
func MicrosoftAds() Adapter { return Adapter{microsoftAds} }

var microsoftAds = &api{read: readMicrosoftAds}

// microsoftLimits are the errors that are limits.
var microsoftLimits = []struct {
	code, symbol string
	bare         bool // the code means it without the symbol, too
	signal       throttle.Signal
}{
	{"117", "CallRateExceeded", true, throttle.Signal{Kind: throttle.KindBurst, Delay: time.Minute}},
	{"207", "ConcurrentRequestOverLimit", false, throttle.Signal{Kind: throttle.KindConcurrency, Scope: throttle.Scope{Level: throttle.Bucket}, Delay: throttle.Unknown}},
	{"3227", "BulkServiceTooManyRequests", true, throttle.Signal{Kind: throttle.KindBurst, Scope: throttle.Scope{Level: throttle.Bucket}, Delay: throttle.Unknown}},
	{"4204", "BulkServiceNoMoreCallsPermittedForTheTimePeriod", true, throttle.Signal{Kind: throttle.KindQuota, Scope: throttle.Scope{Level: throttle.Bucket}, Delay: 15 * time.Minute}},
}

type microsoftError struct {
	Code      text `json:"Code"`
	ErrorCode text `json:"ErrorCode"`
}

type microsoftFault struct {
	Errors          items[microsoftError] `json:"Errors"`
	OperationErrors items[microsoftError] `json:"OperationErrors"`
	BatchErrors     items[microsoftError] `json:"BatchErrors"`
}

func (f *microsoftFault) errors() (all []microsoftError) {
	return append(append(append(all, f.Errors...), f.OperationErrors...), f.BatchErrors...)
}

func readMicrosoftAds(r Response, _ []quota) []throttle.Signal {
	if r.Status < 400 {
		return nil
	}
	s, ok := common(r, nil)
	var all signals
	for _, e := range microsoftErrors(r.Body) {
		if limit, is := e.limit(); is {
			if s.Delay != throttle.Unknown { // not documented
				limit.Delay = s.Delay
			}
			limit.NoRetry = s.NoRetry
			all.add(limit)
		}
	}
	if len(all) > 0 {
		return all
	}
	return only(s, ok && r.Status != http.StatusNotImplemented)
}

func (e microsoftError) limit() (throttle.Signal, bool) {
	for _, l := range microsoftLimits {
		if string(e.ErrorCode) == l.symbol || l.bare && string(e.Code) == l.code && e.ErrorCode == "" {
			s := l.signal
			s.Source = l.code + " " + l.symbol
			return s, true
		}
	}
	return throttle.Signal{}, false
}

// microsoftErrors returns the errors of a fault, in JSON or XML.
func microsoftErrors(body []byte) (all []microsoftError) {
	var reply struct {
		microsoftFault
		ApplicationFault microsoftFault
	}
	if decode(body, &reply) {
		return append(reply.errors(), reply.ApplicationFault.errors()...)
	}
	for name, value := range elements(body) {
		switch string(name) { // of an AdApiError, OperationError or BatchError, in this order
		case "Code":
			if len(all) < maxItems {
				all = append(all, microsoftError{Code: text(value)})
			}
		case "ErrorCode":
			if len(all) > 0 {
				all[len(all)-1].ErrorCode = text(value)
			}
		}
	}
	return all
}
