package vendors

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/throttle"
)

func answered(after string) *ResponseError {
	return &ResponseError{Response: Response{Status: 429, Header: header("Retry-After", after), At: received}}
}

// loop is an error that wraps itself.
type loop struct{ all []error }

func (l *loop) Error() string   { return "loop" }
func (l *loop) Unwrap() []error { return append(l.all, l) }

func TestAdapterFindsAnswersAnywhereInTheTree(t *testing.T) {
	five := answered("5")
	fine := &ResponseError{Response: Response{Status: 404}}
	for name, tc := range map[string]struct {
		err     error
		delay   time.Duration
		limited bool
	}{
		"nil":                    {nil, none, false},
		"another error":          {context.Canceled, none, false},
		"itself":                 {five, 5 * time.Second, true},
		"wrapped":                {fmt.Errorf("a: %w", fmt.Errorf("b: %w", five)), 5 * time.Second, true},
		"joined":                 {errors.Join(context.Canceled, fmt.Errorf("a: %w, %w", errors.ErrUnsupported, five)), 5 * time.Second, true},
		"behind another answer":  {errors.Join(fine, five), 5 * time.Second, true},
		"the longest of several": {errors.Join(five, answered("9"), answered("7"), answered("?")), 9 * time.Second, true},
		"only unknown ones":      {errors.Join(answered("?"), answered("")), none, true},
		"the outer answer":       {&ResponseError{Response: Response{Status: 404}, Err: five}, none, false},
		"in a cycle":             {&loop{[]error{five}}, 5 * time.Second, true},
		"a nil pointer":          {(*ResponseError)(nil), none, false},
		"a nil in a join":        {&loop{[]error{nil, (*ResponseError)(nil), five}}, 5 * time.Second, true},
	} {
		delay, limited := HTTP().DelayError(tc.err)
		if delay != tc.delay || limited != tc.limited {
			t.Errorf("%s: got %v %v, want %v %v", name, delay, limited, tc.delay, tc.limited)
		}
		if sigs := HTTP().Signals(tc.err, received); (len(sigs) > 0) != tc.limited || len(sigs) > 1 {
			t.Errorf("%s: got %+v", name, sigs)
		}
	}
}

func TestACallThatMayHaveBeenExecutedIsNotRepeated(t *testing.T) {
	for _, tc := range []struct {
		name    string
		adapter Adapter
		status  int
		body    string
		once    bool
		want    bool
	}{
		{"a limit", HTTP(), 429, "", true, false},
		{"an end", HTTP(), 503, "", true, true},
		{"an end, and no harm", HTTP(), 503, "", false, false},
		{"no capacity", HTTP(), 529, "", true, false},
		{"the vendor's own word", AWS(), 503, "<Error><Code>SlowDown</Code></Error>", true, false},
		{"another word", AWS(), 503, "<Error><Code>InternalError</Code></Error>", true, true},
		{"overload with 429", OpenAI(), 429, `{"error":{"type":"overloaded"}}`, true, false},
		{"all but a field", LinkedIn(), 201, `{"author!":{"status":429}}`, true, true},
		{"all but a field, and no harm", LinkedIn(), 200, `{"author!":{"status":429}}`, false, false},
	} {
		r := Response{Status: tc.status, Header: header("Retry-After", "5"), Body: []byte(tc.body), At: received}
		sigs := tc.adapter.Signals(&ResponseError{Response: r, Once: tc.once}, received)
		if len(sigs) != 1 || tc.status >= 400 && sigs[0].Delay != 5*time.Second || sigs[0].NoRetry != tc.want {
			t.Errorf("%s: got %+v, want NoRetry %v", tc.name, sigs, tc.want)
		}
	}
}

// spoken is a dialect that always says the same.
type spoken []throttle.Signal

func (s spoken) Read(Response) []throttle.Signal { return s }
func (s spoken) Learn(r Response) []throttle.Quota {
	return []throttle.Quota{{Reset: r.At}}
}

func TestAdapterMergesByScope(t *testing.T) {
	ten := throttle.Scope{Level: throttle.Tenant, Key: "10"}
	late, later := received.Add(time.Hour), received.Add(2*time.Hour)
	a := Adapter{spoken{
		{Delay: 5, Source: "a"}, {Delay: none, NoRetry: true}, {Delay: 9, Source: "b"}, {Delay: 7},
		{Scope: ten, Delay: 1}, {Scope: ten, Until: late}, {Scope: ten, Until: later}, {Scope: ten, Until: late},
	}}
	want := []throttle.Signal{{Delay: 9, Source: "b", NoRetry: true}, {Scope: ten, Delay: 1}, {Scope: ten, Until: later}}
	if got := a.Signals(answered("1"), received); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestAdapterDelayCountsAnAbsoluteEndFromNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := Adapter{spoken{{Delay: time.Minute}, {Until: time.Now().Add(time.Hour + 1)}, {Scope: throttle.Scope{Level: throttle.Tenant}, Until: time.Now().Add(-time.Hour)}}}
		if d, ok := a.DelayError(answered("1")); !ok || d != time.Hour+ms {
			t.Errorf("got %v %v", d, ok)
		}
		past := Adapter{spoken{{Until: time.Now().Add(-time.Hour)}}}
		if d, ok := past.DelayError(answered("1")); !ok || d != 0 {
			t.Errorf("past: got %v %v", d, ok)
		}
		// Answers without a moment of receipt get one.
		if q := a.Learn(Response{}); !q[0].Reset.Equal(time.Now()) {
			t.Errorf("learned at %v", q[0].Reset)
		}
		epoch := &ResponseError{Response: Response{Status: 429, Header: header("X-RateLimit-Reset", "1795255230")}}
		if s := HTTP().Signals(epoch, received); len(s) != 1 || s[0].Delay != 29900*ms {
			t.Errorf("got %+v", s)
		}
	})
}

