package fakeads_test

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/flyball-go/flyball/examples/internal/adsclient"
	"github.com/flyball-go/flyball/examples/internal/adspb"
	"github.com/flyball-go/flyball/examples/internal/fakeads"
	"github.com/flyball-go/flyball/vendors"
	"github.com/flyball-go/flyball/vendors/vendortest"
)

const daily = "SELECT campaign.id, metrics.impressions, metrics.clicks, metrics.cost_micros, metrics.conversions, segments.date FROM campaign WHERE segments.date DURING LAST_7_DAYS"

// ample is a quota that no test here exceeds.
var ample = vendortest.Quota{Rate: 1e6, Burst: 1e6}

var noon = time.Date(2026, 11, 18, 12, 30, 0, 0, time.UTC)

// bench is a server and a client of it.
type bench struct {
	t      testing.TB
	server *fakeads.Server
	data   *fakeads.Data
	addr   string
	meter  *adsclient.Meter
	tokens *adsclient.Tokens
	conns  *adsclient.Conns
}

func serve(t testing.TB, cfg fakeads.Config, change ...func(*adsclient.Config)) *bench {
	t.Helper()
	if cfg.Data == nil {
		d, err := fakeads.NewData(1, 30)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Data = d
	}
	cfg.Now = func() time.Time { return noon }
	s, err := fakeads.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(lis) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	b := &bench{t: t, server: s, data: cfg.Data, addr: lis.Addr().String(), meter: adsclient.NewMeter(0)}
	b.tokens, err = adsclient.NewTokens(adsclient.Credentials{ClientID: fakeads.ClientID, ClientSecret: fakeads.ClientSecret,
		RefreshToken: fakeads.RefreshToken, TokenURL: "http://" + b.addr + "/token"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.tokens.Close)
	conf := adsclient.Config{Endpoint: b.addr, Version: "v25", Plaintext: true, Conns: 2, Tokens: b.tokens, Meter: b.meter}
	for _, c := range change {
		c(&conf)
	}
	if b.conns, err = adsclient.Dial(t.Context(), conf); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.conns.Close() })
	return b
}

func (b *bench) root() string { return strconv.FormatInt(b.data.Root.ID, 10) }

// search fetches a report through the top manager.
func (b *bench) search(customer, query string) ([]*adspb.GoogleAdsRow, error) {
	var rows []*adspb.GoogleAdsRow
	err := b.conns.Client(adsclient.GoogleAds, 0).SearchStream(b.t.Context(), adsclient.Access{Customer: customer, Login: b.root()}, query,
		func(r []*adspb.GoogleAdsRow) { rows = append(rows, r...) })
	b.meter.Heard(customer, err)
	return rows, err
}

// customers returns the accounts with reports.
func (b *bench) customers() []string {
	b.t.Helper()
	rows, err := b.search(b.root(), "SELECT customer_client.id FROM customer_client WHERE customer_client.manager = FALSE AND customer_client.status = ENABLED")
	if err != nil {
		b.t.Fatal(err)
	}
	var ids []string
	for _, r := range rows {
		ids = append(ids, strconv.FormatInt(r.CustomerClient.GetId(), 10))
	}
	return ids
}

func codeOf(err error) string {
	f := adsclient.Failure(err)
	if f == nil || len(f.Errors) == 0 {
		return ""
	}
	name, _, _ := strings.Cut(adsclient.Describe(err), ":")
	return name
}

