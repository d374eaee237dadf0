package dashboard_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/flyball-go/flyball/dashboard"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/throttle"
)

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

// A page beside what else the program serves. Only who has logged in may act.
func Example() {
	g := must(governor.New(governor.PlainConfig{Name: "acme"}))
	defer g.Close()

	page, err := dashboard.New(dashboard.Config{
		Governors: dashboard.Of(g),
		Guard:     func(r *http.Request) bool { _, password, _ := r.BasicAuth(); return password == "open sesame" },
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/flyball/", http.StripPrefix("/flyball", page))
	server := &http.Server{Addr: "127.0.0.1:8080", Handler: mux}
	server.RegisterOnShutdown(func() { page.Close() }) // ends the streams, for which Shutdown waits
	// server.ListenAndServe()

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", "/flyball/", nil))
	fmt.Println(w.Code, w.Header().Get("Content-Type"))
	page.Close()
	// Output: 200 text/html; charset=utf-8
}

// The governors of a group, as they come and go.
func ExampleOfGroup() {
	group := must(governor.NewGroup(governor.GroupConfig[string, struct{}]{
		Config: func(host string) (governor.PlainConfig, error) { return governor.PlainConfig{}, nil },
	}))
	defer group.Close()
	page := must(dashboard.New(dashboard.Config{Governors: dashboard.OfGroup(group)}))
	defer page.Close()
}

// What the page shows is there as JSON, too.
func ExampleOverview() {
	g := must(governor.New(governor.PlainConfig{Name: "acme"}))
	defer g.Close()
	g.Learn(throttle.Signal{Delay: time.Minute, Source: "Retry-After: 60"})
	page := must(dashboard.New(dashboard.Config{Governors: dashboard.Of(g)}))
	defer page.Close()

	w := httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequest("GET", "/state.json", nil))
	fmt.Println(w.Code, w.Header().Get("Content-Type"), w.Body.Len() > 100)
	// Output: 200 application/json true
}
