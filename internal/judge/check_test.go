package judge_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/judge"
)

const sec = int64(time.Second)

// calls returns arrivals at times in milliseconds.
func calls(ms ...int64) (rs []judge.Record) {
	for i, at := range ms {
		rs = append(rs, judge.Record{At: 1000*sec + at*1e6, Node: "a", Kind: judge.Arrive, ID: int64(i + 1)})
	}
	return rs
}

func TestWindows(t *testing.T) {
	sliding := judge.Limit{Quota: 3, Per: time.Second}
	aligned := judge.Limit{Quota: 3, Per: time.Second, Aligned: true}
	change := func(ms, quota int64) judge.Record {
		return judge.Record{At: 1000*sec + ms*1e6, Kind: judge.Change, Quota: quota}
	}
	begin := func(id, ms int64) judge.Record {
		return judge.Record{At: 1000*sec + ms*1e6, Node: "a", Kind: judge.Begin, ID: id}
	}
	taken := func(id, ms, at int64) judge.Record {
		r := begin(id, ms)
		r.Taken = 1000*sec + at*1e6
		return r
	}
	for _, tc := range []struct {
		name  string
		limit judge.Limit
		rs    []judge.Record
		good  bool
	}{
		{"none", sliding, nil, true},
		{"as many as there are", sliding, calls(0, 0, 0, 1000, 1001, 1002), true},
		{"one too many", sliding, calls(0, 1, 2, 999), false},
		{"one too many, out of order", sliding, calls(999, 0, 2, 1), false},
		{"around a border", aligned, calls(900, 901, 902, 1000, 1001, 1002), true},
		{"the same in every window", sliding, calls(900, 901, 902, 1000, 1001, 1002), false},
		{"one too many in a window", aligned, calls(0, 1, 2, 999), false},
		{"late ones count where they began", aligned, append(calls(1000, 1001, 1002, 1003), begin(4, 700)), true},
		{"but not those that are not late", aligned, append(calls(1000, 1001, 1002, 1003), begin(4, 950)), false},
		{"or where they had their permit", aligned, append(calls(1000, 1001, 1002, 1003), taken(4, 1000, 700)), true},
		{"and not later than that", aligned, append(calls(700, 701, 702, 1003), taken(4, 1000, 703)), false},
		{"nor into a full window", aligned, append(calls(700, 701, 702, 1003), begin(4, 700)), false},
		{"a raise counts in the next window", aligned, append(calls(1000, 1001, 1002, 1003, 1004), change(500, 5)), true},
		{"and not before", aligned, append(calls(600, 601, 602, 603), change(500, 5)), false},
		{"or when a Per is over", sliding, append(calls(1500, 1501, 1502, 1503, 1504), change(500, 5)), true},
		{"and not before that", sliding, append(calls(1400, 1401, 1402, 1403), change(500, 5)), false},
		{"a lowering counts in the next window", aligned, append(calls(400, 401, 402, 1000, 1001), change(500, 2)), true},
		{"and no more than that is used there", aligned, append(calls(1000, 1001, 1002), change(500, 2)), false},
		{"in a lowered window what was before", sliding, append(calls(400, 401, 402), change(500, 2)), true},
		{"a raise that was taken back", aligned, append(calls(1000, 1001, 1002, 1003), change(500, 5), change(600, 3)), false},
		{"or lowered before it counted", sliding, append(calls(1600, 1601, 1602), change(500, 5), change(600, 2)), false},
		{"a raise that is replaced by a smaller one", aligned, append(calls(600, 601, 602), change(500, 2), change(510, 5), change(520, 3)), true},
		{"which counts in the next window", aligned, append(calls(1600, 1601, 1602, 1603), change(500, 2), change(510, 5), change(520, 3)), false},
		{"several changes", aligned, append(calls(1000, 1001, 2000, 2001, 2002, 2003), change(500, 2), change(1500, 4)), true},
	} {
		h := judge.History{Records: tc.rs}
		if err := h.Windows(tc.limit, 100*time.Millisecond); (err == nil) != tc.good {
			t.Errorf("%s: %v, want good %v", tc.name, err, tc.good)
		}
	}
}

// The scan finds what looking at every window finds.
func TestWindowsAgreesWithASlowModel(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		l := judge.Limit{Quota: 1 + r.Int64N(5), Per: time.Second, Aligned: r.IntN(2) == 0}
		var ms []int64
		for range r.IntN(30) {
			ms = append(ms, r.Int64N(6000))
		}
		good := true
		for from := int64(-1000); from < 6000; from++ {
			if l.Aligned && from%1000 != 0 {
				continue
			}
			n := int64(0)
			for _, at := range ms {
				if at >= from && at < from+1000 {
					n++
				}
			}
			good = good && n <= l.Quota
		}
		h := judge.History{Records: calls(ms...)}
		if err := h.Windows(l, 0); (err == nil) != good {
			t.Fatalf("seed %d: %v, want good %v", seed, err, good)
		}
	}
}

