package fair

// MostOwed bounds what is owed, so that tags can be compared.
const MostOwed = 1 << 60

// Owe charges a tenant for what a start of that priority turned out to cost more than
// what was charged, or gives back what it cost less. Who has nothing in turn owes
// nothing. It returns what is given back beyond what the tenant's next start costs.
func (t *Turns) Owe(tenant string, priority int32, cost int) (over int64) {
	if t.many == nil {
		return 0
	}
	lv := t.many.of[priority]
	if lv == nil || lv.shares[tenant] == nil {
		return 0
	}
	sh := lv.shares[tenant]
	worth := sh.queues.head.Worth(cost)
	if worth > 0 {
		pay := min(worth, sh.over)
		sh.over -= pay
		worth -= pay
	}
	owes := int64(sh.base-lv.now) + worth
	over = max(0, min(-worth, -int64(sh.queues.head.Price())-owes))
	sh.base = lv.now + uint64(max(-MostOwed, min(owes+over, MostOwed)))
	lv.price(sh)
	return over
}

// Keep has what Owe returned paid for the starts that follow, as far as others have
// had what is given back, which is waited: of what a tenant was charged while nobody
// else wanted anything, nobody who comes later owes it more than one start.
func (t *Turns) Keep(tenant string, priority int32, cost, waited int, over int64) {
	if over > 0 {
		sh := t.many.of[priority].shares[tenant]
		head := sh.queues.head
		back := -head.Worth(cost)
		had := min(back, head.Worth(waited))
		sh.over = min(sh.over+max(0, had-(back-over)), MostOwed)
	}
}
