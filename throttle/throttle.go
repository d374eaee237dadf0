// Package throttle is the vocabulary between vendors and governors: what an API
// said when it asked to be called less, and whom it meant.
//
// Adapters (package vendors, or your own) return Signals; a governor obeys
// them. A test or an operator may write one by hand and hand it to a governor's
// Learn.
//
// Everything here is a plain value: copying is cheap, comparing works, and all
// of it may be used by any number of goroutines at once. The package decides
// nothing, keeps no state and starts nothing; what a signal does to traffic is
// the governor's business.
package throttle

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Unknown is the Delay of a vendor that asked to be called less without saying
// for how long. It differs from 0, by which a vendor says that the next call
// may come now. Unknown is the smallest Duration: never add to it or compare it
// without asking for it first.
const Unknown time.Duration = math.MinInt64

// Kind says what sort of limit was hit. It informs events, statistics and the
// choice between waiting and failing; the length of a pause is in the Signal's
// Delay or Until, not in its kind.
type Kind uint8

const (
	KindUnknown     Kind = iota // the vendor did not say
	KindBurst                   // a rate over seconds or minutes
	KindQuota                   // a budget of an hour, a day or a month
	KindConcurrency             // too many calls at once; ends when others do
	KindOverload                // the server pushes back; not the caller's budget
	KindLock                    // one object is busy; nothing else is
	KindBan                     // a block that grows when it is ignored
	KindBilling                 // money: waiting alone does not end it
)

var kindNames = [...]string{"unknown", "burst", "quota", "concurrency", "overload", "lock", "ban", "billing"}

// String returns the kind's name in lower case, as the constants have it.
func (k Kind) String() string { return name(kindNames[:], int(k)) }

// MarshalText makes a Kind a word in JSON.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads what MarshalText wrote. The error names a word that is no
// kind.
func (k *Kind) UnmarshalText(b []byte) error {
	i, err := index("kind", kindNames[:], b)
	if err == nil {
		*k = Kind(i)
	}
	return err
}

// Level says whom a limit concerns. Host is the widest; the others each stand
// for the requests that share one key.
type Level uint8

const (
	Host     Level = iota // every request to the vendor
	Selector              // those with one connection selector
	Tenant                // those of one tenant
	Bucket                // those of one bucket: an endpoint, a method
	Request               // the one request that was refused
)

var levelNames = [...]string{"host", "selector", "tenant", "bucket", "request"}

// String returns the level's name in lower case, as the constants have it.
func (l Level) String() string { return name(levelNames[:], int(l)) }

// MarshalText makes a Level a word in JSON.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads what MarshalText wrote. The error names a word that is no
// level.
func (l *Level) UnmarshalText(b []byte) error {
	i, err := index("level", levelNames[:], b)
	if err == nil {
		*l = Level(i)
	}
	return err
}

// Scope is what a signal pauses. The zero Scope is the whole host.
//
// In a Signal an empty Key stands for the refused request's own: Scope{Level:
// Tenant} pauses the tenant whose request was refused. Elsewhere (Learn, Clear,
// Stats) an empty Key is the empty key. Host and Request have none.
type Scope struct {
	Level Level  `json:"level"`
	Key   string `json:"key,omitempty"`
}

// String returns the scope as "host" or "tenant:123".
func (s Scope) String() string {
	if s.Level == Host || s.Level == Request {
		return s.Level.String()
	}
	return s.Level.String() + ":" + s.Key
}

// Signal is one request of a vendor to be called less.
//
// The zero Signal pauses the host for no time at all: one probe, as soon as the
// governor's minimum allows.
type Signal struct {
	Kind  Kind  `json:"kind"`
	Scope Scope `json:"scope"`

	// Delay is how long the vendor asked for, counted from the moment its
	// answer was received; Unknown when it gave no time. It is ignored when
	// Until is set.
	Delay time.Duration `json:"delay"`

	// Until is the absolute end of the pause, for vendors that give one.
	Until time.Time `json:"until,omitzero"`

	// NoRetry says that the refused call must not be sent again, whatever the
	// pause does for others.
	NoRetry bool `json:"no_retry,omitempty"`

	// Source says in the vendor's own words where the signal came from, such as
	// "Retry-After: 30" or the name of its rate. It is for people and may be
	// empty; it holds nothing secret.
	Source string `json:"source,omitempty"`
}

// Quota is what a vendor's answer, good or bad, taught about a limit.
type Quota struct {
	Scope Scope  `json:"scope"`
	Name  string `json:"name,omitempty"` // the vendor's name of the limit, where there are several

	// Unit is what is counted, in the plural: "tokens", "points", "bytes"; "" for
	// calls, "percent" where a vendor tells only which part of a limit is used.
	// Only calls, and what a caller counts in the same unit, are permits.
	Unit string `json:"unit,omitempty"`

	Limit     int64         `json:"limit"`            // permits per window; -1 when not said
	Window    time.Duration `json:"window,omitempty"` // how long the window is, or a bucket takes to fill; 0 when not said
	Remaining int64         `json:"remaining"`        // permits left in this window; -1 when not said
	Reset     time.Time     `json:"reset,omitzero"`   // when the window ends; zero when not said
	Cost      int64         `json:"cost"`             // what this call cost; -1 when not said
}

func name(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return "invalid"
}

func index(what string, names []string, b []byte) (int, error) {
	if i := slices.Index(names, string(b)); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("throttle: %q is no %s", b[:min(len(b), 64)], what)
}
