package fakeads

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/flyball-go/flyball/examples/internal/adspb"
	"github.com/flyball-go/flyball/examples/internal/gaql"
)

func cutAt(q string) (before, after string, ok bool) { return strings.Cut(q, "%") }

// query runs a query on an account and decodes the rows.
func query(t testing.TB, d *Data, id int64, text string) ([]*adspb.GoogleAdsRow, error) {
	t.Helper()
	q, err := gaql.Parse(text)
	if err != nil {
		return nil, err
	}
	a := d.Account(id)
	local := noon.In(a.loc)
	p, e := compile(q, a, dayOf(local))
	if e != nil {
		return nil, e
	}
	b := newBatch(p)
	p.run(a, dayOf(local), local.Hour(), func(it *item) bool {
		if err := b.add(it); err != nil {
			t.Fatal(err)
		}
		return true
	})
	f, err := b.end(&adspb.SearchGoogleAdsStreamResponse{RequestId: "x"})
	if err != nil {
		t.Fatal(err)
	}
	var resp adspb.SearchGoogleAdsStreamResponse
	if err := proto.Unmarshal(*f.buf, &resp); err != nil {
		t.Fatal(err)
	}
	if resp.RequestId != "x" {
		t.Error("the rest of the message is lost")
	}
	return resp.Results, nil
}

func TestQueryErrors(t *testing.T) {
	d := testData(t, 3)
	client := d.Customers()[0]
	for _, tc := range []struct {
		q    string
		code adspb.QueryErrorEnum_QueryError
	}{
		{"SELECT x.id FROM nothing", adspb.QueryErrorEnum_BAD_RESOURCE_TYPE_IN_FROM_CLAUSE},
		{"SELECT campaign.colour FROM campaign", adspb.QueryErrorEnum_UNRECOGNIZED_FIELD},
		{"SELECT campaign.id FROM campaign WHERE campaign.colour = 1", adspb.QueryErrorEnum_UNRECOGNIZED_FIELD},
		{"SELECT ad_group.id FROM campaign", adspb.QueryErrorEnum_PROHIBITED_RESOURCE_TYPE_IN_SELECT_CLAUSE},
		{"SELECT campaign.id FROM campaign WHERE ad_group.id = 1", adspb.QueryErrorEnum_PROHIBITED_RESOURCE_TYPE_IN_WHERE_CLAUSE},
		{"SELECT customer_client.id, metrics.clicks FROM customer_client", adspb.QueryErrorEnum_PROHIBITED_METRIC_IN_SELECT_OR_WHERE_CLAUSE},
		{"SELECT customer_client.id, segments.hour FROM customer_client", adspb.QueryErrorEnum_PROHIBITED_SEGMENT_IN_SELECT_OR_WHERE_CLAUSE},
		{"SELECT campaign.id, segments.date FROM campaign", adspb.QueryErrorEnum_EXPECTED_FILTERS_ON_DATE_RANGE},
		{"SELECT campaign.id, segments.date FROM campaign WHERE segments.date > '2026-01-01'", adspb.QueryErrorEnum_EXPECTED_FILTERS_ON_DATE_RANGE},
		{"SELECT campaign.id FROM campaign WHERE segments.hour = 3", adspb.QueryErrorEnum_EXPECTED_REFERENCED_FIELD_IN_SELECT_CLAUSE},
		{"SELECT campaign.id FROM campaign ORDER BY metrics.clicks", adspb.QueryErrorEnum_EXPECTED_REFERENCED_FIELD_IN_SELECT_CLAUSE},
		{"SELECT campaign.id FROM campaign WHERE campaign.status = 'GONE'", adspb.QueryErrorEnum_BAD_ENUM_CONSTANT},
		{"SELECT campaign.id FROM campaign WHERE campaign.status > ENABLED", adspb.QueryErrorEnum_OPERATOR_FIELD_MISMATCH},
		{"SELECT campaign.id FROM campaign WHERE campaign.id LIKE '1%'", adspb.QueryErrorEnum_OPERATOR_FIELD_MISMATCH},
		{"SELECT campaign.id FROM campaign WHERE campaign.id DURING TODAY", adspb.QueryErrorEnum_OPERATOR_FIELD_MISMATCH},
		{"SELECT campaign.id FROM campaign WHERE campaign.id = x", adspb.QueryErrorEnum_BAD_VALUE},
		{"SELECT campaign.id FROM campaign WHERE campaign.name = x", adspb.QueryErrorEnum_BAD_VALUE},
		{"SELECT campaign.id FROM campaign WHERE metrics.ctr > x", adspb.QueryErrorEnum_BAD_VALUE},
		{"SELECT customer.id FROM customer WHERE customer.manager = 3", adspb.QueryErrorEnum_BAD_VALUE},
		{"SELECT campaign.id FROM campaign WHERE segments.date = '2026-13-01'", adspb.QueryErrorEnum_INVALID_DATE_FORMAT},
		{"SELECT campaign.id FROM campaign WHERE segments.date DURING LAST_9_DAYS", adspb.QueryErrorEnum_INVALID_VALUE_WITH_DURING_OPERATOR},
		{"SELECT campaign.id FROM campaign PARAMETERS speed = 1", adspb.QueryErrorEnum_BAD_PARAMETER_VALUE},
		{"SELECT campaign.id FROM campaign PARAMETERS speed = true", adspb.QueryErrorEnum_BAD_PARAMETER_NAME},
	} {
		_, err := query(t, d, client, tc.q)
		if e, ok := errors.AsType[*gaql.Error](err); !ok || e.Code != tc.code {
			t.Errorf("%s: got %v, want %v", tc.q, err, tc.code)
		}
	}
	_, err := query(t, d, d.Root.ID, "SELECT campaign.id, metrics.clicks FROM campaign")
	if e, ok := errors.AsType[*gaql.Error](err); !ok || e.Code != adspb.QueryErrorEnum_REQUESTED_METRICS_FOR_MANAGER {
		t.Errorf("metrics of a manager: %v", err)
	}
}

