package adsclient

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/examples/internal/adspb"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
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
			if err := m.begin(t.Context(), tenant); err != nil {
				t.Fatal(err)
			}
		}
		end := func(tenant string, err error) {
			m.end(tenant, err)
			m.Heard(tenant, err)
		}
		host := func(delay time.Duration) error {
			return quotaError(t, "v25", adspb.QuotaErrorDetails_DEVELOPER, delay, true)
		}
		begin("a") // three at once,
		begin("b")
		begin("c")
		end("a", host(10*time.Second)) // one is refused,
		end("b", nil)
		time.Sleep(time.Millisecond)
		end("c", host(9999*time.Millisecond)) // and one more that was on its way
		if c := m.Counts(); c.Calls != 3 || c.Refused != 2 || m.DuringPause() != 0 || c.Escalations != 0 || c.Longest != 10*time.Second {
			t.Fatalf("%+v, %d in a pause", c, m.DuringPause())
		}
		time.Sleep(10*time.Second - 2*time.Millisecond)
		begin("a") // too early: the pause grows
		end("a", host(20*time.Second))
		if c := m.Counts(); m.DuringPause() != 1 || c.Escalations != 1 || c.Longest != 20*time.Second || m.Paused() != 20*time.Second {
			t.Fatalf("%+v, %d in a pause, %v left", c, m.DuringPause(), m.Paused())
		}
		time.Sleep(20 * time.Second)
		begin("a") // in time
		end("a", host(10*time.Second))
		time.Sleep(10 * time.Second)
		if c := m.Counts(); m.DuringPause() != 1 || c.Escalations != 1 || c.Refused != 4 {
			t.Fatalf("%+v, %d in a pause", c, m.DuringPause())
		}
		// The pause of an account concerns it alone.
		end("a", quotaError(t, "v25", adspb.QuotaErrorDetails_ACCOUNT, time.Second, true))
		time.Sleep(time.Nanosecond)
		begin("b")
		if n := m.DuringPause(); n != 1 {
			t.Fatalf("%d in a pause", n)
		}
		begin("a")
		if n := m.DuringPause(); n != 2 {
			t.Fatalf("%d in a pause", n)
		}
		end("b", errors.New("broken"))
		if c := m.Counts(); c.Refused != 5 || c.Calls != 7 {
			t.Fatalf("%+v", c)
		}
	})
}

// Under a governor an attempt begins with the gate's last look, and a refusal is
// known when the gate has recorded it: of both the meter hears later.
func TestMeterTakesTheGovernorsMoments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMeter(0)
		var ctx context.Context
		retry.Do(t.Context(), retry.Config{Attempts: 2, Backoff: backoff.Constant(0)}, func(c context.Context) (int, error) {
			ctx = c // of the second attempt: it started now
			return 0, errors.New("again")
		})
		time.Sleep(time.Millisecond)
		received := time.Now()
		time.Sleep(time.Millisecond)
		if err := m.begin(ctx, "a"); err != nil { // had started before
			t.Fatal(err)
		}
		if err := m.begin(t.Context(), "a"); err != nil { // starts now
			t.Fatal(err)
		}
		m.Received(throttle.Scope{}.String(), received, received.Add(time.Second))
		if n := m.DuringPause(); n != 1 {
			t.Errorf("%d attempts begun in the pause, want the second alone", n)
		}
	})
}

func TestMeterMaxCalls(t *testing.T) {
	m := NewMeter(2)
	for i, want := range []error{nil, nil, ErrMaxCalls, ErrMaxCalls} {
		if err := m.begin(t.Context(), ""); err != want {
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
