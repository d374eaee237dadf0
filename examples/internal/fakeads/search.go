package fakeads

import (
	"context"
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/flyball-go/flyball/examples/internal/adspb"
)

// Search answers one page of a query's rows.
func (v *service) Search(ctx context.Context, req *adspb.SearchGoogleAdsRequest) (*adspb.SearchGoogleAdsResponse, error) {
	customer := strings.ReplaceAll(req.CustomerId, "-", "")
	c, r := v.enter(ctx, customer)
	var resp *adspb.SearchGoogleAdsResponse
	if r == nil {
		resp, r = v.page(&c, customer, req)
	}
	if r != nil {
		return nil, v.fail(&c, r, func(md metadata.MD) { grpc.SetTrailer(ctx, md) }) // nothing to do about it
	}
	return resp, nil
}

func (v *service) page(c *call, customer string, req *adspb.SearchGoogleAdsRequest) (*adspb.SearchGoogleAdsResponse, *refusal) {
	if req.PageSize != 0 {
		return nil, requestError(adspb.RequestErrorEnum_PAGE_SIZE_NOT_SUPPORTED, "Setting the page size is not supported. Search Responses will have fixed page size of '%d' rows.", v.s.cfg.Batch)
	}
	now := v.s.cfg.Now()
	a, r := v.target(c, customer)
	if r != nil {
		return nil, r
	}
	p, r := v.plan(a, req.Query, now)
	if r == nil {
		r = v.s.fault(now)
	}
	if r != nil {
		return nil, r
	}
	skip, ok := offset(req)
	if !ok {
		return nil, requestError(adspb.RequestErrorEnum_INVALID_PAGE_TOKEN, "Page token is invalid.")
	}
	resp := &adspb.SearchGoogleAdsResponse{FieldMask: &fieldmaskpb.FieldMask{Paths: p.mask}}
	if req.ValidateOnly {
		return resp, nil
	}
	b := newBatch(p)
	defer b.drop()
	settings := req.GetSearchSettings()
	sum, count, more := item{acct: a}, 0, false
	var err error
	p.run(a, dayOf(now.In(a.loc)), now.In(a.loc).Hour(), func(it *item) bool {
		count++
		sum.m.add(it.m)
		switch {
		case count <= skip || settings.GetOmitResults():
		case b.rows == v.s.cfg.Batch:
			more = true
			return settings.GetReturnTotalResultsCount() || settings.GetReturnSummaryRow()
		default:
			err = b.add(it)
		}
		return err == nil
	})
	if more {
		resp.NextPageToken = token(req, skip+b.rows)
	} else {
		resp.QueryResourceConsumption = int64(10 + b.rows/10)
	}
	if settings.GetReturnTotalResultsCount() {
		resp.TotalResultsCount = int64(count)
	}
	if settings.GetReturnSummaryRow() {
		resp.SummaryRow = p.summary(&sum)
	}
	v.s.rows.Add(int64(b.rows))
	if err == nil && b.buf != nil {
		err = proto.UnmarshalOptions{Merge: true}.Unmarshal(*b.buf, resp)
	}
	if err != nil {
		return nil, internalError(codes.Internal, adspb.InternalErrorEnum_INTERNAL_ERROR, err.Error())
	}
	return resp, nil
}

// A page token says how many rows came before, and of which query.

func token(req *adspb.SearchGoogleAdsRequest, n int) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %x", n, digest(req)))
}

func offset(req *adspb.SearchGoogleAdsRequest) (n int, ok bool) {
	if req.PageToken == "" {
		return 0, true
	}
	text, err := base64.RawURLEncoding.DecodeString(req.PageToken)
	if err != nil {
		return 0, false
	}
	var sum uint64
	if _, err := fmt.Sscanf(string(text), "%d %x", &n, &sum); err != nil || n < 1 {
		return 0, false
	}
	return n, sum == digest(req)
}

func digest(req *adspb.SearchGoogleAdsRequest) uint64 {
	h := fnv.New64a()
	h.Write([]byte(req.CustomerId + " " + req.Query)) // a hash takes all
	return h.Sum64()
}
