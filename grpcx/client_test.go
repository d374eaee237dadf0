package grpcx

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
	"github.com/flyball-go/flyball/vendors"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// busyFor is what a server says that wants to be left alone for d.
func busyFor(d time.Duration) error {
	st, err := status.New(codes.ResourceExhausted, "slow down").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(d)})
	if err != nil {
		panic(err)
	}
	return st.Err()
}

// governed is a connection to a server that answers by answer, and its governor.
func governed(t *testing.T, answer func(grpc.ServerStream) error, set func(*governor.PlainConfig), conf func(*ClientConfig)) (*grpc.ClientConn, *governor.Plain) {
	t.Helper()
	cfg := governor.PlainConfig{Name: "test", Vendor: vendors.GRPC(), Workers: 4, MinCooldown: time.Millisecond}
	if set != nil {
		set(&cfg)
	}
	g, err := governor.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	cc := ClientConfig{Governor: g}
	if conf != nil {
		conf(&cc)
	}
	c, err := NewClient(cc)
	if err != nil {
		t.Fatal(err)
	}
	return dial(t, answer, append(c.DialOptions(), grpc.WithDefaultServiceConfig(retrying))...), g
}

// retrying is what services publish to have clients repeat calls by themselves.
const retrying = `{"methodConfig": [{"name": [{}], "retryPolicy": {
	"maxAttempts": 4, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1,
	"retryableStatusCodes": ["UNAVAILABLE", "RESOURCE_EXHAUSTED"]}}]}`

func invoke(ctx context.Context, conn *grpc.ClientConn, opts ...grpc.CallOption) (string, error) {
	reply := new(wrapperspb.StringValue)
	err := conn.Invoke(ctx, search, wrapperspb.String("query"), reply, opts...)
	return reply.GetValue(), err
}

// query opens a stream that the server alone sends, as generated code does.
func query(ctx context.Context, conn *grpc.ClientConn) (grpc.ClientStream, error) {
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, search)
	if err != nil {
		return nil, err
	}
	return s, errors.Join(s.SendMsg(wrapperspb.String("query")), s.CloseSend())
}

func recv(s grpc.ClientStream) (string, error) {
	m := new(wrapperspb.StringValue)
	err := s.RecvMsg(m)
	return m.GetValue(), err
}

// idle waits until nothing runs under g and nothing is held, for which Shutdown does.
func idle(t *testing.T, g *governor.Plain) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := g.Shutdown(ctx); err != nil {
		t.Errorf("a slot is not given back: %v", err)
	}
}

// calls counts calls, and notes those that came before the last refusal allowed.
type calls struct {
	mu    sync.Mutex
	n     int
	until time.Time
	early int
}

// refuse counts a call, and refuses the first n for d.
func (c *calls) refuse(n int, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Before(c.until) {
		c.early++
	}
	if c.n++; c.n > n {
		return nil
	}
	c.until = now.Add(d)
	return busyFor(d)
}

func (c *calls) check(t *testing.T, want int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n != want || c.early > 0 {
		t.Errorf("%d calls, %d of them in a pause; want %d and 0", c.n, c.early, want)
	}
}

func TestUnaryCallWaitsOutALimit(t *testing.T) {
	var n calls
	conn, g := governed(t, func(s grpc.ServerStream) error {
		if err := n.refuse(2, 20*time.Millisecond); err != nil {
			return err
		}
		return s.SendMsg(wrapperspb.String("rows"))
	}, nil, nil)
	if got, err := invoke(t.Context(), conn); got != "rows" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	n.check(t, 3)
	if s := g.Stats(); s.Limited != 2 || s.Succeeded != 1 {
		t.Errorf("%d limited, %d succeeded; want 2 and 1", s.Limited, s.Succeeded)
	}
	idle(t, g)
}

// Below the governor nobody repeats a call: not in a pause, and not what its Retry,
// which there is none of here, does not repeat.
func TestServiceConfigRepeatsNothing(t *testing.T) {
	var n calls
	conn, g := governed(t, func(grpc.ServerStream) error {
		n.refuse(0, 0)
		return status.Error(codes.Unavailable, "try later")
	}, nil, nil)
	if _, err := invoke(t.Context(), conn); status.Code(err) != codes.Unavailable {
		t.Errorf("%v", err)
	}
	s, err := query(t.Context(), conn)
	if err == nil {
		_, err = recv(s)
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("%v", err)
	}
	n.check(t, 2)
	idle(t, g)
}

