package fakeads

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/flyball-go/flyball/examples/internal/adspb"
	"github.com/flyball-go/flyball/examples/internal/gaql"
)

// service is one API version of a server.
type service struct {
	adspb.UnimplementedGoogleAdsServiceServer
	adspb.UnimplementedCustomerServiceServer
	s       *Server
	version string
}

// call is one call from its arrival on.
type call struct {
	id    string // request-id
	login *Account
	md    metadata.MD
}

// enter does what comes before the work: identity, then the quota, at arrival,
// then the time that the work takes. A refusal comes at once.
func (v *service) enter(ctx context.Context, customer string) (call, *refusal) {
	now := time.Now()
	s := v.s
	c := call{id: s.requestID()}
	c.md, _ = metadata.FromIncomingContext(ctx)
	if err := grpc.SetHeader(ctx, metadata.Pairs("request-id", c.id)); err != nil {
		return c, internalError(codes.Internal, adspb.InternalErrorEnum_INTERNAL_ERROR, err.Error())
	}
	if r := s.oauth.check(c.md.Get("authorization"), now); r != nil {
		return c, r
	}
	if r := s.quota.admit(now, customer); r != nil {
		return c, r
	}
	if mean := s.cfg.Latency; mean > 0 {
		t := time.NewTimer(time.Duration(float64(mean) * (0.5 + rand.Float64())))
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	if login := c.md.Get("login-customer-id"); len(login) > 0 {
		id, err := strconv.ParseInt(login[0], 10, 64)
		if c.login = s.data.Account(id); err != nil || len(login[0]) != 10 || c.login == nil || !c.login.Manager {
			return c, &refusal{codes.InvalidArgument, &adspb.GoogleAdsError{
				ErrorCode: &adspb.ErrorCode{ErrorCode: &adspb.ErrorCode_HeaderError{HeaderError: adspb.HeaderErrorEnum_INVALID_LOGIN_CUSTOMER_ID}},
				Message:   "The login customer ID is not valid."}}
		}
	}
	return c, nil
}

// target finds the account that a call is about and whether it may be asked.
func (v *service) target(c *call, customer string) (*Account, *refusal) {
	id, err := strconv.ParseInt(customer, 10, 64)
	if err != nil || len(customer) != 10 {
		return nil, requestError(adspb.RequestErrorEnum_INVALID_CUSTOMER_ID, "Invalid customer ID '%s'.", customer)
	}
	a := v.s.data.Account(id)
	switch {
	case a == nil, c.login == nil && a != v.s.data.Root, c.login != nil && !a.under(c.login):
		return nil, authorizationError(adspb.AuthorizationErrorEnum_USER_PERMISSION_DENIED,
			"User doesn't have permission to access customer. Note: If you're accessing a client customer, the manager's customer id must be set in the 'login-customer-id' header.")
	case a.Status != enabled:
		return nil, authorizationError(adspb.AuthorizationErrorEnum_CUSTOMER_NOT_ENABLED,
			"The customer account can't be accessed because it is not yet enabled or has been deactivated.")
	}
	return a, nil
}

// plan checks a query.
func (v *service) plan(a *Account, query string, now time.Time) (*plan, *refusal) {
	if query == "" {
		return nil, requestError(adspb.RequestErrorEnum_REQUIRED_FIELD_MISSING, "Required field is missing: query.")
	}
	q, err := gaql.Parse(query)
	if err != nil {
		return nil, queryError(err.(*gaql.Error), query)
	}
	p, e := compile(q, a, dayOf(now.In(a.loc)))
	if e != nil {
		return nil, queryError(e, query)
	}
	return p, nil
}

// fail ends a call with a refusal.
func (v *service) fail(c *call, r *refusal, trailer func(metadata.MD)) error {
	md, err := r.wire(v.version, c.id)
	trailer(md)
	return err
}

// ListAccessibleCustomers lists the one account that the credentials open.
func (v *service) ListAccessibleCustomers(ctx context.Context, _ *adspb.ListAccessibleCustomersRequest) (*adspb.ListAccessibleCustomersResponse, error) {
	c, r := v.enter(ctx, "")
	if r != nil {
		return nil, v.fail(&c, r, func(md metadata.MD) { grpc.SetTrailer(ctx, md) }) // nothing to do about it
	}
	return &adspb.ListAccessibleCustomersResponse{ResourceNames: []string{v.s.data.Root.resource()}}, nil
}

// SearchStream sends all rows of a query in batches.
func (v *service) SearchStream(req *adspb.SearchGoogleAdsStreamRequest, stream grpc.ServerStreamingServer[adspb.SearchGoogleAdsStreamResponse]) error {
	ctx := stream.Context()
	customer := strings.ReplaceAll(req.CustomerId, "-", "")
	c, r := v.enter(ctx, customer)
	var a *Account
	var p *plan
	now := v.s.cfg.Now()
	if r == nil {
		a, r = v.target(&c, customer)
	}
	if r == nil {
		p, r = v.plan(a, req.Query, now)
	}
	if r == nil {
		r = v.s.fault(now)
	}
	if r != nil {
		return v.fail(&c, r, stream.SetTrailer)
	}
	b := newBatch(p)
	defer b.drop()
	mask := &fieldmaskpb.FieldMask{Paths: p.mask}
	var sum item
	sum.acct = a
	var err error
	var broken *refusal
	p.run(a, dayOf(now.In(a.loc)), now.In(a.loc).Hour(), func(it *item) bool {
		if b.rows == v.s.cfg.Batch { // there is more, so this one is not the last
			if err = v.send(stream, b, &adspb.SearchGoogleAdsStreamResponse{FieldMask: mask, RequestId: c.id}); err != nil {
				return false
			}
			if broken = v.s.fault(now); broken != nil {
				return false
			}
		}
		sum.m.add(it.m)
		if req.SummaryRowSetting != adspb.SummaryRowSettingEnum_SUMMARY_ROW_ONLY {
			err = b.add(it)
		}
		return err == nil
	})
	if broken != nil {
		return v.fail(&c, broken, stream.SetTrailer)
	}
	if err != nil {
		return err
	}
	last := &adspb.SearchGoogleAdsStreamResponse{FieldMask: mask, RequestId: c.id, QueryResourceConsumption: int64(10 + b.rows/10)}
	if req.SummaryRowSetting > adspb.SummaryRowSettingEnum_NO_SUMMARY_ROW {
		last.SummaryRow = p.summary(&sum)
	}
	return v.send(stream, b, last)
}

// send sends a batch with the rest of its message.
func (v *service) send(stream grpc.ServerStream, b *batch, rest proto.Message) error {
	v.s.rows.Add(int64(b.rows))
	f, err := b.end(rest)
	if err != nil {
		return err
	}
	return stream.SendMsg(f)
}

// summary returns a row of the selected metrics of a sum.
func (p *plan) summary(sum *item) *adspb.GoogleAdsRow {
	r := &row{}
	for _, f := range p.puts {
		if f.metric() {
			r.use("metrics")
			f.put(r, f.get(sum))
		}
	}
	return &r.msg
}
