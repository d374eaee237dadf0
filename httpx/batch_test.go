package httpx

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/vendors"
)

// LinkedIn has done what was asked for, and only failed to fill in a field of the answer.
func TestRequestThatWasExecutedButForAFieldIsNotSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const part = `{"id":7,"author!":{"message":"Resource level throttle limit for calls to this resource is reached.","status":429}}`
		calls := 0
		tr := transport(t, Config{Vendor: vendors.LinkedIn(), Base: fake(func(r *http.Request) (*http.Response, error) {
			r.Body.Close()
			calls++
			return answer(201, part, "Content-Type", "application/json"), nil
		})})
		if status, body := fetch(t, tr, request(t, "POST", "http://api.test/v2/posts?projection=(id,author~)", "x")); status != 201 || body != part || calls != 1 {
			t.Errorf("%d %q after %d calls, want what the one call was answered", status, body, calls)
		}
		if n := len(tr.Hosts()[0].Cooldowns); n != 1 {
			t.Errorf("%d pauses, want that of the field", n)
		}
	})
}

// What was not refused was done: it is for the caller to send the rest again, when the
// pause is over.
func TestBatchThatWasRefusedInPartIsNotSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const part = `{"responses":[{"id":"1","status":201},{"id":"2","status":429,"headers":{"Retry-After":"30"}}]}`
		calls := 0
		tr := transport(t, Config{Vendor: vendors.MicrosoftGraph(), Retry: &Retry{AnyMethod: true}, Base: fake(func(*http.Request) (*http.Response, error) {
			if calls++; calls == 1 {
				return answer(200, part, "Content-Type", "application/json"), nil
			}
			return answer(200, `{"responses":[]}`, "Content-Type", "application/json"), nil
		})})
		send := func() string {
			_, body := fetch(t, tr, request(t, "POST", "https://graph.test/v1.0/$batch", "{}"))
			return body
		}
		began := time.Now()
		if body, took := send(), time.Since(began); body != part || calls != 1 || took != 0 {
			t.Errorf("%q after %d calls and %v", body, calls, took)
		}
		if body, took := send(), time.Since(began); body != `{"responses":[]}` || calls != 2 || took != 30*time.Second {
			t.Errorf("%q after %d calls and %v, want 30s", body, calls, took)
		}
	})
}
