package fakeads

import (
	"strconv"
	"strings"

	"github.com/flyball-go/flyball/examples/internal/adspb"
)

type kind uint8

const (
	kindInt kind = iota
	kindFloat
	kindBool
	kindString
	kindDate // a string that is a day
	kindEnum
)

// field is one name of the query language: how to read it off an item, and how
// to write it to a row.
type field struct {
	name     string
	resource string // the part of name before the point
	kind     kind
	enum     map[string]int32 // the constants, of kindEnum
	core     bool             // a date segment: may restrict without being selected
	get      func(*item) value
	put      func(*row, value)
}

func (f *field) metric() bool  { return f.resource == "metrics" }
func (f *field) segment() bool { return f.resource == "segments" }

// fields are all fields there are, by name.
var fields = map[string]*field{}

func define(name string, k kind, get func(*item) value, put func(*row, value)) *field {
	f := &field{name: name, kind: k, get: get, put: put}
	f.resource, _, _ = strings.Cut(name, ".")
	fields[name] = f
	return f
}

// The define functions below are for one kind each.

func defineInt(name string, get func(*item) int64, at func(*row) **int64) {
	define(name, kindInt, func(it *item) value { return value{i: get(it)} }, func(r *row, v value) { set(at(r), v.i) })
}

func defineFloat(name string, get func(*item) float64, at func(*row) **float64) {
	define(name, kindFloat, func(it *item) value { return value{f: get(it)} }, func(r *row, v value) { set(at(r), v.f) })
}

func defineBool(name string, get func(*item) bool, at func(*row) **bool) {
	define(name, kindBool, func(it *item) value { return value{i: number(get(it))} }, func(r *row, v value) { set(at(r), v.i == 1) })
}

func defineString(name string, get func(*item) string, at func(*row) **string) {
	define(name, kindString, func(it *item) value { return value{s: get(it)} }, func(r *row, v value) { set(at(r), v.s) })
}

func defineName(resource string, get func(*item) string, at func(*row) *string) {
	define(resource+".resource_name", kindString, func(it *item) value { return value{s: get(it)} }, func(r *row, v value) { *at(r) = v.s })
}

