// Command stripeapi governs stripe-go, whose limits are for each account and endpoint:
// the kind of object is the bucket.
//
//	STRIPE_KEY=sk_test_... go run ./examples/clients/stripeapi cus_1 cus_2
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/examples/clients/internal/crowd"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/httpx"
	"github.com/flyball-go/flyball/vendors"
	"github.com/stripe/stripe-go/v83"
)

func main() {
	url := flag.String("url", stripe.APIURL, "the address of the API")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: stripeapi [-url URL] CUSTOMER...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() < 1 {
		flag.Usage()
		os.Exit(2)
	}
	if _, err := run(*url, os.Getenv("STRIPE_KEY"), flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// patience is how long to wait where Stripe, which counts by the second, gives no time;
// its own client waits for up to 5 s, too.
func patience(string) (governor.PlainConfig, error) {
	return governor.PlainConfig{Workers: 64, Guess: backoff.Exponential{Initial: time.Second, Multiplier: 2, Max: 5 * time.Second}}, nil
}

// run looks customers up at the API at url, and returns how many there are.
func run(url, key string, customers []string) (int, error) {
	transport := httpx.NewTransport(httpx.Config{Vendor: vendors.Stripe(), Retry: &httpx.Retry{}, Host: patience})
	defer transport.Close()

	client := stripe.NewClient(key, stripe.WithBackends(stripe.NewBackendsWithConfig(&stripe.BackendConfig{
		URL: stripe.String(url), HTTPClient: &http.Client{Transport: transport},
		MaxNetworkRetries: stripe.Int64(0), // they know nothing of each other
	})))
	return crowd.Run(len(customers), func(i int) error {
		c, err := client.V1Customers.Retrieve(context.Background(), customers[i], nil)
		if err == nil {
			fmt.Println(c.ID, c.Email)
		}
		return err
	})
}
