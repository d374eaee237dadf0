package adsreport

import (
	"bytes"
	"testing"
)

func TestTable(t *testing.T) {
	rs := []*Result{
		{Mode: "naive", Measured: Measured{Calls: 264, Completed: 20, Refused: 212, DuringPause: 190, Escalations: 30, LongestPause: 9000, GoodputPct: 1, ElapsedMillis: 8000, Rows: 1677}, Total: 2000, Own: true, Arrivals: 187},
		{Mode: "governed", Measured: Measured{Calls: 2016, Completed: 2000, Refused: 14, LongestPause: 150, GoodputPct: 95.24, ElapsedMillis: 8400, Rows: 116386},
			Total: 2000, Own: true, Arrivals: 2, Checked: true, Equal: true},
	}
	rs[1].Sum.Rows, rs[1].Sum.CostMicros = 116386, 5_518_696_510_000
	var out bytes.Buffer
	PrintTable(&out, true, rs)
	const want = `mode         reports    calls  refused  begun in  escala-  longest   goodput        rows     time
                                         a pause    tions    pause  of quota
naive             20      264      212       190       30    9.00s      1.0%       1,677    8.00s  stopped, 1980 of 2000 missing
governed        2000    2,016       14         0        0    0.15s     95.2%     116,386    8.40s

calls that arrived at the server during a pause, those on their way included: naive 187, governed 2
116,386 rows, 0 impressions, 0 clicks, cost 5,518,696.51 equal the server's own totals: yes
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
