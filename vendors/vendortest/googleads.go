package vendortest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

	// Operations counts operations: each of a mutate, and each search as one. See
	// [GoogleAdsDay]. nil: no such limit.
	Operations *Quota

	// Mutate carries one operation on a resource such as campaigns out, or googleAds
	// for one of googleAds:mutate, and returns the name of what it changed. It is
	// called from many goroutines at once; nothing is undone when a later one fails.
	// An error is answered as the operation's fault. nil: what is created gets a
	// name, and nothing is kept.
	Mutate func(customer, resource string, operation json.RawMessage) (name string, err error)

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
//	POST /v25/customers/{id}/{resource}:mutate
//	GET  /v25/customers:listAccessibleCustomers
//
// in any version v<digits>. It refuses with status 429 and the GoogleAdsFailure
// of the real API, quotaErrorDetails with rateScope, rateName and retryDelay
// included, and with no Retry-After, which the real one does not send either. A
// call is judged by the project's quota first; what that lets pass by the
// customer's, and what that lets pass by the operations'. listAccessibleCustomers
// has no customer. A mutate has 10,000 operations at most; with partialFailure those
// that fail are told in a 200.
//
// It does not look at credentials and understands no queries: those are Rows'.
// It is an http.Handler for httptest, safe for simultaneous use, and starts
// nothing. What it saw of a client's manners is in Totals and Customer.
type GoogleAds struct {
	cfg        GoogleAdsConfig
	mux        *http.ServeMux
	project    *Engine // nil: no such limit
	customer   *Keyed  // nil: no such limit
	operations *Engine // nil: no such limit
	requests   atomic.Int64
	created    atomic.Int64
}

// GoogleAdsTotals is what a GoogleAds saw, by limit.
type GoogleAdsTotals struct {
	Project    Totals `json:"project"`
	Customer   Totals `json:"customer"`   // the sum over all customers
	Operations Totals `json:"operations"` // calls, and as Used operations
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
	if cfg.Mutate == nil {
		g.cfg.Mutate = g.oneResource
	}
	var errs [3]error
	if cfg.Project != nil {
		g.project, errs[0] = NewEngine(*cfg.Project)
	}
	if cfg.Customer != nil {
		g.customer, errs[1] = NewKeyed(*cfg.Customer, cfg.MaxCustomers)
	}
	if cfg.Operations != nil {
		g.operations, errs[2] = NewEngine(*cfg.Operations)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	g.mux.HandleFunc("POST /{version}/customers/{id}/googleAds:search", g.call(g.search))
	g.mux.HandleFunc("POST /{version}/customers/{id}/googleAds:searchStream", g.call(g.stream))
	g.mux.HandleFunc("POST /{version}/customers/{id}/{call}", g.mutate)
	g.mux.HandleFunc("GET /{version}/customers:listAccessibleCustomers", g.call(g.list))
	g.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { adsNotFound(w) })
	return g, nil
}

func adsNotFound(w http.ResponseWriter) {
	reply(w, http.StatusNotFound, adsStatus{404, "Requested entity was not found.", "NOT_FOUND", nil}.body(false))
}

// Totals returns the counts so far.
func (g *GoogleAds) Totals() (t GoogleAdsTotals) {
	if g.project != nil {
		t.Project = g.project.Totals()
	}
	if g.customer != nil {
		t.Customer = g.customer.Totals()
	}
	if g.operations != nil {
		t.Operations = g.operations.Totals()
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
	adsResource = regexp.MustCompile(`^[a-zA-Z]{1,60}$`)
)

// call makes a handler of a call that finds something.
func (g *GoogleAds) call(answer func(*adsCall) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		g.serve(w, r, maxRequest, func(c *adsCall, body io.Reader) (any, error) {
			if r.Method == http.MethodPost {
				if err := c.read(body); err != nil {
					return nil, err
				}
				if err := g.spend(1); err != nil {
					return nil, err
				}
			}
			return answer(c)
		})
	}
}

// serve judges a call and answers it. answer reads at most so many bytes of the
// request's body and returns the answer's, or an *adsError.
func (g *GoogleAds) serve(w http.ResponseWriter, r *http.Request, most int64, answer func(*adsCall, io.Reader) (any, error)) {
	c := &adsCall{
		id:      fmt.Sprintf("vendortest-%d", g.requests.Add(1)),
		version: r.PathValue("version"), customer: r.PathValue("id"),
		stream: strings.HasSuffix(r.URL.Path, "Stream"),
	}
	w.Header().Set("request-id", c.id)
	body, err := any(nil), g.judge(c, time.Now())
	if err == nil {
		body, err = answer(c, http.MaxBytesReader(w, r.Body, most))
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
