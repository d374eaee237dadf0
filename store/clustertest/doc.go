// Package clustertest has no code but tests: real processes, each with a governor,
// share a quota through real servers, while connections are cut, answers swallowed,
// processes stopped and killed, and stores emptied. What the vendor saw decides.
//
//	go test -run TestFaults -v
//	FLYBALL_CLUSTER_SOAK=2m FLYBALL_CLUSTER_JSON=result.json go test -run TestSoak
//
// Each fault has controls: the same with a store that breaks one promise, or with
// somebody who breaks the rules, which the judge has to catch. Only what a primary of a
// Cluster takes with it is controlled elsewhere, in redisstore's tests of failovers.
//
// What has to happen is waited for, so that a slow machine needs longer, and is not at
// fault. What has to happen in time is allowed as much more as timers are late meanwhile,
// and may be tried again. That a quota is never exceeded is true however slow it is.
//
// What is judged is exact: a call counts when it arrives, and one that its process was
// stopped with counts when its permit was found good, which each process writes down.
// Grants are judged beside calls, since not every wrong one is used.
package clustertest
