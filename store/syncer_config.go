package store

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/flyball-go/flyball/event"
)

// Outage is what passes while the store does not answer, when what it granted is
// used or has ended. Cooldowns hold in any case. After one of a host nobody says who
// makes the first call: with Closed nobody does, with the others each process its own.
type Outage uint8

const (
	// Closed lets nothing pass: calls wait, as for any limit.
	Closed Outage = iota

	// SafeShare gives each of Nodes processes a part of its own of every limit:
	// Part/Nodes of it, which it may use at any time. The store grants the rest, so
	// that together they are never more than the limit. For that it has to be told:
	// who has heard that the store has other limits in force than it has itself, of a
	// later Version or of processes with another Outage, has no part, as with Closed;
	// so has a limit of which the part is less than a permit, or less than one of a
	// Bucket's Burst with half of that left, and so have Slots. A process that has
	// heard nothing of a key believes that its own limits are in force.
	SafeShare

	// Open lets everything pass, each call with an event Unguarded. The limit is
	// exceeded as far as the vendor lets it be. Of Slots each process uses up to
	// SlotsConfig.Max.
	Open
)

var outageNames = [...]string{"closed", "safe share", "open"}

// String returns the policy's name in lower case.
func (o Outage) String() string {
	if int(o) < len(outageNames) {
		return outageNames[o]
	}
	return "invalid"
}

// SyncerConfig says how a process keeps up with a store. Only Store is required.
type SyncerConfig struct {
	// Store is the engine. It is not closed by the Syncer.
	Store Store

	// Interval is how often the keys of governors' hosts, and of slots, are exchanged
	// when nothing asks for it: in it a cooldown is heard of for which the store's
	// hint was lost, and slots are renewed. A host's key is left out as long as no hint
	// is missing, by the word of a store that is Attentive: in memory, on Redis but a
	// Cluster, on MariaDB. Of other keys permits that nobody
	// uses go back in it, and else they are exchanged when three quarters of the
	// store's TTL are over. It is also for how long a call waits for slots before its
	// process stands in line for them, and how long a turn lasts. A shorter one costs a round trip per
	// host, process and Interval; a longer one makes a lost hint matter for longer.
	// 10 ms up to a third of the store's TTL. 0 means 1 s, or a third of the TTL.
	Interval time.Duration

	// Horizon is for how long ahead permits are fetched, by the pace at which they
	// have been used lately: before those that there are run out, so that no call
	// waits for a round trip. A longer one saves round trips; but what one process
	// has fetched no other can use, and a short quota is stranded. At most 1 min. 0
	// means, for each limit, half of its Per, but 50 ms up to 10 s. In any case it
	// ends before the step (Limit.Step) does, or half a Bucket's Lease.
	Horizon time.Duration

	// Timeout is how long one exchange may take, 1 ms up to half of the TTL. 0
	// means 2 s, or half of the TTL. It is repeated twice before the store counts
	// as lost.
	Timeout time.Duration

	// Outage is what passes while the store does not answer. The zero value is
	// Closed.
	Outage Outage

	// Part is what SafeShare keeps of each limit, above 0 and below 1; 0 means
	// 0.2. Nodes is how many processes there are at most, restarted ones within a
	// Per included: while there are more, the part is not used. Required for
	// SafeShare.
	Part  float64
	Nodes int

	// MaxKeys bounds the keys of each Share, and of Slots, that are in use. For a further one
	// a key is forgotten of which nothing is, but which has a caller who waits, or had one;
	// else it has to wait. 0 means 100,000.
	MaxKeys int

	// Logger gets a record when the store is lost and when it is back; when a store
	// that knows nothing of before grants nothing at first; when other limits are
	// in force than this process has of the same Version; and when a scope is too long to
	// be shared. nil discards.
	Logger *slog.Logger

	// OnEvent gets events StoreLost, StoreBack and Unguarded, one after the other, on a
	// goroutine for that. Up to 4096 wait while it takes long: of Unguarded later ones are
	// dropped then, of the others those that waited for longest. Close waits for the others,
	// and tells no more of Unguarded. A key that is lost by itself (Source ends with its name) and
	// that nobody uses any more is forgotten, without a StoreBack. A panic in it is dropped.
	// nil: none.
	OnEvent func(event.Event)
}

func (cfg *SyncerConfig) fill() error {
	bad := func(field string, value any, want string) error {
		return fmt.Errorf("store: SyncerConfig.%s is %v, want %s", field, value, want)
	}
	if cfg.Store == nil {
		return bad("Store", "nil", "a store")
	}
	ttl := cfg.Store.TTL()
	if cfg.Interval == 0 {
		cfg.Interval = min(time.Second, ttl/3)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = min(2*time.Second, ttl/2)
	}
	if cfg.Part == 0 {
		cfg.Part = 0.2
	}
	if cfg.MaxKeys == 0 {
		cfg.MaxKeys = 100_000
	}
	switch {
	case cfg.Interval < 10*time.Millisecond || cfg.Interval > ttl/3:
		return bad("Interval", cfg.Interval, fmt.Sprintf("10ms up to a third of the store's TTL, %v", ttl/3))
	case cfg.Horizon < 0 || cfg.Horizon > time.Minute:
		return bad("Horizon", cfg.Horizon, "0 up to 1m")
	case cfg.Timeout < time.Millisecond || cfg.Timeout > ttl/2:
		return bad("Timeout", cfg.Timeout, fmt.Sprintf("1ms up to half of the store's TTL, %v", ttl/2))
	case cfg.Outage > Open:
		return bad("Outage", uint8(cfg.Outage), "Closed, SafeShare or Open")
	case !(cfg.Part > 0 && cfg.Part < 1):
		return bad("Part", cfg.Part, "above 0 and below 1")
	case cfg.Outage == SafeShare && (cfg.Nodes < 1 || cfg.Nodes > 1024):
		return bad("Nodes", cfg.Nodes, "1 up to 1024 for SafeShare")
	case cfg.MaxKeys < 0:
		return bad("MaxKeys", cfg.MaxKeys, "0 or more")
	}
	return nil
}
