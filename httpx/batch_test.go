package httpx

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/vendors"
)

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
