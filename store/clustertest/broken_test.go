package clustertest

import (
	"bytes"
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/flyball-go/flyball/store"
)

// What a broken store does, by its name in replica.Broken. They are controls: of each,
// the judge has to find that something is wrong.
const (
	alone      = "alone"    // knows of no other process
	forever    = "forever"  // grants without an end
	onRetry    = "on retry" // grants again what is repeated
	slotsForMe = "my slots" // gives whoever asks a slot
	unheard    = "unheard"  // tells nobody of cooldowns
	leaks      = "leaks"    // loses two thirds of each grant
	mine       = "mine"     // counts the windows of the process's own clock
	lonely     = "lonely"   // says that there is no other process
)

// broken is a store that breaks a promise.
type broken struct {
	store.Store
	how string

	mu   sync.Mutex
	seen map[string]uint64 // the last number sent, by key
}

// breakIt returns s, or what breaks it.
func breakIt(s store.Store, how string) store.Store {
	switch how {
	case "":
		return s
	case alone:
		m, err := store.NewMemory(store.MemoryConfig{TTL: s.TTL()})
		if err != nil {
			panic(err)
		}
		return m
	}
	return &broken{Store: s, how: how, seen: make(map[string]uint64)}
}

func (b *broken) Exchange(ctx context.Context, node store.Node, items []store.Item) ([]store.Answer, error) {
	sent := append([]store.Item(nil), items...)
	again := make([]bool, len(items))
	b.mu.Lock()
	for i := range sent {
		it := &sent[i]
		again[i] = b.seen[it.Key] == it.Seq
		b.seen[it.Key] = it.Seq
		switch b.how {
		case unheard:
			it.Cool, it.Known = nil, nil
		case mine:
			if len(it.Limits) > 0 {
				it.Key = store.KeyFor(it.Key, strconv.FormatInt(time.Now().UnixNano()/int64(it.Limits[0].Per), 10))
			}
		case slotsForMe:
			it.Slots = min(1<<20, 4*it.Slots)
		}
	}
	b.mu.Unlock()
	answers, err := b.Store.Exchange(ctx, node, sent)
	for i := range answers {
		a := &answers[i]
		a.Key = items[i].Key
		switch {
		case b.how == forever && a.Granted > 0:
			a.ValidFor = time.Hour
		case b.how == forever && a.Held > 0:
			a.SlotsFor = time.Hour
		case b.how == lonely:
			a.Nodes = min(1, a.Nodes)
		case b.how == leaks:
			a.Granted = (a.Granted + 2) / 3
		case b.how == onRetry && again[i] && items[i].Want > 0:
			a.Granted, a.ValidFor = items[i].Want, time.Second
		}
	}
	return answers, err
}

// TTL is an hour for what has no end, so that a Syncer may have an Interval in which who was
// stopped does not give back first what it believes to have.
func (b *broken) TTL() time.Duration {
	if b.how == forever {
		return time.Hour
	}
	return b.Store.TTL()
}

func (b *broken) Watch(ctx context.Context, hint func(store.Hint)) (func(), error) {
	if b.how == unheard {
		return func() {}, nil
	}
	return b.Store.Watch(ctx, hint)
}

// hints are what subscribes to hints, and what those are, on a Redis: their connections
// alone go silent.
func hints(up bool, piece []byte) bool {
	return up && bytes.Contains(piece, []byte("subscribe")) || !up && bytes.Contains(piece, []byte("pmessage"))
}

// deaf is a store of which no hint arrives, where they have no connection of their own.
type deaf struct{ store.Store }

func (deaf) Watch(context.Context, func(store.Hint)) (func(), error) { return func() {}, nil }
