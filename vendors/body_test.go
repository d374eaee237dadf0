package vendors

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
)

func TestFloatDelay(t *testing.T) {
	for in, want := range map[float64]time.Duration{
		0: 0, -1: 0, 4.03: 4030 * ms, 2.007: 2007 * ms, 64.57: 64570 * ms, 0.0001: ms, 1e300: longest, 9223372036: 9223372036 * sec, 9223372037: longest,
		math.Inf(1): longest, math.Inf(-1): 0, 9e9: 9e9 * sec,
	} {
		if got := floatDelay(in); got != want {
			t.Errorf("%v: got %v, want %v", in, got, want)
		}
	}
	if got := floatDelay(math.NaN()); got != 0 {
		t.Errorf("NaN: got %v", got)
	}
}

func TestTextsOfJSON(t *testing.T) {
	for in, want := range map[string]struct {
		text    string
		seconds time.Duration // none: not one
		count   int64
	}{
		`"49"`: {"49", 49 * sec, 49}, `49`: {"49", 49 * sec, 49}, `0.5`: {"0.5", 500 * ms, 0}, `1e2`: {"1e2", 100 * sec, -1}, `-1`: {"-1", none, -1},
		`"-0"`: {"-0", 0, -1}, `true`: {"true", none, -1}, `null`: {"", none, -1}, `{"a":1}`: {"", none, -1}, `[1]`: {"", none, -1}, `""`: {"", none, -1},
		`"NaN"`: {"NaN", none, -1}, `"Inf"`: {"Inf", none, -1}, `1e400`: {"1e400", none, -1}, `"\u0034"`: {"4", 4 * sec, 4},
		strings.Repeat("9", 256): {strings.Repeat("9", 256), longest, math.MaxInt64}, strings.Repeat("9", 257): {strings.Repeat("9", 257), none, -1},
	} {
		var x text
		if err := json.Unmarshal([]byte(in), &x); err != nil || string(x) != want.text {
			t.Errorf("%.40s: got %q, %v", in, x, err)
		}
		d, ok := x.seconds()
		if want.seconds == none && ok || want.seconds != none && (!ok || d != want.seconds) {
			t.Errorf("%.40s: got %v %v, want %v", in, d, ok, want.seconds)
		}
		if n := x.count(); n != want.count {
			t.Errorf("%.40s: got %d, want %d", in, n, want.count)
		}
	}
}

func TestItemsOfJSON(t *testing.T) {
	for in, want := range map[string]int{
		`[]`: 0, `null`: 0, `[1,{},"x",null]`: 4, `{"a":1}`: 1, `5`: 1, `[` + strings.Repeat("1,", 200) + `1]`: maxItems,
	} {
		var x items[struct{ A text }]
		if err := json.Unmarshal([]byte(in), &x); err != nil || len(x) != want {
			t.Errorf("%.40s: got %d items, %v", in, len(x), err)
		}
	}
}

func TestElementsOfXML(t *testing.T) {
	read := func(s string) (out []string) {
		for name, value := range elements([]byte(s)) {
			out = append(out, string(name)+"="+string(value))
		}
		return out
	}
	for in, want := range map[string]string{
		"<a>1</a>":                          "a=1",
		"<s:a x=\"<\">1</s:a><b/>\n":        "a=1 b=", // an attribute may end early
		"<?xml version=\"1.0\"?><a> 1 </a>": "a=1",
		"<!-- <a>no</a> --><b>1</b>":        "b=1",
		"<a><![CDATA[<b>]]></a>":            "a=<b>",
		"<a><b>2</b></a>":                   "a= b=2",
		"<a":                                "", "a>": "", "<>": "", "< a>": "", "</a>": "", "": "",
	} {
		if got := strings.Join(read(in), " "); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
	if got := read("<a>" + strings.Repeat("x", 1000) + "</a>"); len(got) != 1 || len(got[0]) != 2+maxValue {
		t.Errorf("got %d bytes", len(got[0]))
	}
	if got := read("<a>1</a>" + strings.Repeat(" ", maxBody)); got != nil {
		t.Errorf("got %q of a body that is too long", got)
	}
}

func TestHeadersAreReadTo256Bytes(t *testing.T) {
	for n, want := range map[int]time.Duration{256: 5 * sec, 257: none} {
		r := got(429, "", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", strings.Repeat("0", n-1)+"5")
		if s := HTTP().Read(r); len(s) != 1 || s[0].Delay != want {
			t.Errorf("%d bytes: got %+v", n, s)
		}
	}
}
