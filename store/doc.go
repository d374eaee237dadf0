// Package store lets processes share what is of one vendor: its limits, its
// cooldowns, and how many calls may run at once.
//
//	shared, err := store.NewSyncer(store.SyncerConfig{Store: engine})
//	g, err := governor.New(governor.PlainConfig{Name: "acme", Store: shared, Limits: limits})
//
// A [Store] is an engine: the package has [Memory], which is for one process, for
// tests, and as the model of what others have to do; engines on servers are modules
// of their own, and package storetest says whether one is right.
//
// A [Syncer] is what a process has of it. It fetches permits ahead, in leases, so
// that a call finds one at hand and never waits for the network: a [Share] is a
// limiter.Limiter that a governor asks like any other. What it was granted a process
// may use until the lease ends, by its own clock from the moment at which it asked;
// what it does not use it gives back. So no window of the vendor's holds more than
// the limit, in all processes together: whatever is lost, late or repeated on the
// way, if a process is stopped or dies, if clocks are wrong, and if the store loses
// what it knew. Each of those costs some of the quota, never more than that of one
// Per.
//
// Cooldowns go the same way, at once where the store has hints, and within
// SyncerConfig.Interval where one is lost. After that of a host one process makes
// the first call; the others follow when the vendor has accepted it, or when it has
// run for some seconds and was not refused. [Slots] bound the calls that run at once.
//
// A Syncer, a Memory and their parts may be used by any number of goroutines at
// once. A Share belongs to one owner, as any limiter.Limiter.
//
// It is no consensus: nobody can call back a call that is on its way, and a process
// that is stopped between its last look and its call makes that call later. Other
// users of the quota, who do not share the store, are not counted.
package store
