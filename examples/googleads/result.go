package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/flyball-go/flyball/examples/internal/adsclient"
	"github.com/flyball-go/flyball/examples/internal/fakeads"
	"github.com/flyball-go/flyball/limiter"
)

// measured is what one mode did, in the form of -json.
type measured struct {
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

// result is that, and what else the table tells.
type result struct {
	mode mode
	measured
	total    int   // reports wanted; 0: the accounts were not found
	failed   int   // reports that ended in an error
	first    error // the first of these
	sum      fakeads.Totals
	checked  bool // the server's own totals are known,
	equal    bool // and are the same
	curve    curve
	arrivals int64
	own      bool // arrivals, escalations and the longest pause are the server's
}

func (r *result) finished() bool { return r.total > 0 && r.Completed == r.total }

// runMode runs the job once. The result is nil when it could not even begin: no
// server, no access, no accounts.
func runMode(ctx context.Context, o *options, t *target, m mode, stderr io.Writer) (*result, error) {
	s, err := t.open(ctx)
	if err != nil {
		return nil, describe(err)
	}
	defer s.close()
	d, err := newDriver(o, m, s, t.page)
	if err != nil {
		return nil, err
	}
	j := &job{o: o, driver: d}

	watch := newProgress(o, stderr, m, j, s)
	working := ctx
	if m == naive {
		var cancel context.CancelFunc
		working, cancel = context.WithTimeout(ctx, o.naiveLimit)
		defer cancel()
	}
	err = j.run(working) // that it was stopped, the table tells
	end := time.Now()
	watch.stop()
	d.close()
	if err != nil && working.Err() == nil {
		return nil, describe(err)
	}
	r := summarize(o, m, j, s, end)
	if err = nil; r.finished() && t.data != nil {
		err = r.check(t, j)
	}
	return r, describe(err)
}

func newDriver(o *options, m mode, s *session, p *page) (driver, error) {
	var limit limiter.Limiter
	var err error
	switch m {
	case naive:
		return newNaive(o, s, p)
	case governed:
		limit, err = learning(o)
	case configured:
		limit, err = known(o)
	}
	if err != nil {
		return nil, err
	}
	return newGoverned(o, m, s, limit, p)
}

// summarize puts together what job, meter and server know.
func summarize(o *options, m mode, j *job, s *session, end time.Time) *result {
	st, c := j.state(), s.meter.Counts()
	r := &result{mode: m, total: st.total, failed: st.failed, first: describe(st.first), sum: st.sum}
	r.Calls, r.Completed, r.Refused, r.DuringPause, r.Rows = c.Calls, st.done, c.Refused, s.meter.DuringPause(), st.sum.Rows
	r.Escalations, r.LongestPause = c.Escalations, c.Longest.Milliseconds()
	if s.server != nil {
		seen := s.server.Seen()
		r.own, r.arrivals = true, seen.InPause
		r.Escalations, r.LongestPause = seen.Escalations, seen.LongestPause.Milliseconds()
	}
	if !c.Since.IsZero() {
		elapsed := end.Sub(c.Since)
		r.curve = curveOf(c.Since, end, j.moments(), s.meter.Pauses())
		r.ElapsedMillis = elapsed.Milliseconds()
		if o.quotaKnown {
			r.GoodputPct = float64(int(100*100*float64(r.Completed)/(o.model.Quota.Rate*elapsed.Seconds())+0.5)) / 100
		}
	}
	return r
}

// check compares the totals with the server's own.
func (r *result) check(t *target, j *job) error {
	want, err := t.totals(j.o)
	if err != nil {
		return err
	}
	r.checked, r.equal = true, want == r.sum
	return nil
}

// clearError is an error in the words of the API.
type clearError struct {
	text string
	err  error
}

func (e *clearError) Error() string { return e.text }
func (e *clearError) Unwrap() error { return e.err }

// describe makes an error one clear line.
func describe(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, adsclient.ErrMaxCalls) {
		return adsclient.ErrMaxCalls
	}
	return &clearError{strings.TrimPrefix(adsclient.Describe(err), "adsclient: "), err}
}
