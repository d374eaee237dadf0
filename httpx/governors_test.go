package httpx

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
)

func TestGovernorsAreListedByNameAndNotKeptByIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := transport(t, Config{
			HostIdle: time.Minute,
			Base:     fake(func(*http.Request) (*http.Response, error) { return answer(200, ""), nil }),
		})
		names := func() (all []string) {
			for _, g := range tr.Governors() {
				all = append(all, g.Name())
			}
			return all
		}
		if got := names(); len(got) != 0 {
			t.Errorf("%q before the first request", got)
		}
		for _, host := range []string{"c", "a", "b"} {
			fetch(t, tr, request(t, "GET", "http://"+host+".test/", ""))
		}
		if got := names(); !slices.Equal(got, []string{"a.test", "b.test", "c.test"}) {
			t.Errorf("%q", got)
		}
		if st := tr.Governors()[1].Stats(); st.Succeeded != 1 {
			t.Errorf("%+v", st)
		}
		for range 200 { // a page that asks every second
			time.Sleep(time.Second)
			for _, g := range tr.Governors() {
				g.Stats()
			}
		}
		if got := names(); len(got) != 0 {
			t.Errorf("%q are kept, although nobody uses them", got)
		}
	})
}

func TestGovernorsOfATransportWithOneOrNone(t *testing.T) {
	g, err := governor.New(governor.PlainConfig{Name: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if all := transport(t, Config{Governor: g}).Governors(); len(all) != 1 || all[0] != governor.Handle(g) {
		t.Errorf("%v", all)
	}
	if all := NewTransport(Config{Timeout: -1}).Governors(); all != nil {
		t.Errorf("%v of a configuration that makes no sense", all)
	}
}
