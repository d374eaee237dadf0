package main

import (
	"testing"

	"github.com/flyball-go/flyball/internal/servers"
)

func TestReplicasKeepToOneQuotaTogether(t *testing.T) {
	if testing.Short() {
		t.Skip("needs redis-server; skipped by -short")
	}
	saw, err := run(servers.Redis(t).Addr, 2, 75)
	if err != nil {
		t.Fatal(err)
	}
	if saw.Accepted != 150 || saw.Refused != 0 {
		t.Errorf("%+v, want 150 calls and no refusal", saw)
	}
}
