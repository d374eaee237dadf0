package registry

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/internal/wall"
)

// A wall clock that is set neither ends the refresh of metadata nor keeps what is idle.
func TestTimesOfKeysAreNotThoseOfTheWallClock(t *testing.T) {
	p, err := NewPermits(PermitsConfig{})
	require.NoError(t, err)
	defer p.Close()
	now := time.Now()
	for _, d := range []time.Duration{time.Hour, -time.Hour} {
		require.Equal(t, p.since(now), p.since(wall.Set(t, now, d)))
	}
}
