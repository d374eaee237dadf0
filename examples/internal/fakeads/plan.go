package fakeads

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flyball-go/flyball/examples/internal/adspb"
	"github.com/flyball-go/flyball/examples/internal/gaql"
)

// resources are what can stand after FROM, and whose fields can then be
// selected beside metrics and segments.
var resources = map[string][]string{
	"customer":        {"customer"},
	"customer_client": {"customer_client", "customer"},
	"campaign":        {"campaign", "customer", "campaign_budget"},
	"ad_group":        {"ad_group", "campaign", "customer"},
	"campaign_budget": {"campaign_budget", "customer"},
}

// plan is a query that has been checked against the fields there are, for one
// account on one day.
type plan struct {
	from string
	mask []string // what was selected, in order
	puts []*field // what a row shows: that, and resource names
	used []string // the parts a row has

	onEntity []cond // conditions on attributes,
	onDay    []cond // on core date segments,
	onRow    []cond // on metrics and other segments
	order    []ordering
	limit    int64 // 0: none

	measured    bool // rows need metrics or segments
	segmented   bool // rows are split
	first, last day  // the days that count
	split       split
}

// split says which segments rows are split by.
type split struct {
	date, week, month, quarter, year, weekday, hour, device, network bool
}

type ordering struct {
	field *field
	desc  bool
}

// history is how many days back there are data.
const history = 400

func refuse(code adspb.QueryErrorEnum_QueryError, at gaql.Name, format string, args ...any) *gaql.Error {
	return &gaql.Error{Code: code, Pos: at.Pos, Message: fmt.Sprintf(format, args...)}
}

// compile checks a query of an account whose day is today.
func compile(q *gaql.Query, acct *Account, today day) (*plan, *gaql.Error) {
	if resources[q.From.Text] == nil {
		return nil, refuse(adspb.QueryErrorEnum_BAD_RESOURCE_TYPE_IN_FROM_CLAUSE, q.From, "unknown resource %q", q.From.Text)
	}
	p := &plan{from: q.From.Text, limit: q.Limit}
	for _, name := range q.Select {
		f, err := p.field(name, adspb.QueryErrorEnum_PROHIBITED_RESOURCE_TYPE_IN_SELECT_CLAUSE)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(p.mask, f.name) {
			p.mask = append(p.mask, f.name)
			p.puts = append(p.puts, f)
		}
	}
	for _, c := range q.Where {
		if err := p.where(c, today); err != nil {
			return nil, err
		}
	}
	for _, o := range q.OrderBy {
		f, err := p.field(o.Field, adspb.QueryErrorEnum_PROHIBITED_RESOURCE_TYPE_IN_SELECT_CLAUSE)
		if err != nil {
			return nil, err
		}
		if (f.metric() || f.segment()) && !p.selects(f) {
			return nil, refuse(adspb.QueryErrorEnum_EXPECTED_REFERENCED_FIELD_IN_SELECT_CLAUSE, o.Field, "%s must be selected to order by it", f.name)
		}
		p.order = append(p.order, ordering{f, o.Desc})
	}
	if p.measured && acct.Manager {
		return nil, refuse(adspb.QueryErrorEnum_REQUESTED_METRICS_FOR_MANAGER, q.Select[0], "metrics cannot be requested for a manager account")
	}
	omit, err := parameters(q)
	if err != nil {
		return nil, err
	}
	p.fill(omit)
	return p, p.days(q, today)
}

// field finds a field that goes with the plan's resource.
func (p *plan) field(name gaql.Name, code adspb.QueryErrorEnum_QueryError) (*field, *gaql.Error) {
	f := fields[name.Text]
	switch {
	case f == nil:
		return nil, refuse(adspb.QueryErrorEnum_UNRECOGNIZED_FIELD, name, "unrecognized field %q", name.Text)
	case f.metric() || f.segment():
		if p.from == "customer_client" {
			code = adspb.QueryErrorEnum_PROHIBITED_METRIC_IN_SELECT_OR_WHERE_CLAUSE
			if f.segment() {
				code = adspb.QueryErrorEnum_PROHIBITED_SEGMENT_IN_SELECT_OR_WHERE_CLAUSE
			}
			return nil, refuse(code, name, "%s does not go with %s", f.name, p.from)
		}
		p.measured = true
	case !slices.Contains(resources[p.from], f.resource):
		return nil, refuse(code, name, "%s does not go with %s", f.name, p.from)
	}
	return f, nil
}

