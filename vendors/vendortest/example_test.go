package vendortest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
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

// A stand-in for an API of one's own that counts by token is a handler of a few
// lines. Afterwards its Totals tell how polite the client was.
func ExampleKeyed() {
	limit, err := vendortest.NewKeyed(vendortest.Quota{Rate: 0.001, Burst: 2}, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if v := limit.Admit(r.Header.Get("Authorization"), time.Now()); !v.Accepted {
			w.Header().Set("Retry-After", strconv.FormatFloat(v.Delay.Seconds(), 'f', 3, 64))
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer server.Close()

	for _, token := range []string{"ann", "ann", "ann", "bob"} {
		req, err := http.NewRequest(http.MethodGet, server.URL, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		req.Header.Set("Authorization", token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
		fmt.Printf("%s %d %q\n", token, resp.StatusCode, resp.Header.Get("Retry-After"))
	}
	fmt.Println("ann refused:", limit.Key("ann").Refused, "in all:", limit.Totals().Refused)
	// Output:
	// ann 200 ""
	// ann 200 ""
	// ann 429 "15.000"
	// bob 200 ""
	// ann refused: 1 in all: 1
}

// A test that cannot wait 15 s for the first pause, nor 15 min for the longest,
// keeps the vendor's documented numbers and runs them a hundred times faster.
func ExampleQuota_Scale() {
	documented := vendortest.Quota{Rate: 5, Burst: 10}
	fast := documented.Scale(0.01)
	fmt.Println(fast.Rate, fast.Burst, fast.Pause, fast.MaxPause, fast.Grace)

	// The course of things is the same: here is a client that heeds nothing.
	for _, run := range []struct {
		quota vendortest.Quota
		every time.Duration
	}{{documented, 7 * time.Millisecond}, {fast, 70 * time.Microsecond}} {
		e, err := vendortest.NewEngine(run.quota)
		if err != nil {
			fmt.Println(err)
			return
		}
		now := time.Now()
		for range 3000 {
			e.Admit(now)
			now = now.Add(run.every)
		}
		t := e.Totals()
		fmt.Println(t.Accepted, "accepted", t.Escalations, "escalations", t.LongestPause)
	}
	// Output:
	// 500 10 150ms 9s 10ms
	// 10 accepted 20 escalations 15m0s
	// 10 accepted 20 escalations 9s
}

// Rows is where a test decides what a query finds; here as a stream in batches.
func ExampleGoogleAdsConfig() {
	type campaign struct {
		Campaign struct {
			Name string `json:"name"`
		} `json:"campaign"`
	}
	ads, err := vendortest.NewGoogleAds(vendortest.GoogleAdsConfig{
		Rows: func(customer, query string) (rows []any, err error) {
			for i := range 3 {
				var c campaign
				c.Campaign.Name = fmt.Sprintf("campaign %d of %s", i+1, customer)
				rows = append(rows, c)
			}
			return rows, nil
		},
		Batch: 2,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(ads)
	defer server.Close()

	resp, err := http.Post(server.URL+"/v25/customers/1234567890/googleAds:searchStream", "application/json",
		strings.NewReader(`{"query":"SELECT campaign.name FROM campaign"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	var batches []struct{ Results []campaign }
	if err := json.NewDecoder(resp.Body).Decode(&batches); err != nil {
		fmt.Println(err)
		return
	}
	for i, b := range batches {
		for _, c := range b.Results {
			fmt.Println("batch", i+1, c.Campaign.Name)
		}
	}
	// Output:
	// batch 1 campaign 1 of 1234567890
	// batch 1 campaign 2 of 1234567890
	// batch 2 campaign 3 of 1234567890
}
