package store_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/store"
)

// Nobody has to guess why calls wait for ever when each grant has ended when it comes.
func TestAStoreThatIsTooFarAwayIsLogged(t *testing.T) {
	for _, tt := range []struct {
		limit store.Limit
		delay time.Duration // each way
		told  int
	}{
		{store.Limit{Quota: 100, Per: time.Second}, 40 * time.Millisecond, 1},
		{store.Limit{Quota: 100, Per: time.Second}, 3 * time.Millisecond, 0},
		{store.Limit{Kind: store.Bucket, Quota: 100, Per: time.Second}, 40 * time.Millisecond, 1},
		{store.Limit{Kind: store.Bucket, Quota: 100, Per: time.Second, Lease: 200 * time.Millisecond, Burst: 20}, 40 * time.Millisecond, 0},
		{store.Limit{Kind: store.Window, Quota: 100, Per: time.Second}, 40 * time.Millisecond, 0},
		{store.Limit{Quota: 6000, Per: time.Minute}, 40 * time.Millisecond, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log lines
			s := syncer(t, store.SyncerConfig{
				Store: &faulty{Store: memory(t), delay: func() time.Duration { return tt.delay }}, Logger: log.logger(),
			})
			defer s.Close()
			sh := share(t, s, tt.limit)
			used := 0
			for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
				if sh.Wait(time.Now(), "", 1) == 0 {
					sh.Take(time.Now(), "", 1)
					used++
				}
			}
			if n := log.with("permits end on their way"); n != tt.told || tt.told == 0 && used < 1200 {
				t.Errorf("%+v and %v: told %d times, want %d; %d permits were used of 2000", tt.limit, tt.delay, n, tt.told, used)
			}
		})
	}
}
