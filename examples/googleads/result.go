package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/flyball-go/flyball/examples/internal/adsclient"
	"github.com/flyball-go/flyball/examples/internal/adsreport"
	"github.com/flyball-go/flyball/limiter"
)

// result is what one mode came to, and its course.
type result struct {
	*adsreport.Result
	curve curve
}

// reports are the results without their course.
func reports(rs []*result) (all []*adsreport.Result) {
	for _, r := range rs {
		all = append(all, r.Result)
	}
	return all
}

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
	if err = nil; r.Finished() && t.data != nil {
		err = check(r.Result, t, j)
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
	r := &result{Result: &adsreport.Result{Mode: string(m), Total: st.total, Failed: st.failed, First: describe(st.first), Sum: st.sum}}
	r.Calls, r.Completed, r.Refused, r.DuringPause, r.Rows = c.Calls, st.done, c.Refused, s.meter.DuringPause(), st.sum.Rows
	r.Escalations, r.LongestPause = c.Escalations, c.Longest.Milliseconds()
	if s.server != nil {
		seen := s.server.Seen()
		r.Own, r.Arrivals = true, seen.InPause
		r.Escalations, r.LongestPause = seen.Escalations, seen.LongestPause.Milliseconds()
	}
	if !c.Since.IsZero() {
		elapsed := end.Sub(c.Since)
		r.curve = curveOf(c.Since, end, j.moments(), s.meter.Pauses())
		r.ElapsedMillis = elapsed.Milliseconds()
		if o.quotaKnown {
			r.Goodput(o.model.Quota.Rate, elapsed.Seconds())
		}
	}
	return r
}

// check compares the totals with the server's own.
func check(r *adsreport.Result, t *target, j *job) error {
	want, err := t.totals(j.o)
	if err != nil {
		return err
	}
	r.Checked, r.Equal = true, want == r.Sum
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