func TestPushbackThatForbidsToRepeat(t *testing.T) {
	for _, c := range []struct {
		code     codes.Code
		pushback []string
		want     int64
	}{
		{codes.Unavailable, nil, 3},
		{codes.Unavailable, []string{"-1"}, 1},
		{codes.Unavailable, []string{"soon"}, 1},
		{codes.Unavailable, []string{"1", "2"}, 1},
		{codes.ResourceExhausted, []string{"-1"}, 1},
		{codes.Internal, []string{"-1"}, 1},
	} {
		for _, streams := range []bool{false, true} {
			var n atomic.Int64
			conn, _ := governed(t, func(s grpc.ServerStream) error {
				n.Add(1)
				for _, p := range c.pushback {
					s.SetTrailer(metadata.Pairs("grpc-retry-pushback-ms", p))
				}
				return status.Error(c.code, "no")
			}, func(cfg *governor.PlainConfig) { cfg.Retry = &retry.Config{Attempts: 3, Backoff: backoff.None} }, nil)
			var err error
			if streams {
				var s grpc.ClientStream
				if s, err = query(t.Context(), conn); err == nil {
					_, err = recv(s)
				}
			} else {
				_, err = invoke(t.Context(), conn)
			}
			if status.Code(err) != c.code || n.Load() != c.want {
				t.Errorf("%v, pushback %q, stream %v: made %d times, want %d; %v", c.code, c.pushback, streams, n.Load(), c.want, err)
			}
		}
	}
}

func TestCallsErrorIsTheServers(t *testing.T) {
	var n calls
	conn, g := governed(t, func(s grpc.ServerStream) error {
		n.refuse(0, 0)
		s.SetTrailer(metadata.Pairs("request-id", "7"))
		return status.Error(codes.NotFound, "no such account")
	}, nil, nil)
	var trailer metadata.MD
	_, err := invoke(t.Context(), conn, grpc.Trailer(&trailer))
	if st, _ := status.FromError(err); st.Code() != codes.NotFound || st.Message() != "no such account" {
		t.Errorf("%v", err)
	}
	if e, ok := errors.AsType[*vendors.ResponseError](err); !ok || e.Trailer["request-id"][0] != "7" || trailer.Get("request-id")[0] != "7" {
		t.Errorf("%+v, %v", e, trailer)
	}
	n.check(t, 1)
	idle(t, g)
}

func TestCallHasTheWishesOfItsContext(t *testing.T) {
	var n calls
	conn, g := governed(t, func(grpc.ServerStream) error { return n.refuse(1, time.Hour) }, nil, nil)
	_, err := invoke(WithAsk(t.Context(), governor.Ask{Tenant: "a", NoRetry: true}), conn)
	if d, limited := vendors.GRPC().DelayError(err); !limited || d != time.Hour || status.Code(err) != codes.ResourceExhausted {
		t.Errorf("%v", err)
	}
	n.check(t, 1)
	if c := g.Stats().Cooldowns; len(c) != 1 {
		t.Errorf("cooldowns %+v", c)
	}
	idle(t, g)
}

