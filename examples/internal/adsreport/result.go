package adsreport

import "github.com/flyball-go/flyball/examples/internal/fakeads"

// Measured is what one mode did, in the form of -json.
type Measured struct {
	Calls         int64   `json:"calls"`              // attempts begun
	Completed     int     `json:"completed"`          // reports there are
	Refused       int64   `json:"rate_limit_errors"`  // attempts refused for their rate
	DuringPause   int64   `json:"calls_during_pause"` // attempts begun although a pause had been announced
	Escalations   int64   `json:"escalations"`        // pauses that calls made longer
	LongestPause  int64   `json:"longest_pause_ms"`
	GoodputPct    float64 `json:"goodput_pct"` // 100 x completed / (quota x elapsed); 0 when the quota is not known
	ElapsedMillis int64   `json:"elapsed_ms"`  // from the first call sent to the last result
	Rows          int64   `json:"rows"`        // of the reports there are
}

// Goodput sets GoodputPct, for a quota of rate calls a second, from Completed and the
// seconds that they took.
func (m *Measured) Goodput(rate, seconds float64) {
	m.GoodputPct = float64(int(100*100*float64(m.Completed)/(rate*seconds)+0.5)) / 100
}

// Result is that, and what else the table tells.
type Result struct {
	Mode string
	Measured
	Total    int   // reports wanted; 0: the accounts were not found
	Failed   int   // reports that ended in an error
	First    error // the first of these
	Sum      fakeads.Totals
	Checked  bool // the server's own totals are known,
	Equal    bool // and are the same
	Arrivals int64
	Own      bool // arrivals, escalations and the longest pause are the server's
}

// Finished reports whether all reports are there.
func (r *Result) Finished() bool { return r.Total > 0 && r.Completed == r.Total }
