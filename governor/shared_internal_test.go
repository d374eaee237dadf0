package governor

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/throttle"
)

// A governor that leaves its store says of the host what the vendor has said of it; and
// what it has said of a scope for which there is no room only where that was not heard.
func TestWhoLeavesSaysWhatWasNotHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := New(PlainConfig{Name: "test", MaxKeys: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		told := func(heard bool) (scopes []string, left time.Duration) {
			if g.told.Store(0); heard {
				g.told.Store(g.now())
			}
			for _, e := range (sharer{g.core}).Cooling() {
				if scopes = append(scopes, e.Scope); e.Scope == "host" {
					left = e.Until.Sub(e.Time)
				}
			}
			slices.Sort(scopes)
			return scopes, left
		}
		for _, key := range []string{"a", "b"} {
			time.Sleep(time.Millisecond)
			g.Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Tenant, Key: key}, Delay: time.Hour})
		}
		if all, left := told(false); !slices.Equal(all, []string{"host", "tenant:a"}) || left != time.Hour {
			t.Errorf("of what was not heard it says %v, %v", all, left)
		}
		if all, _ := told(true); !slices.Equal(all, []string{"tenant:a"}) {
			t.Errorf("of what was heard it says %v", all)
		}
		g.Learn(throttle.Signal{Delay: time.Minute})
		if all, left := told(true); !slices.Equal(all, []string{"host", "tenant:a"}) || left != time.Minute {
			t.Errorf("of what was heard, and of the host, it says %v, %v", all, left)
		}
	})
}
