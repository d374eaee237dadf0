// Package registry keeps what guards a program's calls by name: governors, breakers,
// limiters and the rest, made from shared configurations, and changed while they run.
//
//	guards, err := registry.New(registry.Config{})
//	err = guards.Load(text)                  // JSON: configurations, and instances of them
//	b, err := guards.Breakers.Get("billing") // made when it is first asked for
//	err = guards.Register(g)                 // any governor.Handle
//
// A [Set] holds the instances of one kind. Each is made from a base, a configuration
// that has a name, with overrides of its own; when the base changes, so do they. A
// change is made in the instance where its type allows that, and else a new one takes
// its place. [Decode] reads every configuration of this module from JSON, with
// durations as "15s" and nothing that it does not know. A [Follower] loads them from a
// store, and again whenever they change there, so that many processes follow one change.
//
// # Keys
//
// [Permits] is the registry of Confined: a key such as "tenant1-ratelimiter:servicea"
// names a rate limiter, a bulkhead or a circuit breaker, which is made when the key
// is first used, from the metadata that is stored under it. The metadata, and what
// the key guards, is this process's or, through a store, that of all processes.
// [Packets] is the same by messages.
//
// # Concurrency
//
// Everything here may be used by any number of goroutines at once. Functions of yours
// are called under no lock that another instance needs. Neither a Registry nor a
// Permits has a goroutine of its own; a Permits has one while it reads metadata again,
// and a Follower has one until it is closed.
//
// It is no service discovery and no configuration server: it reads no files, watches
// none, and nothing in it survives the process but what a store keeps.
package registry
