package fakeads

import (
	"testing"
	"time"
)

// noon is the moment the tests stand still at.
var noon = time.Date(2026, 11, 18, 12, 30, 0, 0, time.UTC)

func testData(t testing.TB, n int) *Data {
	t.Helper()
	d, err := NewData(1, n)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDataShape(t *testing.T) {
	const n = 2000
	d := testData(t, n)
	ids := d.Customers()
	if len(ids) != n {
		t.Fatalf("%d accounts in use, want %d", len(ids), n)
	}
	if len(d.byID) < n+n/50 {
		t.Errorf("%d accounts in all: no closed ones or no managers", len(d.byID))
	}
	campaigns, most, on := 0, 0, 0
	for _, id := range ids {
		if id < 1e9 || id >= 1e10 {
			t.Fatalf("account ID %d has not ten digits", id)
		}
		cs := d.Account(id).campaigns()
		campaigns, most = campaigns+len(cs), max(most, len(cs))
		for i := range cs {
			if cs[i].Status == campaignEnabled {
				on++
			}
		}
	}
	if mean := float64(campaigns) / n; mean < 11 || mean > 17 || most < 60 || most > 300 {
		t.Errorf("%.1f campaigns an account, at most %d; want about 14 and a long tail up to 300", mean, most)
	}
	if share := float64(on) / float64(campaigns); share < 0.57 || share > 0.63 {
		t.Errorf("%.2f of the campaigns run, want 0.6", share)
	}
}

func TestDataIsFunctionOfSeed(t *testing.T) {
	a, b := testData(t, 50), testData(t, 50)
	other, err := NewData(2, 50)
	if err != nil {
		t.Fatal(err)
	}
	q := "SELECT campaign.id, metrics.impressions, metrics.cost_micros, segments.date FROM campaign WHERE segments.date DURING LAST_7_DAYS"
	sum := func(d *Data) Totals {
		s, err := d.Totals(q, noon, d.Customers())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if sum(a) != sum(b) {
		t.Error("one seed gave two different data sets")
	}
	if sum(a) == sum(other) {
		t.Error("two seeds gave the same data set")
	}
}

// Every way to cut the same traffic adds up to the same.
func TestTotalsDoNotDependOnSegments(t *testing.T) {
	d := testData(t, 60)
	ids := d.Customers()
	metrics := "metrics.impressions, metrics.clicks, metrics.cost_micros, metrics.conversions"
	var want Totals
	for _, id := range ids { // straight from the metrics, without any query
		a := d.Account(id)
		today := dayOf(noon.In(a.loc))
		for _, c := range a.campaigns() {
			for day := today - 7; day < today; day++ {
				for h := range 24 {
					m := c.hour(day, h)
					want.Add(Totals{0, m.Impressions, m.Clicks, m.CostMicros, float64(m.Conversions)})
				}
			}
		}
	}
	if want.Impressions == 0 || want.Clicks == 0 || want.Conversions == 0 {
		t.Fatalf("empty data set: %+v", want)
	}
	rows := map[string]int64{}
	for _, q := range []string{
		"SELECT campaign.id, %, segments.date FROM campaign",
		"SELECT campaign.id, %, segments.date, segments.hour FROM campaign",
		"SELECT campaign.id, %, segments.hour FROM campaign",
		"SELECT campaign.id, % FROM campaign",
		"SELECT campaign.id, %, segments.device, segments.ad_network_type FROM campaign",
		"SELECT campaign.id, %, segments.week, segments.day_of_week FROM campaign",
		"SELECT customer.id, % FROM customer",
		"SELECT customer.id, %, segments.date, segments.hour, segments.device, segments.ad_network_type FROM customer",
		"SELECT ad_group.id, campaign.name, % FROM ad_group",
		"SELECT ad_group.id, %, segments.date, segments.device FROM ad_group",
		"SELECT campaign_budget.id, %, segments.month FROM campaign_budget",
	} {
		before, after, _ := cutAt(q)
		got, err := d.Totals(before+metrics+after+" WHERE segments.date DURING LAST_7_DAYS", noon, ids)
		if err != nil {
			t.Fatal(err)
		}
		rows[q], got.Rows = got.Rows, 0
		if got != want {
			t.Errorf("%s\n got %+v\nwant %+v", q, got, want)
		}
	}
	daily, hourly := rows["SELECT campaign.id, %, segments.date FROM campaign"], rows["SELECT campaign.id, %, segments.date, segments.hour FROM campaign"]
	if hourly < 10*daily || hourly > 24*daily {
		t.Errorf("%d rows by day and %d by hour", daily, hourly)
	}
}

func TestDuring(t *testing.T) {
	today, _ := parseDay("2026-11-18") // a Wednesday
	for _, tc := range []struct{ literal, first, last string }{
		{"TODAY", "2026-11-18", "2026-11-18"},
		{"YESTERDAY", "2026-11-17", "2026-11-17"},
		{"LAST_7_DAYS", "2026-11-11", "2026-11-17"},
		{"LAST_14_DAYS", "2026-11-04", "2026-11-17"},
		{"LAST_30_DAYS", "2026-10-19", "2026-11-17"},
		{"LAST_BUSINESS_WEEK", "2026-11-09", "2026-11-13"},
		{"THIS_WEEK_SUN_TODAY", "2026-11-15", "2026-11-18"},
		{"THIS_WEEK_MON_TODAY", "2026-11-16", "2026-11-18"},
		{"LAST_WEEK_SUN_SAT", "2026-11-08", "2026-11-14"},
		{"LAST_WEEK_MON_SUN", "2026-11-09", "2026-11-15"},
		{"THIS_MONTH", "2026-11-01", "2026-11-18"},
		{"LAST_MONTH", "2026-10-01", "2026-10-31"},
	} {
		first, last, ok := during(tc.literal, today)
		if !ok || first.String() != tc.first || last.String() != tc.last {
			t.Errorf("%s: %v to %v, %v; want %s to %s", tc.literal, first, last, ok, tc.first, tc.last)
		}
	}
	for d := day(-800); d < 30_000; d += 13 {
		if got, _ := parseDay(d.String()); got != d {
			t.Fatalf("day %d is %s is %d", d, d, got)
		}
		if int(d.time().Weekday()) != d.weekday() || d.week().weekday() != 1 || d.quarter().month() != d.quarter() {
			t.Fatalf("%s: wrong weekday, week or quarter", d)
		}
	}
}

func TestLike(t *testing.T) {
	for _, tc := range []struct {
		s, pattern string
		want       bool
	}{
		{"", "", true}, {"", "%", true}, {"a", "", false}, {"abc", "abc", true}, {"abc", "a%", true}, {"abc", "%c", true}, {"abc", "%b%", true},
		{"abc", "a_c", true}, {"abc", "a_", false}, {"50% off", "50[%] %", true}, {"500 off", "50[%] %", false}, {"a_b", "a[_]b", true}, {"axb", "a[_]b", false},
		{"aaaaaaaaab", "%a%a%a%a%c", false}, {"abcabc", "%abc", true}, {"abc", "%%%", true}, {"x]", "x]", true}, {"[x", "[x", true},
	} {
		if got := like(tc.s, tc.pattern); got != tc.want {
			t.Errorf("%q like %q: %v", tc.s, tc.pattern, got)
		}
	}
}

func BenchmarkHour(b *testing.B) {
	c := testData(b, 1)
	camp := &c.Account(c.Customers()[0]).campaigns()[0]
	camp.Status = campaignEnabled
	i := 0
	for b.Loop() {
		camp.hour(20_000+day(i/24), i%24)
		i++
	}
}
