package grpcx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/throttle"
	"github.com/flyball-go/flyball/vendors"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	search   = "/google.ads.googleads.v25.services.GoogleAdsService/Search"
	url      = "type.googleapis.com/google.ads.googleads.v25.errors.GoogleAdsFailure"
	key      = "google.ads.googleads.v25.errors.googleadsfailure-bin"
	sentence = "Resource has been exhausted (e.g. check quota)."
)

// failure encodes a GoogleAdsFailure with one quota error, by field number: its
// Go type is not linked here, nor must it be.
func failure(scope uint64, rate string, seconds uint64) []byte {
	field := func(b []byte, n protowire.Number, v []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v)
	}
	number := func(b []byte, n protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
	}
	quota := field(field(number(nil, 1, scope), 2, []byte(rate)), 3, number(nil, 1, seconds))
	e := field(nil, 1, number(nil, 11, 4)) // RESOURCE_TEMPORARILY_EXHAUSTED
	e = field(e, 5, field(nil, 4, quota))
	return field(nil, 1, e)
}

// dial starts a server on the loopback that answers every call by answer.
func dial(t *testing.T, answer func(grpc.ServerStream) error, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		if err := s.RecvMsg(new(wrapperspb.StringValue)); err != nil {
			return err
		}
		return answer(s)
	}))
	go srv.Serve(l) // ends at Stop
	t.Cleanup(srv.Stop)
	conn, err := grpc.NewClient(l.Addr().String(), append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func call(t *testing.T, conn *grpc.ClientConn) (metadata.MD, error) {
	t.Helper()
	var trailer metadata.MD
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err := conn.Invoke(ctx, search, wrapperspb.String("query"), new(wrapperspb.StringValue), grpc.Trailer(&trailer))
	return trailer, err
}

func TestErrorCarriesWhatAdaptersReadOverARealConnection(t *testing.T) {
	account, project := failure(2, "Requests per account", 30), failure(3, "Requests per project", 15)
	detail := &anypb.Any{TypeUrl: url, Value: project}
	burst := throttle.KindBurst
	for name, tc := range map[string]struct {
		trailer metadata.MD
		details []*anypb.Any
		want    []throttle.Signal
	}{
		"trailer": {metadata.Pairs(key, string(account)), nil,
			[]throttle.Signal{{Kind: burst, Scope: throttle.Scope{Level: throttle.Tenant}, Delay: 30 * time.Second, Source: "Requests per account, retry in 30s"}}},
		"details": {nil, []*anypb.Any{detail},
			[]throttle.Signal{{Kind: burst, Delay: 15 * time.Second, Source: "Requests per project, retry in 15s"}}},
		"both, as Google sends it": {metadata.Pairs(key, string(project), "request-id", "abc"), []*anypb.Any{detail},
			[]throttle.Signal{{Kind: burst, Delay: 15 * time.Second, Source: "Requests per project, retry in 15s"}}},
		"neither": {nil, nil, []throttle.Signal{{Delay: throttle.Unknown, Source: "RESOURCE_EXHAUSTED"}}},
	} {
		t.Run(name, func(t *testing.T) {
			conn := dial(t, func(s grpc.ServerStream) error {
				s.SetTrailer(tc.trailer)
				return status.FromProto(&spb.Status{Code: int32(codes.ResourceExhausted), Message: sentence, Details: tc.details}).Err()
			})
			trailer, plain := call(t, conn)
			err := Error(plain, trailer)

			if got := vendors.GoogleAds().Signals(err, time.Now()); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("signals %+v, want %+v", got, tc.want)
			}
			if d, limited := vendors.GoogleAds().DelayError(fmt.Errorf("report: %w", err)); !limited || d != tc.want[0].Delay {
				t.Errorf("delay %v %v", d, limited)
			}
			e, ok := errors.AsType[*vendors.ResponseError](err)
			if !ok || e.Code != vendors.CodeResourceExhausted || e.Message != sentence || e.Status != 0 || e.At.IsZero() || len(e.Details) != len(tc.details) {
				t.Errorf("response %+v", e)
			}
			if st, ok := status.FromError(err); !ok || st.Code() != codes.ResourceExhausted || st.Message() != sentence || len(st.Proto().GetDetails()) != len(tc.details) {
				t.Errorf("status %v %v", st, ok)
			}
			if status.Code(err) != codes.ResourceExhausted || !errors.Is(err, plain) {
				t.Errorf("%v is no longer %v", err, plain)
			}
			if again := Error(err, nil); again != err {
				t.Errorf("wrapped twice: %v", again)
			}
		})
	}
}

func TestErrorOfAStreamHasItsTrailer(t *testing.T) {
	conn := dial(t, func(s grpc.ServerStream) error {
		s.SetTrailer(metadata.Pairs(key, string(failure(2, "r", 7))))
		if err := s.SendMsg(wrapperspb.String("first batch")); err != nil {
			return err
		}
		return status.Error(codes.ResourceExhausted, sentence)
	})
	s, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, search)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.SendMsg(wrapperspb.String("query")), s.CloseSend(), s.RecvMsg(new(wrapperspb.StringValue))); err != nil {
		t.Fatal(err)
	}
	err = Error(s.RecvMsg(new(wrapperspb.StringValue)), s.Trailer())
	if d, limited := vendors.GoogleAds().DelayError(err); !limited || d != 7*time.Second {
		t.Errorf("%v: got %v %v", err, d, limited)
	}
}

func TestErrorOfAMessageTooLargeIsNoLimit(t *testing.T) {
	conn := dial(t, func(s grpc.ServerStream) error {
		return s.SendMsg(wrapperspb.String(strings.Repeat("x", 5<<20)))
	})
	trailer, err := call(t, conn)
	err = Error(err, trailer)
	if status.Code(err) != codes.ResourceExhausted {
		t.Fatalf("got %v", err)
	}
	if d, limited := vendors.GoogleAds().DelayError(err); limited {
		t.Errorf("%v counts as a limit of %v", err, d)
	}
}

// strange is an error with a status of its own.
type strange struct{ st *status.Status }

func (s strange) Error() string              { return "strange" }
func (s strange) GRPCStatus() *status.Status { return s.st }

func TestErrorLeavesOtherErrorsAlone(t *testing.T) {
	if err := Error(nil, metadata.Pairs("a", "b")); err != nil {
		t.Errorf("nil became %v", err)
	}
	for _, err := range []error{io.EOF, context.Canceled, errors.New("x"), strange{nil}, strange{status.New(codes.OK, "")}} {
		if got := Error(err, nil); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
}

func TestErrorKeepsTheMessageOfAWrappedStatus(t *testing.T) {
	inner := status.Error(codes.Unavailable, "try later")
	err := Error(fmt.Errorf("search: %w", inner), nil)
	st, ok := status.FromError(err)
	if !ok || st.Message() != "try later" || st.Code() != codes.Unavailable || !errors.Is(err, inner) {
		t.Errorf("got %v %v", st, ok)
	}
	if want := "vendors: gRPC UNAVAILABLE: search: rpc error: code = Unavailable desc = try later"; err.Error() != want {
		t.Errorf("text %q, want %q", err, want)
	}
	for c := range vendors.Code(17) {
		var back codes.Code
		if err := back.UnmarshalJSON([]byte(`"` + c.String() + `"`)); err != nil || back != codes.Code(c) {
			t.Errorf("%v is grpc's %v (%v)", c, back, err)
		}
	}
}
