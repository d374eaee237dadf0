package fakeads

import (
	"fmt"
	"math"
	"strconv"

	"github.com/flyball-go/flyball/examples/internal/adspb"
)

// The states of campaigns and ad groups, and the networks they are shown on.
const (
	campaignEnabled = adspb.CampaignStatusEnum_ENABLED
	campaignPaused  = adspb.CampaignStatusEnum_PAUSED
	campaignRemoved = adspb.CampaignStatusEnum_REMOVED
)

// Campaign is one campaign of an account, with its budget and its ad groups.
type Campaign struct {
	ID       int64
	Name     string
	Status   adspb.CampaignStatusEnum_CampaignStatus
	Channel  adspb.AdvertisingChannelTypeEnum_AdvertisingChannelType
	Network  adspb.AdNetworkTypeEnum_AdNetworkType
	BudgetID int64
	Budget   int64 // micros a day
	Groups   int   // ad groups, at least 1

	resource       string
	budgetResource string
	seed           uint64
	base           float64 // impressions in a mean hour
	ctr            float64 // clicks an impression
	cpc            float64 // micros a click
	rate           float64 // conversions a click
	cents          int64   // value of a conversion
	shift          int     // hours by which its day is late
}

type channel struct {
	kind    adspb.AdvertisingChannelTypeEnum_AdvertisingChannelType
	network adspb.AdNetworkTypeEnum_AdNetworkType
	name    string
}

var channels = []choice[channel]{
	{46, channel{adspb.AdvertisingChannelTypeEnum_SEARCH, adspb.AdNetworkTypeEnum_SEARCH, "Search"}},
	{14, channel{adspb.AdvertisingChannelTypeEnum_PERFORMANCE_MAX, adspb.AdNetworkTypeEnum_MIXED, "Performance Max"}},
	{14, channel{adspb.AdvertisingChannelTypeEnum_DISPLAY, adspb.AdNetworkTypeEnum_CONTENT, "Display"}},
	{12, channel{adspb.AdvertisingChannelTypeEnum_SHOPPING, adspb.AdNetworkTypeEnum_SEARCH, "Shopping"}},
	{8, channel{adspb.AdvertisingChannelTypeEnum_VIDEO, adspb.AdNetworkTypeEnum_YOUTUBE, "Video"}},
	{6, channel{adspb.AdvertisingChannelTypeEnum_DEMAND_GEN, adspb.AdNetworkTypeEnum_MIXED, "Demand Gen"}},
}

var campaignStates = []choice[adspb.CampaignStatusEnum_CampaignStatus]{{60, campaignEnabled}, {30, campaignPaused}, {10, campaignRemoved}}

var themes = []string{"Brand", "Generic", "Competitors", "Spring", "Summer", "Winter", "Clearance", "Launch", "Local", "Remarketing", "Prospecting", "Loyalty"}

// campaigns makes an account's campaigns: few in most accounts, hundreds in
// some.
func (a *Account) campaigns() []Campaign {
	if a.Manager {
		return nil
	}
	r := source(a.seed, 0)
	n := int(min(max(1, math.Round(9*math.Exp(0.94*r.NormFloat64()))), 300))
	cs := make([]Campaign, n)
	prefix := a.resource()
	id := 1_000_000_000 + r.Int64N(20_000_000_000)
	for i := range cs {
		ch := pick(r, channels)
		id += 1 + r.Int64N(5_000_000)
		c := &cs[i]
		*c = Campaign{
			ID: id, Status: pick(r, campaignStates), Channel: ch.kind, Network: ch.network,
			Name:     fmt.Sprintf("%s | %s | %02d", ch.name, themes[r.IntN(len(themes))], i+1),
			BudgetID: id/2 + 7,
			Budget:   int64(math.Round(25*math.Exp(r.NormFloat64()))+1) * 1_000_000,
			Groups:   1 + r.IntN(5),
			seed:     mix(a.seed ^ uint64(id)),
			base:     12 * math.Exp(1.6*r.NormFloat64()),
			ctr:      0.01 + 0.06*r.Float64(),
			cpc:      200_000 + 2_500_000*r.Float64(),
			rate:     0.01 + 0.05*r.Float64(),
			cents:    1000 + r.Int64N(15_000),
			shift:    r.IntN(3),
		}
		c.resource = prefix + "/campaigns/" + strconv.FormatInt(c.ID, 10)
		c.budgetResource = prefix + "/campaignBudgets/" + strconv.FormatInt(c.BudgetID, 10)
	}
	return cs
}

// An ad group has a number, a name and a bid that follow from its campaign.

func (c *Campaign) groupID(i int) int64    { return c.ID*8 + int64(i) }
func (c *Campaign) groupName(i int) string { return "Ad group " + strconv.Itoa(i+1) }
func (c *Campaign) groupBid(i int) int64   { return int64(c.cpc) / 10_000 * 10_000 * int64(i+4) / 4 }

func (c *Campaign) groupStatus(i int) adspb.AdGroupStatusEnum_AdGroupStatus {
	if i > 0 && mix(c.seed+uint64(i))%5 == 0 {
		return adspb.AdGroupStatusEnum_PAUSED
	}
	return adspb.AdGroupStatusEnum_ENABLED
}
