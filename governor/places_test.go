package governor

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func laneOf(tenant, bucket string) *laneKey { return &laneKey{tenant: tenant, bucket: bucket} }

func TestNoLaneHasMorePlacesThanAreLeft(t *testing.T) {
	var p places
	const all = 100
	for _, tt := range []struct {
		tenant string
		want   int
	}{{"a", 50}, {"b", 25}, {"c", 13}, {"d", 6}, {"e", 3}, {"f", 2}, {"g", 1}, {"h", 0}} {
		key := laneOf(tt.tenant, "")
		for p.free(key, all) {
			p.take(key)
		}
		require.Equal(t, tt.want, p.by[*key], tt.tenant)
	}
	p.giveBack(laneOf("a", ""))
	require.False(t, p.free(laneOf("b", ""), all))
	require.True(t, p.free(laneOf("h", ""), all))
	require.False(t, p.free(laneOf("h", ""), all-1)) // there are fewer
}
