package vendors

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/flyball-go/flyball/internal/wire"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// GoogleAds returns the adapter for the Google Ads API, over gRPC and REST, in
// every API version: the version is only part of names, and field numbers have
// not changed between them.
//
// A refusal is a GoogleAdsFailure: raw in the trailer
// google.ads.googleads.vN.errors.googleadsfailure-bin, in the status details, or
// as JSON in a REST body, an object or (searchStream) an array of one. Limited
// are its quota errors, all but two: ACCESS_PROHIBITED is a matter of permission,
// and PAYMENTS_PROFILE_ACTIVATION_RATE_LIMIT_EXCEEDED of one profile's week. The
// delay is quotaErrorDetails.retryDelay, or what the text says ("Retry in 30
// seconds"), or what stands beside the failure: Retry-After, a RetryInfo, gRPC's
// pushback. Scope ACCOUNT is the tenant, so ask with the customer ID as tenant;
// DEVELOPER, the Cloud project that all customers share, is the host: use one
// governor for each Cloud project. One failure with several errors gives one signal for each scope, with the longest delay.
//
// Google answers the same code to a burst of seconds and to a day's budget. The
// kind is quota for operation counts, for long-term consumption, for pauses above
// 15 minutes and for RESOURCE_EXHAUSTED without a time; burst for the rest.
//
// RESOURCE_EXHAUSTED or HTTP 429 without a failure is limited too, with one of those
// delays if there is one; with one, other codes and 503 are overload. Over gRPC that is
// as GRPC has it: the code is no limit when it comes from grpc-go itself, which uses it
// for a message above the receive limit (use the 64 MiB of Google's own clients for
// that), and a pushback may forbid to repeat the call, with a failure too.
//
// Evidence, read 2026-11-21: googleapis/googleapis:google/ads/googleads/v24/errors/errors.proto;
// googleads/google-ads-python:google/ads/googleads/v25/errors/types/{quota_error,errors}.py,
// google/ads/googleads/interceptors/interceptor.py,
// examples/error_handling/handle_rate_exceeded_error.py; PipedreamHQ/pipedream#21554;
// developers.google.com/google-ads/api/docs/best-practices/quotas and
// .../productionize/rate-limits; grpc/grpc-go:rpc_util.go, stream.go.
func GoogleAds() Adapter { return Adapter{googleAds{}} }

// GoogleAdsBasic is the budget of a developer token with basic access, per host:
// 15,000 operations per day. Each operation of a mutate counts, a search as one:
// the governor.Ask's Cost, which all limits of that governor count.
func GoogleAdsBasic() limiter.QuotaConfig { return documented(15_000, 24*time.Hour) }

// GoogleAdsExplorer is the like budget with explorer access, for production
// accounts: 2,880 operations per day.
func GoogleAdsExplorer() limiter.QuotaConfig { return documented(2880, 24*time.Hour) }

// GoogleAdsPlanning is the limit of the planning services, per host of a governor
// that does only this: one call per second.
func GoogleAdsPlanning() limiter.QuotaConfig { return documented(1, time.Second) }

type googleAds struct{}

// Learn implements Dialect. Google Ads says nothing about quota before it is
// used up.
func (googleAds) Learn(Response) []throttle.Quota { return nil }

// Read implements Dialect.
func (googleAds) Read(r Response) []throttle.Signal {
	var errs []adsError
	if r.Status != 0 {
		errs = adsBody(r.Body)
	} else {
		errs = adsTrailers(r)
	}
	if len(errs) > 0 { // the failure itself decides
		told := adsWait(r)
		var all signals
		for _, e := range errs {
			if e.limited() {
				all.add(e.signal(told))
			}
		}
		return all
	}
	if r.Status == 0 {
		return grpcDialect{}.Read(r)
	}
	s := adsWait(r)
	switch {
	case r.Status == http.StatusTooManyRequests: // Google's front end, or a body that is not Google's
	case r.Status == http.StatusServiceUnavailable && s.Delay != throttle.Unknown:
		s.Kind = throttle.KindOverload
	default:
		return nil
	}
	return []throttle.Signal{s}
}

// adsWait reads the delay that an answer states beside a failure, or without one.
func adsWait(r Response) (s throttle.Signal) {
	if r.Status == 0 {
		return grpcWait(r, details(r))
	}
	var stated bool
	if s.Delay, s.Source, stated = retryAfter(r.Header, r.At); stated {
		return s
	}
	if s.Delay = readGoogle(r.Body).delay; s.Delay != throttle.Unknown {
		s.Source = "RetryInfo: " + s.Delay.String()
	}
	return s
}

