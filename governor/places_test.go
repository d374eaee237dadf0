package governor

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func requestOf(tenant string) *request {
	r := new(request)
	r.class.Store(&newLane(laneKey{tenant: tenant}, 0).class)
	return r
}

func TestNoLaneHasMorePlacesThanAreLeft(t *testing.T) {
	var p places
	const all = 100
	var first *request
	for _, tt := range []struct {
		tenant string
		want   int
	}{{"a", 50}, {"b", 25}, {"c", 13}, {"d", 6}, {"e", 3}, {"f", 2}, {"g", 1}, {"h", 0}} {
		n := 0
		for r := requestOf(tt.tenant); p.take(r, all); r = requestOf(tt.tenant) {
			if n++; first == nil {
				first = r
			}
		}
		require.Equal(t, tt.want, n, tt.tenant)
	}
	p.giveBack(first)
	p.giveBack(first) // has none
	require.False(t, p.take(requestOf("b"), all))
	require.False(t, p.take(requestOf("h"), all-1)) // there are fewer
	require.True(t, p.take(requestOf("h"), all))
}

func TestAPlaceThatComesBackIsTheFirstOnesOfALaneThatMayHaveIt(t *testing.T) {
	var p places
	const all = 4
	of := func(tenant string) *blocked { return &blocked{r: requestOf(tenant), room: make(chan struct{})} }
	a, b := requestOf("a"), requestOf("b")
	for _, r := range []*request{a, requestOf("a"), b, requestOf("c")} {
		require.True(t, p.take(r, all))
	}
	waits := []*blocked{of("a"), of("d"), of("e")}
	for _, b := range waits {
		p.owed.add(b)
	}
	p.settle(all)
	require.Len(t, p.owed.of, 3)
	p.giveBack(b)
	p.settle(all)
	<-waits[1].room
	require.Equal(t, waits[0], p.forget(waits[0].r))
	require.Nil(t, p.forget(waits[0].r))
	p.giveBack(a)
	p.settle(all)
	<-waits[2].room
	require.True(t, p.owed.empty())
}
