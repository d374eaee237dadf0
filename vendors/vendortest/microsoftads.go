package vendortest

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"
)

// MicrosoftAdsConfig configures a [MicrosoftAds]. No numbers are published: the
// zero config counts nothing.
type MicrosoftAdsConfig struct {
	// User counts the calls of each user, and Customer those of each user for each
	// customer and service: see [MicrosoftAdsMinute]. nil: no such limit.
	User, Customer *Quota

	// Reports is how many reports of a user may be pending at once; 0: 10.
	Reports int

	// Preparing is how long a report is pending; 0: 10 s.
	Preparing time.Duration

	// MaxKeys bounds the users and customers that are counted apart, each, and the
	// reports that are kept; 0: 100,000.
	MaxKeys int

	// Answer answers a call that was let in, with what goes into its body; it is
	// called from many goroutines at once, and an error is answered as the call's
	// fault. nil: {}.
	Answer func(service, path string, body []byte) (any, error)

	// Report is what a finished report's download has. nil: one line.
	Report func(id string) []byte
}

// MicrosoftAdsMinute is a limit of so many calls per minute, a sliding one, whose
// refusals, as documented, mean to wait for 60 s.
func MicrosoftAdsMinute(calls int) Quota {
	return Quota{Burst: calls, Window: time.Minute, Sliding: true, Lenient: true, Pause: time.Minute}
}

// MicrosoftAds is a stand-in for the REST side of the Microsoft Advertising API, for
// tests:
//
//	any  /{service}/v13/...
//	POST /Reporting/v13/GenerateReport/Submit and .../Poll
//	GET  /Reporting/download/{id}
//
// where a service is AdInsight, Billing, Bulk, CampaignManagement,
// CustomerManagement or Reporting. The user is the Authorization and DeveloperToken
// headers, the customer the header CustomerId.
//
// A refusal is 429 with an AdApiFaultDetail of code 117, CallRateExceeded, and says
// nothing about time: the wait of 60 s is in the documentation. A poll counts as a
// call. A report is Pending, then Success with the address of its download; one more
// than may be pending is refused with an ApiFaultDetail of code 207,
// ConcurrentRequestOverLimit.
//
// It is an http.Handler for httptest, safe for simultaneous use, and starts
// nothing. What it saw of a client's manners is in Totals.
type MicrosoftAds struct {
	cfg            MicrosoftAdsConfig
	user, customer *Keyed // nil: no such limit

	// mu guards what follows. Nothing is called while it is held.
	mu      sync.Mutex
	ids     int64
	reports map[string]report
	pending map[string][]time.Time // by user: when each is done, in this order
	over    int64
}

// report is one that was submitted.
type report struct {
	user string
	done time.Time
}

// MicrosoftAdsTotals is what a MicrosoftAds saw.
type MicrosoftAdsTotals struct {
	User      Totals `json:"user"`
	Customer  Totals `json:"customer"`
	Reports   int64  `json:"reports"`    // submitted and accepted
	OverLimit int64  `json:"over_limit"` // refused with 207
}

// NewMicrosoftAds returns a server without any call made to it. It returns an error
// that names the field for a quota that cannot be or a number out of range.
func NewMicrosoftAds(cfg MicrosoftAdsConfig) (*MicrosoftAds, error) {
	t := newTariff(0, cfg.MaxKeys)
	cfg.Reports = cmp.Or(cfg.Reports, 10)
	cfg.Preparing = cmp.Or(cfg.Preparing, 10*time.Second)
	cfg.MaxKeys = cmp.Or(cfg.MaxKeys, maxKeys)
	t.atLeast("Reports", cfg.Reports, 1)
	if cfg.Preparing < 0 {
		t.errs = append(t.errs, fmt.Errorf("vendortest: negative Preparing %v", cfg.Preparing))
	}
	m := &MicrosoftAds{
		cfg: cfg, user: t.optional("User", cfg.User), customer: t.optional("Customer", cfg.Customer),
		reports: make(map[string]report), pending: make(map[string][]time.Time),
	}
	if err := t.err(); err != nil {
		return nil, err
	}
	if m.cfg.Answer == nil {
		m.cfg.Answer = func(string, string, []byte) (any, error) { return struct{}{}, nil }
	}
	if m.cfg.Report == nil {
		m.cfg.Report = func(id string) []byte { return []byte("\"Report\",\"" + id + "\"\n") }
	}
	return m, nil
}

