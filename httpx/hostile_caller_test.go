package httpx

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/vendors"
)

// What listeners and adapters have of an answer must be their own: its caller may do
// with it what he likes, as a reverse proxy does.
func TestAnswerBelongsToItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen *vendors.ResponseError
		tr := transport(t, Config{Base: fake(func(*http.Request) (*http.Response, error) { return answer(429, "no", "Retry-After", "3"), nil })})
		heard := make(chan struct{})
		defer tr.Listen(func(e event.Event) {
			if r, ok := errors.AsType[*vendors.ResponseError](e.Err); ok && seen == nil {
				seen = r
				close(heard)
			}
		})()
		ctx := WithAsk(t.Context(), governor.Ask{NoRetry: true})
		resp, err := tr.RoundTrip(request(t, "GET", "http://api.test/", "").WithContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		<-heard
		resp.Header.Del("Retry-After")
		if seen.Header.Get("Retry-After") != "3" {
			t.Error("what a listener sees was changed by the caller")
		}
	})
}

func TestCloseFromAnotherGoroutineIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := transport(t, Config{Breaker: &breaker.Config{Consecutive: 1}, Base: fake(func(*http.Request) (*http.Response, error) {
			r := answer(200, "")
			in, _ := io.Pipe()
			r.Body, r.ContentLength = lingering{in}, -1
			return r, nil
		})})
		for range 2 {
			resp, err := tr.RoundTrip(request(t, "GET", "http://api.test/", ""))
			if err != nil {
				t.Fatal(err) // the breaker has opened
			}
			go func() { io.Copy(io.Discard, resp.Body) }()
			synctest.Wait()
			resp.Body.Close()
		}
		free(t, tr)
	})
}

// lingering takes a while to close, as connections do; who reads it hears at once.
type lingering struct{ io.ReadCloser }

func (l lingering) Close() error {
	err := l.ReadCloser.Close()
	time.Sleep(time.Second)
	return err
}
