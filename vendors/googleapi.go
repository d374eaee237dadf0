package vendors

import (
	"net/http"
	"slices"
	"time"

	"github.com/flyball-go/flyball/throttle"
)

// GoogleAPI returns the adapter for Google's APIs (Drive, YouTube, Gmail, Cloud,
// Gemini ...), over REST and gRPC; but see GoogleAds.
//
// Over REST, limited are 429, and a 403 whose reason is rateLimitExceeded or
// userRateLimitExceeded, a burst, or quotaExceeded or dailyLimitExceeded, a day's
// budget; not one of accessNotConfigured or insufficientPermissions, though their
// domain may be usageLimits, too. The delay is Retry-After, else the RetryInfo of
// error.details; with such a time a 5xx is overload. There are no other headers.
// QuotaFailure and ErrorInfo tell a day's quota from a burst, even where RetryInfo
// says seconds. Over gRPC it is as GRPC has it.
//
// A user's limit pauses the tenant, others the host: use one governor for each
// project, with the user as tenant. Limits differ for each API and project.
//
// Evidence, read 2026-11-21: googleapis/google-api-python-client:googleapiclient/http.py;
// googleapis/googleapis:google/rpc/error_details.proto.
func GoogleAPI() Adapter { return Adapter{googleAPI{}} }

type googleAPI struct{}

// Learn implements Dialect. Google says nothing about quota before it is used up.
func (googleAPI) Learn(Response) []throttle.Quota { return nil }

// googleReasons are the reasons of a 403 that are limits.
var googleReasons = map[text]throttle.Signal{
	"rateLimitExceeded":          {Kind: throttle.KindBurst},
	"rateLimitExceededUnreg":     {Kind: throttle.KindBurst},
	"userRateLimitExceeded":      {Kind: throttle.KindBurst, Scope: throttle.Scope{Level: throttle.Tenant}},
	"userRateLimitExceededUnreg": {Kind: throttle.KindBurst, Scope: throttle.Scope{Level: throttle.Tenant}},
	"RATE_LIMIT_EXCEEDED":        {Kind: throttle.KindBurst}, // of an ErrorInfo
	"quotaExceeded":              {Kind: throttle.KindQuota},
	"dailyLimitExceeded":         {Kind: throttle.KindQuota},
	"dailyLimitExceededUnreg":    {Kind: throttle.KindQuota},
}

type googleReply struct {
	Error struct {
		Message text `json:"message"`
		Errors  items[struct {
			Reason text `json:"reason"`
		}] `json:"errors"`
		Details items[googleDetail] `json:"details"`
	} `json:"error"`
}

// googleDetail is a RetryInfo, a QuotaFailure or an ErrorInfo.
type googleDetail struct {
	Type       text `json:"@type"`
	Delay      text `json:"retryDelay"`
	Reason     text `json:"reason"`
	Violations items[struct {
		Description text `json:"description"`
		Metric      text `json:"quotaMetric"`
		ID          text `json:"quotaId"`
	}] `json:"violations"`
	Metadata struct {
		Limit text `json:"quota_limit"`
		Unit  text `json:"quota_unit"`
	} `json:"metadata"`
}

// googleTold is what the body of a failure says.
type googleTold struct {
	delay   time.Duration // of a RetryInfo; throttle.Unknown: none
	reasons []text
	names   []string // of the limit
}

func readGoogle(body []byte) googleTold {
	told := googleTold{delay: throttle.Unknown}
	var replies items[googleReply] // a stream's is an array
	decode(body, &replies)
	for _, reply := range replies {
		for _, e := range reply.Error.Errors {
			told.reasons = append(told.reasons, e.Reason)
		}
		told.names = append(told.names, string(reply.Error.Message))
		for _, d := range reply.Error.Details {
			switch typeName(string(d.Type)) {
			case "google.rpc.RetryInfo":
				told.delay = max(told.delay, jsonDuration(string(d.Delay)))
			case "google.rpc.QuotaFailure":
				for _, v := range d.Violations {
					told.names = append(told.names, string(v.Description), string(v.Metric), string(v.ID))
				}
			case "google.rpc.ErrorInfo":
				told.reasons = append(told.reasons, d.Reason)
				told.names = append(told.names, string(d.Metadata.Limit), string(d.Metadata.Unit))
			}
		}
	}
	return told
}

// Read implements Dialect.
func (googleAPI) Read(r Response) []throttle.Signal {
	if r.Status == 0 {
		return grpcDialect{}.Read(r)
	}
	if r.Status < 400 {
		return nil
	}
	s, ok := common(r, nil)
	told := readGoogle(r.Body)
	if told.delay != throttle.Unknown && s.Delay == throttle.Unknown {
		s.Delay, s.Source = told.delay, "RetryInfo: "+told.delay.String()
	}
	if r.Status >= 500 {
		return only(s, s.Delay != throttle.Unknown)
	}
	i := slices.IndexFunc(told.reasons, func(reason text) bool { _, is := googleReasons[reason]; return is })
	if i >= 0 {
		known := googleReasons[told.reasons[i]]
		s.Kind, s.Scope = known.Kind, known.Scope
		if s.Source == "" {
			s.Source = string(told.reasons[i])
		}
	}
	// A name is more exact than a reason, which may be rateLimitExceeded for a day.
	if kind := namedKind(told.names...); kind == throttle.KindQuota || i < 0 && kind != throttle.KindUnknown {
		s.Kind = kind
	}
	return only(s, ok || i >= 0 && r.Status == http.StatusForbidden)
}
