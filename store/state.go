package store

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// State is what an engine knows about one key, for engines on servers that only
// keep it: it decides as [Memory] does. The engine reads its bytes, executes items,
// and writes them back, and sees to it that nobody else does so meanwhile.
//
// A State is of one goroutine at a time. The zero State is empty: UnmarshalBinary
// fills it.
type State struct {
	r     *resource
	now   int64  // of the last Exchange
	names []Node // as they were read or written last, in order
}

// StateConfig is what a State has to know of its engine.
type StateConfig struct {
	Now      time.Time     // by the store's clock; of an earlier one than before the State takes that before
	TTL      time.Duration // as Store.TTL
	Epoch    string        // as Answer.Epoch
	MaxNodes int           // what needs one more is ErrTooMany
}

// NewState returns the State of a key under which nobody has asked for anything.
// lost says that somebody may have, and that the store has forgotten it.
func NewState(cfg StateConfig, lost bool) *State {
	now := cfg.Now.UnixNano()
	return &State{r: newResource(now, lost, cfg.TTL), now: now}
}

// Exchange executes it, which store.CheckExchange has passed, or finds what was
// answered to it. news says that others may want a hint of it. The only error
// matches ErrTooMany; then nothing has changed.
func (s *State) Exchange(cfg StateConfig, node Node, it *Item) (a Answer, news bool, err error) {
	now := max(s.now, cfg.Now.UnixNano())
	s.r.expire(now)
	if n := len(s.r.nodes); n >= cfg.MaxNodes && s.r.nodes[node] == nil {
		return Answer{}, false, fmt.Errorf("%w: %d nodes under %s", ErrTooMany, n, it.Key)
	}
	s.now = now
	if it.Epoch == cfg.Epoch && it.Seen > s.r.gen { // the row that said so is gone
		s.r.renumber(now, uint64(max(0, now/1000)))
	}
	a, tell, words := s.r.exchange(now, terms{cfg.TTL, cfg.Epoch}, node, it)
	for _, c := range s.r.limits {
		c.roll(now) // what was not executed has not
	}
	a.Node, a.Key, a.Seq, a.Epoch = node, it.Key, it.Seq, cfg.Epoch
	return a, tell || len(words) > 0, nil
}

// Now is the store's time of the last Exchange.
func (s *State) Now() time.Time { return time.Unix(0, s.now) }

// Idle is from when on the State tells nothing that matters, if nobody asks for
// anything: an engine that knows that nothing was lost may then forget it.
func (s *State) Idle() time.Time {
	// A node that comes back may know a Gen, which must not begin anew, and so long
	// a Per may be of which nobody knows what was taken.
	const most = int64(MaxCool)
	r, at := s.r, max(s.now, s.r.slotsFrom, s.r.lent)
	if r.gen > 0 || r.drained {
		at = max(at, s.now+most)
	}
	for _, n := range r.nodes {
		at = max(at, n.expires)
	}
	for _, c := range r.cools {
		at = max(at, c.until+most)
	}
	for _, c := range r.limits {
		at = max(at, c.at, c.full)
		if c.limit.Kind != Bucket {
			at = max(at, (c.step+Segments+1)*int64(c.limit.Step()))
		}
	}
	return time.Unix(0, at)
}

// AppendBinary appends the State's bytes, which UnmarshalBinary reads: the same for
// equal States. They are no checksum, and begin with the number of their format.
func (s *State) AppendBinary(b []byte) ([]byte, error) {
	c := coder{b: append(b, stateFormat), now: s.now}
	num(&c, &s.now, 1<<62)
	s.r.code(&c)
	c.count(len(s.r.nodes), maxStateNodes)
	for _, name := range s.sorted() {
		text(&c, &name, 32)
		s.r.nodes[name].code(&c)
	}
	if c.bad {
		return nil, fmt.Errorf("%w: state out of range", ErrInvalid)
	}
	return c.b, nil
}

// sorted returns the nodes in order: most often those that were read.
func (s *State) sorted() []Node {
	known := len(s.names) == len(s.r.nodes)
	for i := 0; known && i < len(s.names); i++ {
		_, known = s.r.nodes[s.names[i]]
	}
	if !known {
		s.names = slices.Sorted(maps.Keys(s.r.nodes))
	}
	return s.names
}

// lot is how many members are made room for at once.
const lot = 256

// leastMember is less than the bytes of any member and its name.
const leastMember = 20

// UnmarshalBinary replaces s by what AppendBinary wrote. What it cannot have written
// is an error that matches ErrInvalid. It keeps nothing of b.
func (s *State) UnmarshalBinary(b []byte) error {
	if len(b) == 0 || b[0] != stateFormat {
		return fmt.Errorf("%w: state of an unknown format", ErrInvalid)
	}
	c := coder{in: string(b[1:]), reads: true}
	num(&c, &c.now, 1<<62)
	r := &resource{}
	r.code(&c)
	// Whoever exchanges reads all nodes, so it is done with few allocations.
	n := c.count(0, min(maxStateNodes, (len(c.in)-c.at)/leastMember))
	r.nodes = make(map[Node]*member, min(n, lot))
	names := make([]Node, 0, min(n, lot))
	var members []member
	last := Node("")
	for i := range n {
		if len(members) == 0 { // a lot at a time: of garbage there are soon no more
			members = make([]member, min(n-i, lot))
		}
		var name Node
		text(&c, &name, 32)
		members[0].code(&c)
		if c.bad = c.bad || name <= last || name.Check() != nil; c.bad {
			break
		}
		names, last = append(names, name), name
		r.nodes[name], members = &members[0], members[1:]
	}
	if c.bad || c.at < len(c.in) || r.prober != "" && r.nodes[r.prober] == nil {
		return fmt.Errorf("%w: garbage for a state", ErrInvalid)
	}
	s.r, s.now, s.names = r, c.now, names
	return nil
}
