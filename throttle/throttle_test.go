package throttle

import "testing"

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
