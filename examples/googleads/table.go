package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/flyball-go/flyball/examples/internal/fakeads"
)

const tableRow = "%-11s %8s %8s %8s %9s %8s %8s %9s %11s %8s  %s"

// printTable prints a line for each mode and what else there is to say.
func printTable(w io.Writer, o *options, rs []*result) {
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
		if o.quotaKnown {
			goodput = fmt.Sprintf("%.1f%%", r.GoodputPct)
		}
		line(r.mode, strconv.Itoa(r.Completed), comma(r.Calls), comma(r.Refused), comma(r.DuringPause), comma(r.Escalations),
			seconds(r.LongestPause), goodput, comma(r.Rows), seconds(r.ElapsedMillis), r.remark())
	}
	fmt.Fprintln(w)
	for _, r := range rs {
		if r.first != nil {
			fmt.Fprintf(w, "%s: %s failed; first %v\n", r.mode, reportsOf(r.failed), r.first)
		}
	}
	printArrivals(w, rs)
	printTotals(w, rs)
}

func reportsOf(n int) string {
	if n == 1 {
		return "1 report"
	}
	return comma(int64(n)) + " reports"
}

// remark says what is wrong with a mode's outcome.
func (r *result) remark() string {
	switch {
	case r.finished():
		return ""
	case r.total == 0:
		return "stopped before the accounts were known"
	case r.failed > 0:
		return fmt.Sprintf("%d of %d missing", r.total-r.Completed, r.total)
	}
	return fmt.Sprintf("stopped, %d of %d missing", r.total-r.Completed, r.total)
}

// printArrivals tells what the server saw of the pauses. A call that was on its
// way when the pause began arrives in it and is no fault of the client.
func printArrivals(w io.Writer, rs []*result) {
	var parts []string
	for _, r := range rs {
		if r.own {
			parts = append(parts, fmt.Sprintf("%s %s", r.mode, comma(r.arrivals)))
		}
	}
	if parts != nil {
		fmt.Fprintln(w, "calls that arrived at the server during a pause, those on their way included:", strings.Join(parts, ", "))
	}
}

func printTotals(w io.Writer, rs []*result) {
	said := map[fakeads.Totals]bool{}
	for _, r := range rs {
		switch {
		case !r.finished():
		case !r.checked:
			fmt.Fprintf(w, "%s: %s\n", r.mode, totals(r.sum))
		case !r.equal:
			fmt.Fprintf(w, "%s: %s equal the server's own totals: NO\n", r.mode, totals(r.sum))
		case !said[r.sum]:
			said[r.sum] = true
			fmt.Fprintf(w, "%s equal the server's own totals: yes\n", totals(r.sum))
		}
	}
}

// totals says what reports add up to. Accounts have different currencies, so
// that the cost is a check and not a sum of money.
func totals(t fakeads.Totals) string {
	return fmt.Sprintf("%s rows, %s impressions, %s clicks, cost %s.%02d", comma(t.Rows), comma(t.Impressions), comma(t.Clicks),
		comma(t.CostMicros/1_000_000), t.CostMicros%1_000_000/10_000)
}

// comma writes a number with its thousands apart.
func comma(n int64) string {
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
