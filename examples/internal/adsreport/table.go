package adsreport

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/flyball-go/flyball/examples/internal/fakeads"
)

const tableRow = "%-11s %8s %8s %8s %9s %8s %8s %9s %11s %8s  %s"

// PrintTable prints a line for each mode and what else there is to say.
func PrintTable(w io.Writer, quotaKnown bool, rs []*Result) {
	if len(rs) == 0 {
		return
	}
	line := func(cells ...any) {
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf(tableRow, cells...), " "))
	}
	line("mode", "reports", "calls", "refused", "begun in", "escala-", "longest", "goodput", "rows", "time", "")
	line("", "", "", "", "a pause", "tions", "pause", "of quota", "", "", "")
	for _, r := range rs {
		goodput := "-"
		if quotaKnown {
			goodput = fmt.Sprintf("%.1f%%", r.GoodputPct)
		}
		line(r.Mode, strconv.Itoa(r.Completed), Comma(r.Calls), Comma(r.Refused), Comma(r.DuringPause), Comma(r.Escalations),
			seconds(r.LongestPause), goodput, Comma(r.Rows), seconds(r.ElapsedMillis), r.remark())
	}
	fmt.Fprintln(w)
	for _, r := range rs {
		if r.First != nil {
			fmt.Fprintf(w, "%s: %s failed; first %v\n", r.Mode, reportsOf(r.Failed), r.First)
		}
	}
	printArrivals(w, rs)
	printTotals(w, rs)
}

func reportsOf(n int) string {
	if n == 1 {
		return "1 report"
	}
	return Comma(int64(n)) + " reports"
}

// remark says what is wrong with a mode's outcome.
func (r *Result) remark() string {
	switch {
	case r.Finished():
		return ""
	case r.Total == 0:
		return "stopped before the accounts were known"
	case r.Failed > 0:
		return fmt.Sprintf("%d of %d missing", r.Total-r.Completed, r.Total)
	}
	return fmt.Sprintf("stopped, %d of %d missing", r.Total-r.Completed, r.Total)
}

// printArrivals tells what the server saw of the pauses. A call that was on its
// way when the pause began arrives in it and is no fault of the client.
func printArrivals(w io.Writer, rs []*Result) {
	var parts []string
	for _, r := range rs {
		if r.Own {
			parts = append(parts, fmt.Sprintf("%s %s", r.Mode, Comma(r.Arrivals)))
		}
	}
	if parts != nil {
		fmt.Fprintln(w, "calls that arrived at the server during a pause, those on their way included:", strings.Join(parts, ", "))
	}
}

func printTotals(w io.Writer, rs []*Result) {
	said := map[fakeads.Totals]bool{}
	for _, r := range rs {
		switch {
		case !r.Finished():
		case !r.Checked:
			fmt.Fprintf(w, "%s: %s\n", r.Mode, totals(r.Sum))
		case !r.Equal:
			fmt.Fprintf(w, "%s: %s equal the server's own totals: NO\n", r.Mode, totals(r.Sum))
		case !said[r.Sum]:
			said[r.Sum] = true
			fmt.Fprintf(w, "%s equal the server's own totals: yes\n", totals(r.Sum))
		}
	}
}

// totals says what reports add up to. Accounts have different currencies, so
// that the cost is a check and not a sum of money.
func totals(t fakeads.Totals) string {
	return fmt.Sprintf("%s rows, %s impressions, %s clicks, cost %s.%02d", Comma(t.Rows), Comma(t.Impressions), Comma(t.Clicks),
		Comma(t.CostMicros/1_000_000), t.CostMicros%1_000_000/10_000)
}

// Comma writes a number with its thousands apart.
func Comma(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func seconds(millis int64) string {
	d := time.Duration(millis) * time.Millisecond
	if d < 10*time.Second {
		return fmt.Sprintf("%.2fs", d.Seconds())
	}
	return fmt.Sprintf("%.1fs", d.Seconds())
}
