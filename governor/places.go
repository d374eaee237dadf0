package governor

import "github.com/flyball-go/flyball/governor/internal/sched"

// places are those of guests that have started: each has one until it is done. It may come
// back, to be repeated or to ask again, and wait for hours when its submitter has long gone.
// What has not started needs none: its submitter waits, too.
//
// No lane has more of them than are left. So a lane whose requests poll takes half of
// them, two lanes take two thirds, and the last goes to a lane that has none (dynamic
// thresholds, as of Choudhury and Hahne, 1998). A lane that finds none waits.
//
// Whoever holds door.mu may use it. Everything is O(1). The zero value has all places free.
type places struct {
	taken int
	by    map[laneKey]int // of those, what lanes have
}

// placeKey is the lane whose place r has, also when it comes back and keeps its slot.
func placeKey(r *request) laneKey {
	key := r.class.Load().laneKey
	key.kept = false
	return key
}

// free reports whether there is a place of so many for the lane of key.
func (p *places) free(key *laneKey, all int) bool { return p.by[*key] < all-p.taken }

func (p *places) take(key *laneKey) {
	if p.by == nil {
		p.by = make(map[laneKey]int)
	}
	p.taken++
	p.by[*key]++
}

// giveBack undoes take.
func (p *places) giveBack(key *laneKey) {
	p.taken--
	if p.by[*key]--; p.by[*key] == 0 {
		delete(p.by, *key)
	}
}

// unplaced is the lanes that wait for places. It belongs to whoever has the turn.
type unplaced struct {
	lists [2]sched.List // the lanes of one are tried; in the other are those that were in vain
	tried int           // which
	again bool          // there is a reason to try all of them once more
	all   bool          // who counts by now needs no place
}

// mostTried is how many lanes are tried at once when places have come back: more than
// one, so that they go in the order of the scheduler.
const mostTried = 64

// awaitPlace has l, which is next, wait until places come back, or its head counts.
func (c *core) awaitPlace(l *lane) {
	c.queue.Park(&l.sched, &c.unplaced.lists[1-c.unplaced.tried])
}

// placed has lanes tried that wait for places, if places have come back and some do.
func (c *core) placed(awaited bool) {
	if awaited {
		c.placeBack.Store(true)
		c.wakeUp()
	}
}

// counted has lanes tried that wait for places, if some of them may need none.
func (u *unplaced) counted(stirs bool) {
	u.again, u.all = u.again || stirs, u.all || stirs
}

// tryPlaces has some of the lanes tried that wait for places, as long as there are any;
// each once.
func (c *core) tryPlaces() {
	u := &c.unplaced
	u.again = consume(&c.placeBack) || u.again
	if u.lists[u.tried].Empty() {
		if !u.again {
			u.all = false
			return
		}
		u.tried, u.again = 1-u.tried, false
	}
	if l := &u.lists[u.tried]; !l.Empty() && (c.door.anyPlace() || u.all) {
		c.queue.WakeSome(l, mostTried)
	}
}

// triesPlaces reports whether tryPlaces has something to do.
func (c *core) triesPlaces() bool {
	u := &c.unplaced
	if u.lists[u.tried].Empty() {
		return u.again || c.placeBack.Load()
	}
	return c.door.anyPlace() || u.all
}
