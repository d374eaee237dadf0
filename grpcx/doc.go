// Package grpcx joins grpc-go and Flyball. It is a module of its own, so that
// only those who use gRPC depend on it.
//
// A [Client] governs all calls of a connection:
//
//	g, err := governor.New(governor.PlainConfig{Name: "pubsub", Vendor: vendors.GoogleAPI()})
//	...
//	c, err := grpcx.NewClient(grpcx.ClientConfig{Governor: g})
//	...
//	conn, err := grpc.NewClient(target, append(c.DialOptions(), creds)...)
//
// and a [Server] limits those that others make: RESOURCE_EXHAUSTED, with the time
// after which there are permits again. Both are safe for simultaneous use by any
// number of goroutines and start none. The package opens no connections: a governor
// with a pool of them has [Error] instead.
//
// # Without interceptors
//
// [Error] puts the parts of a failed call that a rate limit hides in, status code,
// status details and trailers, into the one error that adapters read. With it any
// gRPC client can be governed:
//
//	var trailer metadata.MD
//	resp, err := client.Search(ctx, req, grpc.Trailer(&trailer))
//	if err != nil {
//		return nil, grpcx.Error(err, trailer)
//	}
//
// and for a stream, whose trailers are there once Recv has failed:
//
//	batch, err := stream.Recv()
//	if err != nil && err != io.EOF {
//		return grpcx.Error(err, stream.Trailer())
//	}
//
// # Settings that limits depend on
//
// grpc-go answers RESOURCE_EXHAUSTED by itself when a message is above its
// receive limit of 4 MiB. Adapters know that text and do not take it for a rate
// limit, but the call fails all the same: large APIs want
// grpc.MaxCallRecvMsgSize, 64 MiB for Google Ads.
//
// grpc-go's own retries, from a service config, run below the governor and
// outside its pauses: switch them off with grpc.WithDisableRetry, as
// Client.DialOptions does.
package grpcx
