package grpcx

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/retry"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// ServerConfig says whom a server lets in.
type ServerConfig struct {
	// Limiter admits calls; it must be there. By its MaxQueue a call waits, or is
	// rejected at once. The server does not close it.
	Limiter *limiter.Shared

	// Key says whose call it is, by its context, with the caller's metadata and
	// peer, and its full method. nil: "" for all.
	Key func(ctx context.Context, method string) string

	// Cost says how many permits a call takes; less than 1 takes none. nil: 1.
	Cost func(ctx context.Context, method string) int

	// Exclude is true for methods that are let in without permits. nil: none are.
	Exclude func(method string) bool

	// OnRejected and OnAdmitted hear of each decision, on the call's goroutine, err
	// being the limiter's. nil: nobody does.
	OnRejected func(ctx context.Context, method, key string, err error)
	OnAdmitted func(ctx context.Context, method, key string)
}

// Server limits the calls of a grpc.Server by its interceptors. What is rejected gets
// RESOURCE_EXHAUSTED, with a google.rpc.RetryInfo and the trailer
// grpc-retry-pushback-ms where it is known when there are permits again; the pushback
// is -1, which forbids to try again, for what can never be admitted. A call whose
// context ends in the queue gets the context's status, one that comes when the limiter
// is closed UNAVAILABLE.
//
// Permits of limits that count calls while they run, as limiter.Concurrency, go back
// when the handler returns, also of a stream.
type Server struct{ cfg ServerConfig }

// NewServer returns a Server, or an error that names the field of cfg that is wrong.
func NewServer(cfg ServerConfig) (*Server, error) {
	if cfg.Limiter == nil {
		return nil, errors.New("grpcx: ServerConfig.Limiter is nil, want a limiter")
	}
	if cfg.Key == nil {
		cfg.Key = func(context.Context, string) string { return "" }
	}
	if cfg.Cost == nil {
		cfg.Cost = func(context.Context, string) int { return 1 }
	}
	if cfg.Exclude == nil {
		cfg.Exclude = func(string) bool { return false }
	}
	if cfg.OnRejected == nil {
		cfg.OnRejected = func(context.Context, string, string, error) {}
	}
	if cfg.OnAdmitted == nil {
		cfg.OnAdmitted = func(context.Context, string, string) {}
	}
	return &Server{cfg}, nil
}

// ServerOptions returns what grpc.NewServer needs: both interceptors, the outermost of
// those given later.
func (s *Server) ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(s.Unary), grpc.ChainStreamInterceptor(s.Stream)}
}

// Unary is a grpc.UnaryServerInterceptor.
func (s *Server) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if s.cfg.Exclude(info.FullMethod) {
		return handle(ctx, req)
	}
	done, err := s.admit(ctx, info.FullMethod, func(md metadata.MD) { _ = grpc.SetTrailer(ctx, md) })
	if err != nil {
		return nil, err
	}
	defer done()
	return handle(ctx, req)
}

// Stream is a grpc.StreamServerInterceptor.
func (s *Server) Stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if s.cfg.Exclude(info.FullMethod) {
		return handle(srv, stream)
	}
	done, err := s.admit(stream.Context(), info.FullMethod, stream.SetTrailer)
	if err != nil {
		return err
	}
	defer done()
	return handle(srv, stream)
}

// admit takes a call's permits, which done gives back.
func (s *Server) admit(ctx context.Context, method string, trailer func(metadata.MD)) (done func(), err error) {
	key, n := s.cfg.Key(ctx, method), s.cfg.Cost(ctx, method)
	if err := s.cfg.Limiter.Wait(ctx, key, n); err != nil {
		s.cfg.OnRejected(ctx, method, key, err)
		if md := pushback(err); md != nil {
			trailer(md)
		}
		text := err.Error()
		if e, ok := errors.AsType[*limiter.LimitedError](err); ok { // whose limit it is, is the server's affair
			text = fmt.Sprintf("too many calls: %s", e.Reason)
		}
		return nil, withRetryInfo(status.New(codeOf(err), text), err).Err()
	}
	if n >= 1 { // Release must come even if the hook panics
		done = func() { s.cfg.Limiter.Release(key, n) }
	} else {
		done = func() {}
	}
	admitted := false
	defer func() {
		if !admitted {
			done()
		}
	}()
	s.cfg.OnAdmitted(ctx, method, key)
	admitted = true
	return done, nil
}

// pushback is the trailer by which servers tell clients' own retries when to come
// again; see grpc/proposal A6.
func pushback(err error) metadata.MD {
	if codeOf(err) != codes.ResourceExhausted {
		return nil
	}
	ms := int64(-1)
	switch after, ok := retry.RetryAfter(err); {
	case !ok || after <= 0:
		return nil // nobody knows
	case after < limiter.Never:
		ms = int64((after + time.Millisecond - 1) / time.Millisecond)
	}
	return metadata.Pairs("grpc-retry-pushback-ms", strconv.FormatInt(ms, 10))
}
