// Command slackapi governs slack-go/slack, whose calls are limited by method and
// workspace: a pause of one method leaves the others alone.
//
//	SLACK_TOKEN=xoxb-... go run ./examples/clients/slackapi C012345 hello
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
	"github.com/slack-go/slack"
)

func main() {
	url := flag.String("url", slack.APIURL, "the address of the API, with a slash at its end")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: slackapi [-url URL] CHANNEL TEXT...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() < 2 {
		flag.Usage()
		os.Exit(2)
	}
	if _, err := run(*url, flag.Arg(0), flag.Args()[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run posts the texts by the API at url, and returns how many were.
func run(url, channel string, texts []string) (int, error) {
	transport := httpx.NewTransport(httpx.Config{Vendor: vendors.Slack()})
	defer transport.Close()

	client := slack.New(os.Getenv("SLACK_TOKEN"),
		slack.OptionHTTPClient(&http.Client{Transport: transport}), slack.OptionAPIURL(url))
	return crowd.Run(len(texts), func(i int) error {
		_, _, err := client.PostMessageContext(context.Background(), channel, slack.MsgOptionText(texts[i], false))
		return err
	})
}
