package vendortest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// GoogleAdsConfig configures a [GoogleAds]. The zero config serves every customer
// one row and never refuses a call.
type GoogleAdsConfig struct {
	// Project counts all calls together, as Google counts those of one Cloud
	// project: scope DEVELOPER. nil: no such limit.
	Project *Quota

	// Customer counts the calls to each customer by themselves: scope ACCOUNT.
	// nil: no such limit.
	Customer *Quota

	// MaxCustomers bounds the customers that are counted apart; 0: 100,000.
	MaxCustomers int

	// Rows returns what a query finds; each row is written as JSON, in the API's
	// own form {"campaign":{"id":"7"}}. It is called from many goroutines at once.
	// An error is answered as the query's fault. nil: one row with the customer.
	Rows func(customer, query string) ([]any, error)

	// Customers are the IDs that listAccessibleCustomers answers, ten digits each.
	Customers []string

	// Batch is the number of rows in a page and in a streamed batch; 0: 10,000.
	Batch int
}

// GoogleAds is a stand-in for the REST side of the Google Ads API, for tests:
//
//	POST /v25/customers/{id}/googleAds:search
//	POST /v25/customers/{id}/googleAds:searchStream
//	GET  /v25/customers:listAccessibleCustomers
//
// in any version v<digits>. It refuses with status 429 and the GoogleAdsFailure
// of the real API, quotaErrorDetails with rateScope, rateName and retryDelay
// included, and with no Retry-After, which the real one does not send either. A
// call is judged by the project's quota first; what that lets pass by the
// customer's. listAccessibleCustomers has no customer.
//
// It does not look at credentials and understands no queries: those are Rows'.
// It is an http.Handler for httptest, safe for simultaneous use, and starts
// nothing. What it saw of a client's manners is in Totals and Customer.
type GoogleAds struct {
	cfg      GoogleAdsConfig
	mux      *http.ServeMux
	project  *Engine // nil: no such limit
	customer *Keyed  // nil: no such limit
	requests atomic.Int64
}

// GoogleAdsTotals is what a GoogleAds saw, by limit.
type GoogleAdsTotals struct {
	Project  Totals `json:"project"`
	Customer Totals `json:"customer"` // the sum over all customers
}

// NewGoogleAds returns a server without any call made to it. It returns an error
// for a quota that cannot be or a negative number.
func NewGoogleAds(cfg GoogleAdsConfig) (*GoogleAds, error) {
	if cfg.Batch < 0 {
		return nil, fmt.Errorf("vendortest: negative Batch %d", cfg.Batch)
	}
	if cfg.Batch == 0 {
		cfg.Batch = 10_000
	}
	if cfg.Rows == nil {
		cfg.Rows = oneRow
	}
	g := &GoogleAds{cfg: cfg, mux: http.NewServeMux()}
	var errs [2]error
	if cfg.Project != nil {
		g.project, errs[0] = NewEngine(*cfg.Project)
	}
	if cfg.Customer != nil {
		g.customer, errs[1] = NewKeyed(*cfg.Customer, cfg.MaxCustomers)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	g.mux.HandleFunc("POST /{version}/customers/{id}/googleAds:search", g.call(g.search))
	g.mux.HandleFunc("POST /{version}/customers/{id}/googleAds:searchStream", g.call(g.stream))
	g.mux.HandleFunc("GET /{version}/customers:listAccessibleCustomers", g.call(g.list))
	g.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusNotFound, adsStatus{404, "Requested entity was not found.", "NOT_FOUND", nil}.body(false))
	})
	return g, nil
}

// Totals returns the counts so far.
func (g *GoogleAds) Totals() (t GoogleAdsTotals) {
	if g.project != nil {
		t.Project = g.project.Totals()
	}
	if g.customer != nil {
		t.Customer = g.customer.Totals()
	}
	return t
}

// Customer returns the counts of one customer's own limit.
func (g *GoogleAds) Customer(id string) Totals {
	if g.customer == nil {
		return Totals{}
	}
	return g.customer.Key(id)
}

// ServeHTTP implements http.Handler.
func (g *GoogleAds) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.mux.ServeHTTP(w, r) }

// adsCall is one call that was let in.
type adsCall struct {
	id       string // of the request
	version  string
	customer string
	stream   bool
	Query    string `json:"query"`
	Token    string `json:"pageToken"`
	Size     int    `json:"pageSize"`
}

var (
	adsVersion  = regexp.MustCompile(`^v[0-9]{1,4}$`)
	adsCustomer = regexp.MustCompile(`^[0-9]{10}$`)
)

// call judges a call, reads it and answers it. answer returns the body, or an
// *adsError.
func (g *GoogleAds) call(answer func(*adsCall) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := &adsCall{
			id:      fmt.Sprintf("vendortest-%d", g.requests.Add(1)),
			version: r.PathValue("version"), customer: r.PathValue("id"),
			stream: strings.HasSuffix(r.URL.Path, "Stream"),
		}
		w.Header().Set("request-id", c.id)
		body, err := any(nil), g.judge(c, time.Now())
		if err == nil && r.Method == http.MethodPost {
			err = c.read(http.MaxBytesReader(w, r.Body, 1<<20))
		}
		if err == nil {
			body, err = answer(c)
		}
		if err != nil {
			e, ok := errors.AsType[*adsError](err)
			if !ok {
				e = &adsError{kind: "queryError", code: "QUERY_ERROR", text: err.Error()}
			}
			status := e.status(c)
			reply(w, status.Code, status.body(c.stream))
			return
		}
		reply(w, http.StatusOK, body)
	}
}

// judge asks the quotas. A call that names no customer there could be is not
// counted under its name.
func (g *GoogleAds) judge(c *adsCall, now time.Time) error {
	if g.project != nil {
		if v := g.project.Admit(now); !v.Accepted {
			return &adsError{quota: true, scope: "DEVELOPER", rate: "Requests per project", delay: v.Delay}
		}
	}
	switch {
	case !adsVersion.MatchString(c.version):
		return &adsError{kind: "requestError", code: "UNSUPPORTED_VERSION", text: "Version " + strconv.Quote(c.version) + " is not supported."}
	case c.customer == "": // a call without one
		return nil
	case !adsCustomer.MatchString(c.customer):
		return &adsError{kind: "requestError", code: "INVALID_CUSTOMER_ID", text: "Invalid customer ID " + strconv.Quote(c.customer) + "."}
	case g.customer != nil:
		if v := g.customer.Admit(c.customer, now); !v.Accepted {
			return &adsError{quota: true, scope: "ACCOUNT", rate: "Requests per account", delay: v.Delay}
		}
	}
	return nil
}

func reply(w http.ResponseWriter, status int, body any) {
	b, err := json.Marshal(body)
	if err != nil { // a row of the test's own that is no JSON
		http.Error(w, "vendortest: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(status)
	_, _ = w.Write(b) // the client may have gone
}
