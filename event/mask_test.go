package event

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// There are fewer kinds than a mask has room for; all that there may come are kept apart.
func TestAMaskKeepsEveryKindApart(t *testing.T) {
	for k := range 256 {
		var m mask
		m.put(Kind(k))
		for other := range 256 {
			require.Equal(t, other == k, m.has(Kind(other)), "%d, having %d", other, k)
		}

		b := Bus{listeners: []*listener{{kinds: m, depth: 256, running: true}}}
		b.wantLocked()
		require.True(t, b.Active())
		for other := range 256 {
			require.Equal(t, other == k, b.Wants(Kind(other)), "%d, wanting %d", other, k)
			b.Emit(Event{Kind: Kind(other)})
		}
		heard := b.listeners[0].queue.all()
		require.Len(t, heard, 1)
		require.Equal(t, Kind(k), heard[0].Kind)
	}
}

func TestMaskOfNamesKindsAlone(t *testing.T) {
	for k := range 256 {
		want := Kind(k) != None && Kind(k) < kinds
		all, one := maskOf(nil), maskOf([]Kind{Kind(k), Idle})
		require.Equal(t, want, all.has(Kind(k)), "%d of all", k)
		require.Equal(t, want, one.has(Kind(k)), "%d of itself", k)
	}
}