func TestRefusalsHaveAStatus(t *testing.T) {
	conn, g := governed(t, func(s grpc.ServerStream) error { return s.SendMsg(wrapperspb.String("x")) }, nil, func(c *ClientConfig) {
		c.Exclude = func(method string) bool { return strings.HasSuffix(method, "Check") }
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	check := func(ctx context.Context, code codes.Code, target error) *status.Status {
		t.Helper()
		_, err := invoke(ctx, conn)
		if status.Code(err) != code || !errors.Is(err, target) {
			t.Errorf("%v, want %v and %v", err, code, target)
		}
		st, _ := status.FromError(err)
		return st
	}
	check(ctx, codes.Canceled, context.Canceled)
	check(WithAsk(t.Context(), governor.Ask{StartBy: time.Now().Add(-time.Second)}), codes.DeadlineExceeded, governor.ErrLate)
	check(WithAsk(t.Context(), governor.Ask{Cost: -1}), codes.FailedPrecondition, governor.ErrAsk)
	g.Learn(throttle.Signal{Delay: time.Hour})
	st := check(t.Context(), codes.ResourceExhausted, governor.ErrCooling)
	if len(st.Details()) != 1 {
		t.Fatalf("details %v", st.Details())
	}
	if info, ok := st.Details()[0].(*errdetails.RetryInfo); !ok || info.RetryDelay.AsDuration() < time.Hour-time.Minute || info.RetryDelay.AsDuration() > time.Hour {
		t.Errorf("%v", st.Details())
	}
	g.Close()
	check(t.Context(), codes.Unavailable, governor.ErrClosed)
	if err := conn.Invoke(t.Context(), "/x/Check", wrapperspb.String(""), new(wrapperspb.StringValue)); err != nil {
		t.Errorf("what is excluded: %v", err)
	}
}

// What ends a call that waits out a refusal is not the refusal.
func TestCallThatIsCancelledBetweenAttemptsIsCancelled(t *testing.T) {
	conn, _ := governed(t, func(grpc.ServerStream) error { return busyFor(time.Hour) }, func(c *governor.PlainConfig) { c.MaxWait = -1 }, nil)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	_, err := invoke(ctx, conn)
	if status.Code(err) != codes.Canceled || !errors.Is(err, context.Canceled) {
		t.Errorf("%v: %v", status.Code(err), err)
	}

	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = invoke(ctx, conn)
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("%v: %v", status.Code(err), err)
	}
}

func TestPanicInAnInterceptorBelowIsAnInternalError(t *testing.T) {
	g, err := governor.New(governor.PlainConfig{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewClient(ClientConfig{Governor: g})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Unary(t.Context(), search, nil, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { panic("x") })
	if status.Code(err) != codes.Internal {
		t.Errorf("%v", err)
	}
	idle(t, g)
	if _, err := NewClient(ClientConfig{}); err == nil || !strings.Contains(err.Error(), "ClientConfig.Governor") {
		t.Errorf("%v", err)
	}
}

func TestStreamWaitsOutALimitBeforeItsFirstMessage(t *testing.T) {
	for _, headerFirst := range []bool{false, true} {
		var n calls
		conn, g := governed(t, func(s grpc.ServerStream) error {
			if err := n.refuse(2, 20*time.Millisecond); err != nil {
				return err
			}
			s.SetHeader(metadata.Pairs("h", "1"))
			return errors.Join(s.SendMsg(wrapperspb.String("1")), s.SendMsg(wrapperspb.String("2")))
		}, func(c *governor.PlainConfig) { c.Workers = 1 }, nil)
		s, err := query(t.Context(), conn)
		if err != nil {
			t.Fatal(err)
		}
		n.check(t, 0)
		if headerFirst {
			if md, err := s.Header(); err != nil || md.Get("h")[0] != "1" {
				t.Errorf("header %v, %v", md, err)
			}
		}
		for _, want := range []string{"1", "2"} {
			if got, err := recv(s); got != want || err != nil {
				t.Errorf("%q, %v; want %q", got, err, want)
			}
			if used := g.Stats().InFlight; used != 1 {
				t.Errorf("%d slots are held in the stream, want 1", used)
			}
		}
		for range 2 {
			if _, err := recv(s); err != io.EOF {
				t.Errorf("%v, want EOF", err)
			}
		}
		n.check(t, 3)
		idle(t, g)
	}
}

func TestStreamThatWaitsOutAPauseHasAContext(t *testing.T) {
	refused := make(chan struct{})
	conn, g := governed(t, func(grpc.ServerStream) error { close(refused); return busyFor(time.Minute) }, nil, nil)
	ctx, cancel := context.WithCancel(t.Context())
	s, err := query(ctx, conn)
	if err != nil {
		t.Fatal(err)
	}
	received := make(chan error)
	go func() { _, err := recv(s); received <- err }()
	<-refused
	asked := make(chan bool)
	go func() { asked <- s.Context() == ctx && s.Trailer() == nil }()
	select {
	case same := <-asked:
		if !same {
			t.Error("want the call's context, and no trailer")
		}
	case <-time.After(10 * time.Second):
		t.Error("Context and Trailer wait for the pause")
	}
	cancel()
	if err := <-received; err == nil {
		t.Error("want an error of the call that was cancelled")
	}
	idle(t, g)
}

func TestFailedStreamHasItsHeaderAndTrailer(t *testing.T) {
	var n atomic.Int64
	answer := func(s grpc.ServerStream) error {
		s.SetHeader(metadata.Pairs("which", strconv.FormatInt(n.Load(), 10)))
		s.SetTrailer(metadata.Pairs("which", strconv.FormatInt(n.Load(), 10)))
		s.SendHeader(nil)
		if n.Add(1) == 1 {
			return busyFor(time.Millisecond)
		}
		return status.Error(codes.NotFound, "no")
	}
	conn, g := governed(t, answer, nil, nil)
	s, err := query(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := recv(s); status.Code(err) != codes.NotFound {
		t.Errorf("%v, want NOT_FOUND", err)
	}
	header, err := s.Header()
	if got := header.Get("which"); err != nil || len(got) != 1 || got[0] != "1" {
		t.Errorf("header %v, %v, want that of the last attempt", header, err)
	}
	if got := s.Trailer().Get("which"); len(got) != 1 || got[0] != "1" {
		t.Errorf("trailer %v, want that of the last attempt", s.Trailer())
	}
	if _, err := recv(s); status.Code(err) != codes.NotFound {
		t.Errorf("then %v, want NOT_FOUND", err)
	}
	if err := s.CloseSend(); err != nil {
		t.Error(err)
	}
	idle(t, g)
}

func TestStreamsLimitAfterItsFirstMessageIsLearnedOnly(t *testing.T) {
	var n calls
	conn, g := governed(t, func(s grpc.ServerStream) error {
		n.refuse(0, 0)
		if err := s.SendMsg(wrapperspb.String("1")); err != nil {
			return err
		}
		return busyFor(time.Hour)
	}, nil, nil)
	s, err := query(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := recv(s); got != "1" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for range 2 {
		if _, err := recv(s); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%v", err)
		}
	}
	idle(t, g)
	if c := g.Export().Cooldowns; len(c) != 1 || time.Until(c[0].Until) < time.Hour-time.Minute {
		t.Errorf("cooldowns %+v", c)
	}
	n.check(t, 1)
}

func TestStreamThatEndsWithoutAMessageIsEmpty(t *testing.T) {
	for _, headerFirst := range []bool{false, true} {
		conn, g := governed(t, func(s grpc.ServerStream) error { s.SetTrailer(metadata.Pairs("t", "1")); return nil }, nil, nil)
		s, err := query(t.Context(), conn)
		if err != nil {
			t.Fatal(err)
		}
		if headerFirst {
			if _, err := s.Header(); err != nil {
				t.Errorf("header: %v", err)
			}
		}
		if _, err := recv(s); err != io.EOF || s.Trailer().Get("t")[0] != "1" {
			t.Errorf("%v, %v", err, s.Trailer())
		}
		idle(t, g)
	}
}

func TestStreamOfTheClientHoldsItsSlotUntilTheAnswer(t *testing.T) {
	echo := func(s grpc.ServerStream) error { // dial's has received one message
		for {
			if err := s.RecvMsg(new(wrapperspb.StringValue)); err == io.EOF {
				return s.SendMsg(wrapperspb.String("all"))
			} else if err != nil {
				return err
			}
		}
	}
	conn, g := governed(t, echo, nil, nil)
	for _, desc := range []*grpc.StreamDesc{{ClientStreams: true}, {ClientStreams: true, ServerStreams: true}} {
		s, err := conn.NewStream(t.Context(), desc, search)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := s.SendMsg(wrapperspb.String("x")); err != nil {
				t.Fatal(err)
			}
		}
		if used := g.Stats().InFlight; used != 1 {
			t.Errorf("%d slots are held, want 1", used)
		}
		if err := s.CloseSend(); err != nil {
			t.Error(err)
		}
		if got, err := recv(s); got != "all" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		if desc.ServerStreams { // of the other kind there is one answer, and nobody looks for the end
			if _, err := recv(s); err != io.EOF {
				t.Errorf("%v", err)
			}
		}
	}
	idle(t, g)
}

func TestStreamThatCannotBeginIsRefusedAtOnce(t *testing.T) {
	conn, g := governed(t, func(grpc.ServerStream) error { return nil }, nil, nil)
	g.Close()
	if _, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, search); !errors.Is(err, governor.ErrClosed) {
		t.Errorf("%v", err)
	}
	s, err := query(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := recv(s); !errors.Is(err, governor.ErrClosed) || status.Code(err) != codes.Unavailable {
			t.Errorf("%v", err)
		}
	}
	if err := s.SendMsg(wrapperspb.String("x")); err != io.EOF {
		t.Errorf("sending: %v, want EOF", err)
	}
	if _, err := s.Header(); !errors.Is(err, governor.ErrClosed) {
		t.Errorf("header: %v", err)
	}
	if s.CloseSend() != nil || s.Trailer() != nil || s.Context() == nil {
		t.Error("a stream that did not begin")
	}
}

func TestQuotasOfGoodAnswersAreReported(t *testing.T) {
	learn := func(r vendors.Response) []throttle.Quota {
		if r.Header.Get("X-Left") != "0" || r.Trailer["t"][0] != "1" {
			return nil
		}
		return []throttle.Quota{{Limit: 10, Remaining: 0, Reset: time.Now().Add(time.Hour), Cost: -1}}
	}
	stream := func(c *grpc.ClientConn) error {
		s, err := query(context.Background(), c)
		for err == nil {
			_, err = recv(s)
		}
		return err
	}
	empty := false
	for i, call := range []func(*grpc.ClientConn) error{
		func(c *grpc.ClientConn) error { _, err := invoke(context.Background(), c); return err },
		stream, stream,
	} {
		empty = i == 2
		conn, g := governed(t, func(s grpc.ServerStream) error {
			s.SetHeader(metadata.Pairs("x-left", "0"))
			s.SetTrailer(metadata.Pairs("t", "1"))
			if empty {
				return nil
			}
			return s.SendMsg(wrapperspb.String("x"))
		}, nil, func(c *ClientConfig) { c.Learn = learn })
		if err := call(conn); err != nil && err != io.EOF {
			t.Error(err)
		}
		if c := g.Stats().Cooldowns; len(c) != 1 {
			t.Errorf("cooldowns %+v", c)
		}
		idle(t, g)
	}
}

// ended is a stream that its server refused before the request was sent.
type ended struct{ grpc.ClientStream }

func (ended) SendMsg(any) error    { return io.EOF }
func (ended) RecvMsg(any) error    { return status.Error(codes.NotFound, "x") }
func (ended) Trailer() metadata.MD { return nil }

func TestStreamThatEndedBeforeItsRequestSaysWhy(t *testing.T) {
	g, err := governor.New(governor.PlainConfig{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewClient(ClientConfig{Governor: g})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Stream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, nil, search, func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
		return ended{}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SendMsg(nil); err != nil {
		t.Error(err)
	}
	if err := s.SendMsg(nil); status.Code(err) != codes.Internal {
		t.Errorf("a second request: %v", err)
	}
	if err := s.RecvMsg(nil); status.Code(err) != codes.NotFound {
		t.Errorf("%v", err)
	}
	idle(t, g)
}

// Calls of all kinds that end in all ways leave nothing behind.
func TestCallsGiveEverythingBack(t *testing.T) {
	var n atomic.Int64
	conn, g := governed(t, func(s grpc.ServerStream) error {
		switch n.Add(1) % 7 {
		case 0:
			return busyFor(time.Millisecond)
		case 1:
			return status.Error(codes.Internal, "x")
		}
		for range 5 {
			if err := s.SendMsg(wrapperspb.String(strings.Repeat("x", 1000))); err != nil {
				return err
			}
		}
		return nil
	}, nil, nil)
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.N(40))*time.Millisecond)
			defer cancel()
			switch i % 3 {
			case 0:
				_, _ = invoke(ctx, conn)
			case 1:
				s, err := query(ctx, conn)
				for range rand.N(7) {
					if err == nil {
						_, err = recv(s)
					}
				}
			default:
				s, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, search)
				if err != nil {
					return
				}
				var both sync.WaitGroup
				both.Go(func() { _ = s.SendMsg(wrapperspb.String("x")); _ = s.CloseSend() })
				both.Go(func() {
					for err := error(nil); err == nil; {
						_, err = recv(s)
					}
				})
				both.Wait()
			}
		})
	}
	all.Wait()
	idle(t, g)
}
