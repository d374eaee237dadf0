package fakeads

import "slices"

// run finds the rows of a plan, in order, and passes them to yield until it
// returns false. An item is only valid during the call. hours is how many hours
// of the last day have passed when that day is today.
func (p *plan) run(acct *Account, today day, hours int, yield func(*item) bool) {
	if p.limit > 0 {
		inner, left := yield, p.limit
		yield = func(it *item) bool {
			left--
			return inner(it) && left > 0
		}
	}
	if len(p.order) == 0 {
		p.rows(acct, today, hours, yield)
		return
	}
	var items []item
	p.rows(acct, today, hours, func(it *item) bool {
		items = append(items, *it)
		return true
	})
	slices.SortStableFunc(items, func(a, b item) int {
		for _, o := range p.order {
			if c := o.field.order(o.field.get(&a), o.field.get(&b)); c != 0 {
				if o.desc {
					return -c
				}
				return c
			}
		}
		return 0
	})
	for i := range items {
		if !yield(&items[i]) {
			return
		}
	}
}

// rows finds the rows without order or limit.
func (p *plan) rows(acct *Account, today day, hours int, yield func(*item) bool) {
	t := tally{p: p, today: today, hours: hours, yield: yield}
	p.entities(acct, func(it *item, camps []Campaign) bool {
		for i := range p.onEntity {
			if !p.onEntity[i].holds(it) {
				return true
			}
		}
		if !p.measured {
			return yield(it)
		}
		return t.entity(it, camps)
	})
}

// entities passes every entity of the plan's resource to yield, with the
// campaigns whose traffic is its own.
func (p *plan) entities(acct *Account, yield func(*item, []Campaign) bool) {
	switch p.from {
	case "customer":
		yield(&item{acct: acct}, acct.campaigns())
		return
	case "customer_client":
		clients(acct, acct, 0, yield)
		return
	}
	camps := acct.campaigns()
	for i := range camps {
		it := &item{acct: acct, camp: &camps[i]}
		groups := 1
		if p.from == "ad_group" {
			groups = camps[i].Groups
		}
		for it.group = range groups {
			if !yield(it, camps[i:i+1]) {
				return
			}
		}
	}
}

func clients(acct, at *Account, level int64, yield func(*item, []Campaign) bool) bool {
	if !yield(&item{acct: acct, client: at, level: level}, nil) {
		return false
	}
	for _, b := range at.Below {
		if !clients(acct, b, level+1, yield) {
			return false
		}
	}
	return true
}
