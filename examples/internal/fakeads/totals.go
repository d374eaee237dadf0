package fakeads

import (
	"slices"
	"time"

	"github.com/flyball-go/flyball/examples/internal/gaql"
)

// Totals is what a report adds up to.
type Totals struct {
	Rows        int64
	Impressions int64
	Clicks      int64
	CostMicros  int64
	Conversions float64 // whole numbers, so that sums are exact
}

// Add adds other totals to t.
func (t *Totals) Add(o Totals) {
	t.Rows += o.Rows
	t.Impressions += o.Impressions
	t.Clicks += o.Clicks
	t.CostMicros += o.CostMicros
	t.Conversions += o.Conversions
}

// Totals returns what a query adds up to over the given accounts, without any
// server: what a client must arrive at when no row is lost or counted twice.
// Metrics that the query does not select stay 0.
func (d *Data) Totals(query string, now time.Time, customers []int64) (Totals, error) {
	var sum Totals
	q, err := gaql.Parse(query)
	if err != nil {
		return sum, err
	}
	for _, id := range customers {
		a := d.Account(id)
		if a == nil {
			continue
		}
		local := now.In(a.loc)
		p, err := compile(q, a, dayOf(local))
		if err != nil {
			return sum, err
		}
		p.run(a, dayOf(local), local.Hour(), func(it *item) bool {
			sum.Rows++
			sum.Impressions += it.m.Impressions
			sum.Clicks += it.m.Clicks
			sum.CostMicros += it.m.CostMicros
			sum.Conversions += float64(it.m.Conversions)
			return true
		})
	}
	selected := func(name string) bool {
		return slices.ContainsFunc(q.Select, func(n gaql.Name) bool { return n.Text == name })
	}
	if !selected("metrics.impressions") {
		sum.Impressions = 0
	}
	if !selected("metrics.clicks") {
		sum.Clicks = 0
	}
	if !selected("metrics.cost_micros") {
		sum.CostMicros = 0
	}
	if !selected("metrics.conversions") {
		sum.Conversions = 0
	}
	return sum, nil
}
