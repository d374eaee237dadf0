package vendors

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/wire"
	"github.com/flyball-go/flyball/throttle"
)

// Builders of Google's messages, by field number.

func adsDuration(seconds, nanos int64) []byte {
	return wire.AppendVarint(wire.AppendVarint(nil, 1, uint64(seconds)), 2, uint64(nanos))
}

// adsQuota encodes a GoogleAdsError with a QuotaError and its details.
func adsQuota(code, scope uint64, rate string, delay []byte) []byte {
	d := wire.AppendBytes(wire.AppendVarint(nil, 1, scope), 2, rate)
	if delay != nil {
		d = wire.AppendBytes(d, 3, delay)
	}
	e := wire.AppendBytes(nil, 1, wire.AppendVarint(nil, 11, code))
	e = wire.AppendBytes(e, 2, "Too many requests.")
	return wire.AppendBytes(e, 5, wire.AppendBytes(nil, 4, d))
}

func adsErrors(errs ...[]byte) (b []byte) {
	for _, e := range errs {
		b = wire.AppendBytes(b, 1, e)
	}
	return wire.AppendBytes(b, 2, "request-id")
}

func adsAnswer(errs ...[]byte) Response {
	return Response{Code: CodeResourceExhausted, At: received, Trailer: map[string][]string{
		"google.ads.googleads.v25.errors.googleadsfailure-bin": {string(adsErrors(errs...))}}}
}

var (
	host   = throttle.Scope{}
	tenant = throttle.Scope{Level: throttle.Tenant}
)

func TestGoogleAdsQuotaErrors(t *testing.T) {
	for code, want := range map[uint64]struct {
		limited bool
		kind    throttle.Kind
	}{
		2: {true, throttle.KindBurst}, 3: {false, 0}, 4: {true, throttle.KindBurst}, 5: {true, throttle.KindBurst},
		6: {true, throttle.KindQuota}, 7: {false, 0},
		8: {true, throttle.KindBurst}, // of a version to come
	} {
		got := GoogleAds().Read(adsAnswer(adsQuota(code, 2, "Requests per account", adsDuration(4, 0))))
		if (len(got) == 1) != want.limited {
			t.Errorf("QuotaError %d: %+v", code, got)
		}
		if want.limited {
			s := throttle.Signal{Kind: want.kind, Scope: tenant, Delay: 4 * time.Second, Source: "Requests per account, retry in 4s"}
			if got[0] != s {
				t.Errorf("QuotaError %d: got %+v, want %+v", code, got[0], s)
			}
		}
	}
}

func TestGoogleAdsKindOfTheSameCode(t *testing.T) {
	for name, tc := range map[string]struct {
		err  []byte
		want throttle.Kind
	}{
		"seconds":                {adsQuota(2, 3, "Requests per service per method", adsDuration(4, 0)), throttle.KindBurst},
		"15 minutes":             {adsQuota(2, 3, "", adsDuration(900, 0)), throttle.KindBurst},
		"more":                   {adsQuota(2, 3, "", adsDuration(900, 1)), throttle.KindQuota},
		"operations, in a while": {adsQuota(2, 3, "Number of operations for basic access", adsDuration(60, 0)), throttle.KindQuota},
		"the code alone":         {adsQuota(2, 3, "", nil), throttle.KindQuota},
		"the other code alone":   {adsQuota(4, 3, "", nil), throttle.KindBurst},
	} {
		if got := GoogleAds().Read(adsAnswer(tc.err)); len(got) != 1 || got[0].Kind != tc.want {
			t.Errorf("%s: got %+v, want %v", name, got, tc.want)
		}
	}
}

