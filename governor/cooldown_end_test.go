package governor

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/throttle"
	"github.com/stretchr/testify/require"
)

// They come back a part at a time, and those that are back are not sent behind the rest.
func TestManyLanesGoOnWhenTheirCooldownIsCleared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := New(PlainConfig{Name: "test", Workers: 4, NoPace: true})
		require.NoError(t, err)
		defer g.Close()
		sc := throttle.Scope{Level: throttle.Bucket, Key: "b"}
		g.Learn(throttle.Signal{Scope: sc, Delay: 10 * time.Second})
		var reqs []*Request[int]
		for i := range 3000 {
			reqs = append(reqs, Submit(t.Context(), g.With(Ask{Tenant: fmt.Sprint(i), Bucket: "b"}), "", Func(func(context.Context) (int, error) {
				return 0, nil
			})))
		}
		time.Sleep(time.Second)
		g.Clear(sc)
		for _, r := range reqs {
			_, err := r.Result(t.Context())
			require.NoError(t, err)
		}
	})
}