// adsTrailers returns the errors of a gRPC answer's failures. Servers send the
// same failure in both places; official clients read the trailer.
func adsTrailers(r Response) (errs []adsError) {
	for name := range r.Trailer {
		if base, ok := strings.CutSuffix(name, "-bin"); ok && adsFailureName(base) {
			for _, v := range trailer(r, name) {
				errs = append(errs, adsFailure([]byte(v))...)
			}
		}
	}
	if len(errs) > 0 {
		return errs
	}
	for _, a := range details(r) {
		if adsFailureName(typeName(a.TypeURL)) {
			errs = append(errs, adsFailure(a.Value)...)
		}
	}
	return errs
}

// adsFailureName reports whether name is google.ads.googleads.v<digits>.errors.GoogleAdsFailure,
// in any case.
func adsFailureName(name string) bool {
	const before, after = "google.ads.googleads.v", ".errors.googleadsfailure"
	if len(name) > 100 || len(name) <= len(before)+len(after) {
		return false
	}
	name = strings.ToLower(name)
	version, ok := strings.CutPrefix(name, before)
	if !ok {
		return false
	}
	version, ok = strings.CutSuffix(version, after)
	_, digits := parseCount(version)
	return ok && digits
}

// adsError is one GoogleAdsError, as far as it concerns limits.
type adsError struct {
	coded   bool   // it has an error code at all
	quota   string // the QuotaError's name; "" when it is another error
	scope   string // the QuotaRateScope's name
	rate    string
	delay   time.Duration
	message string
}

// Numbers of the proto's enums. A name that is not here keeps its number.
var (
	adsQuotaErrors = map[int64]string{
		2: adsExhausted, 3: adsProhibited, 4: "RESOURCE_TEMPORARILY_EXHAUSTED",
		5: "EXCESSIVE_SHORT_TERM_QUERY_RESOURCE_CONSUMPTION", 6: adsLongTerm, 7: adsActivation,
	}
	adsScopes = map[int64]string{2: adsAccount, 3: "DEVELOPER"}
)

const (
	adsExhausted  = "RESOURCE_EXHAUSTED"
	adsProhibited = "ACCESS_PROHIBITED"
	adsLongTerm   = "EXCESSIVE_LONG_TERM_QUERY_RESOURCE_CONSUMPTION"
	adsActivation = "PAYMENTS_PROFILE_ACTIVATION_RATE_LIMIT_EXCEEDED"
	adsAccount    = "ACCOUNT"
)

// limited reports whether waiting makes the call succeed. A quota error of a
// future version counts as one.
func (e adsError) limited() bool {
	return e.quota != "" && e.quota != adsProhibited && e.quota != adsActivation
}

// signal is what e asks for. told is what its answer says beside it, for a failure
// without a time.
func (e adsError) signal(told throttle.Signal) throttle.Signal {
	s := throttle.Signal{Delay: e.delay, Source: e.quota, NoRetry: told.NoRetry}
	if e.scope == adsAccount {
		s.Scope.Level = throttle.Tenant
	}
	if s.Delay == throttle.Unknown {
		s.Delay = adsProse(e.message)
	}
	if e.rate != "" {
		s.Source = line(e.rate, 100)
	}
	switch {
	case s.Delay != throttle.Unknown:
		s.Source += fmt.Sprintf(", retry in %v", s.Delay)
	case told.Delay != throttle.Unknown:
		s.Delay = told.Delay
		s.Source += ", " + told.Source
	}
	s.Kind = e.kind(s.Delay)
	return s
}

// kind tells a day's budget from a burst; see GoogleAds.
func (e adsError) kind(delay time.Duration) throttle.Kind {
	switch {
	case e.quota == adsLongTerm, strings.HasPrefix(e.rate, "Number of operations"), delay > 15*time.Minute:
		return throttle.KindQuota
	case e.quota == adsExhausted && delay == throttle.Unknown:
		return throttle.KindQuota
	}
	return throttle.KindBurst
}

// adsProse reads "Retry in 30 seconds" in an error's text.
func adsProse(text string) time.Duration {
	_, n, ok := strings.Cut(text[:min(len(text), maxValue)], "Retry in ")
	n, _, found := strings.Cut(n, " second")
	if d, valid := parseDecimal(n, time.Second); ok && found && valid {
		return d
	}
	return throttle.Unknown
}

// adsFailure decodes a GoogleAdsFailure{errors = 1}.
func adsFailure(b []byte) (errs []adsError) {
	for f := range fields(b) {
		if f.Num == 1 && f.Type == wire.Bytes && len(errs) < adsMaxErrors {
			if e := adsErrorProto(f.Bytes); e.coded {
				errs = append(errs, e)
			}
		}
	}
	return errs
}

// adsMaxErrors bounds how many errors of one failure are looked at. A quota
// error refuses a call as a whole and comes alone.
const adsMaxErrors = 1000
