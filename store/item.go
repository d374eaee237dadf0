package store

import (
	"time"
)

// Item is what a node says and asks about one key. The zero value of a field says
// nothing and asks for nothing.
type Item struct {
	Key string
	Seq uint64 // the node's number of this request for Key, from 1

	// Limits are the limits under Key, of Version: a permit is charged to all of
	// them or to none. The first who comes with a Version, larger than the one
	// before, sets the limits; who comes with another gets permits by those that
	// are set. A limit that is lowered counts at once, charged with what was taken;
	// one that is raised when a Per is over (of a Window: its window; of a Bucket: a Per
	// and its Lease and Transit). A shorter Lease or Transit is more of a limit, too, but
	// for how long a grant may be used, which counts at once; a longer one is less. Until
	// what is more counts, the smaller Burst does, at the slower pace. If the number of
	// limits or a Kind or Per differs, all permits count as taken when what was granted
	// before can be used no more: no window has some of both.
	Limits  []Limit
	Version uint64

	// Want is how many permits the node can use soon. What is granted depends on
	// how many other nodes want some, too.
	Want int64

	// Least is how many permits are of use at all, up to Want: fewer are not
	// granted. 0 means 1. A node that came again as it was told, and was refused again,
	// finds them in a Bucket the next time, unless it had its part of this Per: the others
	// are refused what it needs.
	Least int64

	// Returned are permits of live grants that the node will not use. The store
	// may give back less, never more than was granted to the node in the step
	// (Limit.Step) that is not over; a Bucket gives back none. Nobody but the node that was
	// granted them can return them.
	Returned int64

	// Debt are permits that the node used beyond what it was granted, since a call
	// cost more than was known before. They are charged even if there are none.
	Debt int64

	// Cool says which scopes of Key the vendor asked to leave alone, and for how
	// long, from now. A scope's cooldown is only ever extended. It gets a new Gen also where
	// it ends later anyway: who has not heard of this word does not clear it. Up to 16.
	Cool []Cool

	// Known are the cooldowns that the node knows of, by the Gen that it was told.
	// They bring back what a store has lost: one whose scope the store knows, with a
	// Gen that is not less, does nothing. Up to 16.
	Known []Cooldown

	// Clear ends cooldowns of scopes, as an operator asked, or the vendor's word that there
	// is quota again. It does nothing in another Epoch than the node's, if that has heard of
	// one. Up to 16.
	Clear []Cleared

	// Seen is the largest Gen that the node was told in this Epoch: the answer has
	// the cooldowns that are newer.
	Seen  uint64
	Epoch string // the last that the node was told

	// Probe asks for the probe after a cooldown of the whole Key, or says what came
	// of it.
	Probe ProbeWord

	// Slots is how many calls may run at once on all nodes: 0 when the node asks
	// for no slots, at most 1<<20. The smallest that a live node says counts.
	// Held are those that the node keeps, of what it was given; WantSlots are
	// those that it asks for beyond that. What it does not keep it gives back.
	Slots, Held, WantSlots int64

	// LeastSlots is how many slots, of Held and WantSlots together, are of use: what runs
	// on the node, and the call that waits. Fewer are not granted. 0: all are.
	//
	// Line says where the node stands in the line for slots.
	LeastSlots int64
	Line       LineWord

	// Bye says that the node leaves: everything it holds is free.
	Bye bool
}

// Cool is a word of the vendor about one scope of a key: "" is the whole key.
type Cool struct {
	Scope string        // up to 256 bytes
	For   time.Duration // more than 0; a store cuts it to MaxCool
}

// Cleared is what the node knew of a scope when its cooldown was ended.
type Cleared struct {
	Scope string
	Gen   uint64 // a cooldown with a larger one is newer, and stays
}

// MaxCool is the longest cooldown that a store keeps.
const MaxCool = 31 * 24 * time.Hour

// maxScope is the most bytes of a scope.
const maxScope = 256

