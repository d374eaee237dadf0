// Command anthropicapi governs anthropic-sdk-go, whose limits are for each organization
// and model: the model is the bucket.
//
//	ANTHROPIC_API_KEY=sk-... go run ./examples/clients/anthropicapi "Why is the sky blue?"
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/flyball-go/flyball/examples/clients/internal/crowd"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/httpx"
	"github.com/flyball-go/flyball/vendors"
)

func main() {
	url := flag.String("url", "https://api.anthropic.com/", "the address of the API")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: anthropicapi [-url URL] QUESTION...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() < 1 {
		flag.Usage()
		os.Exit(2)
	}
	if _, err := run(*url, os.Getenv("ANTHROPIC_API_KEY"), flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run asks the API at url, and returns how many answers there are.
func run(url, key string, questions []string) (int, error) {
	transport := httpx.NewTransport(httpx.Config{Vendor: vendors.Anthropic()})
	defer transport.Close()

	client := anthropic.NewClient(option.WithBaseURL(url), option.WithAPIKey(key),
		option.WithHTTPClient(&http.Client{Transport: transport}),
		option.WithMaxRetries(0)) // they know nothing of each other
	const model = "claude-haiku-4-5"
	ctx := httpx.WithAsk(context.Background(), governor.Ask{Bucket: model})
	return crowd.Run(len(questions), func(i int) error {
		answer, err := client.Messages.New(ctx, anthropic.MessageNewParams{
			Model: model, MaxTokens: 1024,
			Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(questions[i]))},
		})
		if err == nil {
			fmt.Println(answer.Content[0].Text)
		}
		return err
	})
}
