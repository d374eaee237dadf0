package limiter

// most is the most permits that are counted. Two such numbers can be added.
const most = 1 << 60

// permits is n, at least 0 and at most most.
func permits(n int) int64 { return min(int64(max(0, n)), most) }

// giveback decides how much of a give-back counts.
//
// The level of a bucket is what has been taken and has not come back yet by the
// passing of time. A Settle says that a take cost m less than thought, but not
// which take. Taking m off the level is right only for a take that is still in
// it: what was taken before the bucket was last full has come back already, and
// would come back twice. In the same way, when the level was l at some time,
// everything taken before is worth at most l from then on. (With C(t) the level
// that the takes after t alone would have made, a correction of a take at t
// leads to max(level-m, C(t)), and level-C(t) is at most the lowest level since
// t.)
//
// So a giveback keeps f, a lower bound of what counts when x permits in all are
// given back by the takes that may still be settled, whichever of them do it:
// all of the first permits, then void ones that do not count, then again all.
//
//	f(x) = min(x, first) + max(0, x-first-void)    for 0 <= x <= open
//
// The invariant: let the takes not settled yet be corrected now by any amounts
// of the sum x; the level that a log of all takes would then give is at most
// the bucket's own level less f(x). Each step keeps it:
//
//   - Time passes and lowers both levels, down to 0. It holds as long as f(x) is
//     at most the bucket's level, and fit lowers f where it is not. Between two
//     events the level only falls, so it is enough to fit at each event.
//   - A take adds a permit to x at most for each one it adds to both levels, and
//     f grows by at most as much as x does.
//   - A settlement of m moves along f: f(m) leaves the level, and f(x+m)-f(m) is
//     the new f.
//
// The two levels being equal for x = 0 at the start, the bucket never has less
// than the log would give it, and what the log allows is the limit. Lowering f
// in between is always safe; that is how three numbers are enough.
type giveback struct {
	open  uint64 // permits of takes that may still be settled
	first uint64
	void  uint64
}

// fit lowers f to a level, in whole permits.
func (g *giveback) fit(level uint64) {
	if g.open-g.void <= level {
		return
	}
	over := g.open - g.void - level
	if last := g.open - g.first - g.void; over <= last {
		g.void += over // off the end of f, and made void earlier
		return
	}
	g.first = level
	g.void = g.open - level
}

// pass says that n permits, which may be any of those taken, do not count any
// more: a window counts a permit until its time is over, and not, as a bucket, a
// level. So as many may be void, and those are given back first. Of what counts,
// the permits that stop counting first are to be given back; those that are left
// are then the last ones taken, and at no later time there are more of the true
// ones than of these.
func (g *giveback) pass(n uint64) {
	if n > 0 {
		g.first = 0
		g.void += min(n, g.open-g.void)
	}
}

// take counts n permits that may be given back.
func (g *giveback) take(n uint64) {
	if n > most || g.open+n > most {
		*g = giveback{open: most, void: most} // nothing counts any more
		return
	}
	g.open += n
	if g.void == 0 {
		g.first = g.open
	}
}

// settle ends a take of n permits that gives back m of them, and returns how
// many count.
func (g *giveback) settle(n, m uint64) uint64 {
	n = min(n, g.open)
	m = min(m, n)
	a := min(m, g.first)
	z := min(m-a, g.void)
	g.first -= a
	g.void -= z
	g.open -= n
	// f ends earlier now.
	if g.first+g.void > g.open {
		g.first = min(g.first, g.open)
		g.void = g.open - g.first
	}
	if g.void == 0 {
		g.first = g.open
	}
	return m - z
}