func TestReport(t *testing.T) {
	b := serve(t, fakeads.Config{Quota: ample, Batch: 10})
	top, err := b.conns.Client(adsclient.Customers, 1).ListAccessibleCustomers(t.Context())
	if err != nil || len(top) != 1 || top[0] != b.root() {
		t.Fatalf("accessible: %v, %v", top, err)
	}
	var sum, want fakeads.Totals
	for _, id := range b.customers() {
		rows, err := b.search(id, daily)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			m := r.GetMetrics()
			sum.Add(fakeads.Totals{Rows: 1, Impressions: m.GetImpressions(), Clicks: m.GetClicks(), CostMicros: m.GetCostMicros(), Conversions: m.GetConversions()})
		}
		n, _ := strconv.ParseInt(id, 10, 64)
		own, err := b.data.Totals(daily, noon, []int64{n})
		if err != nil {
			t.Fatal(err)
		}
		want.Add(own)
	}
	if sum != want || sum.Rows == 0 {
		t.Errorf("got %+v, the server's own totals are %+v", sum, want)
	}
	if seen, calls := b.server.Seen(), b.meter.Counts().Calls; seen.Calls != calls || seen.Accepted != calls || seen.Rows < sum.Rows {
		t.Errorf("the server saw %+v, the client made %d calls", seen, calls)
	}
}

func TestRefusals(t *testing.T) {
	b := serve(t, fakeads.Config{Quota: ample})
	client := b.customers()[0]
	var closed string
	all, err := b.search(b.root(), "SELECT customer_client.id FROM customer_client WHERE customer_client.status != ENABLED")
	if err != nil || len(all) == 0 {
		t.Fatalf("no closed account: %v", err)
	}
	closed = strconv.FormatInt(all[0].CustomerClient.GetId(), 10)
	for _, tc := range []struct {
		name, customer, query string
		code                  vendors.Code
		want                  string
	}{
		{"closed account", closed, daily, vendors.CodePermissionDenied, "CUSTOMER_NOT_ENABLED"},
		{"unknown account", "1234567890", daily, vendors.CodePermissionDenied, "USER_PERMISSION_DENIED"},
		{"no account", "12", daily, vendors.CodeInvalidArgument, "INVALID_CUSTOMER_ID"},
		{"no query", client, "", vendors.CodeInvalidArgument, "REQUIRED_FIELD_MISSING"},
		{"bad query", client, "SELECT FROM campaign", vendors.CodeInvalidArgument, "UNEXPECTED_INPUT"},
		{"unknown field", client, "SELECT campaign.colour FROM campaign", vendors.CodeInvalidArgument, "UNRECOGNIZED_FIELD"},
		{"metrics of a manager", b.root(), daily, vendors.CodeInvalidArgument, "REQUESTED_METRICS_FOR_MANAGER"},
	} {
		_, err := b.search(tc.customer, tc.query)
		e, ok := errors.AsType[*vendors.ResponseError](err)
		if !ok || e.Code != tc.code || codeOf(err) != tc.want {
			t.Errorf("%s: %v, %s", tc.name, err, codeOf(err))
		}
		if id := adsclient.Failure(err).GetRequestId(); len(id) != 22 {
			t.Errorf("%s: request ID %q", tc.name, id)
		}
		if _, limited := vendors.GoogleAds().DelayError(err); limited {
			t.Errorf("%s: taken for a rate limit", tc.name)
		}
	}
	// A client account cannot be had without its manager, nor through one that is none.
	for login, want := range map[string]string{"": "USER_PERMISSION_DENIED", client: "INVALID_LOGIN_CUSTOMER_ID"} {
		err := b.conns.Client(adsclient.GoogleAds, 0).SearchStream(t.Context(), adsclient.Access{Customer: client, Login: login}, daily, nil)
		if codeOf(err) != want {
			t.Errorf("login %q: %v", login, err)
		}
	}
}

