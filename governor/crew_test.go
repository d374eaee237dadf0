package governor

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// tracked is a request with an attempt.
func tracked() *request {
	r := new(request)
	r.class.Store(&class{att: new(attempt)})
	return r
}

// A crew is what one goroutine writes while others write their own.
func TestACrewFillsACacheLine(t *testing.T) {
	require.Zero(t, unsafe.Sizeof(crew{})%64)
}

// A worker of another crew that has finished takes what was granted there.
func TestWhatIsStolenIsRunOnce(t *testing.T) {
	var c *core // of whom nothing is needed
	w := new(crew)
	a, b := tracked(), tracked()
	w.head, w.tail, a.next, w.queued, w.free = a, b, b, 2, 1
	require.Same(t, a, c.steal(w))
	got, left := c.take(w, false, false)
	require.Same(t, b, got)
	require.False(t, left)
	require.Nil(t, c.steal(w))
	got, left = c.take(w, true, true)
	require.Nil(t, got)
	require.True(t, left)
	require.Zero(t, w.queued)
	require.Zero(t, w.free)
	require.Nil(t, w.tail)
}

// Of workers with nothing to do one looks again before it ends.
func TestOneWorkerOfACrewLooksAgain(t *testing.T) {
	var c *core // of whom nothing is needed
	w := new(crew)
	for i, leaves := range []bool{false, true, true} {
		a, left := c.take(w, true, false)
		require.Nil(t, a)
		require.Equal(t, leaves, left, i)
		require.EqualValues(t, 1, w.free)
	}
	a := tracked()
	w.head, w.tail, w.queued = a, a, 1
	got, left := c.take(w, false, true)
	require.Same(t, a, got)
	require.False(t, left)
	require.Zero(t, w.free)
}
