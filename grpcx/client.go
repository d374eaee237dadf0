package grpcx

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/throttle"
	"github.com/flyball-go/flyball/vendors"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// ClientConfig says how the calls of a client connection are governed.
type ClientConfig struct {
	// Governor is that of the host. It must be there. Its Vendor reads what the
	// server answers; of those of package vendors GRPC fits any service, GoogleAPI
	// and GoogleAds know more of theirs.
	Governor *governor.Plain

	// Ask says what a call wishes, by its context and its full method, such as
	// "/google.pubsub.v1.Publisher/Publish". nil: what AskFrom says. A method that
	// has a limit of its own is best made the Bucket.
	Ask func(ctx context.Context, method string) governor.Ask

	// Selector says what a call's selector is. nil: "".
	Selector func(ctx context.Context, method string) string

	// Exclude is true for methods that are not governed, such as those of health
	// checks. nil: all are.
	Exclude func(method string) bool

	// Learn reads what a good answer's header and trailer say about quotas, which
	// is reported as by governor.Report: the Learn of an adapter. nil: nothing.
	Learn func(vendors.Response) []throttle.Quota
}

type askKey struct{}

// WithAsk returns a context whose calls have the given wishes, where
// ClientConfig.Ask is nil.
func WithAsk(ctx context.Context, ask governor.Ask) context.Context {
	return context.WithValue(ctx, askKey{}, ask)
}

// AskFrom returns what WithAsk put into ctx or into an ancestor; the zero Ask when
// there is none.
func AskFrom(ctx context.Context) governor.Ask {
	ask, _ := ctx.Value(askKey{}).(governor.Ask)
	return ask
}

// Client governs calls: its interceptors run each under the governor. They are safe
// for simultaneous use by any number of connections to the governor's host. A Client
// owns nothing; closing the governor ends it.
//
// # Errors
//
// A failed call's error is the server's, with its status, wrapped by [Error]; errors.Is
// and errors.As find what they did before. A call that the governor refused fails with
// the governor's error, which errors.Is finds, and has a status too: RESOURCE_EXHAUSTED
// when it would have to wait too long, or there is no room, UNAVAILABLE when the breaker
// is open or the governor closed, DEADLINE_EXCEEDED when it could not have started in
// time, CANCELLED, or FAILED_PRECONDITION, with a google.rpc.RetryInfo where it is known
// when to try again.
type Client struct{ cfg ClientConfig }

// NewClient returns a Client, or an error that names the field of cfg that is wrong.
func NewClient(cfg ClientConfig) (*Client, error) {
	if cfg.Governor == nil {
		return nil, errors.New("grpcx: ClientConfig.Governor is nil, want a governor")
	}
	if cfg.Ask == nil {
		cfg.Ask = func(ctx context.Context, _ string) governor.Ask { return AskFrom(ctx) }
	}
	if cfg.Selector == nil {
		cfg.Selector = func(context.Context, string) string { return "" }
	}
	if cfg.Exclude == nil {
		cfg.Exclude = func(string) bool { return false }
	}
	return &Client{cfg}, nil
}

// DialOptions returns what grpc.NewClient needs: both interceptors, the outermost of
// those given later, and none of the retries of a service config, which would run
// outside the governor's pauses. grpc's transparent ones, of calls that no server has
// seen, go on.
func (c *Client) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDisableRetry(),
		grpc.WithChainUnaryInterceptor(c.Unary), grpc.WithChainStreamInterceptor(c.Stream),
	}
}

// Unary is a grpc.UnaryClientInterceptor. A call that the server refuses because of a
// limit, or that fails and that the governor's Retry repeats, is made again with the
// same request, unless the server forbids it by a negative grpc-retry-pushback-ms; the
// reply is that of the last.
func (c *Client) Unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if c.cfg.Exclude(method) {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	_, err := do(ctx, c, method, func(ctx context.Context) (struct{}, error) {
		var header, trailer metadata.MD
		err := invoke(ctx, method, req, reply, cc, append(slices.Clip(opts), grpc.Header(&header), grpc.Trailer(&trailer))...)
		if err == nil {
			c.learn(ctx, header, trailer)
		}
		return struct{}{}, Error(err, trailer)
	})
	return err
}

// do runs fn under the governor.
func do[R any](ctx context.Context, c *Client, method string, fn func(context.Context) (R, error)) (R, error) {
	g := c.cfg.Governor
	if ask := c.cfg.Ask(ctx, method); ask != (governor.Ask{}) {
		g = g.With(ask)
	}
	v, err := governor.Do(ctx, g, c.cfg.Selector(ctx, method), governor.Func(fn))
	return v, refused(err)
}

// learn reports what a good answer said of quotas. ctx is that of a running closure
// or of its hold.
func (c *Client) learn(ctx context.Context, header, trailer metadata.MD) {
	if c.cfg.Learn == nil {
		return
	}
	h := make(http.Header, len(header))
	for name, values := range header {
		h[http.CanonicalHeaderKey(name)] = values
	}
	_ = governor.Report(ctx, c.cfg.Learn(vendors.Response{Header: h, Trailer: trailer})...)
}
