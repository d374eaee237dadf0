// Package clustertest has no code but tests: real processes, each with a governor,
// share a quota through real servers, while connections are cut, answers swallowed,
// processes stopped and killed, and stores emptied. What the vendor saw decides.
//
//	go test -run TestFaults -v
//	FLYBALL_CLUSTER_SOAK=2m FLYBALL_CLUSTER_JSON=result.json go test -run TestSoak
//
// Each fault has a control: the same with a store that breaks one promise, which the
// judge has to catch.
package clustertest
