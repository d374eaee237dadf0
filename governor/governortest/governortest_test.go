package governortest_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
)

// In a bubble a cooldown of 15 s takes exactly 15 s, and no time.
func TestScriptedRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := governor.New(governor.PlainConfig{Name: "acme", Vendor: governortest.Vendor{}})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		events := governortest.Record(g, event.Cooling, event.Cooled)

		s := governortest.NewScript(governortest.Limited(15*time.Second), nil)
		n, err := governor.Do(t.Context(), g, "", s.Call)
		if n != 2 || err != nil {
			t.Fatalf("got attempt %d, %v; want the second to succeed", n, err)
		}
		if at := s.Starts(); at[1].Sub(at[0]) != 15*time.Second {
			t.Errorf("second attempt after %v, want 15s", at[1].Sub(at[0]))
		}
		synctest.Wait()
		if got := fmt.Sprint(events.Kinds()); got != "[cooling cooled]" {
			t.Errorf("events %s, want cooling and cooled", got)
		}
	})
}
