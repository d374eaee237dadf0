// Package clustertest has no code but tests: real processes, each with a governor,
// share a quota through real servers, while connections are cut, answers swallowed,
// processes stopped and killed, and stores emptied and lost. What the vendor saw decides.
//
//	go test -run TestFaults -v
//	FLYBALL_CLUSTER_SOAK=2m FLYBALL_CLUSTER_JSON=result.json go test -run TestSoak
//
// Each fault has controls: the same with a store that breaks one promise, or with
// somebody who breaks the rules, which the judge has to catch. Only what a primary of a
// Cluster takes with it is controlled elsewhere, in redisstore's tests of failovers.
// Processes are stopped and killed with limits of each kind, and with slots. A store is lost
// with each Outage: what goes on is judged by what that lets pass, and each process has to
// tell of each change, by an event and in its log, and to go on by itself.
//
// The soak has limits of every kind and slots at once, in the same processes and through
// the same faults; each has a vendor of its own, and is judged by what its kind promises.
// Every minute, or in a long one every five, all rest. What they did is judged then and
// forgotten, so that a soak may be long; and goroutines and file descriptors have to be as
// many as when the process was new, but for a few connections that a pool may keep. The
// memory at these times is in the result, with its slope, which of a soak of an hour or
// more has to be at most 1 MiB per hour.
//
// What has to happen is waited for, so that a slow machine needs longer, and is not at
// fault. What has to happen in time is allowed as much more as timers are late meanwhile,
// and may be tried again. That a quota is never exceeded is true however slow it is.
//
// What is judged is exact: a call counts when it arrives, and one that its process was
// stopped with counts when its permit was found good, which each process writes down.
// Grants are judged beside calls, since not every wrong one is used.
package clustertest
