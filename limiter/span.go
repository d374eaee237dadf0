package limiter

import (
	"math"
	"math/big"
	"math/bits"
	"time"
)

// span is a length of time, or a time since a bucket's first now: ns
// nanoseconds and frac units of 2^-64 ns. Whole nanoseconds would not do: at
// 3e8 permits a second a permit takes 3.33 of them.
type span struct{ ns, frac uint64 }

const century = 100 * 365 * 24 * time.Hour

// perPermit returns 1/rate, rounded up to the next unit. Rounded up, and not to
// the nearest, because the limit rests on it: what is spaced by at least the
// true interval never exceeds the rate.
func perPermit(rate float64) span {
	r := new(big.Rat).SetFloat64(rate)
	q := new(big.Int).Lsh(big.NewInt(int64(time.Second)), 64)
	q.Mul(q, r.Denom())
	q, rest := q.QuoRem(q, r.Num(), new(big.Int))
	if rest.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	frac := new(big.Int).And(q, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
	return span{new(big.Int).Rsh(q, 64).Uint64(), frac}
}

// times returns n spans in a row, at most the longest there is.
func (s span) times(n uint64) span {
	carry, frac := bits.Mul64(n, s.frac)
	over, ns := bits.Mul64(n, s.ns)
	ns, c := bits.Add64(ns, carry, 0)
	if over != 0 || c != 0 {
		return span{math.MaxUint64, math.MaxUint64}
	}
	return span{ns, frac}
}

func (s span) add(t span) span {
	frac, c := bits.Add64(s.frac, t.frac, 0)
	ns, c := bits.Add64(s.ns, t.ns, c)
	if c != 0 {
		return span{math.MaxUint64, math.MaxUint64}
	}
	return span{ns, frac}
}

// sub returns s-t, or 0 when t is the longer one.
func (s span) sub(t span) span {
	frac, b := bits.Sub64(s.frac, t.frac, 0)
	ns, b := bits.Sub64(s.ns, t.ns, b)
	if b != 0 {
		return span{}
	}
	return span{ns, frac}
}

func (s span) less(t span) bool {
	return s.ns < t.ns || s.ns == t.ns && s.frac < t.frac
}

// over returns how often t goes into s. t is not 0 and the answer is below
// 2^63.
func (s span) over(t span) uint64 {
	if s.less(t) {
		return 0
	}
	// The quotient of the float64s is right to 1 in 2^51; Newton's step on the
	// exact remainder brings that to the last unit in at most two rounds.
	f := math.Ldexp(float64(t.frac), -64) + float64(t.ns)
	q := uint64((math.Ldexp(float64(s.frac), -64) + float64(s.ns)) / f)
	for {
		p := t.times(q)
		if s.less(p) {
			d := p.sub(s)
			q -= max(1, uint64((math.Ldexp(float64(d.frac), -64)+float64(d.ns))/f))
			continue
		}
		d := s.sub(p)
		if d.less(t) {
			return q
		}
		q += max(1, uint64((math.Ldexp(float64(d.frac), -64)+float64(d.ns))/f))
	}
}

// ceil returns s in whole nanoseconds, rounded up, as far as there are any.
func (s span) ceil() uint64 {
	if s.frac != 0 && s.ns != math.MaxUint64 {
		return s.ns + 1
	}
	return s.ns
}
