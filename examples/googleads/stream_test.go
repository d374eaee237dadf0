package main

import (
	"io"
	"testing"
	"time"
)

// BenchmarkHourly streams the hourly reports of some accounts from a server in
// this process, in turn through a governor and without one. The metric is the
// rows that arrive in a second, and with/without their ratio.
func BenchmarkHourly(b *testing.B) {
	o, err := parse([]string{"-report", "hourly", "-accounts", "150", "-qps", "1e6", "-burst", "1000000", "-latency", "0", "-progress", "none"}, noEnv)
	if err != nil {
		b.Fatal(err)
	}
	t, err := newTarget(o)
	if err != nil {
		b.Fatal(err)
	}
	var rows int64
	var spent [2]time.Duration
	for b.Loop() {
		for i, m := range []mode{naive, configured} {
			r, err := runMode(b.Context(), o, t, m, io.Discard)
			if err != nil || !r.Finished() || r.Refused > 0 {
				b.Fatalf("%s: %+v, %v", m, r, err)
			}
			spent[i] += time.Duration(r.ElapsedMillis) * time.Millisecond
			rows = r.Rows
		}
	}
	all := float64(rows) * float64(b.N)
	without, with := all/spent[0].Seconds(), all/spent[1].Seconds()
	b.ReportMetric(without, "rows/s-without")
	b.ReportMetric(with, "rows/s-with")
	b.ReportMetric(with/without, "with/without")
}
