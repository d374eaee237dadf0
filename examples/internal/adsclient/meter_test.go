package adsclient

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/flyball-go/flyball/examples/internal/adspb"
	"github.com/flyball-go/flyball/vendors"
)

// quotaError is what a client gets from a refused call.
func quotaError(t testing.TB, version string, scope adspb.QuotaErrorDetails_QuotaRateScope, delay time.Duration, inTrailer bool) error {
	t.Helper()
	raw, err := proto.Marshal(&adspb.GoogleAdsFailure{RequestId: "abc", Errors: []*adspb.GoogleAdsError{{
		ErrorCode: &adspb.ErrorCode{ErrorCode: &adspb.ErrorCode_QuotaError{QuotaError: adspb.QuotaErrorEnum_RESOURCE_TEMPORARILY_EXHAUSTED}},
		Message:   "Too many requests.",
		Details:   &adspb.ErrorDetails{QuotaErrorDetails: &adspb.QuotaErrorDetails{RateScope: scope, RetryDelay: durationpb.New(delay)}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	name := "google.ads.googleads." + version + ".errors.GoogleAdsFailure"
	e := &vendors.ResponseError{Response: vendors.Response{Code: vendors.CodeResourceExhausted, Message: "Resource has been exhausted (e.g. check quota)."}}
	if inTrailer {
		e.Trailer = map[string][]string{strings.ToLower(name) + "-bin": {string(raw)}}
	} else {
		e.Details = []vendors.Any{{TypeURL: "type.googleapis.com/" + name, Value: raw}}
	}
	return e
}

func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMeter(0)
		begin := func(tenant string) {
			t.Helper()
			if err := m.begin(tenant); err != nil {
				t.Fatal(err)
			}
		}
		host := func(delay time.Duration) error {
			return quotaError(t, "v25", adspb.QuotaErrorDetails_DEVELOPER, delay, true)
		}
		begin("a") // three at once,
		begin("b")
		begin("c")
		m.end("a", host(10*time.Second)) // one is refused,
		m.end("b", nil)
		time.Sleep(time.Millisecond)
		m.end("c", host(9999*time.Millisecond)) // and one more that was on its way
		if c := m.Counts(); c.Calls != 3 || c.Refused != 2 || c.DuringPause != 0 || c.Escalations != 0 || c.Longest != 10*time.Second {
			t.Fatalf("%+v", c)
		}
		time.Sleep(10*time.Second - 2*time.Millisecond)
		begin("a") // too early: the pause grows
		m.end("a", host(20*time.Second))
		if c := m.Counts(); c.DuringPause != 1 || c.Escalations != 1 || c.Longest != 20*time.Second || m.Paused() != 20*time.Second {
			t.Fatalf("%+v, %v left", c, m.Paused())
		}
		time.Sleep(20 * time.Second)
		begin("a") // in time
		m.end("a", host(10*time.Second))
		time.Sleep(10 * time.Second)
		if c := m.Counts(); c.DuringPause != 1 || c.Escalations != 1 || c.Refused != 4 {
			t.Fatalf("%+v", c)
		}
		// The pause of an account concerns it alone.
		m.end("a", quotaError(t, "v25", adspb.QuotaErrorDetails_ACCOUNT, time.Second, true))
		begin("a") // at the same moment: it cannot have known
		time.Sleep(sameMoment + 1)
		begin("b")
		if c := m.Counts(); c.DuringPause != 1 {
			t.Fatalf("%+v", c)
		}
		begin("a")
		if c := m.Counts(); c.DuringPause != 2 {
			t.Fatalf("%+v", c)
		}
		m.end("b", errors.New("broken"))
		if c := m.Counts(); c.Refused != 5 || c.Calls != 8 {
			t.Fatalf("%+v", c)
		}
	})
}

func TestMeterMaxCalls(t *testing.T) {
	m := NewMeter(2)
	for i, want := range []error{nil, nil, ErrMaxCalls, ErrMaxCalls} {
		if err := m.begin(""); err != want {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if c := m.Counts(); c.Calls != 2 {
		t.Errorf("%+v", c)
	}
}

func TestDescribe(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		want string
	}{
		{"trailer", quotaError(t, "v25", 0, 0, true), "RESOURCE_TEMPORARILY_EXHAUSTED: Too many requests. (request abc)"},
		{"details", quotaError(t, "v25", 0, 0, false), "RESOURCE_TEMPORARILY_EXHAUSTED: Too many requests. (request abc)"},
		{"other version", quotaError(t, "v31", 0, 0, false), "RESOURCE_TEMPORARILY_EXHAUSTED: Too many requests. (request abc)"},
		{"no failure", &vendors.ResponseError{Response: vendors.Response{Code: vendors.CodeInternal, Message: "two\nlines"}}, "INTERNAL: two lines"},
		{"no such field", &vendors.ResponseError{Response: vendors.Response{Code: vendors.CodeInternal, Message: "x", Trailer: map[string][]string{
			"google.ads.googleads.v25.errors.googleadsfailure-bin": {"\xff\xff"}}}}, "INTERNAL: x"},
		{"nothing connected", &vendors.ResponseError{Response: vendors.Response{Code: vendors.CodeUnavailable,
			Message: `connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused"`}}, "dial tcp 127.0.0.1:1: connect: connection refused"},
		{"plain", errors.New("plain"), "plain"},
		{"nil", nil, ""},
	} {
		if got := Describe(tc.err); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestHopeless(t *testing.T) {
	answer := func(c vendors.Code) error { return &vendors.ResponseError{Response: vendors.Response{Code: c}} }
	for err, want := range map[error]bool{
		ErrMaxCalls: true, &TokenError{errors.New("no")}: true, answer(vendors.CodeUnauthenticated): true,
		answer(vendors.CodeUnavailable): false, answer(vendors.CodePermissionDenied): false, errors.New("x"): false,
	} {
		if Hopeless(err) != want {
			t.Errorf("%v: %v", err, !want)
		}
	}
	if !Transient(answer(vendors.CodeUnavailable)) || Transient(answer(vendors.CodeResourceExhausted)) {
		t.Error("a wrong idea of what is transient")
	}
}
