package governor

// lanes are the lanes with something in them, by key. One of them is beside the map,
// and stays for the next to come when it is empty: a lane through which one request at
// a time passes is neither made nor hashed each time.
type lanes struct {
	one   *lane
	used  bool // something is in one
	more  map[laneKey]*lane
	spare *backlog // what the last one to be removed has left; nil: nothing
}

func (ls *lanes) get(key *laneKey) *lane {
	if ls.used && ls.one.laneKey == *key {
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

// add makes a lane of the key of l, for which there is none: l itself, unless that is
// its selector's plain one.
func (ls *lanes) add(l *lane) *lane {
	switch {
	case !ls.used && ls.one != nil && ls.one.laneKey == l.laneKey:
		l = ls.one // those that began in it know it for its key and its weight
	case l.sel != nil && l == l.sel.plain:
		l = newLane(l.laneKey, 0)
	}
	b := ls.spare
	if ls.spare = nil; b == nil {
		b = new(backlog)
	}
	l.begin(b)
	switch {
	case !ls.used:
		ls.one, ls.used = l, true
	case ls.more == nil:
		ls.more = make(map[laneKey]*lane)
		fallthrough
	default:
		ls.more[l.laneKey] = l
	}
	return l
}

func (ls *lanes) remove(l *lane) {
	if ls.used && ls.one == l {
		ls.used = false
	} else if ls.more[l.laneKey] == l {
		delete(ls.more, l.laneKey)
	}
	ls.spare, l.backlog = l.backlog, nil
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
