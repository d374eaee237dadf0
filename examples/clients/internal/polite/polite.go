// Package polite holds the governed clients to the manners of their vendors.
package polite

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/flyball-go/flyball/examples/clients/internal/crowd"
	"github.com/flyball-go/flyball/vendors/vendortest"
)

// Grace is how long calls may take that were sent before a refusal was heard.
const Grace = 300 * time.Millisecond

// Check has run make n calls at the same time, at a stand-in for the vendor, and
// expects n results, of calls none of which began in a pause that was known. More than
// the quota's Burst comes at once, so that some are refused.
func Check(t *testing.T, cfg vendortest.ServerConfig, n int, run func(url string, n int) (results int, err error)) {
	t.Helper()
	cfg.Quota.Grace = Grace
	vendor, err := vendortest.NewServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(crowd.Together(n, vendor))
	defer server.Close()
	got, err := run(server.URL, n)
	if err != nil || got != n {
		t.Errorf("%d results, %v; want %d", got, err, n)
	}
	saw := vendor.Totals()
	if saw.Accepted != int64(n) || saw.Refused == 0 {
		t.Errorf("%+v, want %d calls let in, and others refused", saw, n)
	}
	if saw.Late > 0 || saw.Escalations > 0 {
		t.Errorf("%d calls begun in a pause, %d escalations, want none", saw.Late, saw.Escalations)
	}
}

// JSON answers with a status and a body.
func JSON(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		w.Write([]byte(body))
	}
}

// Refuse answers with a status and a body, and says in a header how many units of time
// a pause lasts, rounded up; no header: nowhere.
func Refuse(status int, body, header string, unit time.Duration) func(http.ResponseWriter, *http.Request, vendortest.Verdict) {
	return func(w http.ResponseWriter, r *http.Request, v vendortest.Verdict) {
		if header != "" {
			w.Header().Set(header, units(v.Delay, unit))
		}
		JSON(status, body)(w, r)
	}
}

func units(d, unit time.Duration) string {
	return strconv.FormatInt(int64((d+unit-1)/unit), 10)
}
