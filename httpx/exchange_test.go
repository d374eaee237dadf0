package httpx

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/vendors"
)

// closes counts how often it is closed.
type closes struct {
	io.Reader
	n int
}

func (c *closes) Close() error { c.n++; return nil }

func abandoned(t *testing.T) (*exchange, *http.Response, *closes) {
	t.Helper()
	req := request(t, "GET", "https://api.example.com/", "")
	c := &closes{Reader: strings.NewReader("{}")}
	return &exchange{Context: req.Context(), t: transport(t, Config{}), req: req}, &http.Response{StatusCode: 200, Body: c}, c
}

// When a governor is closed by force, RoundTrip and its last attempt end in any order.
func TestAnswerThatNobodyWaitsForIsClosedOnce(t *testing.T) {
	t.Run("it comes last", func(t *testing.T) {
		x, resp, c := abandoned(t)
		if _, err := x.next(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := x.ended(nil, governor.ErrAbandoned); !errors.Is(err, governor.ErrAbandoned) {
			t.Error(err)
		}
		if got, err := x.good(resp, nil); got != nil || !errors.Is(err, governor.ErrAbandoned) || c.n != 1 {
			t.Errorf("%v, %v, closed %d times", got, err, c.n)
		}
	})
	t.Run("it comes first", func(t *testing.T) {
		x, resp, c := abandoned(t)
		if _, err := x.good(resp, nil); err != nil || c.n != 0 {
			t.Errorf("%v, closed %d times", err, c.n)
		}
		if got, err := x.ended(nil, governor.ErrAbandoned); got != nil || !errors.Is(err, governor.ErrAbandoned) || c.n != 1 {
			t.Errorf("%v, %v, closed %d times", got, err, c.n)
		}
	})
	failing := func(x *exchange, resp *http.Response) *failure {
		resp.StatusCode = 500
		resp.Body.(*closes).Reader = strings.NewReader(long)
		return x.fault(resp, peek(resp, maxPeek), vendors.Response{})
	}
	t.Run("a failure comes last", func(t *testing.T) {
		x, resp, c := abandoned(t)
		if _, err := x.ended(nil, governor.ErrAbandoned); !errors.Is(err, governor.ErrAbandoned) {
			t.Error(err)
		}
		if f := failing(x, resp); f.Settled(false) || c.n != 1 {
			t.Errorf("it is kept, or was closed %d times, want once", c.n)
		}
	})
	t.Run("a failure comes first", func(t *testing.T) {
		x, resp, c := abandoned(t)
		if f := failing(x, resp); !f.Settled(false) || c.n != 0 {
			t.Errorf("it is not kept, or was closed %d times", c.n)
		}
		if got, err := x.ended(nil, governor.ErrAbandoned); got != nil || !errors.Is(err, governor.ErrAbandoned) || c.n != 1 {
			t.Errorf("%v, %v, closed %d times", got, err, c.n)
		}
	})
	t.Run("nothing is sent after it", func(t *testing.T) {
		x, _, _ := abandoned(t)
		x.ended(nil, governor.ErrAbandoned)
		if req, err := x.next(t.Context()); req != nil || !errors.Is(err, governor.ErrAbandoned) {
			t.Errorf("%v, %v", req, err)
		}
	})
}

func TestFurtherAttemptClosesTheAnswerBefore(t *testing.T) {
	x, resp, c := abandoned(t)
	x.next(t.Context())
	x.keep(resp)
	if _, err := x.next(t.Context()); err != nil || c.n != 1 {
		t.Errorf("%v, closed %d times", err, c.n)
	}
}

func TestContextHasBothWishes(t *testing.T) {
	ask, retry := governor.Ask{Tenant: "x"}, &Retry{Attempts: 7}
	for name, ctx := range map[string]context.Context{
		"ask first":   WithRetry(WithAsk(t.Context(), ask), retry),
		"retry first": WithAsk(WithRetry(t.Context(), retry), ask),
	} {
		if w := wishesOf(ctx); AskFrom(ctx) != ask || w.retry != retry || !w.retries {
			t.Errorf("%s: %+v", name, w)
		}
	}
}
