// Package grpcx joins grpc-go and Flyball. It is a module of its own, so that
// only those who use gRPC depend on it.
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
// outside its pauses: switch them off with grpc.WithDisableRetry.
package grpcx
