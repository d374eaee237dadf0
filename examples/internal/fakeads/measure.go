package fakeads

import "github.com/flyball-go/flyball/examples/internal/adspb"

// The fields of metrics and segments.
func init() {
	defineInt("metrics.impressions", func(it *item) int64 { return it.m.Impressions }, func(r *row) **int64 { return &r.metrics.Impressions })
	defineInt("metrics.clicks", func(it *item) int64 { return it.m.Clicks }, func(r *row) **int64 { return &r.metrics.Clicks })
	defineInt("metrics.interactions", func(it *item) int64 { return it.m.Clicks }, func(r *row) **int64 { return &r.metrics.Interactions })
	defineInt("metrics.cost_micros", func(it *item) int64 { return it.m.CostMicros }, func(r *row) **int64 { return &r.metrics.CostMicros })
	defineFloat("metrics.conversions", func(it *item) float64 { return float64(it.m.Conversions) }, func(r *row) **float64 { return &r.metrics.Conversions })
	defineFloat("metrics.conversions_value", func(it *item) float64 { return float64(it.m.ValueCents) / 100 }, func(r *row) **float64 { return &r.metrics.ConversionsValue })
	defineFloat("metrics.ctr", func(it *item) float64 { return ratio(it.m.Clicks, it.m.Impressions) }, func(r *row) **float64 { return &r.metrics.Ctr })
	defineFloat("metrics.average_cpc", func(it *item) float64 { return ratio(it.m.CostMicros, it.m.Clicks) }, func(r *row) **float64 { return &r.metrics.AverageCpc })

	defineDate("segments.date", func(s *segment) day { return s.date }, func(r *row) **string { return &r.segments.Date })
	defineDate("segments.week", func(s *segment) day { return s.week }, func(r *row) **string { return &r.segments.Week })
	defineDate("segments.month", func(s *segment) day { return s.month }, func(r *row) **string { return &r.segments.Month })
	defineDate("segments.quarter", func(s *segment) day { return s.quarter }, func(r *row) **string { return &r.segments.Quarter })
	define("segments.year", kindInt, func(it *item) value { return value{i: int64(it.seg.year)} },
		func(r *row, v value) { set(&r.segments.Year, int32(v.i)) }).core = true
	define("segments.hour", kindInt, func(it *item) value { return value{i: int64(it.seg.hour)} },
		func(r *row, v value) { set(&r.segments.Hour, int32(v.i)) })
	defineEnum("segments.day_of_week", adspb.DayOfWeekEnum_DayOfWeek_value,
		func(it *item) adspb.DayOfWeekEnum_DayOfWeek {
			return adspb.DayOfWeekEnum_MONDAY + adspb.DayOfWeekEnum_DayOfWeek((it.seg.weekday+6)%7)
		},
		func(r *row) *adspb.DayOfWeekEnum_DayOfWeek { return &r.segments.DayOfWeek })
	defineEnum("segments.device", adspb.DeviceEnum_Device_value,
		func(it *item) adspb.DeviceEnum_Device {
			return adspb.DeviceEnum_MOBILE + adspb.DeviceEnum_Device(it.seg.device)
		},
		func(r *row) *adspb.DeviceEnum_Device { return &r.segments.Device })
	defineEnum("segments.ad_network_type", adspb.AdNetworkTypeEnum_AdNetworkType_value,
		func(it *item) adspb.AdNetworkTypeEnum_AdNetworkType { return it.seg.network },
		func(r *row) *adspb.AdNetworkTypeEnum_AdNetworkType { return &r.segments.AdNetworkType })
}

// defineDate defines a core date segment.
func defineDate(name string, get func(*segment) day, at func(*row) **string) {
	define(name, kindDate, func(it *item) value {
		d := get(&it.seg)
		return value{i: int64(d), s: dayText(d)}
	}, func(r *row, v value) { set(at(r), v.s) }).core = true
}

func ratio(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// dayTexts are the days of the years in which the example may be run, since
// every row of a daily report shows one.
var dayTexts = func() []string {
	texts := make([]string, lastText-firstText+1)
	for i := range texts {
		texts[i] = (firstText + day(i)).String()
	}
	return texts
}()

const (
	firstText day = 20_000 // 2024-10-04
	lastText  day = 25_000
)

func dayText(d day) string {
	if d >= firstText && d <= lastText {
		return dayTexts[d-firstText]
	}
	return d.String()
}
