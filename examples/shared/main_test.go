package main

import (
	"testing"

	"github.com/flyball-go/flyball/internal/servers"
)

// By themselves the replicas would have a call refused for each that is let in, at first.
// On a busy machine a few arrive so late that two windows' calls meet in a second.
func TestReplicasKeepToOneQuotaTogether(t *testing.T) {
	if testing.Short() {
		t.Skip("needs redis-server; skipped by -short")
	}
	saw, err := run(servers.Redis(t).Addr, 2, 75)
	if err != nil {
		t.Fatal(err)
	}
	if saw.Accepted != 150 || saw.Refused > 15 || saw.Late != 0 {
		t.Errorf("%+v, want 150 calls, few refusals, and nobody who comes back too early", saw)
	}
}
