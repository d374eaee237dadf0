package governor

import (
	"testing"
	"unsafe"
)

// A million requests may wait, and their size is most of what that costs. A
// field more than these puts each into the next size class of the allocator.
func TestWaitingRequestFitsItsSizeClass(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("the sizes are those of a 64-bit machine")
	}
	if size := unsafe.Sizeof(closure[int, int]{}); size > 144 {
		t.Errorf("a request takes %d B beside its closure, want at most 144", size)
	}
}
