package fakeads

import "math/rand/v2"

// mix scrambles the bits of x (splitmix64): equal in, equal out, and neighbours
// have nothing in common.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// source is a random source for the n-th thing that seed makes.
func source(seed uint64, n uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, mix(n)))
}

// pick returns one of the choices, weighted.
func pick[T any](r *rand.Rand, choices []choice[T]) T {
	sum := 0
	for _, c := range choices {
		sum += c.weight
	}
	n := r.IntN(sum)
	for _, c := range choices {
		if n < c.weight {
			return c.value
		}
		n -= c.weight
	}
	panic("unreachable")
}

type choice[T any] struct {
	weight int
	value  T
}
