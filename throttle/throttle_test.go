package throttle

import (
	"encoding/json"
	"testing"
	"time"
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

func TestSignalsSurviveJSON(t *testing.T) {
	for k := KindUnknown; k <= KindBilling; k++ {
		for l := Host; l <= Request; l++ {
			want := Signal{Kind: k, Scope: Scope{Level: l, Key: "x"}, Delay: time.Second, NoRetry: true, Source: "s"}
			text, err := json.Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			var got Signal
			if err := json.Unmarshal(text, &got); err != nil || got != want {
				t.Errorf("%s became %+v, %v", text, got, err)
			}
		}
	}
	for _, text := range []string{`{"kind":"x"}`, `{"scope":{"level":"x"}}`, `{"kind":"invalid"}`} {
		if err := json.Unmarshal([]byte(text), new(Signal)); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}
