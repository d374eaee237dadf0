package judge_test

import (
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/judge"
)

func TestGrants(t *testing.T) {
	at := func(ms int64) int64 { return 1000*sec + ms*1e6 }
	id := int64(0)
	grant := func(sent, got, n int64) judge.Record {
		id++
		end := (got/1000 + 1) * 1000
		return judge.Record{At: at(got), Sent: at(sent), Node: "a", Kind: judge.Grant, ID: id, Quota: n, Until: at(end + (got-sent)/2)}
	}
	back := func(ms, n int64, answered ...int64) (rs []judge.Record) {
		id++
		rs = append(rs, judge.Record{At: at(ms), Node: "b", Kind: judge.Ask, ID: id, Returned: n})
		for _, ms := range answered {
			rs = append(rs, judge.Record{At: at(ms), Node: "b", Kind: judge.Grant, ID: id})
		}
		return rs
	}
	change := func(ms, quota int64) judge.Record {
		return judge.Record{At: at(ms), Kind: judge.Change, Quota: quota}
	}
	with := func(rs []judge.Record, more ...judge.Record) []judge.Record { return append(more, rs...) }
	for _, tc := range []struct {
		name string
		rs   []judge.Record
		good bool
	}{
		{"none", nil, true},
		{"all", []judge.Record{grant(0, 1, 6), grant(2, 3, 4)}, true},
		{"one too many", []judge.Record{grant(0, 1, 6), grant(2, 3, 5)}, false},
		{"one too many at once", []judge.Record{grant(0, 1, 11)}, false},
		{"those of two windows", []judge.Record{grant(0, 1, 6), grant(1002, 1003, 5)}, true},
		{"perhaps too many, since nobody saw all", []judge.Record{grant(0, 500, 6), grant(2, 3, 5)}, true},
		{"one that may be of either of two windows", []judge.Record{grant(900, 2000, 6), grant(2002, 2003, 5)}, true},
		{"what was given back", with(back(2, 3, 4), grant(0, 1, 6), grant(5, 6, 7)), true},
		{"and no more than that", with(back(2, 3, 4), grant(0, 1, 6), grant(5, 6, 8)), false},
		{"what may have been given back", with(back(2, 3), grant(0, 1, 6), grant(3, 6, 7)), true},
		{"what was given back later", with(back(7, 3, 8), grant(0, 1, 6), grant(5, 6, 7)), false},
		{"what was given back in the last window", with(back(2, 3, 4), grant(1000, 1001, 6), grant(1005, 1006, 7)), false},
		{"a lower quota at once", []judge.Record{grant(0, 1, 4), change(5, 6), grant(6, 7, 3)}, false},
		{"as many as that", []judge.Record{grant(0, 1, 4), change(5, 6), grant(6, 7, 2)}, true},
		{"what may have come before", []judge.Record{grant(0, 1, 4), change(5, 6), grant(4, 7, 3)}, true},
		{"a higher one in the same window", []judge.Record{change(5, 20), grant(6, 7, 11)}, false},
		{"in the next", []judge.Record{change(5, 20), grant(1006, 1007, 20)}, true},
		{"lower, and a little higher before that counted", []judge.Record{change(5, 4), change(6, 20), change(7, 8), grant(8, 9, 5)}, false},
		{"in the next window", []judge.Record{change(5, 4), change(6, 20), change(7, 8), grant(1008, 1009, 9)}, false},
		{"and then it does", []judge.Record{change(5, 4), change(6, 20), change(7, 8), grant(1008, 1009, 8)}, true},
	} {
		h := judge.History{Records: tc.rs}
		if err := h.Grants(judge.Limit{Quota: 10, Per: time.Second, Aligned: true}); (err == nil) != tc.good {
			t.Errorf("%s: %v, want good %v", tc.name, err, tc.good)
		}
	}
	h := judge.History{Records: with(back(2, 3, 4), grant(0, 1, 6), grant(5, 6, 7), grant(1005, 1006, 7),
		judge.Record{At: at(1100), Taken: at(900), Node: "a", Kind: judge.Begin, ID: 1})}
	if a, b := h.Granted("a", at(500), time.Second), h.Granted("b", at(500), time.Second); a != 19 || b != -3 {
		t.Errorf("a has %d permits of the first window or later, and b %d, want 19 and -3", a, b)
	}
}
