package vendors_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/vendors"
)

// What a server writes into Retry-After is what the next call waits for: never
// less than asked, never nothing because of a number that is too large, and never
// for ever.
func TestRetryAfterIsWhatTheNextCallWaitsFor(t *testing.T) {
	const guess, least, most = 15 * time.Second, 100 * time.Millisecond, 24 * time.Hour
	in := func(d time.Duration, layout string) func() string {
		return func() string { return time.Now().Add(d).UTC().Format(layout) }
	}
	is := func(s string) func() string { return func() string { return s } }
	for name, tt := range map[string]struct {
		value func() string
		want  time.Duration
	}{
		"seconds":             {is("15"), 15 * time.Second},
		"a fraction":          {is("1.5"), 1500 * time.Millisecond},
		"less than a ms":      {is("120.0001"), 120001 * time.Millisecond},
		"with space":          {is(" 120\t"), 120 * time.Second},
		"zero":                {is("0"), least},
		"next to nothing":     {is("0.001"), least},
		"negative":            {is("-5"), guess},
		"empty":               {is(""), guess},
		"no number":           {is("soon"), guess},
		"NaN":                 {is("NaN"), guess},
		"infinite":            {is("Inf"), guess},
		"a day":               {is("86400"), most},
		"a second more":       {is("86401"), most},
		"past 32 bits of ms":  {is("4294968"), most},
		"a year":              {is("31536000"), most},
		"a thousand years":    {is("31536000000"), most},
		"past a Duration":     {is("9999999999"), most},
		"past a Duration too": {is("99999999999"), most},
		"past 64 bits":        {is("99999999999999999999"), most},
		"a bomb":              {is(strings.Repeat("9", 1<<20)), guess},
		"a date":              {in(30*time.Second, http.TimeFormat), 30 * time.Second},
		"RFC 850":             {in(30*time.Second, "Monday, 02-Jan-06 15:04:05 GMT"), 30 * time.Second},
		"asctime":             {in(30*time.Second, time.ANSIC), 30 * time.Second},
		"a date in the past":  {in(-time.Hour, http.TimeFormat), least},
		"a date far away":     {is("Fri, 31 Dec 9999 23:59:59 GMT"), most},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, err := governor.New(governor.PlainConfig{Name: "x", Vendor: vendors.HTTP(), MaxWait: -1})
				if err != nil {
					t.Fatal(err)
				}
				defer g.Close()
				var at []time.Time
				_, err = governor.Do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) {
					if at = append(at, time.Now()); len(at) > 1 {
						return 1, nil
					}
					return 0, &vendors.ResponseError{
						Response: vendors.Response{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {tt.value()}}, At: time.Now()},
						Err:      errors.New("too many requests"),
					}
				}))
				if err != nil || len(at) != 2 {
					t.Fatalf("%d attempts: %v", len(at), err)
				}
				if got := at[1].Sub(at[0]); got != tt.want {
					t.Errorf("the second attempt came after %v, want %v", got, tt.want)
				}
			})
		})
	}
}
