package vendortest_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/flyball-go/flyball/vendors"
	"github.com/flyball-go/flyball/vendors/vendortest"
)

// An Engine judges calls by the moment at which they arrive.
func ExampleEngine() {
	e, err := vendortest.NewEngine(vendortest.Quota{Rate: 1, Burst: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	start := time.Now()
	for _, at := range []time.Duration{0, 0, 5 * time.Second, 20 * time.Second, 50 * time.Second} {
		v := e.Admit(start.Add(at))
		fmt.Printf("%3.0fs accepted %-5v wait %v\n", at.Seconds(), v.Accepted, v.Delay)
	}
	fmt.Println(e.Totals().Escalations, "escalations")
	// Output:
	//   0s accepted true  wait 0s
	//   0s accepted false wait 15s
	//   5s accepted false wait 30s
	//  20s accepted false wait 1m0s
	//  50s accepted false wait 2m0s
	// 3 escalations
}

// A Google Ads server a hundred times faster than life, and an adapter that
// reads its refusals.
func ExampleGoogleAds() {
	quota := vendortest.Quota{Rate: 0.001, Burst: 2}.Scale(0.01)
	ads, err := vendortest.NewGoogleAds(vendortest.GoogleAdsConfig{Customer: &quota})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(ads)
	defer server.Close()

	query := func() error {
		resp, err := http.Post(server.URL+"/v25/customers/1234567890/googleAds:search", "application/json",
			strings.NewReader(`{"query":"SELECT customer.id FROM customer"}`))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode == http.StatusOK {
			return err
		}
		return &vendors.ResponseError{Response: vendors.Response{
			Status: resp.StatusCode, Header: resp.Header, Body: body, At: time.Now(),
		}}
	}
	for err == nil {
		err = query()
	}
	for _, s := range vendors.GoogleAds().Signals(err, time.Now()) {
		fmt.Println(s.Kind, s.Scope.Level, s.Delay)
	}
	fmt.Println(ads.Customer("1234567890").Refused, "refused")
	// Output:
	// burst tenant 150ms
	// 1 refused
}
