package judge_test

import (
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/judge"
)

func TestSlots(t *testing.T) {
	refused := func(r judge.Record) judge.Record {
		r.Until = r.At + sec
		return r
	}
	taken := func(id, ms int64) judge.Record {
		return judge.Record{At: 1005 * sec, Node: "a", Kind: judge.Begin, ID: id, Taken: 1000*sec + ms*1e6}
	}
	for _, tc := range []struct {
		name string
		rs   []judge.Record
		good bool
	}{
		{"none", nil, true},
		{"as many as there are", calls(0, 1, 50, 51, 100, 101), true},
		{"one too many", calls(0, 49, 49), false},
		{"one too many, out of order", calls(49, 0, 49), false},
		{"one that is refused is not there", append(calls(0, 1), refused(calls(2)[0])), true},
		{"a late one was there when it had its slot", append(calls(300, 301, 302), taken(2, 100)), true},
		{"where there may be too many, too", append(calls(100, 101, 302), taken(3, 102)), false},
		{"one that is not late is there when it comes", append(calls(300, 301, 302), taken(2, 250)), false},
	} {
		h := judge.History{Records: tc.rs}
		if err := h.Slots(2, 50*time.Millisecond, 100*time.Millisecond); (err == nil) != tc.good {
			t.Errorf("%s: %v, want good %v", tc.name, err, tc.good)
		}
	}
}
