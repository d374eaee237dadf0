package clustertest

import (
	"time"

	"github.com/flyball-go/flyball/store"
)

// eight replicas that want 5/4 of a quota use nearly all of it, in few round trips: in two
// windows in a row, as many as that may take.
func eight(kind store.Kind) scenario {
	const n = 8
	l, least, most := limitOf(kind), 0.99, 0.4
	s := scenario{name: "eight use all", kinds: []store.Kind{store.Window, store.Sliding, store.Bucket}, replicas: n}
	switch kind {
	case store.Window:
		l.Per, l.Transit = time.Second, 50*time.Millisecond
		s.controls = with(leaks) // others have hardly more than a permit at a time, of which nothing leaks
	case store.Bucket: // as little of the quota goes to bursts as may be
		l.Burst, l.Lease = 0, 0
		fallthrough
	default:
		least, most = 0.95, 2
	}
	s.template = replica{Defaults: true, job: job{Limit: l, Every: l.Per * n * 4 / 5 / time.Duration(l.Quota)}}
	s.round = func(c *cluster) error { return c.uses(least, most) }
	return s
}
