package grpcx_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"time"

	"github.com/flyball-go/flyball/grpcx"
	"github.com/flyball-go/flyball/vendors"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

func ExampleError() {
	// The error of a call, and the trailer that grpc.Trailer(&trailer) filled.
	err := status.Error(codes.ResourceExhausted, "Resource has been exhausted (e.g. check quota).")
	trailer := metadata.Pairs("google.ads.googleads.v25.errors.googleadsfailure-bin",
		"\n$\n\x02X\x04*\x1e\"\x1c\b\x02\x12\x14Requests per account\x1a\x02\b\x1c")

	err = grpcx.Error(err, trailer)

	delay, limited := vendors.GoogleAds().DelayError(err)
	fmt.Println(limited, delay, status.Code(err))
	// Output: true 28s ResourceExhausted
}

// busy stands for a vendor's server: it sends one message of a stream and then
// asks to be left alone, in the trailer.
type busy struct {
	healthpb.UnimplementedHealthServer
}

func (busy) Watch(_ *healthpb.HealthCheckRequest, s grpc.ServerStreamingServer[healthpb.HealthCheckResponse]) error {
	if err := s.Send(&healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}); err != nil {
		return err
	}
	s.SetTrailer(metadata.Pairs("google.ads.googleads.v25.errors.googleadsfailure-bin",
		"\n$\n\x02X\x04*\x1e\"\x1c\b\x02\x12\x14Requests per account\x1a\x02\b\x1c"))
	return status.Error(codes.ResourceExhausted, "Resource has been exhausted (e.g. check quota).")
}

// watch reads a stream to its end, whose error it returns as adapters want it.
func watch(ctx context.Context, client healthpb.HealthClient) error {
	stream, err := client.Watch(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		return grpcx.Error(err, nil)
	}
	for {
		message, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return grpcx.Error(err, stream.Trailer()) // not before: now it has arrived
		}
		fmt.Println("received", message.GetStatus())
	}
}

func ExampleError_stream() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, busy{})
	go server.Serve(l)
	defer server.Stop()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	err = watch(context.Background(), healthpb.NewHealthClient(conn))
	for _, s := range vendors.GoogleAds().Signals(err, time.Now()) {
		fmt.Println("pause this", s.Scope.Level, "for", s.Delay, "-", s.Source)
	}
	// Output:
	// received SERVING
	// pause this tenant for 28s - Requests per account, retry in 28s
}