// MaxScopes is the most scopes of one key whose cooldowns a store keeps. When there are
// more, the one that ends first is dropped.
const MaxScopes = 64

// Cooldown is the cooldown of one scope.
type Cooldown struct {
	Scope string
	Left  time.Duration // 0: it was cleared

	// Gen is the number of its last change, from 1, among all scopes of the key. Each word
	// of Item.Cool, and each Clear that ends something, is one.
	Gen uint64
}

// Hint says that there may be news about a key.
type Hint struct {
	Key string // "": any

	// Cooldowns, if there are any, are the news: words of the vendor as an Answer of that
	// Epoch has them, each with a Gen of its own. Who knows of all before need not ask. If
	// it is late they end as much later. Of what else has changed there is another hint.
	// A Store may do without. They are not to be changed: others may be given the same.
	Epoch     string
	Cooldowns []Cooldown
}

// gen is the largest Gen of what it says; 0, if it says nothing.
func (h *Hint) gen() (gen uint64) {
	for _, cd := range h.Cooldowns {
		gen = max(gen, cd.Gen)
	}
	return gen
}

// ProbeWord is what a node says about the probe.
type ProbeWord uint8

const (
	ProbeNothing ProbeWord = iota
	ProbeWanted            // it has a call that may be the probe
	ProbePassed            // the vendor accepted it, or has not refused it for long: everybody may go on
)

// LineWord is what a node says about the line for slots. Who waits and has fewer than
// Item.LeastSlots stands in it: what the first one lacks the others do not get, and are asked
// for. When it has got that it has a turn, as long as it says so: nobody stands in line
// before it meanwhile, and nothing is asked back.
type LineWord uint8

const (
	LineNothing LineWord = iota
	LineWaits            // nothing runs on the node, though a call has waited for a while
	LineTurn             // it has had its turn for less than a while
)

// ProbeState is what stands between a cooldown's end and what is granted after it.
type ProbeState uint8

const (
	ProbeOver    ProbeState = iota // nothing: there was no cooldown, or it is over
	ProbeCooling                   // the key is cooling
	ProbeOpen                      // it is over, and nobody probes yet
	ProbeYours                     // the node may make one call, until ProbeFor is over
	ProbeOther                     // another node probes
)

// Answer is what the store says about one item.
type Answer struct {
	Node Node   // of the request, so that answers to others are recognised
	Key  string // likewise
	Seq  uint64

	// Err, if there is one, is why this item has no answer, though others of the
	// same Exchange have: it says of this one alone what an error of Exchange says
	// of all. Nothing else is said.
	Err error

	// Stale says that the item was not executed, since the node's request of a
	// larger Seq was. Nothing else is said.
	Stale bool

	Epoch string // never ""

	// Granted permits may be used for ValidFor, and are lost then. It is no more
	// than was wanted.
	Granted  int64
	ValidFor time.Duration

	// RetryAfter is how long to wait before asking for permits again, when fewer
	// were granted than wanted: until there will be some, or until others, who are
	// about to come, have had their part. What is kept for the node until then (Item.Least)
	// is so for a quarter of a second more. 0: ask when some are needed. At most MaxCool.
	RetryAfter time.Duration

	// Limits are those in force, when they are not the item's; Version is theirs.
	Limits  []Limit
	Version uint64

	// Cooldowns are the changes after Item.Seen, or all that there are when
	// Item.Epoch is not Epoch; Gen is the largest Gen of the key. At most MaxScopes.
	Cooldowns []Cooldown
	Gen       uint64

	Probe    ProbeState
	ProbeFor time.Duration

	// Held slots may be used for SlotsFor, which is at most TTL. All nodes together
	// never hold more than the smallest Item.Slots, but for what they held before it
	// was lowered. Fewer than Item.Held are asked back: what runs goes on, and what is not
	// in use is to be given back at once.
	Held     int64
	SlotsFor time.Duration

	// Nodes is how many nodes there are under the key.
	Nodes int
}