func defineEnum[E ~int32](name string, constants map[string]int32, get func(*item) E, at func(*row) *E) {
	define(name, kindEnum, func(it *item) value { return value{i: int64(get(it))} }, func(r *row, v value) { *at(r) = E(v.i) }).enum = constants
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func init() {
	defineName("customer", func(it *item) string { return it.acct.resource() }, func(r *row) *string { return &r.customer.ResourceName })
	defineInt("customer.id", func(it *item) int64 { return it.acct.ID }, func(r *row) **int64 { return &r.customer.Id })
	defineString("customer.descriptive_name", func(it *item) string { return it.acct.Name }, func(r *row) **string { return &r.customer.DescriptiveName })
	defineString("customer.currency_code", func(it *item) string { return it.acct.Currency }, func(r *row) **string { return &r.customer.CurrencyCode })
	defineString("customer.time_zone", func(it *item) string { return it.acct.TimeZone }, func(r *row) **string { return &r.customer.TimeZone })
	defineBool("customer.manager", func(it *item) bool { return it.acct.Manager }, func(r *row) **bool { return &r.customer.Manager })
	defineBool("customer.test_account", func(*item) bool { return false }, func(r *row) **bool { return &r.customer.TestAccount })
	defineEnum("customer.status", adspb.CustomerStatusEnum_CustomerStatus_value,
		func(it *item) adspb.CustomerStatusEnum_CustomerStatus { return it.acct.Status },
		func(r *row) *adspb.CustomerStatusEnum_CustomerStatus { return &r.customer.Status })

	defineName("customer_client", func(it *item) string {
		return it.acct.resource() + "/customerClients/" + strconv.FormatInt(it.client.ID, 10)
	}, func(r *row) *string { return &r.client.ResourceName })
	defineInt("customer_client.id", func(it *item) int64 { return it.client.ID }, func(r *row) **int64 { return &r.client.Id })
	defineInt("customer_client.level", func(it *item) int64 { return it.level }, func(r *row) **int64 { return &r.client.Level })
	defineString("customer_client.client_customer", func(it *item) string { return it.client.resource() }, func(r *row) **string { return &r.client.ClientCustomer })
	defineString("customer_client.descriptive_name", func(it *item) string { return it.client.Name }, func(r *row) **string { return &r.client.DescriptiveName })
	defineString("customer_client.currency_code", func(it *item) string { return it.client.Currency }, func(r *row) **string { return &r.client.CurrencyCode })
	defineString("customer_client.time_zone", func(it *item) string { return it.client.TimeZone }, func(r *row) **string { return &r.client.TimeZone })
	defineBool("customer_client.manager", func(it *item) bool { return it.client.Manager }, func(r *row) **bool { return &r.client.Manager })
	defineBool("customer_client.hidden", func(*item) bool { return false }, func(r *row) **bool { return &r.client.Hidden })
	defineBool("customer_client.test_account", func(*item) bool { return false }, func(r *row) **bool { return &r.client.TestAccount })
	defineEnum("customer_client.status", adspb.CustomerStatusEnum_CustomerStatus_value,
		func(it *item) adspb.CustomerStatusEnum_CustomerStatus { return it.client.Status },
		func(r *row) *adspb.CustomerStatusEnum_CustomerStatus { return &r.client.Status })

	defineName("campaign", func(it *item) string { return it.camp.resource }, func(r *row) *string { return &r.campaign.ResourceName })
	defineInt("campaign.id", func(it *item) int64 { return it.camp.ID }, func(r *row) **int64 { return &r.campaign.Id })
	defineString("campaign.name", func(it *item) string { return it.camp.Name }, func(r *row) **string { return &r.campaign.Name })
	defineString("campaign.campaign_budget", func(it *item) string { return it.camp.budgetResource }, func(r *row) **string { return &r.campaign.CampaignBudget })
	defineEnum("campaign.status", adspb.CampaignStatusEnum_CampaignStatus_value,
		func(it *item) adspb.CampaignStatusEnum_CampaignStatus { return it.camp.Status },
		func(r *row) *adspb.CampaignStatusEnum_CampaignStatus { return &r.campaign.Status })
	defineEnum("campaign.advertising_channel_type", adspb.AdvertisingChannelTypeEnum_AdvertisingChannelType_value,
		func(it *item) adspb.AdvertisingChannelTypeEnum_AdvertisingChannelType { return it.camp.Channel },
		func(r *row) *adspb.AdvertisingChannelTypeEnum_AdvertisingChannelType {
			return &r.campaign.AdvertisingChannelType
		})

	defineName("ad_group", func(it *item) string {
		return it.acct.resource() + "/adGroups/" + strconv.FormatInt(it.camp.groupID(it.group), 10)
	}, func(r *row) *string { return &r.group.ResourceName })
	defineInt("ad_group.id", func(it *item) int64 { return it.camp.groupID(it.group) }, func(r *row) **int64 { return &r.group.Id })
	defineString("ad_group.name", func(it *item) string { return it.camp.groupName(it.group) }, func(r *row) **string { return &r.group.Name })
	defineString("ad_group.campaign", func(it *item) string { return it.camp.resource }, func(r *row) **string { return &r.group.Campaign })
	defineInt("ad_group.cpc_bid_micros", func(it *item) int64 { return it.camp.groupBid(it.group) }, func(r *row) **int64 { return &r.group.CpcBidMicros })
	defineEnum("ad_group.status", adspb.AdGroupStatusEnum_AdGroupStatus_value,
		func(it *item) adspb.AdGroupStatusEnum_AdGroupStatus { return it.camp.groupStatus(it.group) },
		func(r *row) *adspb.AdGroupStatusEnum_AdGroupStatus { return &r.group.Status })

	defineName("campaign_budget", func(it *item) string { return it.camp.budgetResource }, func(r *row) *string { return &r.budget.ResourceName })
	defineInt("campaign_budget.id", func(it *item) int64 { return it.camp.BudgetID }, func(r *row) **int64 { return &r.budget.Id })
	defineString("campaign_budget.name", func(it *item) string { return it.camp.Name + " budget" }, func(r *row) **string { return &r.budget.Name })
	defineInt("campaign_budget.amount_micros", func(it *item) int64 { return it.camp.Budget }, func(r *row) **int64 { return &r.budget.AmountMicros })
}
