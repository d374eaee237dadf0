package vendortest

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// MetaConfig configures a [Meta]. The zero config has no limits but the one on
// calls that change something.
type MetaConfig struct {
	// App counts the calls of each token outside of the Marketing API: code 4. The
	// documented number is 200 per hour and user of the app. nil: none.
	App *Quota

	// Management and Insights are the use cases ads_management and ads_insights, of
	// each ad account: codes 80004 and 80000. Documented are, per hour and with
	// limited access, 300 + 40 for each active ad, and 600 + 400 for each active
	// ad: see [MetaManagement]. nil: none.
	Management, Insights *Quota

	// Page counts the calls of each page: code 32. nil: none.
	Page *Quota

	// Account counts the calls of each user token to an ad account, whatever they
	// are for: code 17. nil: none.
	Account *Quota

	// Mutations counts the calls of each ad account that change something: code 613.
	// nil: 100 per second.
	Mutations *Quota

	// MaxKeys bounds the tokens and the objects that are counted apart, each; 0:
	// 100,000.
	MaxKeys int

	// Answer answers a call that was let in: GET, POST or DELETE of a path without
	// its version. It is called from many goroutines at once; an error is answered
	// as the call's fault. nil: {"id":"..."}, or {"success":true}.
	Answer func(method, path string, params url.Values) (any, error)
}

// MetaManagement is the use case ads_management with limited access: 300 calls per
// hour and 40 more for each active ad. Its access is regained in whole minutes, and
// calls made meanwhile count.
func MetaManagement(activeAds int) Quota { return metaUseCase(300 + 40*max(0, activeAds)) }

// MetaInsights is the use case ads_insights with limited access: 600 calls per hour
// and 400 more for each active ad.
func MetaInsights(activeAds int) Quota { return metaUseCase(600 + 400*max(0, activeAds)) }

// MetaApp is the limit of an app: 200 calls per hour for each of its users.
func MetaApp(users int) Quota { return metaUseCase(200 * max(1, users)) }

func metaUseCase(calls int) Quota {
	return Quota{Burst: calls, Window: time.Hour, Sliding: true, Lenient: true, Counted: true, Round: time.Minute}
}

// Meta is a stand-in for Meta's Graph API and Marketing API, for tests: any object's
// path in any version, /v24.0/act_1/campaigns, and batches, POST / with the
// parameter batch, of up to 50 calls that are judged and answered each by itself.
//
// Who calls act_... is counted by Mutations, Account, and Insights for a path that
// ends in insights, else Management; who calls page_... by Page and App; who calls
// anything else by App. Answers say what is used, in per cent: X-App-Usage,
// X-Ad-Account-Usage, X-Business-Use-Case-Usage, which also has the minutes until
// access is regained. A refusal is 400 with the code of the limit; code 4 comes with
// 403. Where a limit is Counted, calls made meanwhile put off when access is
// regained, as Meta warns.
//
// It does not look whether a token is a good one. It is an http.Handler for
// httptest, safe for simultaneous use, and starts nothing. What it saw of a
// client's manners is in Totals.
type Meta struct {
	cfg                                                 MetaConfig
	app, management, insights, page, account, mutations *Keyed // nil: no such limit
}

// MetaTotals is what a Meta saw, by limit, over all objects.
type MetaTotals struct {
	App        Totals `json:"app"`
	Management Totals `json:"management"`
	Insights   Totals `json:"insights"`
	Page       Totals `json:"page"`
	Account    Totals `json:"account"`
	Mutations  Totals `json:"mutations"`
}

// NewMeta returns a server without any call made to it. It returns an error that
// names the field for a quota that cannot be or a number out of range.
func NewMeta(cfg MetaConfig) (*Meta, error) {
	t := newTariff(0, cfg.MaxKeys)
	m := &Meta{
		cfg: cfg, app: t.optional("App", cfg.App),
		management: t.optional("Management", cfg.Management), insights: t.optional("Insights", cfg.Insights),
		page: t.optional("Page", cfg.Page), account: t.optional("Account", cfg.Account),
		mutations: t.keyed("Mutations", cfg.Mutations, Quota{Burst: 100, Window: time.Second, Sliding: true, Lenient: true, Pause: time.Second}),
	}
	if err := t.err(); err != nil {
		return nil, err
	}
	if m.cfg.Answer == nil {
		m.cfg.Answer = metaAnswer
	}
	return m, nil
}

func metaAnswer(method, path string, _ url.Values) (any, error) {
	if method == http.MethodGet {
		id, _, _ := strings.Cut(path, "/")
		return map[string]string{"id": id}, nil
	}
	return map[string]bool{"success": true}, nil
}

// Totals returns the counts so far.
func (m *Meta) Totals() MetaTotals {
	of := func(k *Keyed) Totals {
		if k == nil {
			return Totals{}
		}
		return k.Totals()
	}
	return MetaTotals{of(m.app), of(m.management), of(m.insights), of(m.page), of(m.account), of(m.mutations)}
}

var (
	metaVersion = regexp.MustCompile(`^/v[0-9]{1,3}\.[0-9]{1,2}(/|$)`)
	metaPath    = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}(/[A-Za-z0-9_.-]{1,100}){0,8}$`)
)

// ServeHTTP implements http.Handler.
func (m *Meta) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
	params, err := metaParams(r)
	if err != nil {
		metaSend(w, metaFault(100, 0, "(#100) The request cannot be read: "+err.Error()))
		return
	}
	token := params.Get("access_token")
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && token == "" {
		token = bearer
	}
	if token == "" {
		token = address(r)
	}
	path := metaTrim(r.URL.Path)
	if batch := params.Get("batch"); path == "" && r.Method == http.MethodPost && batch != "" {
		m.batch(w, token, batch)
		return
	}
	metaSend(w, m.call(token, r.Method, path, params))
}
