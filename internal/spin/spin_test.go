package spin

import (
	"sync"
	"sync/atomic"
	"testing"
)

func TestWhoStepsAsideGetsThereInTheEnd(t *testing.T) {
	var word atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10_000 {
				for w := word.Load(); !word.CompareAndSwap(w, w+1); w = word.Load() {
					Aside()
				}
			}
		})
	}
	wg.Wait()
	if got := word.Load(); got != 80_000 {
		t.Errorf("%d additions, want 80000", got)
	}
}