func (p *plan) selects(f *field) bool { return slices.Contains(p.mask, f.name) }

// where adds one condition.
func (p *plan) where(c gaql.Condition, today day) *gaql.Error {
	f, err := p.field(c.Field, adspb.QueryErrorEnum_PROHIBITED_RESOURCE_TYPE_IN_WHERE_CLAUSE)
	if err != nil {
		return err
	}
	if f.segment() && !f.core && !p.selects(f) {
		return refuse(adspb.QueryErrorEnum_EXPECTED_REFERENCED_FIELD_IN_SELECT_CLAUSE, c.Field, "%s must be selected to filter by it", f.name)
	}
	condition, err := newCond(f, c, today)
	if err != nil {
		return err
	}
	switch {
	case f.core:
		p.onDay = append(p.onDay, condition)
	case f.segment() || f.metric():
		p.onRow = append(p.onRow, condition)
	default:
		p.onEntity = append(p.onEntity, condition)
	}
	return nil
}

// parameters reads the PARAMETERS clause.
func parameters(q *gaql.Query) (omit bool, err *gaql.Error) {
	for _, p := range q.Parameters {
		on := strings.EqualFold(p.Value.Text, "true")
		if !on && !strings.EqualFold(p.Value.Text, "false") {
			return false, refuse(adspb.QueryErrorEnum_BAD_PARAMETER_VALUE, p.Name, "%s is true or false", p.Name.Text)
		}
		switch p.Name.Text {
		case "omit_unselected_resource_names":
			omit = on
		case "include_drafts": // there are none
		default:
			return false, refuse(adspb.QueryErrorEnum_BAD_PARAMETER_NAME, p.Name, "unknown parameter %q", p.Name.Text)
		}
	}
	return omit, nil
}

// fill finds out what rows consist of.
func (p *plan) fill(omitNames bool) {
	used := []string{p.from}
	for _, f := range p.puts {
		if !slices.Contains(used, f.resource) {
			used = append(used, f.resource)
		}
		if f.segment() {
			p.segmented = true
			p.split.by(f.name)
		}
	}
	for i, name := range used {
		f := fields[name+".resource_name"]
		if f != nil && !omitNames && !p.selects(f) {
			p.puts = append(p.puts, f)
		}
		selected := slices.ContainsFunc(p.puts, func(f *field) bool { return f.resource == name })
		if i > 0 || selected {
			p.used = append(p.used, name)
		}
	}
}

func (s *split) by(name string) {
	switch name {
	case "segments.date":
		s.date = true
	case "segments.week":
		s.week = true
	case "segments.month":
		s.month = true
	case "segments.quarter":
		s.quarter = true
	case "segments.year":
		s.year = true
	case "segments.day_of_week":
		s.weekday = true
	case "segments.hour":
		s.hour = true
	case "segments.device":
		s.device = true
	case "segments.ad_network_type":
		s.network = true
	}
}

// days finds the days the conditions leave, within those there are.
func (p *plan) days(q *gaql.Query, today day) *gaql.Error {
	p.first, p.last = today-history, today
	from, to := false, false
	for _, c := range p.onDay {
		first, last, a, b := c.span()
		from, to = from || a, to || b
		if a {
			p.first = max(p.first, first)
		}
		if b {
			p.last = min(p.last, last)
		}
	}
	if s := p.split; (s.date || s.week || s.month || s.quarter || s.year) && !(from && to) {
		return refuse(adspb.QueryErrorEnum_EXPECTED_FILTERS_ON_DATE_RANGE, q.Select[0], "a date segment needs a finite date range")
	}
	return nil
}