func TestQueryRows(t *testing.T) {
	d := testData(t, 40)
	ids := d.Customers()
	id := ids[0]
	for _, other := range ids { // one with much to choose from
		if len(d.Account(other).campaigns()) > len(d.Account(id).campaigns()) {
			id = other
		}
	}
	get := func(q string) []*adspb.GoogleAdsRow {
		t.Helper()
		rows, err := query(t, d, id, q)
		if err != nil {
			t.Fatalf("%s: %v", q, err)
		}
		return rows
	}
	all := get("SELECT campaign.id FROM campaign")
	if len(all) != len(d.Account(id).campaigns()) || all[0].Campaign.GetResourceName() == "" || all[0].Campaign.Name != nil || all[0].Metrics != nil {
		t.Errorf("%d campaigns, first %v", len(all), all[0])
	}
	if bare := get("SELECT campaign.id FROM campaign LIMIT 1 PARAMETERS omit_unselected_resource_names = true"); bare[0].Campaign.ResourceName != "" || len(bare) != 1 {
		t.Errorf("names not omitted, or limit ignored: %v", bare)
	}
	on := get("SELECT campaign.id FROM campaign WHERE campaign.status = ENABLED")
	off := get("SELECT campaign.id, campaign.status FROM campaign WHERE campaign.status NOT IN (ENABLED)")
	if len(on) == 0 || len(off) == 0 || len(on)+len(off) != len(all) {
		t.Errorf("%d on, %d off, %d in all", len(on), len(off), len(all))
	}
	search := get("SELECT campaign.id, campaign.name, campaign.advertising_channel_type FROM campaign WHERE campaign.name LIKE 'Search |%' ORDER BY campaign.name DESC")
	for i, r := range search {
		if r.Campaign.AdvertisingChannelType != adspb.AdvertisingChannelTypeEnum_SEARCH || i > 0 && *search[i-1].Campaign.Name < *r.Campaign.Name {
			t.Errorf("row %d: %v", i, r.Campaign)
		}
	}
	// Without a segment idle campaigns stay, with one they vanish.
	week := " WHERE segments.date DURING LAST_7_DAYS"
	if n := len(get("SELECT campaign.id, metrics.clicks FROM campaign" + week)); n != len(all) {
		t.Errorf("%d rows without segments, want %d", n, len(all))
	}
	for _, r := range get("SELECT campaign.id, campaign.status, metrics.impressions, segments.date, segments.day_of_week FROM campaign" + week) {
		d, _ := parseDay(*r.Segments.Date)
		if r.Metrics.GetImpressions() == 0 || r.Campaign.Status != adspb.CampaignStatusEnum_ENABLED || (int(r.Segments.DayOfWeek)-1)%7 != d.weekday() {
			t.Fatalf("row %v", r)
		}
	}
	hours := get("SELECT campaign.id, segments.hour, metrics.impressions FROM campaign" + week + " AND segments.hour BETWEEN 8 AND 9 AND metrics.impressions > 5 ORDER BY metrics.impressions DESC, segments.hour")
	for i, r := range hours {
		if h := r.Segments.GetHour(); h < 8 || h > 9 || r.Metrics.GetImpressions() <= 5 || i > 0 && *hours[i-1].Metrics.Impressions < *r.Metrics.Impressions {
			t.Fatalf("row %d: %v", i, r)
		}
	}
	if len(hours) == 0 {
		t.Error("no rows by hour")
	}
	today := get("SELECT campaign.id, segments.date, segments.hour, metrics.clicks FROM campaign WHERE segments.date >= '2026-11-17' AND segments.date <= '2030-01-01'")
	for _, r := range today {
		if d := *r.Segments.Date; d > "2026-11-18" || d == "2026-11-18" && r.Segments.GetHour() > 23 {
			t.Fatalf("row from the future: %v", r)
		}
	}
	months := get("SELECT customer.id, segments.month, segments.quarter, segments.year, segments.week, metrics.clicks FROM customer WHERE segments.date BETWEEN '2026-09-28' AND '2026-10-04'")
	var got []string
	for _, r := range months {
		got = append(got, *r.Segments.Month+" "+*r.Segments.Quarter+" "+*r.Segments.Week)
	}
	if want := []string{"2026-09-01 2026-07-01 2026-09-28", "2026-10-01 2026-10-01 2026-09-28"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if n := len(get("SELECT campaign.id, metrics.clicks, segments.date FROM campaign WHERE segments.date BETWEEN '2026-11-17' AND '2026-11-10'")); n != 0 {
		t.Errorf("%d rows in a range that ends before it begins", n)
	}
}

func TestCustomerClients(t *testing.T) {
	d := testData(t, 300)
	all, err := query(t, d, d.Root.ID, "SELECT customer_client.id, customer_client.level, customer_client.manager, customer_client.status FROM customer_client")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != len(d.byID) || all[0].CustomerClient.GetId() != d.Root.ID || all[0].CustomerClient.GetLevel() != 0 {
		t.Errorf("%d rows of %d accounts, first %v", len(all), len(d.byID), all[0])
	}
	some, err := query(t, d, d.Root.ID, "SELECT customer_client.id FROM customer_client WHERE customer_client.manager = FALSE AND customer_client.status = 'ENABLED' AND customer_client.level <= 2")
	if err != nil {
		t.Fatal(err)
	}
	if len(some) != 300 {
		t.Errorf("%d accounts in use, want 300", len(some))
	}
}

func BenchmarkHourlyRows(b *testing.B) {
	d := testData(b, 200)
	ids := d.Customers()
	rows, i := 0, 0
	for b.Loop() {
		got := streamOnce(b, d, ids[i%len(ids)], "SELECT campaign.id, campaign.name, segments.date, segments.hour, metrics.impressions, metrics.clicks, metrics.cost_micros, metrics.conversions FROM campaign WHERE segments.date DURING LAST_7_DAYS")
		rows += got
		i++
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
}

// streamOnce encodes a report and throws it away.
func streamOnce(t testing.TB, d *Data, id int64, text string) int {
	q, err := gaql.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	a := d.Account(id)
	p, e := compile(q, a, dayOf(noon.In(a.loc)))
	if e != nil {
		t.Fatal(e)
	}
	batch := newBatch(p)
	defer batch.drop()
	p.run(a, dayOf(noon.In(a.loc)), noon.In(a.loc).Hour(), func(it *item) bool { return batch.add(it) == nil })
	return batch.rows
}

// Whatever a client asks, the server answers with rows or with a query error.
func FuzzQuery(f *testing.F) {
	for _, s := range []string{
		"SELECT campaign.id, metrics.clicks, segments.date FROM campaign WHERE segments.date DURING LAST_7_DAYS ORDER BY metrics.clicks DESC LIMIT 3",
		"SELECT customer.id, segments.device, segments.hour, segments.week, metrics.ctr FROM customer WHERE segments.week = '2026-11-09' AND segments.device IN (MOBILE)",
		"SELECT ad_group.name FROM ad_group WHERE ad_group.name NOT LIKE '%[_]%' AND campaign.id IS NOT NULL PARAMETERS include_drafts = true",
		"SELECT customer_client.level FROM customer_client WHERE customer_client.level BETWEEN 1 AND 2",
		"SELECT campaign_budget.id, segments.year, metrics.conversions_value FROM campaign_budget WHERE segments.date BETWEEN '00010101' AND '9999-12-31'",
	} {
		f.Add(s)
	}
	d := testData(f, 2)
	ids := append(d.Customers(), d.Root.ID)
	f.Fuzz(func(t *testing.T, text string) {
		for _, id := range ids {
			if _, err := query(t, d, id, text); err != nil {
				if e, ok := errors.AsType[*gaql.Error](err); !ok || e.Code <= adspb.QueryErrorEnum_UNKNOWN {
					t.Fatalf("%q: %v", text, err)
				}
			}
		}
	})
}
