package store_test

import (
	"testing"
	"time"

	"github.com/flyball-go/flyball/store"
)

func TestAPermitAtHandAllocatesNothing(t *testing.T) {
	s := syncer(t, store.SyncerConfig{Store: memory(t)})
	defer s.Close()
	sh := share(t, s, store.Limit{Kind: store.Window, Quota: 1e9, Per: 24 * time.Hour})
	came := make(chan struct{}, 16)
	sh.OnChange(func() { came <- struct{}{} })
	for sh.Wait(time.Now(), "", 1_000_000) != 0 {
		<-came
	}
	if n := testing.AllocsPerRun(1000, func() {
		now := time.Now()
		if sh.Wait(now, "", 1) != 0 {
			t.Fatal("no permit at hand")
		}
		sh.Take(now, "", 1)
		sh.Settle(now, "", 1, 1)
		sh.Accepted(now, now, "")
	}); n != 0 {
		t.Errorf("a permit allocates %v times", n)
	}
}
