package judge_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/judge"
)

func TestUnleased(t *testing.T) {
	grant := func(sent, at, n, until int64) judge.Record {
		return judge.Record{Node: "a", Kind: judge.Grant, Sent: sec + sent*1e6, At: sec + at*1e6, Quota: n, Until: sec + until*1e6}
	}
	begin := func(ms int64) judge.Record { return judge.Record{Node: "a", Kind: judge.Begin, At: sec + ms*1e6} }
	taken := func(ms, at int64) judge.Record {
		r := begin(at)
		r.Taken = sec + ms*1e6
		return r
	}
	b := begin(50)
	b.Node = "b"
	for _, tc := range []struct {
		name string
		rs   []judge.Record
		want []int64 // in milliseconds
	}{
		{"as many as were granted", []judge.Record{grant(10, 20, 2, 100), begin(30), begin(100)}, nil},
		{"one more", []judge.Record{grant(10, 20, 2, 100), begin(30), begin(31), begin(32)}, []int64{32}},
		{"before it was asked for", []judge.Record{grant(10, 20, 2, 100), begin(4), begin(5)}, []int64{4}},
		{"after its end", []judge.Record{grant(10, 20, 2, 100), begin(101)}, []int64{101}},
		{"had its permit before the end", []judge.Record{grant(10, 20, 2, 100), taken(99, 300)}, nil},
		{"had its permit after the end", []judge.Record{grant(10, 20, 2, 100), taken(200, 300)}, []int64{200}},
		{"what ends first is used first", []judge.Record{grant(10, 20, 1, 200), grant(11, 20, 1, 100), begin(90), begin(150)}, nil},
		{"what was there first is not lent", []judge.Record{grant(10, 20, 1, 100), begin(7), begin(30)}, []int64{7}},
		{"nor while it is on its way", []judge.Record{grant(10, 50, 1, 100), begin(15), begin(51)}, []int64{15}},
		{"but for one that nobody else had", []judge.Record{grant(10, 50, 1, 100), begin(15)}, nil},
		{"without any", []judge.Record{begin(9), begin(7)}, []int64{7, 9}},
	} {
		h := judge.History{Records: tc.rs}
		var want []int64
		for _, ms := range tc.want {
			want = append(want, sec+ms*1e6)
		}
		if got := h.Unleased(5 * time.Millisecond)["a"]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", tc.name, got, want)
		}
	}
	h := judge.History{Records: []judge.Record{grant(10, 20, 2, 100), b}}
	if got := h.Unleased(0); len(got["a"]) != 0 || len(got["b"]) != 1 {
		t.Errorf("a grant is good for another: %v", got)
	}
}
