package adsclient

import (
	"context"
	"io"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/flyball-go/flyball/examples/internal/adspb"
	"github.com/flyball-go/flyball/grpcx"
)

// ListAccessibleCustomers returns the IDs of the accounts that the credentials
// open directly.
func (c *Client) ListAccessibleCustomers(ctx context.Context) ([]string, error) {
	var resp adspb.ListAccessibleCustomersResponse
	err := c.call(ctx, Access{}, func(ctx context.Context) (trailer metadata.MD, err error) {
		err = c.cc.Invoke(ctx, c.path+"ListAccessibleCustomers", &adspb.ListAccessibleCustomersRequest{}, &resp, grpc.Trailer(&trailer))
		return trailer, err
	})
	ids := resp.ResourceNames
	for i := range ids {
		ids[i] = strings.TrimPrefix(ids[i], "customers/")
	}
	return ids, err
}

var searchStream = &adspb.GoogleAdsService_ServiceDesc.Streams[0]

// SearchStream runs a query on an account and passes the batches of rows to
// each, in order. Rows are an account's rows only when it returns nil: a stream
// may break off after some batches.
func (c *Client) SearchStream(ctx context.Context, a Access, query string, each func([]*adspb.GoogleAdsRow)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // frees the stream on every way out
	return c.call(ctx, a, func(ctx context.Context) (metadata.MD, error) {
		stream, err := c.cc.NewStream(ctx, searchStream, c.path+"SearchStream")
		if err != nil {
			return nil, err
		}
		if err := stream.SendMsg(&adspb.SearchGoogleAdsStreamRequest{CustomerId: a.Customer, Query: query}); err != nil && err != io.EOF {
			return nil, err
		}
		if err := stream.CloseSend(); err != nil {
			return nil, err
		}
		for {
			resp := new(adspb.SearchGoogleAdsStreamResponse)
			if err := stream.RecvMsg(resp); err == io.EOF {
				return nil, nil
			} else if err != nil {
				return stream.Trailer(), err
			}
			each(resp.Results)
		}
	})
}

// call measures one attempt. The token is there before the attempt begins, so
// that nothing lies between the beginning and the request.
func (c *Client) call(ctx context.Context, a Access, do func(context.Context) (metadata.MD, error)) error {
	ctx, err := c.outgoing(ctx, a)
	if err != nil {
		return err
	}
	if err := c.cfg.Meter.begin(ctx, a.Customer); err != nil {
		return err
	}
	trailer, err := do(ctx)
	if err != nil {
		err = grpcx.Error(err, trailer)
	}
	c.cfg.Meter.end(a.Customer, err)
	return err
}
