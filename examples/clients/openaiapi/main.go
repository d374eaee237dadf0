// Command openaiapi governs openai/openai-go, whose limits are for each project and
// model: the model is the bucket, so that a pause of one leaves the others alone.
//
//	OPENAI_API_KEY=sk-... go run ./examples/clients/openaiapi "Why is the sky blue?"
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"

	"github.com/flyball-go/flyball/examples/clients/internal/crowd"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/httpx"
	"github.com/flyball-go/flyball/vendors"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

func main() {
	url := flag.String("url", "https://api.openai.com/v1/", "the address of the API, with a slash at its end")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: openaiapi [-url URL] QUESTION...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() < 1 {
		flag.Usage()
		os.Exit(2)
	}
	if _, err := run(*url, os.Getenv("OPENAI_API_KEY"), flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run asks the API at url, and returns how many answers there are.
func run(url, key string, questions []string) (int, error) {
	transport := httpx.NewTransport(httpx.Config{Vendor: vendors.OpenAI()})
	defer transport.Close()

	client := openai.NewClient(option.WithBaseURL(url), option.WithAPIKey(key),
		option.WithHTTPClient(&http.Client{Transport: transport}),
		option.WithMaxRetries(0)) // they know nothing of each other
	model := openai.ChatModelGPT5_4Mini
	ctx := httpx.WithAsk(context.Background(), governor.Ask{Bucket: model})
	return crowd.Run(len(questions), func(i int) error {
		answer, err := client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{
			Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(questions[i])},
		})
		if err == nil {
			fmt.Println(answer.Choices[0].Message.Content)
		}
		return err
	})
}