func TestGoogleAdsDelays(t *testing.T) {
	for name, tc := range map[string]struct {
		delay []byte
		want  time.Duration
	}{
		"fractions round up":         {adsDuration(0, 1), ms},
		"known zero":                 {[]byte{}, 0},
		"not there":                  {nil, none},
		"negative":                   {adsDuration(-5, 0), none},
		"negative nanoseconds":       {adsDuration(5, -1), none},
		"impossible nanoseconds":     {adsDuration(5, 1e9), none},
		"centuries":                  {adsDuration(1<<62, 0), longest},
		"malformed after a duration": {append(adsDuration(7, 0), 0x08), 7 * time.Second},
		"seconds of another type":    {wire.AppendBytes(nil, 1, "x"), 0},
	} {
		got := GoogleAds().Read(adsAnswer(adsQuota(4, 3, "", tc.delay)))
		if len(got) != 1 || got[0].Delay != tc.want {
			t.Errorf("%s: got %+v, want %v", name, got, tc.want)
		}
	}
	for text, want := range map[string]time.Duration{
		"Too many requests. Retry in 10318 seconds.": 10318 * time.Second, "Retry in 1 second.": time.Second,
		"Retry in a few seconds.": none, "Retry in 5": none, "": none, strings.Repeat("x", 300) + "Retry in 5 seconds": none,
	} {
		e := wire.AppendBytes(wire.AppendBytes(nil, 1, wire.AppendVarint(nil, 11, 4)), 2, text)
		if got := GoogleAds().Read(adsAnswer(e)); len(got) != 1 || got[0].Delay != want {
			t.Errorf("%.60q: got %+v, want %v", text, got, want)
		}
	}
}

