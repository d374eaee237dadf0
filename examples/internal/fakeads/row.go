package fakeads

import "github.com/flyball-go/flyball/examples/internal/adspb"

// item is one row before it is written: what it is about, and what it measured.
type item struct {
	acct   *Account // whose report it is
	camp   *Campaign
	group  int      // an ad group of camp
	client *Account // a row of customer_client
	level  int64    // its distance from acct
	seg    segment
	m      Metrics
}

// segment is what splits the rows of one entity. Fields that were not selected
// are zero.
type segment struct {
	date, week, month, quarter day
	year                       int32
	weekday                    int8 // from Sunday
	hour                       int8
	device                     int8 // index into deviceParts
	network                    adspb.AdNetworkTypeEnum_AdNetworkType
}

// value is the value of a field; which part counts depends on the field's kind.
type value struct {
	i int64 // kindInt, kindBool, kindEnum
	f float64
	s string // kindString, kindDate
}

// row holds one GoogleAdsRow and all it can point to, so that writing a million
// rows allocates for one.
type row struct {
	msg      adspb.GoogleAdsRow
	customer adspb.Customer
	client   adspb.CustomerClient
	campaign adspb.Campaign
	group    adspb.AdGroup
	budget   adspb.CampaignBudget
	metrics  adspb.Metrics
	segments adspb.Segments
}

// use makes a resource part of the row. Parts that are not used stay nil.
func (r *row) use(resource string) {
	switch resource {
	case "customer":
		r.msg.Customer = &r.customer
	case "customer_client":
		r.msg.CustomerClient = &r.client
	case "campaign":
		r.msg.Campaign = &r.campaign
	case "ad_group":
		r.msg.AdGroup = &r.group
	case "campaign_budget":
		r.msg.CampaignBudget = &r.budget
	case "metrics":
		r.msg.Metrics = &r.metrics
	case "segments":
		r.msg.Segments = &r.segments
	}
}

// set writes v through an optional field, whose place is kept for the next row.
func set[T any](p **T, v T) {
	if *p == nil {
		*p = new(T)
	}
	**p = v
}
