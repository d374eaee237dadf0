package throttle

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestNamesOfWhatDoesNotExist(t *testing.T) {
	for _, s := range []string{Kind(200).String(), Level(200).String(), Scope{Level: 200, Key: "x"}.String()[:7]} {
		if s != "invalid" {
			t.Errorf("%q, want invalid", s)
		}
	}
}

func TestEveryConstantHasAName(t *testing.T) {
	seen := map[string]bool{}
	for k := KindUnknown; k <= KindBilling; k++ {
		seen[k.String()] = true
	}
	for l := Host; l <= Request; l++ {
		seen[l.String()] = true
	}
	if len(seen) != int(KindBilling)+1+int(Request)+1 || seen["invalid"] || seen[""] {
		t.Errorf("names: %v", seen)
	}
}

func TestWordsAreReadAsTheyAreWritten(t *testing.T) {
	for k := KindUnknown; k <= KindBilling; k++ {
		for l := Host; l <= Request; l++ {
			s := Signal{Kind: k, Scope: Scope{Level: l, Key: "x"}, Delay: Unknown}
			b, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			var got Signal
			if err := json.Unmarshal(b, &got); err != nil || got != s {
				t.Errorf("%s: %+v, %v; want %+v", b, got, err, s)
			}
		}
	}
	var s Signal
	for in, want := range map[string]string{
		`{"kind":"invalid"}`:         `"invalid" is no kind`,
		`{"kind":""}`:                `"" is no kind`,
		`{"scope":{"level":"Host"}}`: `"Host" is no level`,
		`{"scope":{"level":"` + strings.Repeat("x", 1000) + `"}}`: strings.Repeat("x", 64) + `" is no level`,
	} {
		if err := json.Unmarshal([]byte(in), &s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", in, err, want)
		}
	}
}
