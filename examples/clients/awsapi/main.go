// Command awsapi governs aws-sdk-go-v2, here its client of DynamoDB: a table that is
// throttled is the bucket, and pauses alone.
//
//	AWS_ACCESS_KEY_ID=... AWS_SECRET_ACCESS_KEY=... go run ./examples/clients/awsapi table key...
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/flyball-go/flyball/examples/clients/internal/crowd"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/httpx"
	"github.com/flyball-go/flyball/vendors"
)

func main() {
	url := flag.String("url", "", "the address of the API; empty: its own")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: awsapi [-url URL] TABLE KEY...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() < 2 {
		flag.Usage()
		os.Exit(2)
	}
	if _, err := run(*url, os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY"), flag.Arg(0), flag.Args()[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// sender is an aws.HTTPClient. The SDK's bodies cannot be had again, since it would
// repeat, and sign, whole requests; with one in memory the transport can.
type sender struct{ client *http.Client }

func (s sender) Do(req *http.Request) (*http.Response, error) {
	if req.Body != nil && req.Body != http.NoBody && req.GetBody == nil && req.ContentLength >= 0 && req.ContentLength < 1<<20 {
		b, err := io.ReadAll(req.Body)
		req.Body.Close()
		if err != nil {
			return nil, err
		}
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
		req.Body, _ = req.GetBody()
	}
	return s.client.Do(req)
}

// run reads the items of a table at the API at url, and returns how many calls went
// well.
func run(url, id, secret, table string, keys []string) (int, error) {
	transport := httpx.NewTransport(httpx.Config{Vendor: vendors.AWS()})
	defer transport.Close()

	client := dynamodb.New(dynamodb.Options{
		Region: "eu-central-1", HTTPClient: sender{&http.Client{Transport: transport}},
		Credentials: credentials.NewStaticCredentialsProvider(id, secret, ""),
		Retryer:     aws.NopRetryer{}, // its retries know nothing of each other
	}, func(o *dynamodb.Options) {
		if url != "" {
			o.BaseEndpoint = aws.String(url)
		}
	})
	ctx := httpx.WithAsk(context.Background(), governor.Ask{Bucket: table})
	return crowd.Run(len(keys), func(i int) error {
		item, err := client.GetItem(ctx, &dynamodb.GetItemInput{
			TableName: aws.String(table), Key: map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: keys[i]}},
		})
		if err == nil {
			fmt.Println(keys[i], len(item.Item))
		}
		return err
	})
}
