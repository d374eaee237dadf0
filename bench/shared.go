package main

import (
	"time"

	"github.com/flyball-go/flyball/store"
)

// L5: a permit that a process has fetched from a store: the look, and the take, on a
// credit that is live, with the clock readings that this takes. The engine is in
// memory; it is asked once in a hundred million permits.
func init() {
	add(row{id: "L5", what: "a permit that was fetched from a store", peer: "x/time/rate Allow", unit: "ns",
		target: []bound{{amount, 300}, {allocs, 0}}, measure: timed(1, sharedPermit, timeRate)})
}

// fetched is how many permits are fetched at once.
const fetched = 100_000_000

func sharedPermit() (func(int) error, func(), error) {
	engine, err := store.NewMemory(store.MemoryConfig{})
	if err != nil {
		return nil, nil, err
	}
	s, err := store.NewSyncer(store.SyncerConfig{Store: engine})
	if err != nil {
		return nil, nil, err
	}
	sh, err := s.Share(store.ShareConfig{Name: "bench", Limits: []store.Limit{{Kind: store.Window, Quota: 1e9, Per: 24 * time.Hour}}})
	if err != nil {
		return nil, nil, err
	}
	came := make(chan struct{}, 1)
	sh.OnChange(func() {
		select {
		case came <- struct{}{}:
		default:
		}
	})
	fetch := func() {
		for sh.Wait(time.Now(), "", fetched) != 0 {
			<-came
		}
	}
	fetch()
	now := time.Now()
	return each(func() error {
		return take(sh, now)
	}), func() { s.Close() }, nil
}