func TestZeroAdapterLimitsNothing(t *testing.T) {
	var a Adapter
	if _, ok := a.DelayError(answered("1")); ok || a.Signals(answered("1"), received) != nil || a.Read(Response{Status: 429}) != nil || a.Learn(Response{}) != nil {
		t.Error("the zero adapter said something")
	}
}

func TestResponseErrorIsTheClientsOwn(t *testing.T) {
	err := error(&ResponseError{Response: Response{Status: 429, Body: []byte("secret body"), Header: header("Authorization", "secret")}, Err: fmt.Errorf("call: %w", context.Canceled)})
	if !errors.Is(err, context.Canceled) {
		t.Error("the client's own error is lost")
	}
	for want, e := range map[string]*ResponseError{
		"vendors: HTTP 429 Too Many Requests: call: context canceled": err.(*ResponseError),
		"vendors: HTTP 599":                                     {Response: Response{Status: 599}},
		"vendors: gRPC RESOURCE_EXHAUSTED":                      {Response: Response{Code: 8, Message: "not here"}},
		"vendors: gRPC CODE(4294967295)":                        {Response: Response{Code: 1<<32 - 1}},
		"vendors: gRPC OK: one  two":                            {Err: errors.New("one\r\ntwo")},
		"vendors: gRPC OK: " + strings.Repeat("a", 199) + "...": {Err: errors.New(strings.Repeat("a", 199) + "ä and so on")},
		"vendors: gRPC OK: " + strings.Repeat("a", 200) + "...": {Err: errors.New(strings.Repeat("a", 1<<20))},
		"vendors: gRPC OK: " + strings.Repeat("a", 200):         {Err: errors.New(strings.Repeat("a", 200))},
	} {
		if got := e.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestAdapterReadsQuotasOfErrors(t *testing.T) {
	h := header("X-RateLimit-Limit", "100")
	h.Set("X-RateLimit-Remaining", "7")
	h.Set("X-RateLimit-Reset", "30")
	err := fmt.Errorf("a: %w", &ResponseError{Response: Response{Status: 404, Header: h}})
	want := []throttle.Quota{{Limit: 100, Remaining: 7, Reset: received.Add(30 * time.Second), Cost: -1}}
	if got := HTTP().Quotas(err, received); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, a := range []Adapter{HTTP(), {}} {
		if got := append(a.Quotas(nil, received), a.Quotas(context.Canceled, received)...); got != nil {
			t.Errorf("got %+v, want none", got)
		}
	}
}

// Not every client has its headers from net/http.
func TestAdapterReadsHeadersWhateverTheirCase(t *testing.T) {
	r := Response{Status: 429, At: received, Header: http.Header{"retry-after": {"3"}, "RETRY-AFTER": {"9"}, "x-ratelimit-remaining": {"0"}}}
	for range 50 { // in whatever order they are found
		if d, limited := HTTP().DelayError(&ResponseError{Response: r}); d != 9*sec || !limited {
			t.Fatalf("DelayError: %v, %v, want 9s", d, limited)
		}
	}
	if sigs := HTTP().Read(r); len(sigs) != 1 || sigs[0].Delay != 9*sec {
		t.Errorf("Read: %+v, want 9s", sigs)
	}
	if q := HTTP().Quotas(&ResponseError{Response: r}, received); len(q) != 1 || q[0].Remaining != 0 {
		t.Errorf("Quotas: %+v, want that nothing remains", q)
	}
	if len(r.Header) != 3 {
		t.Errorf("the caller's headers were changed: %v", r.Header)
	}
}

// An outage that is not to be repeated has no signal that could say so.
func TestWhatIsNotToBeRepeated(t *testing.T) {
	push := func(c Code, values ...string) Response {
		return Response{Code: c, Trailer: map[string][]string{"grpc-retry-pushback-ms": values}}
	}
	for name, tc := range map[string]struct {
		r    Response
		want bool
	}{
		"nothing":                {Response{}, false},
		"unavailable":            {Response{Code: CodeUnavailable}, false},
		"unavailable for a time": {push(CodeUnavailable, "250"), false},
		"unavailable, do not":    {push(CodeUnavailable, "-1"), true},
		"internal, do not":       {push(CodeInternal, "soon"), true},
		"twice":                  {push(CodeUnavailable, "250", "250"), true},
		"an HTTP outage":         {got(500, ""), false},
		"do not":                 {got(500, "", "X-Should-Retry", "False"), true},
		"do":                     {got(500, "", "X-Should-Retry", "true", "Stripe-Should-Retry", "true"), false},
		"Stripe's":               {got(500, "", "Stripe-Should-Retry", "false"), true},
		"of another client":      {Response{Status: 500, Header: map[string][]string{"x-should-retry": {"false"}}}, true},
		"said twice":             {got(500, "", "X-Should-Retry", "false", "X-Should-Retry", "true"), false},
		"a pushback over HTTP":   {got(500, "", "Grpc-Retry-Pushback-Ms", "-1"), false},
	} {
		if got := (&ResponseError{Response: tc.r}).NoRetry(); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
