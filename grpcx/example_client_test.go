package grpcx_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"sync/atomic"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/grpcx"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/vendors"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// strict is a server that refuses the first call, and says for how long.
type strict struct {
	healthpb.UnimplementedHealthServer
	calls atomic.Int64
}

func (s *strict) Check(context.Context, *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	if s.calls.Add(1) > 1 {
		return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, nil
	}
	st, err := status.New(codes.ResourceExhausted, "slow down").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(10 * time.Millisecond)})
	if err != nil {
		return nil, err
	}
	return nil, st.Err()
}

// serve starts a server with the given service and options.
func serve(s healthpb.HealthServer, opts ...grpc.ServerOption) (addr string, stop func()) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(opts...)
	healthpb.RegisterHealthServer(server, s)
	go server.Serve(l)
	return l.Addr().String(), server.Stop
}

// A connection whose calls wait out what the server asks for. Here the first of them
// is refused, and made again.
func ExampleNewClient() {
	server := new(strict)
	addr, stop := serve(server)
	defer stop()

	g, err := governor.New(governor.PlainConfig{Name: "health", Vendor: vendors.GRPC()})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	c, err := grpcx.NewClient(grpcx.ClientConfig{
		Governor: g,
		Ask:      func(_ context.Context, method string) governor.Ask { return governor.Ask{Bucket: method} },
	})
	if err != nil {
		log.Fatal(err)
	}
	conn, err := grpc.NewClient(addr, append(c.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	answer, err := healthpb.NewHealthClient(conn).Check(context.Background(), &healthpb.HealthCheckRequest{})
	fmt.Println(answer.GetStatus(), err)
	fmt.Println(server.calls.Load(), "calls")
	// Output:
	// SERVING <nil>
	// 2 calls
}

// Wishes for one call: nobody waits for it longer than it takes to ask.
func ExampleWithAsk() {
	ctx := grpcx.WithAsk(context.Background(), governor.Ask{Tenant: "acme", StartBy: time.Now().Add(time.Second)})
	fmt.Println(grpcx.AskFrom(ctx).Tenant)
	// Output: acme
}

// A server that lets each caller call once a minute.
func ExampleNewServer() {
	b, err := limiter.NewBucket(limiter.BucketConfig{Rate: 1.0 / 60, Burst: 1})
	if err != nil {
		log.Fatal(err)
	}
	l, err := limiter.NewShared(limiter.SharedConfig{Limiters: []limiter.Limiter{b}})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	s, err := grpcx.NewServer(grpcx.ServerConfig{Limiter: l})
	if err != nil {
		log.Fatal(err)
	}
	addr, stop := serve(new(healthpb.UnimplementedHealthServer), s.ServerOptions()...)
	defer stop()

	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	for range 2 {
		_, err := healthpb.NewHealthClient(conn).Check(context.Background(), &healthpb.HealthCheckRequest{})
		fmt.Print(status.Code(err))
		if delay, limited := vendors.GRPC().DelayError(grpcx.Error(err, nil)); limited {
			fmt.Print(", try again in ", delay.Round(time.Minute))
		}
		fmt.Println()
	}
	// Output:
	// Unimplemented
	// ResourceExhausted, try again in 1m0s
}
