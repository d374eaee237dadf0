package grpcx

import (
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/vendors"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// patient is a server whose streams end when they are told to.
type patient struct {
	healthpb.UnimplementedHealthServer
	end chan struct{}
}

func (p patient) Check(context.Context, *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	return &healthpb.HealthCheckResponse{}, nil
}

func (p patient) Watch(_ *healthpb.HealthCheckRequest, s grpc.ServerStreamingServer[healthpb.HealthCheckResponse]) error {
	if err := s.Send(&healthpb.HealthCheckResponse{}); err != nil {
		return err
	}
	select {
	case <-p.end:
	case <-s.Context().Done():
	}
	return nil
}

// limited is a client of a server that lets in what l admits, by the caller's name.
func limited(t *testing.T, l *limiter.Shared, set func(*ServerConfig)) (healthpb.HealthClient, chan struct{}) {
	t.Helper()
	cfg := ServerConfig{Limiter: l, Key: func(ctx context.Context, _ string) string {
		md, _ := metadata.FromIncomingContext(ctx)
		return strings.Join(md.Get("caller"), "")
	}}
	if set != nil {
		set(&cfg)
	}
	s, err := NewServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv, end := grpc.NewServer(s.ServerOptions()...), make(chan struct{})
	healthpb.RegisterHealthServer(srv, patient{end: end})
	go srv.Serve(listen) // ends at Stop
	t.Cleanup(srv.Stop)
	conn, err := grpc.NewClient(listen.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return healthpb.NewHealthClient(conn), end
}

func shared(t *testing.T, l limiter.Limiter, err error) *limiter.Shared {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	s, err := limiter.NewShared(limiter.SharedConfig{Limiters: []limiter.Limiter{l}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func as(ctx context.Context, caller string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "caller", caller)
}

func TestServerRejectsWhatIsTooMuchAndSaysForHowLong(t *testing.T) {
	b, err := limiter.NewBucket(limiter.BucketConfig{Rate: 1.0 / 60, Burst: 2})
	var log []string
	client, _ := limited(t, shared(t, b, err), func(c *ServerConfig) {
		c.Cost = func(ctx context.Context, _ string) int {
			md, _ := metadata.FromIncomingContext(ctx)
			return 1 + len(md.Get("heavy"))
		}
		c.OnAdmitted = func(_ context.Context, method, key string) { log = append(log, key+" admitted to "+method) }
		c.OnRejected = func(_ context.Context, method, key string, err error) { log = append(log, key+" rejected") }
	})
	call := func(ctx context.Context) (metadata.MD, error) {
		var trailer metadata.MD
		_, err := client.Check(ctx, &healthpb.HealthCheckRequest{}, grpc.Trailer(&trailer))
		return trailer, err
	}
	if _, err := call(metadata.AppendToOutgoingContext(as(t.Context(), "a"), "heavy", "1")); err != nil {
		t.Error(err)
	}
	trailer, err := call(as(t.Context(), "a"))
	st, _ := status.FromError(err)
	if st.Code() != codes.ResourceExhausted || st.Message() != "too many calls: no permits" {
		t.Errorf("%v", err)
	}
	s := vendors.GRPC().Signals(Error(err, nil), time.Now())
	if len(s) != 1 || s[0].Delay <= 55*time.Second || s[0].Delay > time.Minute {
		t.Errorf("by RetryInfo: %+v", s)
	}
	if ms := trailer.Get("grpc-retry-pushback-ms"); len(ms) != 1 || len(ms[0]) != 5 {
		t.Errorf("pushback %q, want about 60000", ms)
	}
	if _, err := call(as(t.Context(), "b")); err != nil {
		t.Errorf("another caller: %v", err)
	}
	trailer, err = call(metadata.AppendToOutgoingContext(as(t.Context(), "c"), "heavy", "1", "heavy", "2"))
	if st, _ := status.FromError(err); st.Code() != codes.ResourceExhausted || len(st.Details()) != 0 {
		t.Errorf("what is never admitted: %v", err)
	}
	if ms := trailer.Get("grpc-retry-pushback-ms"); !slices.Equal(ms, []string{"-1"}) {
		t.Errorf("pushback %q, want -1", ms)
	}
	const method = "/grpc.health.v1.Health/Check"
	want := []string{"a admitted to " + method, "a rejected", "b admitted to " + method, "c rejected"}
	if !slices.Equal(log, want) {
		t.Errorf("told %q, want %q", log, want)
	}
}

func TestServersPermitIsHeldUntilTheStreamEnds(t *testing.T) {
	one, err := limiter.NewConcurrency(limiter.ConcurrencyConfig{Limit: 1})
	client, end := limited(t, shared(t, one, err), nil)
	s, err := client.Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); err != nil {
		t.Fatal(err)
	}
	var trailer metadata.MD
	_, err = client.Check(t.Context(), &healthpb.HealthCheckRequest{}, grpc.Trailer(&trailer))
	if st, _ := status.FromError(err); st.Code() != codes.ResourceExhausted || len(st.Details()) != 0 || len(trailer.Get("grpc-retry-pushback-ms")) != 0 {
		t.Errorf("beside a stream: %v, %v", err, trailer)
	}
	second, err := client.Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err == nil {
		_, err = second.Recv()
	}
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a second stream: %v", err)
	}
	close(end)
	if _, err := s.Recv(); err != io.EOF {
		t.Error(err)
	}
	for range 3 { // each gives its permit back
		for { // the server's side of the call before ends a moment after the client's
			_, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{})
			if err == nil {
				break
			} else if status.Code(err) != codes.ResourceExhausted {
				t.Fatal(err)
			}
		}
	}
}

func TestServerLetsInWhatIsExcludedAndNobodyWhenClosed(t *testing.T) {
	b, err := limiter.NewBucket(limiter.BucketConfig{Rate: 1})
	l := shared(t, b, err)
	l.Close()
	client, end := limited(t, l, func(c *ServerConfig) {
		c.Key = nil
		c.Exclude = func(method string) bool { return strings.HasSuffix(method, "Watch") }
	})
	close(end)
	if _, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("%v", err)
	}
	s, err := client.Watch(t.Context(), &healthpb.HealthCheckRequest{})
	for err == nil {
		_, err = s.Recv()
	}
	if err != io.EOF {
		t.Errorf("%v", err)
	}
	if _, err := NewServer(ServerConfig{}); err == nil || !strings.Contains(err.Error(), "ServerConfig.Limiter") {
		t.Errorf("%v", err)
	}
}

func TestPanicInAHookGivesThePermitBack(t *testing.T) {
	one, err := limiter.NewConcurrency(limiter.ConcurrencyConfig{Limit: 1})
	s, err := NewServer(ServerConfig{Limiter: shared(t, one, err), OnAdmitted: func(context.Context, string, string) { panic("x") }})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		func() {
			defer func() {
				if recover() != "x" {
					t.Error("the panic does not pass through")
				}
			}()
			_, _ = s.Unary(t.Context(), nil, &grpc.UnaryServerInfo{}, nil)
		}()
	}
}
