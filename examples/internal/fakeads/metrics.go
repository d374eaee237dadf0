package fakeads

import "math"

// Metrics is what a campaign did in some time. Everything is a whole number, so
// that sums do not depend on their order.
type Metrics struct {
	Impressions int64
	Clicks      int64
	CostMicros  int64
	Conversions int64
	ValueCents  int64
}

func (m *Metrics) add(o Metrics) {
	m.Impressions += o.Impressions
	m.Clicks += o.Clicks
	m.CostMicros += o.CostMicros
	m.Conversions += o.Conversions
	m.ValueCents += o.ValueCents
}

// day is a calendar day, counted from 1970-01-01.
type day int32

// hour returns what the campaign did in one hour of one day.
func (c *Campaign) hour(d day, hour int) Metrics {
	var m Metrics
	if c.Status != campaignEnabled {
		return m
	}
	h := mix(c.seed ^ uint64(uint32(d))<<8 ^ uint64(hour))
	expected := c.base * hourly[(hour-c.shift+24)%24] * weekly[d.weekday()] * noise[h&255]
	m.Impressions = round(expected, h>>8)
	if m.Impressions == 0 {
		return m
	}
	m.Clicks = min(round(float64(m.Impressions)*c.ctr, h>>24), m.Impressions)
	if m.Clicks == 0 {
		return m
	}
	price := c.cpc * (0.75 + float64(h>>40&255)/510)
	m.CostMicros = int64(float64(m.Clicks)*price/10_000+0.5) * 10_000
	m.Conversions = min(round(float64(m.Clicks)*c.rate, h>>48), m.Clicks)
	m.ValueCents = m.Conversions * c.cents
	return m
}

// round rounds up or down by chance, so that the mean stays x; bits are the
// chance.
func round(x float64, bits uint64) int64 {
	return int64(x + float64(bits&0xffff)/0x10000)
}

// share returns the i-th of n parts of m. The parts add up to m.
func (m Metrics) share(i int, parts []int64) Metrics {
	var before, sum int64
	for j, p := range parts {
		if j < i {
			before += p
		}
		sum += p
	}
	after := before + parts[i]
	cut := func(x int64) int64 { return x*after/sum - x*before/sum }
	return Metrics{cut(m.Impressions), cut(m.Clicks), cut(m.CostMicros), cut(m.Conversions), cut(m.ValueCents)}
}

// groupParts is how the traffic of a campaign falls on its ad groups.
var groupParts = []int64{50, 30, 20, 15, 10}

// deviceParts is how it falls on mobiles, tablets and desktops.
var deviceParts = []int64{62, 5, 33}

// The shape of a day, of a week from Sunday, and of chance; each has mean 1.
var (
	hourly = normal([]float64{5, 3, 2, 1.5, 1.5, 3, 8, 15, 24, 32, 36, 37, 36, 35, 35, 34, 33, 34, 36, 40, 42, 36, 24, 12})
	weekly = normal([]float64{8, 11, 11, 11, 11, 10, 7})
	noise  = normal(func() []float64 {
		r, ns := source(1, 1), make([]float64, 256)
		for i := range ns {
			ns[i] = math.Exp(0.5 * r.NormFloat64())
		}
		return ns
	}())
)

func normal(xs []float64) []float64 {
	var sum float64
	for _, x := range xs {
		sum += x
	}
	for i := range xs {
		xs[i] *= float64(len(xs)) / sum
	}
	return xs
}
