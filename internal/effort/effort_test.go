package effort

import (
	"os"
	"testing"
)

func TestAFactorMultipliesWhatIsRepeated(t *testing.T) {
	for s, want := range map[string]int{"": 1, "1": 1, "20": 20, "1000000": 1_000_000} {
		if got := parse(s); got != want {
			t.Errorf("%q: %d, want %d", s, got, want)
		}
	}
	if got, want := Times(3), 3*parse(os.Getenv("FLYBALL_EFFORT")); got != want {
		t.Errorf("3 times: %d, want %d", got, want)
	}
}

func TestAFactorThatIsNoneIsRefused(t *testing.T) {
	for _, s := range []string{"0", "-1", "x", "1.5", "1000001", " 2"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q was taken", s)
				}
			}()
			parse(s)
		}()
	}
}
