package grpcx

import (
	"context"
	"io"
	"slices"
	"sync"

	"github.com/flyball-go/flyball/governor"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// Stream is a grpc.StreamClientInterceptor. The slot and the permits are held until
// the stream ends: until RecvMsg has failed, io.EOF included, or has returned the one
// answer of a stream that only the client sends, or the call's context has ended. So
// whoever leaves a stream before its end cancels the context, which grpc asks for as
// well. What ends a stream later than its first message is learned, but not repeated.
//
// A call that only the server streams begins with the first RecvMsg or Header, once
// the request is there. Until then it can be repeated: a limit that the server answers
// with, and errors that the governor's Retry repeats, are waited out in there.
//
// Any other stream begins at once, and what its client has sent is not sent again:
// only what keeps it from beginning is waited out.
func (c *Client) Stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if c.cfg.Exclude(method) {
		return open(ctx, desc, cc, method, opts...)
	}
	s := &stream{client: c, ctx: ctx, method: method, one: !desc.ServerStreams}
	opts = slices.Clip(opts)
	s.open = func(ctx context.Context) (grpc.ClientStream, error) { return open(ctx, desc, cc, method, opts...) }
	if desc.ServerStreams && !desc.ClientStreams {
		return s, nil
	}
	if err := s.begin(func(grpc.ClientStream) error { return nil }); err != nil {
		return nil, err
	}
	return s, nil
}

// stream is a governed stream.
type stream struct {
	client *Client
	ctx    context.Context
	method string
	one    bool // the server sends one message
	open   func(context.Context) (grpc.ClientStream, error)

	// mu guards what follows. It is held while the stream begins: one may send and
	// one receive at the same time, and both may begin it.
	mu      sync.Mutex
	begun   bool
	request any // what was sent before
	sent    bool
	closed  bool // CloseSend before
	err     error

	// known guards live, too, which is written under both: for those who are not to
	// wait until the stream has begun.
	known sync.Mutex
	live  // its ClientStream is nil unless the last attempt has opened one
}

// live is a stream that has begun.
type live struct {
	real    grpc.ClientStream
	attempt context.Context
	release func(error) // ends the hold
	stop    func() bool // of the watch of ctx, which ends it, too
	eof     bool        // it has ended well already
}

// begin opens the stream under the governor and has first do what belongs to the
// attempt. first returns io.EOF when the stream has ended well already. The caller
// holds mu, or is the only one.
func (s *stream) begin(first func(grpc.ClientStream) error) error {
	if s.begun {
		return s.err
	}
	s.begun = true
	request, sent, closed := s.request, s.sent, s.closed // when Close gives this up, it may go on
	s.request = nil
	l, err := do(s.ctx, s.client, s.method, func(ctx context.Context) (l live, err error) {
		real, err := s.open(ctx)
		if err != nil {
			return l, Error(err, nil)
		}
		l.real = real // has a header and a trailer also when it fails
		if sent {
			err = real.SendMsg(request)
			if err == nil && closed {
				err = real.CloseSend()
			}
			if err != nil && err != io.EOF { // io.EOF: RecvMsg says why
				return l, Error(err, nil)
			}
		}
		if err = first(real); err != nil && err != io.EOF {
			return l, Error(err, real.Trailer())
		}
		if l.attempt, l.eof = ctx, err == io.EOF; l.eof {
			s.client.learnFrom(l)
			return l, nil
		}
		l.release = governor.Hold(ctx)
		l.stop = context.AfterFunc(ctx, func() { l.release(refused(context.Cause(ctx))) })
		return l, nil
	})
	s.known.Lock()
	s.live = l
	s.known.Unlock()
	if s.err = err; err == nil && l.eof {
		s.err = io.EOF
	}
	return s.err
}

func (c *Client) learnFrom(l live) {
	if c.cfg.Learn != nil {
		header, _ := l.real.Header()
		c.learn(l.attempt, header, l.real.Trailer())
	}
}

// ended gives everything back, and returns what the caller is to see.
func (s *stream) ended(err error) error {
	s.stop()
	if err == nil || err == io.EOF {
		s.client.learnFrom(s.live)
		s.release(nil)
		return err
	}
	err = Error(err, s.real.Trailer())
	s.release(err)
	return err
}

// RecvMsg implements grpc.ClientStream. One goroutine calls it at a time.
func (s *stream) RecvMsg(m any) error {
	s.mu.Lock()
	if !s.begun {
		defer s.mu.Unlock()
		return s.begin(func(real grpc.ClientStream) error { return real.RecvMsg(m) })
	}
	err := s.err
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if err = s.real.RecvMsg(m); err == nil && !s.one {
		return nil
	}
	if err = s.ended(err); err != nil {
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
	}
	return err
}

// SendMsg implements grpc.ClientStream.
func (s *stream) SendMsg(m any) error {
	s.mu.Lock()
	if !s.begun {
		defer s.mu.Unlock()
		if s.sent {
			return status.Error(codes.Internal, "grpcx: a second request to a method that takes one")
		}
		s.request, s.sent = m, true
		return nil
	}
	real := s.real
	s.mu.Unlock()
	if real == nil {
		return io.EOF // RecvMsg says why
	}
	return real.SendMsg(m) // what fails here, RecvMsg says too
}

// CloseSend implements grpc.ClientStream.
func (s *stream) CloseSend() error {
	s.mu.Lock()
	if !s.begun {
		defer s.mu.Unlock()
		s.closed = true
		return nil
	}
	real := s.real
	s.mu.Unlock()
	if real == nil {
		return nil
	}
	return real.CloseSend()
}

// Header implements grpc.ClientStream.
func (s *stream) Header() (metadata.MD, error) {
	s.mu.Lock()
	var md metadata.MD
	if !s.begun {
		err := s.begin(func(real grpc.ClientStream) (err error) {
			if md, err = real.Header(); err == nil && md == nil {
				err = real.RecvMsg(new(emptypb.Empty)) // there is no message: it ended without a header
			}
			return err
		})
		defer s.mu.Unlock()
		if err == io.EOF {
			err = nil
		}
		return md, err
	}
	err, real := s.err, s.real
	s.mu.Unlock()
	if real == nil {
		return nil, err
	}
	return real.Header()
}

// Trailer implements grpc.ClientStream.
func (s *stream) Trailer() metadata.MD {
	s.known.Lock()
	defer s.known.Unlock()
	if s.real == nil {
		return nil
	}
	return s.real.Trailer()
}

// Context implements grpc.ClientStream. Before the stream has begun it is the call's.
func (s *stream) Context() context.Context {
	s.known.Lock()
	defer s.known.Unlock()
	if s.real == nil {
		return s.ctx
	}
	return s.real.Context()
}
