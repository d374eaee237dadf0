// Command githubapi governs google/go-github: all goroutines of the program wait out
// what GitHub told one of them, by resource, and nobody gets a rate limit error.
//
//	go run ./examples/clients/githubapi golang rust-lang
//
// GITHUB_TOKEN, where it is set, is sent.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"

	"github.com/flyball-go/flyball/examples/clients/internal/crowd"
	"github.com/flyball-go/flyball/httpx"
	"github.com/flyball-go/flyball/vendors"
	"github.com/google/go-github/v75/github"
)

func main() {
	url := flag.String("url", "", "the address of the API, without a slash at its end; empty: its own")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: githubapi [-url URL] USER...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() < 1 {
		flag.Usage()
		os.Exit(2)
	}
	if _, err := run(*url, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run looks the users up at the API at url, and returns how many it found.
func run(url string, users []string) (int, error) {
	transport := httpx.NewTransport(httpx.Config{Vendor: vendors.GitHub(), Retry: &httpx.Retry{}})
	defer transport.Close()

	client := github.NewClient(&http.Client{Transport: transport})
	client.DisableRateLimitCheck = true // the transport waits instead of failing
	if token := os.Getenv("GITHUB_TOKEN"); token != "" {
		client = client.WithAuthToken(token)
	}
	if url != "" {
		base, err := client.BaseURL.Parse(url + "/")
		if err != nil {
			return 0, err
		}
		client.BaseURL = base
	}
	return crowd.Run(len(users), func(i int) error {
		user, _, err := client.Users.Get(context.Background(), users[i])
		if err == nil {
			fmt.Println(user.GetLogin(), user.GetPublicRepos())
		}
		return err
	})
}
