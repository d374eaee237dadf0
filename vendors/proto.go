package vendors

import (
	"math"
	"strings"
	"time"

	"github.com/flyball-go/flyball/internal/wire"
	"github.com/flyball-go/flyball/throttle"
)

// details returns the status details of a gRPC answer: those its client decoded,
// else those in the trailer that carries the whole google.rpc.Status.
func details(r Response) []Any {
	if len(r.Details) > 0 {
		return r.Details
	}
	var out []Any
	for _, v := range trailer(r, "grpc-status-details-bin") {
		for f := range fields([]byte(v)) {
			if f.Num == 3 && f.Type == wire.Bytes { // repeated Any details
				out = append(out, readAny(f.Bytes))
			}
		}
	}
	return out
}

func readAny(b []byte) (a Any) {
	for f := range fields(b) {
		switch {
		case f.Type != wire.Bytes:
		case f.Num == 1:
			a.TypeURL = string(f.Bytes)
		case f.Num == 2:
			a.Value = f.Bytes
		}
	}
	return a
}

// trailer returns the first values of a gRPC trailer.
func trailer(r Response, name string) []string {
	all := r.Trailer[name]
	return all[:min(len(all), maxValues)]
}

// fields yields the fields of an encoded message that is not above maxBody, up
// to where it is malformed.
func fields(b []byte) func(yield func(wire.Field) bool) {
	return func(yield func(wire.Field) bool) {
		if len(b) > maxBody {
			return
		}
		for r := wire.NewReader(b); r.Next(); {
			if !yield(r.Field()) {
				return
			}
		}
	}
}

// protoDuration reads a google.protobuf.Duration, rounded up to 1 ms, saturating.
// A negative one, or one with impossible nanoseconds, is throttle.Unknown.
func protoDuration(b []byte) time.Duration {
	var seconds, nanos int64
	for f := range fields(b) {
		switch n, ok := f.Int(); {
		case !ok:
		case f.Num == 1:
			seconds = n
		case f.Num == 2:
			nanos = n
		}
	}
	switch {
	case seconds < 0 || nanos < 0 || nanos >= int64(time.Second):
		return throttle.Unknown
	case seconds > math.MaxInt64/int64(time.Second)-1:
		return math.MaxInt64
	}
	return ceilMilli(time.Duration(seconds)*time.Second + time.Duration(nanos))
}

// jsonDuration reads a google.protobuf.Duration as proto-JSON writes it, "1.5s".
func jsonDuration(s string) time.Duration {
	if n, ok := strings.CutSuffix(s, "s"); ok && len(s) <= maxValue {
		if d, ok := parseDecimal(n, time.Second); ok {
			return d
		}
	}
	return throttle.Unknown
}

// retryInfo returns the delay of the google.rpc.RetryInfo among a status's
// details.
func retryInfo(all []Any) (time.Duration, bool) {
	for _, a := range all {
		if typeName(a.TypeURL) != "google.rpc.RetryInfo" {
			continue
		}
		for f := range fields(a.Value) {
			if f.Num == 1 && f.Type == wire.Bytes {
				if d := protoDuration(f.Bytes); d != throttle.Unknown {
					return d, true
				}
			}
		}
	}
	return throttle.Unknown, false
}

// typeName returns the message's full name in an Any's type URL.
func typeName(url string) string { return url[strings.LastIndexByte(url, '/')+1:] }

// oversize reports whether RESOURCE_EXHAUSTED is grpc-go's own complaint, of
// either side, about one message's size: no time makes that one fit.
func oversize(message string) bool {
	return strings.Contains(message, "message larger than max") ||
		strings.Contains(message, "message after decompression larger than max") ||
		strings.HasPrefix(message, "grpc: message too large")
}
