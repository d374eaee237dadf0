package governor

// lanes are the lanes with something in them, by key. One of them is beside the map,
// and stays for the next to come when it is empty: a lane through which one request at
// a time passes is neither made nor hashed each time.
type lanes struct {
	one  *lane
	used bool // something is in one
	more map[laneKey]*lane
}

func (ls *lanes) get(key *laneKey) *lane {
	if ls.used && ls.one.key == *key {
		return ls.one
	}
	return ls.more[*key]
}

func (ls *lanes) len() int {
	if ls.used {
		return len(ls.more) + 1
	}
	return len(ls.more)
}

// add makes a lane of a key for which there is none.
func (ls *lanes) add(key *laneKey) *lane {
	l := ls.one
	if ls.used || l == nil || l.key != *key {
		l = newLane(key, 0)
	} // else those that began in it know it for its key and its weight
	l.begin()
	switch {
	case !ls.used:
		ls.one, ls.used = l, true
	case ls.more == nil:
		ls.more = make(map[laneKey]*lane)
		fallthrough
	default:
		ls.more[*key] = l
	}
	return l
}

func (ls *lanes) remove(l *lane) {
	if ls.used && ls.one == l {
		ls.used = false
	} else if ls.more[l.key] == l {
		delete(ls.more, l.key)
	}
}

// all yields every lane in no particular order. They may be removed meanwhile.
func (ls *lanes) all(yield func(*lane) bool) {
	if ls.used && !yield(ls.one) {
		return
	}
	for _, l := range ls.more {
		if !yield(l) {
			return
		}
	}
}
