package event

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func numbers(events []Event) (n []uint64) {
	for _, e := range events {
		n = append(n, e.Request)
	}
	return n
}

func TestABusKeepsTheLastOfTheKindsItIsAskedFor(t *testing.T) {
	var b Bus
	b.Keep(3, Retry, GaveUp)
	require.True(t, b.Wants(Retry))
	require.False(t, b.Wants(Idle))
	require.False(t, b.Active(), "nobody listens")
	require.Empty(t, b.Recent())
	for n := uint64(1); n <= 20; n++ {
		emit(&b, Idle, 100+n)
		emit(&b, []Kind{Retry, GaveUp}[n%2], n)
		want := []uint64{n - 2, n - 1, n}[max(0, 3-int(n)):]
		require.Equal(t, want, numbers(b.Recent()))
	}
	b.Close()
	emit(&b, Retry, 21)
	require.Equal(t, []uint64{18, 19, 20}, numbers(b.Recent()), "after Close")
}

func TestListenersComeAndGoBesideWhatIsKept(t *testing.T) {
	var b Bus
	b.Keep(2, Retry)
	var heard []uint64
	stop := b.Listen(func(e Event) { heard = append(heard, e.Request) }, Retry, Idle)
	require.True(t, b.Active())
	emit(&b, Retry, 1, 2, 3)
	emit(&b, Idle, 4)
	b.Listen(func(Event) {}, Idle)()
	require.True(t, b.Wants(Idle))
	b.Close()
	<-b.Done()
	require.Equal(t, []uint64{1, 2, 3, 4}, heard)
	require.Equal(t, []uint64{2, 3}, numbers(b.Recent()))
	stop()

	var again Bus
	again.Keep(2, Retry)
	again.Listen(func(Event) {}, Retry)()
	emit(&again, Retry, 1)
	require.Equal(t, []uint64{1}, numbers(again.Recent()), "what is kept does not depend on listeners")
}

func TestABusThatKeepsNothingRecordsNothing(t *testing.T) {
	var b Bus
	b.Keep(0)
	b.Keep(-1, Retry)
	emit(&b, Retry, 1)
	require.Empty(t, b.Recent())
	require.False(t, b.Wants(Retry))
}

func TestAKeptEventReturnedIsTheCallersOwn(t *testing.T) {
	var b Bus
	b.Keep(2)
	emit(&b, Retry, 1)
	b.Recent()[0].Request = 7
	require.Equal(t, []uint64{1}, numbers(b.Recent()))
}