func TestPauses(t *testing.T) {
	rec := func(kind judge.Kind, ms, until int64) judge.Record {
		return judge.Record{At: sec + ms*1e6, Node: "a", Kind: kind, Until: sec + until*1e6}
	}
	taken := func(ms, at int64) judge.Record {
		r := rec(judge.Begin, at, 0)
		r.Taken = sec + ms*1e6
		return r
	}
	b := func(ms int64) judge.Record { return judge.Record{At: sec + ms*1e6, Node: "b", Kind: judge.Begin} }
	for _, tc := range []struct {
		name string
		rs   []judge.Record
		good bool
	}{
		{"calls around a pause", []judge.Record{rec(judge.Begin, 0, 0), rec(judge.Cool, 1, 100), rec(judge.Begin, 101, 0)}, true},
		{"a call in a pause", []judge.Record{rec(judge.Cool, 1, 100), rec(judge.Begin, 50, 0)}, false},
		{"another's call", []judge.Record{rec(judge.Cool, 1, 100), b(50)}, true},
		{"one that had its permit before", []judge.Record{rec(judge.Cool, 10, 100), taken(9, 50)}, true},
		{"one that had its permit in it", []judge.Record{rec(judge.Cool, 10, 100), taken(90, 150)}, false},
		{"one that was begun already", []judge.Record{rec(judge.Cool, 1, 100), rec(judge.Begin, 3, 0)}, true},
		{"an extended pause", []judge.Record{rec(judge.Cool, 1, 100), rec(judge.Cool, 50, 200), rec(judge.Begin, 150, 0)}, false},
		{"a call when it is extended", []judge.Record{rec(judge.Cool, 1, 100), rec(judge.Cool, 50, 200), rec(judge.Begin, 53, 0)}, false},
		{"a cleared pause", []judge.Record{rec(judge.Cool, 1, 100), rec(judge.Clear, 40, 0), rec(judge.Begin, 50, 0)}, true},
		{"a pause that ends earlier", []judge.Record{rec(judge.Cool, 1, 100), rec(judge.Cool, 50, 70)}, false},
		{"two pauses", []judge.Record{rec(judge.Cool, 1, 100), rec(judge.Begin, 110, 0), rec(judge.Cool, 120, 200), rec(judge.Begin, 150, 0)}, false},
	} {
		h := judge.History{Records: tc.rs}
		if err := h.Pauses(5 * time.Millisecond); (err == nil) != tc.good {
			t.Errorf("%s: %v, want good %v", tc.name, err, tc.good)
		}
	}
}

func TestLedger(t *testing.T) {
	rec := func(kind judge.Kind, node string, id, request int64) judge.Record {
		return judge.Record{Node: node, Kind: kind, ID: id, Request: request, Outcome: "ok"}
	}
	s, e := judge.Submit, judge.Settle
	for _, tc := range []struct {
		name string
		rs   []judge.Record
		good bool
	}{
		{"each once", []judge.Record{rec(s, "a", 1, 0), rec(s, "a", 2, 0), rec(judge.Begin, "a", 7, 2), rec(e, "a", 2, 0), rec(e, "a", 1, 0)}, true},
		{"of two nodes", []judge.Record{rec(s, "a", 1, 0), rec(s, "b", 1, 0), rec(e, "a", 1, 0), rec(e, "b", 1, 0)}, true},
		{"twice", []judge.Record{rec(s, "a", 1, 0), rec(e, "a", 1, 0), rec(e, "a", 1, 0)}, false},
		{"never", []judge.Record{rec(s, "a", 1, 0)}, false},
		{"never, but it was killed", []judge.Record{rec(s, "b", 1, 0)}, true},
		{"a call after the end", []judge.Record{rec(s, "a", 1, 0), rec(e, "a", 1, 0), rec(judge.Begin, "a", 7, 1)}, false},
		{"the same call twice", []judge.Record{rec(s, "a", 1, 0), rec(judge.Begin, "a", 7, 1), rec(judge.Begin, "a", 7, 1), rec(e, "a", 1, 0)}, false},
		{"an end without a begin", []judge.Record{rec(e, "a", 1, 0)}, false},
		{"accepted twice", []judge.Record{rec(s, "a", 1, 0), rec(s, "a", 1, 0), rec(e, "a", 1, 0)}, false},
	} {
		h := judge.History{Records: tc.rs}
		if err := h.Ledger("a"); (err == nil) != tc.good {
			t.Errorf("%s: %v, want good %v", tc.name, err, tc.good)
		}
	}
}

func TestAHistoryIsReadAsItWasWritten(t *testing.T) {
	var b bytes.Buffer
	w := judge.NewWriter(&b, "a")
	w.Write(judge.Record{Kind: judge.Submit, ID: 1})
	w.Write(judge.Record{Kind: judge.Settle, ID: 1, Outcome: "ok", At: 5})
	if w.Err() != nil {
		t.Fatal(w.Err())
	}
	whole := b.String()
	for cut := range len(whole) {
		var h judge.History
		if err := h.Read(strings.NewReader(whole[:cut])); err != nil || len(h.Records) != strings.Count(whole[:cut], "\n") {
			t.Errorf("cut after %d bytes: %d records, %v", cut, len(h.Records), err)
		}
	}
	var h judge.History
	if err := h.Read(strings.NewReader(whole)); err != nil || len(h.Records) != 2 || h.Records[1].At != 5 || h.Records[0].Node != "a" {
		t.Errorf("%+v, %v", h.Records, err)
	}
	if err := h.Read(strings.NewReader("garbage\n{}\n")); err == nil {
		t.Error("garbage in the middle is read")
	}
	w = judge.NewWriter(failing{}, "a")
	w.Write(judge.Record{})
	if w.Err() == nil {
		t.Error("a write that failed is not told")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }

func ExampleHistory_Windows() {
	h := judge.History{Records: []judge.Record{
		{At: 1, Node: "a", Kind: judge.Arrive, ID: 1},
		{At: 2, Node: "b", Kind: judge.Arrive, ID: 1},
	}}
	fmt.Println(h.Windows(judge.Limit{Quota: 1, Per: time.Second}, 0))
	// Output: judge: 2 calls from 1970-01-01 00:00:00.000000001 +0000 UTC to 1970-01-01 00:00:00.000000002 +0000 UTC, want at most 1 in 1s
}
