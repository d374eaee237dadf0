package dashboard

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/throttle"
)

// What is not shown any more is not listened to.
func TestListeningEnds(t *testing.T) {
	for _, by := range []string{"leaving the list", "Close"} {
		synctest.Test(t, func(t *testing.T) {
			g, err := governor.New(governor.PlainConfig{Name: "acme"})
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			list := make(chan []governor.Handle, 1)
			list <- []governor.Handle{g}
			d, err := New(Config{Governors: func() []governor.Handle {
				now := <-list
				list <- now
				return now
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			e := d.find("acme")
			heard := func() int {
				g.Learn(throttle.Signal{Delay: time.Second})
				g.Clear(throttle.Scope{})
				synctest.Wait()
				e.mu.Lock()
				defer e.mu.Unlock()
				return e.journal.events.len()
			}
			n := heard()
			if n == 0 {
				t.Fatal("nothing is heard")
			}
			if by == "Close" {
				d.Close()
			} else {
				<-list
				list <- nil
				time.Sleep(time.Second)
				synctest.Wait()
			}
			if again := heard(); again != n {
				t.Errorf("after %s: %d events, want %d", by, again, n)
			}
		})
	}
}
