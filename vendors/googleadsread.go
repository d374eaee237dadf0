package vendors

import (
	"strconv"

	"github.com/flyball-go/flyball/internal/wire"
	"github.com/flyball-go/flyball/throttle"
)

// adsErrorProto decodes a GoogleAdsError{error_code = 1, message = 2, details = 5}.
// ErrorCode is a oneof of which quota_error is 11.
func adsErrorProto(b []byte) adsError {
	e := adsError{delay: throttle.Unknown}
	for f := range fields(b) {
		switch {
		case f.Type != wire.Bytes:
		case f.Num == 1:
			for code := range fields(f.Bytes) {
				e.coded, e.quota = true, "" // of a oneof the last one counts
				if n, ok := code.Int(); ok && code.Num == 11 {
					e.quota = enum(adsQuotaErrors, n)
				}
			}
		case f.Num == 2:
			e.message = string(f.Bytes[:min(len(f.Bytes), maxValue)])
		case f.Num == 5:
			e.readDetails(f.Bytes)
		}
	}
	return e
}

// readDetails decodes ErrorDetails{quota_error_details = 4} and in it
// QuotaErrorDetails{rate_scope = 1, rate_name = 2, retry_delay = 3}.
func (e *adsError) readDetails(b []byte) {
	for d := range fields(b) {
		if d.Num != 4 || d.Type != wire.Bytes {
			continue
		}
		for f := range fields(d.Bytes) {
			switch n, isInt := f.Int(); {
			case f.Num == 1 && isInt:
				e.scope = enum(adsScopes, n)
			case f.Num == 2 && f.Type == wire.Bytes:
				e.rate = string(f.Bytes[:min(len(f.Bytes), maxValue)])
			case f.Num == 3 && f.Type == wire.Bytes:
				e.delay = protoDuration(f.Bytes)
			}
		}
	}
}

// enum names an enum's value; one without a name keeps its number.
func enum(names map[int64]string, n int64) string {
	if s, ok := names[n]; ok {
		return s
	}
	return strconv.FormatInt(n, 10)
}

// adsReply is the body of a failed REST call.
type adsReply struct {
	Error struct {
		Details items[struct {
			Type   string `json:"@type"`
			Errors items[struct {
				ErrorCode map[string]any `json:"errorCode"`
				Message   string         `json:"message"`
				Details   struct {
					Quota *struct {
						Scope string `json:"rateScope"`
						Name  string `json:"rateName"`
						Delay string `json:"retryDelay"`
					} `json:"quotaErrorDetails"`
				} `json:"details"`
			}] `json:"errors"`
		}] `json:"details"`
	} `json:"error"`
}

// adsBody returns the errors of a REST body: an object, or an array in which a
// stream that broke has its rows first.
func adsBody(b []byte) (errs []adsError) {
	var replies items[adsReply]
	decode(b, &replies)
	for i := range replies {
		errs = replies[i].errors(errs)
	}
	return errs
}

func (r *adsReply) errors(errs []adsError) []adsError {
	for _, d := range r.Error.Details {
		if !adsFailureName(typeName(d.Type)) {
			continue
		}
		for _, in := range d.Errors {
			e := adsError{coded: len(in.ErrorCode) > 0, delay: throttle.Unknown, message: in.Message}
			switch code := in.ErrorCode["quotaError"].(type) {
			case string:
				e.quota = line(code, 100)
			case float64: // an enum may be a number, too
				e.quota = enum(adsQuotaErrors, int64(code))
			}
			if q := in.Details.Quota; q != nil {
				e.scope, e.rate, e.delay = q.Scope, q.Name, jsonDuration(q.Delay)
			}
			if e.coded && len(errs) < adsMaxErrors {
				errs = append(errs, e)
			}
		}
	}
	return errs
}
