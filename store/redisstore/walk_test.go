package redisstore

import (
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/flyball-go/flyball/store"
)

// step is a request, so long after the first.
type step struct {
	at    time.Duration
	node  store.Node
	item  store.Item
	knows bool // the epoch
}

// walk makes up steps under a limit. Most are what the short way is for.
func walk(r *rand.Rand, l store.Limit, length int) []step {
	const names = 7
	var (
		steps    []step
		seqs     [names]uint64
		lasts    [names]store.Item
		version  = uint64(1)
		at       time.Duration
		first    = l
		few      = func() int64 { return r.Int64N(4) }
		one      = func(in int) bool { return r.IntN(in) == 0 }
		scope    = func() string { return []string{"", "tenant:a", "tenant:b"}[r.IntN(3)] }
		duration = func(most time.Duration) time.Duration {
			return (1 + time.Duration(r.Int64N(int64(most/time.Microsecond)))) * time.Microsecond
		}
	)
	for range length {
		at += duration(6 * time.Millisecond)
		if one(300) {
			at += duration(1500 * time.Millisecond) // some do not come again in time
		}
		i := r.IntN(names)
		if at/(3*time.Second)%2 == 1 {
			i = r.IntN(2)
		}
		it := store.Item{Key: "k", Limits: []store.Limit{l}, Version: version, Want: 1 + few(), Seen: 1000}
		if one(10) {
			it.Want = 0
		}
		if one(10) {
			it.Want = 20 + 10*few()
		}
		if one(8) && it.Want > 0 {
			it.Least = 1 + r.Int64N(it.Want)
		}
		if last := lasts[i]; last.Least > 1 && one(2) { // it still needs that
			it.Want, it.Least = last.Want, last.Least
		}
		if one(4) {
			it.Returned = few()
		}
		if one(20) {
			it.Debt = few()
		}
		if one(60) {
			it.Seen = r.Uint64N(8)
		}
		if one(400) {
			version++
			l.Quota += few() - 1
			if l.Kind == store.Bucket {
				l.Burst, l.Lease = 1+r.Int64N(l.Quota), duration(l.Per)
			}
			if one(2) {
				l.Transit = duration(l.Per / store.Segments / 2)
			}
			it.Limits, it.Version = []store.Limit{l}, version
		}
		if one(600) { // limits of another shape, or the first again
			was := l
			if l = first; one(2) {
				l = limitsToWalk[r.IntN(len(limitsToWalk))]
				l.Per *= time.Duration(1 + few())
			}
			version++
			if it.Limits, it.Version = []store.Limit{l}, version; one(4) {
				it.Limits = append(it.Limits, was)
			}
		}
		if one(50) && version > 1 {
			it.Version = version - 1
		}
		if one(500) {
			it.Cool = append(it.Cool, store.Cool{Scope: scope(), For: duration(200 * time.Millisecond)})
		}
		if one(500) {
			it.Known = append(it.Known, store.Cooldown{Scope: scope(), Left: duration(50 * time.Millisecond), Gen: r.Uint64N(8)})
		}
		if one(400) {
			it.Clear = append(it.Clear, store.Cleared{Scope: scope(), Gen: []uint64{r.Uint64N(8), math.MaxUint64}[r.IntN(2)]})
		}
		if one(30) {
			it.Probe = store.ProbeWord(r.IntN(3))
		}
		if at/(2*time.Second)%4 == 3 && one(2) {
			it.Slots, it.Held, it.WantSlots = 6+few(), few(), 2*few()
			it.LeastSlots, it.Line = r.Int64N(it.Held+it.WantSlots+1), store.LineWord(r.IntN(3))
		}
		it.Bye = one(300)
		seqs[i]++
		it.Seq = seqs[i]
		switch {
		case one(60) && it.Seq > 1:
			it = lasts[i]
			seqs[i]--
		case one(100) && it.Seq > 3:
			it.Seq -= 2
			seqs[i]--
		default:
			lasts[i] = it
		}
		steps = append(steps, step{at, store.Node("node" + strconv.Itoa(i)), it, len(steps) > 0 && !one(40)})
	}
	return steps
}
