package governor

import (
	"context"
	"testing"
	"testing/synctest"

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

func TestTenantsAndTheirLanesAreLetInInTurn(t *testing.T) {
	var p places
	names := map[*outsider]string{}
	for _, who := range []string{"ax1", "ax2", "ay1", "b1", "b2", "ay2", "c1"} {
		bucket := who[1 : len(who)-1]
		names[p.join(laneOf(who[:1], bucket))] = who
	}
	gone := p.join(laneOf("c", ""))
	p.leave(gone)
	p.leave(gone)
	var order []string
	for let := true; let; {
		before := len(order)
		if let = p.letOne(); !let {
			break
		}
		for o, who := range names {
			if o.at == nil {
				require.True(t, o.room)
				order = append(order, who)
				delete(names, o)
			}
		}
		require.Len(t, order, before+1)
	}
	require.Equal(t, []string{"ax1", "b1", "c1", "ay1", "b2", "ax2", "ay2"}, order)
	require.Empty(t, p.lines)
	require.Empty(t, p.tenants)
	require.Zero(t, p.turns.Len())
}

// A place and the end of the context come at the same moment, again and again: whichever
// the submitter sees first, the place is not lost.
func TestThePlaceOfASubmitterThatLeavesIsTheNextOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &door{most: 1, slots: 1, waiting: 1, word: new(word)}
		taken, key := laneOf("a", ""), laneOf("b", "")
		wait := func(ctx context.Context) chan error {
			got := make(chan error, 1)
			go func() {
				d.mu.Lock()
				err := d.waitOutside(&request{ctx: ctx}, key)
				if err == nil {
					d.places.take(key)
				}
				d.mu.Unlock()
				got <- err
			}()
			synctest.Wait()
			return got
		}
		var left, entered int
		for i := range 200 {
			for d.places.taken < d.spare() {
				d.places.take(taken)
			}
			ctx, cancel := context.WithCancel(t.Context())
			first, second := wait(ctx), wait(t.Context())
			d.mu.Lock()
			if i%2 == 0 { // who parks in a select sees what comes first
				cancel()
			}
			d.places.giveBack(taken)
			d.places.letIn(d.spare())
			cancel()
			d.mu.Unlock()
			if err := <-first; err == nil {
				entered++
				d.mu.Lock()
				d.places.giveBack(key)
				d.places.letIn(d.spare())
				d.mu.Unlock()
			} else {
				left++
			}
			require.NoError(t, <-second)
			d.places.giveBack(key)
		}
		require.NotZero(t, left)
		require.NotZero(t, entered)
		require.Equal(t, 1, d.waiting)
	})
}