func TestGoogleAdsOneSignalPerScopeWithTheLongestDelay(t *testing.T) {
	got := GoogleAds().Read(adsAnswer(
		adsQuota(4, 3, "project", adsDuration(5, 0)),
		adsQuota(4, 2, "short", adsDuration(10, 0)),
		adsQuota(4, 2, "long", adsDuration(30, 0)),
		adsQuota(4, 2, "unknown", nil),
		adsQuota(3, 3, "no limit", adsDuration(99, 0)),
		wire.AppendBytes(nil, 1, wire.AppendVarint(nil, 1, 11)), // a request error
	))
	want := []throttle.Signal{
		{Kind: throttle.KindBurst, Scope: host, Delay: 5 * time.Second, Source: "project, retry in 5s"},
		{Kind: throttle.KindBurst, Scope: tenant, Delay: 30 * time.Second, Source: "long, retry in 30s"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestGoogleAdsWhereTheFailureIs(t *testing.T) {
	failure := adsErrors(adsQuota(4, 2, "r", adsDuration(9, 0)))
	const url = "type.googleapis.com/google.ads.googleads.v99.errors.GoogleAdsFailure"
	status := wire.AppendBytes(wire.AppendVarint(nil, 1, 8), 3, wire.AppendBytes(wire.AppendBytes(nil, 1, url), 2, failure))
	for name, r := range map[string]Response{
		"trailer":        {Trailer: map[string][]string{"google.ads.googleads.v7.errors.googleadsfailure-bin": {string(failure)}}},
		"details":        {Details: []Any{{"type.googleapis.com/google.rpc.Help", nil}, {url, failure}}},
		"status trailer": {Trailer: map[string][]string{"grpc-status-details-bin": {string(status)}}},
		"bare type name": {Details: []Any{{url[len("type.googleapis.com/"):], failure}}},
	} {
		if got := GoogleAds().Read(r); len(got) != 1 || got[0].Delay != 9*time.Second || got[0].Scope != tenant {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	for _, name := range []string{"google.ads.googleads.v.errors.googleadsfailure", "google.ads.googleads.vx1.errors.googleadsfailure",
		"google.ads.googleads.v1.googleadsfailure", "google.ads.googleads.v1.errors.googleadsfailureX", "xgoogle.ads.googleads.v1.errors.googleadsfailure",
		"google.ads.googleads.v" + strings.Repeat("1", 100) + ".errors.googleadsfailure", ""} {
		if got := GoogleAds().Read(Response{Details: []Any{{name, failure}}}); got != nil {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestGoogleAdsWithoutAFailure(t *testing.T) {
	info := wire.AppendBytes(nil, 1, adsDuration(3, 0))
	never := map[string][]string{"grpc-retry-pushback-ms": {"-1"}}
	for name, tc := range map[string]struct {
		r    Response
		want *throttle.Signal
	}{
		"code 8":                {Response{Code: 8, Message: "Resource has been exhausted (e.g. check quota)."}, &throttle.Signal{Delay: none, Source: "RESOURCE_EXHAUSTED"}},
		"code 8 and RetryInfo":  {Response{Code: 8, Details: []Any{{"type.googleapis.com/google.rpc.RetryInfo", info}}}, &throttle.Signal{Delay: 3 * time.Second, Source: "RetryInfo: 3s"}},
		"an empty failure":      {adsAnswer(), &throttle.Signal{Delay: none, Source: "RESOURCE_EXHAUSTED"}},
		"an error without code": {adsAnswer(wire.AppendBytes(nil, 2, "text")), &throttle.Signal{Delay: none, Source: "RESOURCE_EXHAUSTED"}},
		"garbage for a failure": {Response{Code: 8, Trailer: map[string][]string{"google.ads.googleads.v1.errors.googleadsfailure-bin": {"\xff\xff"}}}, &throttle.Signal{Delay: none, Source: "RESOURCE_EXHAUSTED"}},
		"unavailable":           {Response{Code: CodeUnavailable}, nil},
		"unavailable for 90 s":  {Response{Code: CodeUnavailable, Details: []Any{retryIn(90)}}, &throttle.Signal{Kind: throttle.KindOverload, Delay: 90 * time.Second, Source: "RetryInfo: 1m30s"}},
		"and not to be repeated": {Response{Code: CodeUnavailable, Details: []Any{retryIn(90)}, Trailer: never},
			&throttle.Signal{Kind: throttle.KindOverload, Delay: 90 * time.Second, NoRetry: true, Source: "RetryInfo: 1m30s"}},
		"code 8, not to be repeated":      {Response{Code: 8, Trailer: never}, &throttle.Signal{Delay: none, NoRetry: true, Source: "grpc-retry-pushback-ms: -1"}},
		"unavailable, not to be repeated": {Response{Code: CodeUnavailable, Trailer: never}, nil},
		"nothing":                         {Response{}, nil},
		"received too large":              {Response{Code: 8, Message: "grpc: received message larger than max (4907851 vs. 4194304)"}, nil},
		"unpacked too large":              {Response{Code: 8, Message: "grpc: received message after decompression larger than max 4194304"}, nil},
		"also too large":                  {Response{Code: 8, Message: "grpc: message after decompression larger than max (5 vs. 4)"}, nil},
		"sent too large":                  {Response{Code: 8, Message: "trying to send message larger than max (5000000 vs. 4194304)"}, nil},
		"far too large":                   {Response{Code: 8, Message: "grpc: message too large (9223372036854775807 bytes)"}, nil},
		"a larger quota":                  {Response{Code: 8, Message: "quota larger than max"}, &throttle.Signal{Delay: none, Source: "RESOURCE_EXHAUSTED"}},
		"429 of a front end":              {Response{Status: 429, Header: header("Retry-After", "8"), Body: []byte("<html>")}, &throttle.Signal{Delay: 8 * time.Second, Source: "Retry-After: 8s"}},
		"503 announced":                   {Response{Status: 503, Header: header("Retry-After", "8")}, &throttle.Signal{Kind: throttle.KindOverload, Delay: 8 * time.Second, Source: "Retry-After: 8s"}},
		"429 and RetryInfo":               {Response{Status: 429, Body: []byte(adsRetryInfo)}, &throttle.Signal{Delay: 90 * time.Second, Source: "RetryInfo: 1m30s"}},
		"429 and both":                    {Response{Status: 429, Header: header("Retry-After", "8"), Body: []byte(adsRetryInfo)}, &throttle.Signal{Delay: 8 * time.Second, Source: "Retry-After: 8s"}},
		"503 and RetryInfo":               {Response{Status: 503, Body: []byte(adsRetryInfo)}, &throttle.Signal{Kind: throttle.KindOverload, Delay: 90 * time.Second, Source: "RetryInfo: 1m30s"}},
		"400 and RetryInfo":               {Response{Status: 400, Body: []byte(adsRetryInfo)}, nil},
		"503":                             {Response{Status: 503}, nil},
		"403":                             {Response{Status: 403, Header: header("Retry-After", "8")}, nil},
	} {
		got := GoogleAds().Read(tc.r)
		if tc.want == nil && got != nil || tc.want != nil && (len(got) != 1 || got[0] != *tc.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, tc.want)
		}
	}
}

// adsRetryInfo is a body without a failure.
const adsRetryInfo = `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"90s"}]}}`

// What a failure does not say of time may stand beside it.
func TestGoogleAdsTimesBesideAFailure(t *testing.T) {
	const bare = `{"errorCode":{"quotaError":"RESOURCE_EXHAUSTED"}}`
	const timed = `{"errorCode":{"quotaError":"RESOURCE_EXHAUSTED"},"details":{"quotaErrorDetails":{"rateScope":"ACCOUNT","retryDelay":"5s"}}}`
	const prose = `{"errorCode":{"quotaError":"RESOURCE_EXHAUSTED"},"message":"Retry in 7 seconds"}`
	rest := func(errs string, headers ...string) Response { return got(429, adsJSON(errs), headers...) }
	informed := func(errs string) Response {
		info := `{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"90s"},`
		return got(429, strings.Replace(adsJSON(errs), `"details":[`, `"details":[`+info, 1))
	}
	rpc := func(err []byte, pushback ...string) Response {
		r := adsAnswer(err)
		r.Trailer["grpc-retry-pushback-ms"] = pushback
		r.Details = []Any{retryIn(90)}
		return r
	}
	checkReadings(t, GoogleAds(), []reading{
		{"Retry-After", rest(bare, "Retry-After", "90"), is(burst, onHost, 90*sec)},
		{"a long Retry-After", rest(bare, "Retry-After", "3600"), is(budget, onHost, time.Hour)},
		{"RetryInfo", informed(bare), is(burst, onHost, 90*sec)},
		{"neither", rest(bare), is(budget, onHost, none)},
		{"the failure's own first", rest(timed, "Retry-After", "90"), is(burst, onTenant, 5*sec)},
		{"its text, too", informed(prose), is(burst, onHost, 7*sec)},
		{"one of two", rest(timed+","+bare, "Retry-After", "90"), []throttle.Signal{sig(burst, onTenant, 5*sec), sig(burst, onHost, 90*sec)}},
		{"gRPC's RetryInfo", rpc(adsQuota(4, 2, "", nil)), is(burst, onTenant, 90*sec)},
		{"gRPC's pushback", rpc(adsQuota(4, 2, "", nil), "250"), is(burst, onTenant, 250*ms)},
		{"gRPC, do not", rpc(adsQuota(4, 2, "", nil), "-1"), []throttle.Signal{final(sig(burst, onTenant, 90*sec))}},
		{"gRPC, do not, and the failure's own", rpc(adsQuota(4, 2, "", adsDuration(5, 0)), "-1"), []throttle.Signal{final(sig(burst, onTenant, 5*sec))}},
		{"no limit, do not", rpc(adsQuota(3, 2, "", nil), "-1"), notLimited},
		{"gRPC, the failure's own first", rpc(adsQuota(4, 2, "", adsDuration(5, 0)), "250"), is(burst, onTenant, 5*sec)},
		{"no limit", rest(`{"errorCode":{"quotaError":"ACCESS_PROHIBITED"}}`, "Retry-After", "90"), notLimited},
	})
}

func adsJSON(errs string) string {
	return `{"error":{"code":429,"details":[{"@type":"type.googleapis.com/google.rpc.Help","links":[]},{"@type":"type.googleapis.com/google.ads.googleads.v31.errors.GoogleAdsFailure","errors":[` + errs + `]}]}}`
}

func TestGoogleAdsREST(t *testing.T) {
	const quota = `{"errorCode":{"quotaError":%s},"details":{"quotaErrorDetails":{"rateScope":%s,"rateName":"r","retryDelay":%s}}}`
	one := func(code, scope, delay string) string { return adsJSON(fmt.Sprintf(quota, code, scope, delay)) }
	for name, tc := range map[string]struct {
		body  string
		delay time.Duration // -1: not limited
		scope throttle.Scope
	}{
		"object":                   {one(`"RESOURCE_TEMPORARILY_EXHAUSTED"`, `"ACCOUNT"`, `"15s"`), 15 * time.Second, tenant},
		"stream with rows first":   {"[{\"results\":[{}]},\n" + one(`"RESOURCE_EXHAUSTED"`, `"DEVELOPER"`, `"0.150s"`) + "]", 150 * ms, host},
		"nanoseconds":              {one(`"RESOURCE_EXHAUSTED"`, `"DEVELOPER"`, `"0.000000001s"`), ms, host},
		"no scope that is known":   {one(`"RESOURCE_EXHAUSTED"`, `"PLANET"`, `"1s"`), time.Second, host},
		"bad delay":                {one(`"RESOURCE_EXHAUSTED"`, `"ACCOUNT"`, `"-1s"`), none, tenant},
		"delay of another type":    {one(`"RESOURCE_EXHAUSTED"`, `"ACCOUNT"`, `15`), none, tenant},
		"enums as numbers":         {one(`2`, `"ACCOUNT"`, `"2s"`), 2 * time.Second, tenant},
		"a number that is no":      {one(`3`, `"ACCOUNT"`, `"2s"`), -1, host},
		"prohibited":               {one(`"ACCESS_PROHIBITED"`, `"ACCOUNT"`, `"2s"`), -1, host},
		"another error":            {adsJSON(`{"errorCode":{"internalError":"TRANSIENT_ERROR"}}`), -1, host},
		"no failure":               {`{"error":{"details":[]}}`, none, host},
		"not JSON":                 {"<!DOCTYPE html>", none, host},
		"cut short":                {one(`"RESOURCE_EXHAUSTED"`, `"ACCOUNT"`, `"2s"`)[:200], none, host},
		"null":                     {"null", none, host},
		"an array of other things": {`[1,"x",null]`, none, host},
		"longer than a mebibyte":   {strings.Repeat(" ", 10) + one(`"RESOURCE_EXHAUSTED"`, `"ACCOUNT"`, `"2s"`)[:1] + strings.Repeat(" ", maxBody) + "}", none, host},
	} {
		got := GoogleAds().Read(Response{Status: 429, Body: []byte(tc.body)})
		switch {
		case tc.delay == -1:
			if got != nil {
				t.Errorf("%s: got %+v", name, got)
			}
		case len(got) != 1 || got[0].Delay != tc.delay || got[0].Scope != tc.scope:
			t.Errorf("%s: got %+v, want %v for %v", name, got, tc.delay, tc.scope)
		}
	}
}

func TestGoogleAdsAFailureOfAMillionErrorsIsBounded(t *testing.T) {
	e := wire.AppendBytes(nil, 1, wire.AppendBytes(nil, 1, wire.AppendVarint(nil, 11, 4)))
	r := Response{Code: 8, Details: []Any{{"google.ads.googleads.v1.errors.GoogleAdsFailure", []byte(strings.Repeat(string(e), maxBody/len(e)))}}}
	if got := GoogleAds().Read(r); len(got) != 1 || got[0].Kind != throttle.KindBurst {
		t.Errorf("got %+v", got)
	}
	r.Details[0].Value = append(r.Details[0].Value, make([]byte, len(e)+1)...) // too long to be read
	if got := GoogleAds().Read(r); len(got) != 1 || got[0].Kind != throttle.KindUnknown {
		t.Errorf("got %+v", got)
	}
}

func FuzzGoogleAds(f *testing.F) {
	failure := adsErrors(adsQuota(4, 2, "Requests per account", adsDuration(30, 5)), adsQuota(2, 3, "x", nil))
	f.Add(0, failure, "Resource has been exhausted")
	f.Add(429, []byte(adsJSON(`{"errorCode":{"quotaError":"RESOURCE_EXHAUSTED"},"message":"Retry in 9 seconds","details":{"quotaErrorDetails":{"rateScope":"ACCOUNT","retryDelay":"1.5s"}}}`)), "")
	f.Add(200, []byte(`[{"results":[]},{"error":{"details":[{}]}}]`), "")
	f.Fuzz(func(t *testing.T, status int, b []byte, message string) {
		const url = "google.ads.googleads.v25.errors.GoogleAdsFailure"
		r := Response{Status: status, Body: b, Header: header("Retry-After", message), Code: CodeResourceExhausted, Message: message, At: received,
			Trailer: map[string][]string{"grpc-status-details-bin": {string(b)}, "google.ads.googleads.v25.errors.googleadsfailure-bin": {string(b)}}}
		checkAnswer(t, GoogleAds(), r)
		r.Trailer, r.Details = nil, []Any{{url, b}, {"google.rpc.RetryInfo", b}}
		checkAnswer(t, GoogleAds(), r)
	})
}
