package vendors

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/flyball-go/flyball/internal/wire"
	"github.com/flyball-go/flyball/throttle"
)

// GRPC returns the adapter for gRPC services that have none of their own. For an
// answer over HTTP it is HTTP.
//
// Limited is RESOURCE_EXHAUSTED, unless it is grpc-go's own complaint about a
// message's size; and any failure to which the server gave a time: the trailer
// grpc-retry-pushback-ms, else google.rpc.RetryInfo among the details. Such a time
// beside another code is overload, and beside ABORTED, which is about one
// transaction, a lock of the one request. A pushback that is negative, no number or
// there more than once forbids to repeat the call, and leaves a RetryInfo's time as it
// is.
//
// google.rpc.QuotaFailure and ErrorInfo, and the text, name the limit: one "per
// day" is a quota, even where RetryInfo says seconds. The pause is the host's: use one
// governor for each service and credential.
//
// Evidence, read 2026-11-21: grpc/proposal:A6-client-retries.md;
// grpc/grpc-go:rpc_util.go, stream.go; googleapis/googleapis:google/rpc/error_details.proto.
func GRPC() Adapter { return Adapter{grpcDialect{}} }

type grpcDialect struct{}

// Learn implements Dialect.
func (grpcDialect) Learn(r Response) []throttle.Quota { return httpDialect{}.Learn(r) }

// Read implements Dialect.
func (grpcDialect) Read(r Response) []throttle.Signal {
	if r.Status != 0 {
		return httpDialect{}.Read(r)
	}
	if r.Code == CodeOK {
		return nil
	}
	all := details(r)
	s := grpcWait(r, all)
	stated := s.Delay != throttle.Unknown
	s.Kind, s.Source = throttle.KindOverload, cmp.Or(s.Source, r.Code.String())
	switch {
	case r.Code == CodeResourceExhausted:
		if !stated && oversize(r.Message) {
			return nil
		}
		s.Kind = grpcKind(r.Message, all)
	case !stated:
		return nil
	case r.Code == CodeAborted:
		s.Kind, s.Scope.Level = throttle.KindLock, throttle.Request
	}
	return []throttle.Signal{s}
}

// grpcWait reads the delay that an answer states, and whether the call may be repeated.
// A pushback that forbids that says nothing of time: others heed a RetryInfo beside it.
func grpcWait(r Response, all []Any) throttle.Signal {
	var s throttle.Signal
	var stated bool
	if s.Delay, stated = retryInfo(all); stated {
		s.Source = "RetryInfo: " + s.Delay.String()
	}
	d, noRetry, there := pushback(r)
	if s.NoRetry = noRetry; there && !(noRetry && stated) {
		s.Delay, s.Source = d, "grpc-retry-pushback-ms: "+line(strings.Join(trailer(r, "grpc-retry-pushback-ms"), ", "), 64)
	}
	return s
}

// pushback reads the trailer of gRPC's own retries.
func pushback(r Response) (delay time.Duration, noRetry, there bool) {
	all := trailer(r, "grpc-retry-pushback-ms")
	if len(all) == 0 {
		return throttle.Unknown, false, false
	}
	n, ok := parseCount(all[0])
	if !ok || len(all) > 1 || len(all[0]) > maxValue {
		return throttle.Unknown, true, true
	}
	d, _ := parseDecimal(strconv.FormatInt(n, 10), time.Millisecond)
	return d, false, true
}

// grpcKind tells what sort of limit details name, else the text.
func grpcKind(message string, all []Any) throttle.Kind {
	var names []string
	for _, a := range all {
		switch typeName(a.TypeURL) {
		case "google.rpc.QuotaFailure": // violations = 1: description = 2, quota_metric = 4, quota_id = 5
			for v := range fields(a.Value) {
				if v.Num == 1 && v.Type == wire.Bytes {
					names = appendTexts(names, v.Bytes, 2, 4, 5)
				}
			}
		case "google.rpc.ErrorInfo": // reason = 1, metadata = 3, a map: value = 2
			names = appendTexts(names, a.Value, 1)
			for m := range fields(a.Value) {
				if m.Num == 3 && m.Type == wire.Bytes {
					names = appendTexts(names, m.Bytes, 2)
				}
			}
		}
	}
	return namedKind(append(names, message)...)
}

// appendTexts appends the texts of some fields of a message, up to maxItems.
func appendTexts(all []string, message []byte, nums ...int) []string {
	for f := range fields(message) {
		for _, n := range nums {
			if int(f.Num) == n && f.Type == wire.Bytes && len(all) < maxItems {
				all = append(all, string(f.Bytes[:min(len(f.Bytes), maxValue)]))
			}
		}
	}
	return all
}

// namedKind tells what sort of limit Google's names of it mean: a quota if any of
// them says so, else a burst if any does.
func namedKind(names ...string) throttle.Kind {
	kind := throttle.KindUnknown
	for _, name := range names {
		name = plainName.Replace(strings.ToLower(name[:min(len(name), maxValue)]))
		for _, long := range [...]string{"perday", "perhour", "permonth", "perweek", "daily", "1/d"} {
			if strings.Contains(name, long) {
				return throttle.KindQuota
			}
		}
		for _, short := range [...]string{"perminute", "persecond", "per100seconds", "1/min", "ratelimitexceeded"} {
			if strings.Contains(name, short) {
				kind = throttle.KindBurst
			}
		}
	}
	return kind
}

var plainName = strings.NewReplacer(" ", "", "_", "", "-", "")