// Streams that break off in the middle are asked for again; no row is counted
// twice as long as the rows of a broken stream are not counted.
func TestBrokenStreams(t *testing.T) {
	b := serve(t, fakeads.Config{Quota: ample, Batch: 20, FaultRate: 0.2})
	var ids []string
	for ids == nil {
		rows, err := b.search(b.root(), "SELECT customer_client.id FROM customer_client WHERE customer_client.manager = FALSE AND customer_client.status = ENABLED")
		for _, r := range rows {
			if err == nil {
				ids = append(ids, strconv.FormatInt(r.CustomerClient.GetId(), 10))
			}
		}
	}
	var rows, broken, partial int64
	var want fakeads.Totals
	for _, id := range ids {
		n, _ := strconv.ParseInt(id, 10, 64)
		own, err := b.data.Totals(daily, noon, []int64{n})
		if err != nil {
			t.Fatal(err)
		}
		want.Add(own)
		for {
			got, err := b.search(id, daily)
			if err == nil {
				rows += int64(len(got))
				break
			}
			if e, ok := errors.AsType[*vendors.ResponseError](err); !ok || e.Code != vendors.CodeUnavailable || codeOf(err) != "TRANSIENT_ERROR" {
				t.Fatal(err)
			}
			broken++
			partial += int64(len(got))
		}
	}
	if rows != want.Rows {
		t.Errorf("%d rows, want %d", rows, want.Rows)
	}
	if broken == 0 || partial == 0 {
		t.Errorf("%d streams broke, with %d rows: the test tests nothing", broken, partial)
	}
}

func TestOtherVersions(t *testing.T) {
	b := serve(t, fakeads.Config{Quota: vendortest.Quota{Rate: 0.001, Burst: 1}, Versions: []string{"v25", "v26"}}, func(c *adsclient.Config) { c.Version = "v26" })
	if _, err := b.search(b.root(), "SELECT customer.id FROM customer"); err != nil {
		t.Fatal(err)
	}
	_, err := b.search(b.root(), "SELECT customer.id FROM customer")
	e, _ := errors.AsType[*vendors.ResponseError](err)
	if _, limited := vendors.GoogleAds().DelayError(err); !limited || e.Trailer["google.ads.googleads.v26.errors.googleadsfailure-bin"] == nil {
		t.Errorf("v26: %v", err)
	}
	b = serve(t, fakeads.Config{Quota: ample}, func(c *adsclient.Config) { c.Version = "v19" })
	if _, err = b.search(b.root(), daily); codeOf(err) != "UNSUPPORTED_VERSION" {
		t.Errorf("v19: %v", err)
	}
}

// Pages add up to what a stream gives.
func TestPages(t *testing.T) {
	b := serve(t, fakeads.Config{Quota: ample, Batch: 50})
	cc, err := grpc.NewClient("passthrough:///"+b.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	token, err := b.tokens.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token, "login-customer-id", b.root())
	api := adspb.NewGoogleAdsServiceClient(cc)
	id := b.customers()[0]
	q := strings.Replace(daily, "segments.date FROM", "segments.date, segments.hour FROM", 1)
	want, err := b.search(id, q)
	if err != nil {
		t.Fatal(err)
	}
	req := &adspb.SearchGoogleAdsRequest{CustomerId: id, Query: q, SearchSettings: &adspb.SearchSettings{ReturnTotalResultsCount: true, ReturnSummaryRow: true}}
	rows, pages := 0, 0
	for {
		resp, err := api.Search(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.TotalResultsCount != int64(len(want)) || len(resp.Results) > 50 || resp.SummaryRow.GetMetrics().GetImpressions() == 0 || len(resp.FieldMask.GetPaths()) != 7 {
			t.Fatalf("page of %d rows, %d in all, want %d", len(resp.Results), resp.TotalResultsCount, len(want))
		}
		rows, pages = rows+len(resp.Results), pages+1
		if req.PageToken = resp.NextPageToken; req.PageToken == "" {
			break
		}
	}
	if rows != len(want) || pages < 2 {
		t.Errorf("%d rows in %d pages, want %d", rows, pages, len(want))
	}
	for name, req := range map[string]*adspb.SearchGoogleAdsRequest{
		"PAGE_SIZE_NOT_SUPPORTED": {CustomerId: id, Query: q, PageSize: 10},
		"INVALID_PAGE_TOKEN":      {CustomerId: id, Query: q, PageToken: "x"},
	} {
		_, err := api.Search(ctx, req)
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	if resp, err := api.Search(ctx, &adspb.SearchGoogleAdsRequest{CustomerId: id, Query: q, ValidateOnly: true}); err != nil || len(resp.Results) != 0 {
		t.Errorf("validate only: %v, %v", resp, err)
	}
}
