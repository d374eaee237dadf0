package governor

// places are those of requests that came when the queue was full and have started: each
// has one until it is done. It may come back, to be repeated or to ask again, and wait for
// hours when its submitter has long gone. What has not started needs none, for its
// submitter waits, too; and one that finds none when it starts is done, or comes back, with
// its submitter still waiting.
//
// No lane has more of them than are left. So a lane whose requests poll takes half of
// them, two lanes take two thirds, and the last goes to a lane that has none (dynamic
// thresholds, as of Choudhury and Hahne, 1998).
//
// Whoever holds door.mu may use it. Everything is O(1), but for settle, which looks at all
// that run without a place, no more than slots. The zero value has all places free.
type places struct {
	of   map[*request]laneKey // who has one, and of which lane
	by   map[laneKey]int      // how many lanes have
	owed crowd                // those that run without; the first gets the next one of its lane
}

// placeKey is the lane whose place r has, also when it comes back and keeps its slot.
func placeKey(r *request) laneKey {
	key := r.class.Load().laneKey
	key.kept = false
	return key
}

// take has r take one of all places, if there is one for its lane.
func (p *places) take(r *request, all int) bool {
	key := placeKey(r)
	if p.by[key] >= all-len(p.of) {
		return false
	}
	if p.of == nil {
		p.of, p.by = make(map[*request]laneKey), make(map[laneKey]int)
	}
	p.of[r] = key
	p.by[key]++
	return true
}

// giveBack takes the place of r back, and reports whether it had one.
func (p *places) giveBack(r *request) bool {
	key, ok := p.of[r]
	if !ok {
		return false
	}
	delete(p.of, r)
	if p.by[key]--; p.by[key] == 0 {
		delete(p.by, key)
	}
	return true
}

// settle gives places of all to those that run without.
func (p *places) settle(all int) {
	p.owed.letGoIf(func(b *blocked) bool { return p.take(b.r, all) })
}

// forget returns the submitter of r, which runs without a place, nil if it does not.
func (p *places) forget(r *request) *blocked {
	b := p.owed.of[r]
	if b != nil {
		p.owed.remove(b)
	}
	return b
}