// Totals returns the counts so far.
func (m *MicrosoftAds) Totals() (t MicrosoftAdsTotals) {
	if m.user != nil {
		t.User = m.user.Totals()
	}
	if m.customer != nil {
		t.Customer = m.customer.Totals()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t.Reports, t.OverLimit = m.ids, m.over
	return t
}

var microsoftPath = regexp.MustCompile(`^/(AdInsight|Billing|Bulk|CampaignManagement|CustomerManagement|Reporting)/v13/([A-Za-z/]{1,100})$`)

// ServeHTTP implements http.Handler.
func (m *MicrosoftAds) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if id, ok := cutDownload(r); ok {
		m.download(w, id)
		return
	}
	path := microsoftPath.FindStringSubmatch(r.URL.Path)
	if path == nil {
		microsoftFault(w, http.StatusNotFound, "AdApiFaultDetail", 100, "InvalidPath", "The resource cannot be found.")
		return
	}
	if r.Method != http.MethodPost && r.Method != http.MethodPut && r.Method != http.MethodDelete {
		microsoftFault(w, http.StatusMethodNotAllowed, "AdApiFaultDetail", 100, "MethodNotAllowed", "The method is not allowed.")
		return
	}
	if r.Header.Get("DeveloperToken") == "" || r.Header.Get("Authorization") == "" {
		microsoftFault(w, http.StatusUnauthorized, "AdApiFaultDetail", 105, "InvalidCredentials", "Authentication failed.")
		return
	}
	now := time.Now()
	user := short(short(r.Header.Get("Authorization")) + "\x00" + r.Header.Get("DeveloperToken"))
	if !m.judge(user, short(r.Header.Get("CustomerId")), path[1], now) {
		microsoftFault(w, http.StatusTooManyRequests, "AdApiFaultDetail", 117, "CallRateExceeded",
			"You have exceeded the number of calls that you are allowed to make in a minute.")
		return
	}
	in, err := body(w, r)
	if err != nil {
		microsoftFault(w, http.StatusBadRequest, "AdApiFaultDetail", 100, "InvalidRequest", "The body cannot be read.")
		return
	}
	switch path[1] + "/" + path[2] {
	case "Reporting/GenerateReport/Submit":
		m.submit(w, user, now)
	case "Reporting/GenerateReport/Poll":
		m.poll(w, r, in, user, now)
	default:
		out, err := m.cfg.Answer(path[1], path[2], in)
		if err != nil {
			microsoftFault(w, http.StatusBadRequest, "ApiFaultDetail", 100, "InvalidRequest", err.Error())
			return
		}
		reply(w, http.StatusOK, out)
	}
}

// judge asks the limits.
func (m *MicrosoftAds) judge(user, customer, service string, now time.Time) bool {
	if m.user != nil && !m.user.Admit(user, now).Accepted {
		return false
	}
	return m.customer == nil || m.customer.Admit(user+"\x00"+customer+"\x00"+service, now).Accepted
}

// microsoftFault answers with an error, in the form of its type.
func microsoftFault(w http.ResponseWriter, status int, kind string, code int, symbol, message string) {
	list := "Errors"
	if kind == "ApiFaultDetail" {
		list = "OperationErrors"
	}
	reply(w, status, map[string]any{
		"TrackingId": "vendortest", "Type": kind,
		list: []any{map[string]any{"Code": code, "Detail": nil, "ErrorCode": symbol, "Message": message}},
	})
}

func (m *MicrosoftAds) nextLocked() string {
	m.ids++
	return strconv.FormatInt(m.ids, 10)
}
